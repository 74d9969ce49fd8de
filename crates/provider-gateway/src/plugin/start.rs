//! How a provider comes to be: a process, a handshake, a connection, and somebody who waits for its end.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    io,
    path::{Path, PathBuf},
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
    words::Words,
};
use crate::{
    disk,
    wire::grpc::{AnswerBody, BoxError},
};

/// How long a provider may take to say where it listens. The AWS provider takes a second, on a busy machine many.
const PATIENCE: Duration = Duration::from_mins(1);
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

/// One that listens.
pub(super) struct Started {
    pub(super) pid: u32,
    pub(super) handshake: Handshake,
    pub(super) client: SendRequest<AnswerBody>,
    /// Cancelled when it is gone.
    pub(super) dead: CancellationToken,
    /// To be cancelled when nobody wants it any more.
    pub(super) unwanted: CancellationToken,
    pub(super) words: Words,
}

/// Starts one and waits until it listens.
pub(super) async fn start(launch: &Launch) -> Result<Started, StartError> {
    let program = launch.program.clone();
    let spawn = |source| StartError::Spawn { program: program.clone(), source };
    // Goes with the process; the path of a socket must be short, so the name is.
    let sockets = disk::temporary_dir("p", &launch.sockets).map_err(spawn)?;
    let mut child = exec::provider(&program, &launch.through, &launch.env, sockets.path()).map_err(spawn)?;
    let pid = child.id().unwrap_or_default();
    let words = Words::default();
    if let Some(stderr) = child.stderr.take() {
        tokio::spawn(words.clone().listen(stderr));
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
    Ok(Started { pid, handshake, client, dead, unwanted, words })
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
            Err(StartError::Ended { program, words: words.last() })
        }
    }
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
