//! A running provider: called, and ended.

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
    start::{Launch, StartError, Started, start},
    words::Words,
};
use crate::wire::grpc::{Answer, AnswerBody, BoxError, Status, collect, frame};

/// A running provider. Dropping the last handle ends it.
pub struct Process {
    /// A number of ours, never used again.
    pub id: u64,
    /// The system's number.
    pub pid: u32,
    /// 5 or 6.
    pub protocol: u8,
    name: String,
    client: SendRequest<AnswerBody>,
    dead: CancellationToken,
    unwanted: CancellationToken,
    retiring: AtomicBool,
    calls: AtomicUsize,
    started: Instant,
    used: Mutex<Instant>,
    words: Words,
}

static NEXT: AtomicU64 = AtomicU64::new(1);

impl Process {
    /// Starts one and waits until it listens.
    pub async fn start(launch: &Launch) -> Result<Arc<Self>, StartError> {
        let Started { pid, handshake, client, dead, unwanted, words } = start(launch).await?;
        let process = Arc::new(Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            pid,
            protocol: handshake.protocol,
            name: name(&launch.program),
            client,
            dead,
            unwanted,
            retiring: AtomicBool::new(false),
            calls: AtomicUsize::new(0),
            started: Instant::now(),
            used: Mutex::new(Instant::now()),
            words,
        });
        process.drain_stdio();
        Ok(process)
    }

    /// Whether it is gone.
    pub fn is_dead(&self) -> bool {
        self.dead.is_cancelled()
    }

    /// Whether it takes no new work.
    pub fn is_retiring(&self) -> bool {
        self.retiring.load(Ordering::Relaxed)
    }

    /// Gives it no new work; it ends when nobody holds it any more.
    pub fn retire(&self) {
        self.retiring.store(true, Ordering::Relaxed);
    }

    /// Since when it runs.
    pub fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// Since when nobody has called it; zero while somebody does.
    pub fn idle(&self) -> Duration {
        if self.calls.load(Ordering::Relaxed) > 0 { Duration::ZERO } else { self.used.lock().elapsed() }
    }

    /// Calls under way.
    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }

    /// Its memory in bytes.
    pub fn memory(&self) -> u64 {
        exec::resident(self.pid).unwrap_or_default()
    }

    /// Waits for its end; whether it ended by itself.
    pub fn ended(&self) -> impl Future<Output = bool> + Send + 'static {
        let (dead, unwanted) = (self.dead.clone(), self.unwanted.clone());
        async move {
            dead.cancelled().await;
            !unwanted.is_cancelled()
        }
    }

    /// Ends it at once; for tests of what follows, and for one that does not answer any more.
    pub fn kill(&self) {
        exec::kill(self.pid);
    }

    /// A call with one message each way. What the provider answers is answered, whatever it is; an error means that
    /// there was no answer.
    pub async fn call(&self, path: &str, body: Bytes) -> Result<Answer, Status> {
        let request = Self::request(path, Full::new(body).map_err(|never| match never {}).boxed_unsync())?;
        let _counted = self.count();
        let mut client = self.client.clone();
        let whole = async {
            let response = client.send_request(request).await?;
            let (head, body) = response.into_parts();
            let (body, trailers) = collect(body).await?;
            // A call that fails at once has its end in the head.
            let trailers = if trailers.contains_key("grpc-status") { trailers } else { ends(&head.headers) };
            Ok::<_, BoxError>(Answer { body, trailers })
        };
        let answer = tokio::select! {
            biased;
            answer = whole => answer.ok(),
            () = self.dead.cancelled() => None,
        };
        let answer = answer.filter(|answer| answer.trailers.contains_key("grpc-status"));
        match answer {
            Some(answer) => Ok(answer),
            None => Err(self.crashed(path).await),
        }
    }

    /// A call whose messages stream; its bodies are passed on as they come.
    pub async fn stream(&self, path: &str, body: AnswerBody) -> Result<Response<Incoming>, Status> {
        let request = Self::request(path, body)?;
        let mut client = self.client.clone();
        match client.send_request(request).await {
            Ok(response) => Ok(response),
            Err(_) => Err(self.crashed(path).await),
        }
    }

    fn request(path: &str, body: AnswerBody) -> Result<Request<AnswerBody>, Status> {
        let request = Request::builder()
            .method("POST")
            .uri(format!("http://localhost{path}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(body);
        request.map_err(|_| Status::unavailable(format!("{path} is not the name of a call")))
    }

    fn count(&self) -> Counted<'_> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        Counted(self)
    }

    /// What terraform shows for a call that lost its provider.
    async fn crashed(&self, path: &str) -> Status {
        // The connection breaks a little before the process is known to be gone and its last words are read.
        let _either = timeout(Duration::from_millis(500), self.dead.cancelled()).await;
        let call = path.rsplit('/').next().unwrap_or(path);
        let ended = if self.is_dead() { "ended" } else { "closed its connection" };
        let words = self.words.last();
        Status::unavailable(format!(
            "the provider {} (process {}) {ended} during {call}; nothing was tried again. {words}",
            self.name, self.pid
        ))
    }

    /// go-plugin sends what a provider prints over a stream that can be opened once; nobody may leave it unread.
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

impl Drop for Process {
    fn drop(&mut self) {
        self.unwanted.cancel();
    }
}

struct Counted<'a>(&'a Process);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        *self.0.used.lock() = Instant::now();
        self.0.calls.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Status and words out of the head of a call that failed at once.
fn ends(head: &HeaderMap) -> HeaderMap {
    let wanted = head.iter().filter(|(name, _)| name.as_str().starts_with("grpc-"));
    wanted.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// `terraform-provider-aws_v5.100.0_x5` without what is only noise.
fn name(program: &Path) -> String {
    let file = program.file_name().unwrap_or_default().to_string_lossy();
    file.trim_start_matches("terraform-provider-").to_owned()
}
