//! Starts a provider: process, handshake, connection and reaper.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use thiserror::Error;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    net::UnixStream,
    process::Child,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::{
    exec,
    handshake::{Handshake, HandshakeError},
    stderr_tail::StderrTail,
};
use crate::{
    package::{PackageCache, VerifiedProgram},
    private_fs,
    wire::grpc::{BoxError, GrpcBody},
};

/// How long a provider may take to print its handshake: a second for the AWS provider, much longer on a busy machine.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_mins(1);
/// Flow control windows: schemas of several megabytes should not wait for a window update after each 64 kB.
const STREAM_WINDOW: u32 = 8 << 20;
const CONNECTION_WINDOW: u32 = 64 << 20;
/// The message of a failed call is sent in a header.
const MAX_HEADER_LIST: u32 = 4 << 20;

/// A provider could not be started.
#[derive(Debug, Error)]
pub enum StartError {
    /// The process could not be started.
    #[error("cannot start the provider {}", program.display())]
    Spawn {
        /// The program.
        program: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The program is not the one that was verified.
    #[error("the provider {} was replaced after its package was verified, so it is not started", program.display())]
    Replaced {
        /// The program.
        program: PathBuf,
    },
    /// The handshake is not supported.
    #[error("the provider {} cannot be shared: {source}", program.display())]
    Handshake {
        /// The program.
        program: PathBuf,
        /// The cause.
        #[source]
        source: HandshakeError,
    },
    /// It exited before the handshake.
    #[error("the provider {} exited before it was ready: {words}", program.display())]
    Exited {
        /// The program.
        program: PathBuf,
        /// The panic line of its standard error, if any.
        words: String,
    },
    /// It printed no handshake in time.
    #[error("the provider {} was not ready after {seconds} seconds", program.display())]
    Timeout {
        /// The program.
        program: PathBuf,
        /// The timeout.
        seconds: u64,
    },
    /// Its socket does not accept connections.
    #[error("the provider {} does not accept connections on its socket", program.display())]
    Connect {
        /// The program.
        program: PathBuf,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// How to start a provider.
#[derive(Clone)]
pub struct LaunchSpec {
    /// The provider's program.
    pub program: PathBuf,
    /// Its SHA-256.
    pub checksum: String,
    /// What is known of files.
    pub packages: Arc<PackageCache>,
    /// Its complete environment. Never logged.
    pub env: BTreeMap<String, String>,
    /// Parent of its socket directory.
    pub socket_dir: PathBuf,
    /// Command that execs the provider, see [`super::launch`]; empty to start it directly.
    pub exec_wrapper: Vec<OsString>,
}

/// A provider that listens.
pub(super) struct StartedProvider {
    pub(super) pid: u32,
    pub(super) handshake: Handshake,
    pub(super) client: SendRequest<GrpcBody>,
    /// Cancelled when it has exited.
    pub(super) exited: CancellationToken,
    /// Cancel to kill it.
    pub(super) released: CancellationToken,
    pub(super) stderr_tail: StderrTail,
}

/// Starts a provider and waits until it listens.
pub(super) async fn start_provider(launch: &LaunchSpec) -> Result<StartedProvider, StartError> {
    let program = launch.program.clone();
    let spawn = |source| StartError::Spawn { program: program.clone(), source };
    let verified = open_program(launch).await?;
    // Removed with the process.
    let sockets = private_fs::create_secret_dir(&launch.socket_dir).map_err(spawn)?;
    let opened = (program.as_path(), &verified.file);
    let mut child =
        exec::spawn_provider(opened, &launch.exec_wrapper, &launch.env, sockets.path()).map_err(spawn)?;
    let pid = child.id().unwrap_or_default();
    let words = StderrTail::default();
    if let Some(stderr) = child.stderr.take() {
        tokio::spawn(words.clone().collect(stderr));
    }
    let handshake = match timeout(HANDSHAKE_TIMEOUT, read_handshake(&mut child, &words, &program)).await {
        Ok(shaken) => shaken.inspect_err(|_| exec::kill_process_tree(pid))?,
        Err(_) => {
            exec::kill_process_tree(pid);
            return Err(StartError::Timeout { program, seconds: HANDSHAKE_TIMEOUT.as_secs() });
        }
    };
    if !verified.is_unchanged() {
        // Somebody wrote into the file between its check and its start.
        exec::kill_process_tree(pid);
        return Err(StartError::Replaced { program });
    }
    let dead = CancellationToken::new();
    let client = connect(&handshake.socket, dead.clone()).await.map_err(|source| {
        exec::kill_process_tree(pid);
        StartError::Connect { program: program.clone(), source }
    })?;
    if handshake.socket.starts_with(sockets.path()) {
        // The connection is never reopened, and nobody else may open one.
        let _gone = std::fs::remove_file(&handshake.socket);
    }
    let unwanted = CancellationToken::new();
    tokio::spawn(reap(child, pid, dead.clone(), unwanted.clone(), sockets));
    Ok(StartedProvider { pid, handshake, client, exited: dead, released: unwanted, stderr_tail: words })
}

/// Opens the program and verifies what was opened.
async fn open_program(launch: &LaunchSpec) -> Result<VerifiedProgram, StartError> {
    let (packages, program, checksum) =
        (Arc::clone(&launch.packages), launch.program.clone(), launch.checksum.clone());
    let opened = tokio::task::spawn_blocking(move || packages.open_program(&program, &checksum)).await;
    let opened = opened.unwrap_or_else(|panic| Err(io::Error::other(panic)));
    let spawn = |source| StartError::Spawn { program: launch.program.clone(), source };
    opened.map_err(spawn)?.ok_or_else(|| StartError::Replaced { program: launch.program.clone() })
}

async fn read_handshake(
    child: &mut Child,
    words: &StderrTail,
    program: &Path,
) -> Result<Handshake, StartError> {
    let program = program.to_owned();
    let Some(stdout) = child.stdout.take() else {
        return Err(StartError::Exited { program, words: String::new() });
    };
    let mut lines = BufReader::new(stdout).lines();
    match lines.next_line().await {
        Ok(Some(line)) => {
            // Further output is drained so that the provider does not block.
            tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
            Handshake::parse(&line).map_err(|source| StartError::Handshake { program, source })
        }
        _ => {
            // Standard error is read by another task, which may be slightly behind.
            tokio::time::sleep(Duration::from_millis(50)).await;
            Err(StartError::Exited { program, words: words.panic_line() })
        }
    }
}

async fn connect(socket: &Path, dead: CancellationToken) -> Result<SendRequest<GrpcBody>, BoxError> {
    let stream = UnixStream::connect(socket).await?;
    let (client, connection) = http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_header_list_size(MAX_HEADER_LIST)
        .handshake(TokioIo::new(stream))
        .await?;
    tokio::spawn(async move {
        // The connection is never reopened: without it the provider counts as exited.
        let _ended = connection.await;
        dead.cancel();
    });
    Ok(client)
}

/// Waits for the process to exit, or kills it when it is released.
async fn reap(
    mut child: Child,
    pid: u32,
    dead: CancellationToken,
    unwanted: CancellationToken,
    sockets: tempfile::TempDir,
) {
    tokio::select! {
        _ = child.wait() => {}
        // A provider without its connection is useless, even if it still runs.
        () = dead.cancelled() => exec::kill_process_tree(pid),
        () = unwanted.cancelled() => exec::kill_process_tree(pid),
    }
    dead.cancel();
    // Always reaped, to avoid a zombie.
    let _reaped = child.wait().await;
    drop(sockets);
}
