//! The moto child: the only place that starts a process.
//!
//! One task owns the child. It ends the child when asked, and says so when the child ends by itself. It never starts
//! a second one: what moto knew is gone, and a fresh moto would tell every client that its resources do not exist.

use std::{net::SocketAddr, path::Path, process::Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use tokio::{
    fs::File,
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    process::{Child, ChildStderr, ChildStdin, Command},
    sync::watch,
    task::JoinHandle,
    time::timeout,
};

use crate::{
    Error,
    config::{START_DEADLINE, STOP_GRACE},
};

const LAUNCHER: &str = include_str!("moto_launcher.py");

/// A running moto.
#[derive(Debug)]
pub(crate) struct Moto {
    pub(crate) address: SocketAddr,
    pub(crate) pid: u32,
    /// How it ended by itself, once it has.
    pub(crate) lost: watch::Receiver<Option<String>>,
    stop: watch::Sender<bool>,
    owner: JoinHandle<()>,
}

#[derive(Deserialize)]
struct Hello {
    port: u16,
}

impl Moto {
    /// Starts moto and waits until it serves.
    pub(crate) async fn start(python: &Path, log: Option<&Path>) -> Result<Self, Error> {
        let mut child = spawn(python, log.is_some())?;
        let failed = |why: String| Error::MotoStart { python: python.to_owned(), why };
        let log = match log {
            Some(path) => Some(open_log(path).await?),
            None => None,
        };
        let stdin = child.stdin.take().ok_or_else(|| failed("no standard input".to_owned()))?;
        let stdout = child.stdout.take().ok_or_else(|| failed("no standard output".to_owned()))?;
        let stderr = child.stderr.take().ok_or_else(|| failed("no standard error".to_owned()))?;
        let pid = child.id().ok_or_else(|| failed("it ended at once".to_owned()))?;
        let (tail_sender, tail) = watch::channel(String::new());
        let drain = tokio::spawn(drain(stderr, log, tail_sender));

        let mut line = String::new();
        let mut stdout = BufReader::new(stdout);
        let read = timeout(START_DEADLINE, stdout.read_line(&mut line)).await;
        let Some(hello) = read.ok().and_then(|_| serde_json::from_str::<Hello>(&line).ok()) else {
            child.start_kill().ok();
            let status =
                child.wait().await.map_or_else(|error| error.to_string(), |status| status.to_string());
            timeout(STOP_GRACE, drain).await.ok();
            return Err(failed(format!("{status}\n{}", *tail.borrow()).trim_end().to_owned()));
        };

        let (stop, stop_receiver) = watch::channel(false);
        let (lost_sender, lost) = watch::channel(None);
        let owner = tokio::spawn(own(child, stdin, stop_receiver, lost_sender));
        Ok(Self { address: SocketAddr::from(([127, 0, 0, 1], hello.port)), pid, lost, stop, owner })
    }

    /// Asks the child to end and waits until it is gone.
    pub(crate) async fn stop(&mut self) {
        self.stop.send_replace(true);
        (&mut self.owner).await.ok();
    }
}

#[expect(clippy::disallowed_methods, reason = "this module owns the one child process of the crate")]
fn spawn(python: &Path, access_log: bool) -> Result<Child, Error> {
    let mut command = Command::new(python);
    command.arg("-c").arg(LAUNCHER);
    if access_log {
        command.arg("--access-log");
    }
    command
        .env_clear()
        .env("LANG", "C.UTF-8")
        .env("MOTO_IAM_LOAD_MANAGED_POLICIES", "true")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A Ctrl-C at the terminal is for us; we end moto when its last client is done.
        .process_group(0)
        .kill_on_drop(true);
    command.spawn().map_err(|source| Error::Spawn { python: python.to_owned(), source })
}

async fn open_log(path: &Path) -> Result<File, Error> {
    let opened = tokio::fs::OpenOptions::new().create(true).append(true).open(path).await;
    opened.map_err(|source| Error::Log { path: path.to_owned(), source })
}

/// Empties standard error for as long as moto lives, or moto would block; keeps the last lines for error messages.
async fn drain(stderr: ChildStderr, mut log: Option<File>, tail: watch::Sender<String>) {
    let mut lines = BufReader::new(stderr).split(b'\n');
    while let Ok(Some(line)) = lines.next_segment().await {
        let text = String::from_utf8_lossy(&line).into_owned();
        if let Some(file) = &mut log {
            file.write_all(format!("{text}\n").as_bytes()).await.ok();
            file.flush().await.ok();
        } else {
            tracing::warn!(target: "local_aws::moto", "{text}");
        }
        tail.send_modify(|kept| {
            kept.push_str(&text);
            kept.push('\n');
            if let Some((at, _)) = kept.match_indices('\n').rev().nth(20) {
                kept.drain(..=at);
            }
        });
    }
}

/// Holds the child until it is told to end it, or until it ends by itself.
async fn own(
    mut child: Child,
    stdin: ChildStdin,
    mut stop: watch::Receiver<bool>,
    lost: watch::Sender<Option<String>>,
) {
    tokio::select! {
        biased;
        () = crate::told(&mut stop) => end(&mut child).await,
        status = child.wait() => {
            let how = status.map_or_else(|error| error.to_string(), |status| status.to_string());
            tracing::error!("moto ended by itself: {how}");
            lost.send_replace(Some(how));
        }
    }
    // Closing this pipe earlier would tell the child that we are gone.
    drop(stdin);
}

async fn end(child: &mut Child) {
    // The id is known exactly while the child is not reaped, so the signal cannot hit a stranger.
    let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    if let Some(pid) = pid {
        kill_process(pid, Signal::TERM).ok();
    }
    if timeout(STOP_GRACE, child.wait()).await.is_err() {
        child.start_kill().ok();
        child.wait().await.ok();
    }
}
