//! A running provider process.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, client::conn::http2::SendRequest};
use parking_lot::Mutex;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{
    exec,
    start::{LaunchSpec, StartError, StartedProvider, start_provider},
    stderr_tail::StderrTail,
};
use crate::wire::grpc::{BoxError, GrpcBody, GrpcResponse, GrpcStatus, collect_body, frame};

/// A running provider process. Dropping the last handle kills it.
pub struct ProviderProcess {
    /// Unique within the gateway.
    pub id: u64,
    /// Process id.
    pub pid: u32,
    /// Protocol version, 5 or 6.
    pub protocol: u8,
    name: String,
    client: SendRequest<GrpcBody>,
    exited: CancellationToken,
    released: CancellationToken,
    retiring: AtomicBool,
    calls: AtomicUsize,
    started: Instant,
    last_used: Mutex<Instant>,
    stderr_tail: StderrTail,
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

impl ProviderProcess {
    /// Starts a provider and waits until it listens.
    pub async fn start(launch: &LaunchSpec) -> Result<Arc<Self>, StartError> {
        let StartedProvider { pid, handshake, client, exited: dead, released: unwanted, stderr_tail: words } =
            start_provider(launch).await?;
        let process = Arc::new(Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            pid,
            protocol: handshake.protocol,
            name: provider_name(&launch.program),
            client,
            exited: dead,
            released: unwanted,
            retiring: AtomicBool::new(false),
            calls: AtomicUsize::new(0),
            started: Instant::now(),
            last_used: Mutex::new(Instant::now()),
            stderr_tail: words,
        });
        process.drain_stdio();
        Ok(process)
    }

    /// Whether it has exited or lost its connection.
    pub fn is_dead(&self) -> bool {
        self.exited.is_cancelled()
    }

    /// Whether it gets no new work.
    pub fn is_retiring(&self) -> bool {
        self.retiring.load(Ordering::Relaxed)
    }

    /// Gives it no new work; it ends with its last handle.
    pub fn retire(&self) {
        self.retiring.store(true, Ordering::Relaxed);
    }

    /// Time since its start.
    pub fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// Time since its last call ended; zero during a call.
    pub fn idle_for(&self) -> Duration {
        if self.calls.load(Ordering::Relaxed) > 0 { Duration::ZERO } else { self.last_used.lock().elapsed() }
    }

    /// Calls in progress.
    pub fn active_calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }

    /// Resident memory in bytes.
    pub fn memory_bytes(&self) -> u64 {
        exec::resident_bytes(self.pid).unwrap_or_default()
    }

    /// Waits for its exit; returns whether it exited by itself.
    pub fn wait_for_exit(&self) -> impl Future<Output = bool> + Send + 'static {
        let (dead, unwanted) = (self.exited.clone(), self.released.clone());
        async move {
            dead.cancelled().await;
            !unwanted.is_cancelled()
        }
    }

    /// Kills it immediately: for shutdown, and for tests.
    pub fn kill(&self) {
        exec::kill_process_tree(self.pid);
    }

    /// A unary call. Any response of the provider is returned, including errors; `Err` means that there was no
    /// response.
    pub async fn call(&self, path: &str, body: Bytes) -> Result<GrpcResponse, GrpcStatus> {
        let request = Self::request(path, Full::new(body).map_err(|never| match never {}).boxed_unsync())?;
        let _counted = self.start_call();
        let mut client = self.client.clone();
        let whole = async {
            let response = client.send_request(request).await?;
            let (head, body) = response.into_parts();
            let (body, trailers) = collect_body(body).await?;
            // Calls that fail immediately carry their status in the headers.
            let trailers =
                if trailers.contains_key("grpc-status") { trailers } else { grpc_headers(&head.headers) };
            Ok::<_, BoxError>(GrpcResponse { body, trailers })
        };
        let answer = tokio::select! {
            biased;
            answer = whole => answer.ok(),
            () = self.exited.cancelled() => None,
        };
        let answer = answer.filter(|answer| answer.trailers.contains_key("grpc-status"));
        match answer {
            Some(answer) => Ok(answer),
            None => Err(self.crash_status(path).await),
        }
    }

    /// A streaming call; bodies are relayed as they arrive.
    pub async fn stream(&self, path: &str, body: GrpcBody) -> Result<Response<Incoming>, GrpcStatus> {
        let request = Self::request(path, body)?;
        let mut client = self.client.clone();
        match client.send_request(request).await {
            Ok(response) => Ok(response),
            Err(_) => Err(self.crash_status(path).await),
        }
    }

    fn request(path: &str, body: GrpcBody) -> Result<Request<GrpcBody>, GrpcStatus> {
        let request = Request::builder()
            .method("POST")
            .uri(format!("http://localhost{path}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(body);
        request.map_err(|_| GrpcStatus::provider_unavailable(format!("{path} is not a valid method path")))
    }

    fn start_call(&self) -> CallGuard<'_> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        CallGuard(self)
    }

    /// The status that Terraform shows for a call whose provider was lost.
    async fn crash_status(&self, path: &str) -> GrpcStatus {
        // The connection breaks slightly before the exit is detected and standard error is read.
        let _either = timeout(Duration::from_millis(500), self.exited.cancelled()).await;
        let call = path.rsplit('/').next().unwrap_or(path);
        let ended = if self.is_dead() { "exited" } else { "closed its connection" };
        let words = self.stderr_tail.panic_line();
        GrpcStatus::provider_unavailable(format!(
            "the provider {} (pid {}) {ended} during {call}; the call was not retried. {words}",
            self.name, self.pid
        ))
    }

    /// go-plugin sends the provider's output over a stream that can be opened once and must be drained.
    fn drain_stdio(self: &Arc<Self>) {
        let nothing = Full::new(frame(b"")).map_err(|never| match never {}).boxed_unsync();
        let Ok(request) = Self::request("/plugin.GRPCStdio/StreamStdio", nothing) else { return };
        let mut client = self.client.clone();
        tokio::spawn(async move {
            if let Ok(response) = client.send_request(request).await {
                let mut body = response.into_body();
                while let Some(Ok(_)) = body.frame().await {}
            }
        });
    }
}

impl Drop for ProviderProcess {
    fn drop(&mut self) {
        self.released.cancel();
    }
}

struct CallGuard<'a>(&'a ProviderProcess);

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        *self.0.last_used.lock() = Instant::now();
        self.0.calls.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The `grpc-*` headers of a call that failed immediately.
fn grpc_headers(head: &HeaderMap) -> HeaderMap {
    let wanted = head.iter().filter(|(name, _)| name.as_str().starts_with("grpc-"));
    wanted.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// The program name without its common prefix, such as `aws_v5.100.0_x5`.
fn provider_name(program: &Path) -> String {
    let file = program.file_name().unwrap_or_default().to_string_lossy();
    file.trim_start_matches("terraform-provider-").to_owned()
}
