//! A running provider: started, shaken hands with, called, and ended.

use std::{
    collections::{BTreeMap, VecDeque},
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::{
    body::Incoming,
    client::conn::http2::{self, SendRequest},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use thiserror::Error;
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, BufReader},
    net::UnixStream,
    process::Child,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::{
    exec,
    handshake::{Handshake, HandshakeError},
};
use crate::wire::grpc::{Answer, AnswerBody, BoxError, Status, collect, frame};

/// How long a provider may take to say where it listens. The AWS provider takes a second, on a busy machine many.
const PATIENCE: Duration = Duration::from_mins(1);
/// How much of its last words is kept.
const WORDS: usize = 40;
/// Flow control windows: a schema of megabytes should not wait for permission after each 64 kB.
const STREAM_WINDOW: u32 = 8 << 20;
const CONNECTION_WINDOW: u32 = 64 << 20;
/// Words of a failed call travel in a header.
const HEADERS: u32 = 4 << 20;

/// Why there is no provider.
#[derive(Debug, Error)]
pub enum StartError {
    /// It does not start.
    #[error("cannot start the provider {}", program.display())]
    Spawn {
        /// The program.
        program: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// It is not one that can be shared.
    #[error("the provider {} cannot be shared: {source}", program.display())]
    Handshake {
        /// The program.
        program: PathBuf,
        /// Why.
        #[source]
        source: HandshakeError,
    },
    /// It ended before it said anything.
    #[error("the provider {} ended before it was ready: {words}", program.display())]
    Ended {
        /// The program.
        program: PathBuf,
        /// What it said.
        words: String,
    },
    /// It says nothing.
    #[error("the provider {} was not ready after {seconds} seconds", program.display())]
    Silent {
        /// The program.
        program: PathBuf,
        /// How long it was waited for.
        seconds: u64,
    },
    /// Its socket does not answer.
    #[error("the provider {} does not answer on its socket", program.display())]
    Connect {
        /// The program.
        program: PathBuf,
        /// What happened.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// How to start one.
#[derive(Clone)]
pub struct Launch {
    /// The provider's program.
    pub program: PathBuf,
    /// Its whole environment. Never printed.
    pub env: BTreeMap<String, String>,
    /// Where its sockets may be; one directory each below.
    pub sockets: PathBuf,
    /// A program with arguments that becomes the provider, see [`super::launch`]; empty to start it directly.
    pub through: Vec<OsString>,
}

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

type Words = Arc<Mutex<VecDeque<String>>>;

static NEXT: AtomicU64 = AtomicU64::new(1);

impl Process {
    /// Starts one and waits until it listens.
    pub async fn start(launch: &Launch) -> Result<Arc<Self>, StartError> {
        let program = launch.program.clone();
        let spawn = |source| StartError::Spawn { program: program.clone(), source };
        // Goes with the process; the path of a socket must be short, so the name is.
        let sockets = tempfile::Builder::new().prefix("p").tempdir_in(&launch.sockets).map_err(spawn)?;
        let mut child =
            exec::provider(&program, &launch.through, &launch.env, sockets.path()).map_err(spawn)?;
        let pid = child.id().unwrap_or_default();
        let words = Words::default();
        if let Some(stderr) = child.stderr.take() {
            tokio::spawn(drain(stderr, Arc::clone(&words)));
        }
        let handshake = match timeout(PATIENCE, shake_hands(&mut child, &words, &program)).await {
            Ok(shaken) => shaken.inspect_err(|_| exec::kill(pid))?,
            Err(_) => {
                exec::kill(pid);
                return Err(StartError::Silent { program, seconds: PATIENCE.as_secs() });
            }
        };
        let dead = CancellationToken::new();
        let client = connect(&handshake.socket, dead.clone()).await.map_err(|source| {
            exec::kill(pid);
            StartError::Connect { program: program.clone(), source }
        })?;
        let unwanted = CancellationToken::new();
        tokio::spawn(watch(child, pid, dead.clone(), unwanted.clone(), sockets));
        let process = Arc::new(Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            pid,
            protocol: handshake.protocol,
            name: name(&program),
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
        let words = last_words(&self.words);
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

async fn shake_hands(child: &mut Child, words: &Words, program: &Path) -> Result<Handshake, StartError> {
    let program = program.to_owned();
    let Some(stdout) = child.stdout.take() else {
        return Err(StartError::Ended { program, words: String::new() });
    };
    let mut lines = BufReader::new(stdout).lines();
    match lines.next_line().await {
        Ok(Some(line)) => {
            // Whatever else it prints is read and forgotten, so that it can go on printing.
            tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
            Handshake::parse(&line).map_err(|source| StartError::Handshake { program, source })
        }
        _ => {
            // Its standard error is read by another task, which may be a moment behind.
            tokio::time::sleep(Duration::from_millis(50)).await;
            Err(StartError::Ended { program, words: last_words(words) })
        }
    }
}

/// Keeps the last lines of what it says. They are for the message of a crash and for nothing else: not logged,
/// because a provider may print values.
async fn drain(stderr: impl AsyncRead + Unpin, words: Words) {
    let mut lines = BufReader::new(stderr).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let mut words = words.lock();
        if words.len() == WORDS {
            words.pop_front();
        }
        words.push_back(line);
    }
}

/// The line that says why, if there is one. Go prints `panic: …` or `fatal error: …`; other lines may hold values.
fn last_words(words: &Words) -> String {
    let words = words.lock();
    let why = words.iter().find(|line| line.starts_with("panic:") || line.starts_with("fatal error:"));
    why.map_or_else(String::new, |line| {
        format!("Its last words: {}", line.chars().take(300).collect::<String>())
    })
}

async fn connect(socket: &Path, dead: CancellationToken) -> Result<SendRequest<AnswerBody>, BoxError> {
    let stream = UnixStream::connect(socket).await?;
    let (client, connection) = http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_header_list_size(HEADERS)
        .handshake(TokioIo::new(stream))
        .await?;
    tokio::spawn(async move {
        // However the connection ends, there is no second one: the provider counts as gone.
        let _ended = connection.await;
        dead.cancel();
    });
    Ok(client)
}

/// Waits for the end of the process, or brings it about when nobody wants it any more.
async fn watch(
    mut child: Child,
    pid: u32,
    dead: CancellationToken,
    unwanted: CancellationToken,
    sockets: tempfile::TempDir,
) {
    tokio::select! {
        _ = child.wait() => {}
        // A provider whose connection broke is of no use, even if it still runs.
        () = dead.cancelled() => exec::kill(pid),
        () = unwanted.cancelled() => exec::kill(pid),
    }
    dead.cancel();
    // Reaped in any case, or it would stay as a zombie.
    let _reaped = child.wait().await;
    drop(sockets);
}
