//! The moto child process. This is the only module that starts a process.
//!
//! A supervisor task owns the child: it terminates the child on request and reports an unexpected exit. It never
//! restarts moto: the state is gone, and a fresh moto would claim that existing resources do not exist.

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

/// A running moto process.
#[derive(Debug)]
pub(crate) struct MotoProcess {
    pub(crate) address: SocketAddr,
    pub(crate) pid: u32,
    /// Exit status, after an unexpected exit.
    pub(crate) exit: watch::Receiver<Option<String>>,
    stop: watch::Sender<bool>,
    supervisor: JoinHandle<()>,
}

#[derive(Deserialize)]
struct ReadyMessage {
    port: u16,
}

impl MotoProcess {
    /// Starts moto and waits until it is ready.
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
        let pid = child.id().ok_or_else(|| failed("it exited immediately".to_owned()))?;
        let (tail_sender, tail) = watch::channel(String::new());
        let drain = tokio::spawn(drain_stderr(stderr, log, tail_sender));

        let mut line = String::new();
        let mut stdout = BufReader::new(stdout);
        let read = timeout(START_DEADLINE, stdout.read_line(&mut line)).await;
        let Some(hello) = read.ok().and_then(|_| serde_json::from_str::<ReadyMessage>(&line).ok()) else {
            child.start_kill().ok();
            let status =
                child.wait().await.map_or_else(|error| error.to_string(), |status| status.to_string());
            timeout(STOP_GRACE, drain).await.ok();
            return Err(failed(format!("{status}\n{}", *tail.borrow()).trim_end().to_owned()));
        };

        let (stop, stop_receiver) = watch::channel(false);
        let (lost_sender, lost) = watch::channel(None);
        let owner = tokio::spawn(supervise(child, stdin, stop_receiver, lost_sender));
        Ok(Self {
            address: SocketAddr::from(([127, 0, 0, 1], hello.port)),
            pid,
            exit: lost,
            stop,
            supervisor: owner,
        })
    }

    /// Terminates the child and waits until it has exited.
    pub(crate) async fn stop(&mut self) {
        self.stop.send_replace(true);
        (&mut self.supervisor).await.ok();
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
        // Ctrl-C at the terminal is for this process; moto is stopped after its last client.
        .process_group(0)
        .kill_on_drop(true);
    command.spawn().map_err(|source| Error::Spawn { python: python.to_owned(), source })
}

async fn open_log(path: &Path) -> Result<File, Error> {
    let opened = tokio::fs::OpenOptions::new().create(true).append(true).open(path).await;
    opened.map_err(|source| Error::Log { path: path.to_owned(), source })
}

/// Drains standard error, or moto would block; keeps the last lines for error messages.
async fn drain_stderr(stderr: ChildStderr, mut log: Option<File>, tail: watch::Sender<String>) {
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

/// Owns the child until a stop is requested or the child exits.
async fn supervise(
    mut child: Child,
    stdin: ChildStdin,
    mut stop: watch::Receiver<bool>,
    lost: watch::Sender<Option<String>>,
) {
    tokio::select! {
        biased;
        () = crate::wait_for_stop(&mut stop) => terminate(&mut child).await,
        status = child.wait() => {
            let how = status.map_or_else(|error| error.to_string(), |status| status.to_string());
            tracing::error!("moto exited unexpectedly: {how}");
            lost.send_replace(Some(how));
        }
    }
    // Moto exits when this pipe closes, so it must stay open until here.
    drop(stdin);
}

async fn terminate(child: &mut Child) {
    // The child is not reaped yet, so its pid cannot have been reused.
    let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    if let Some(pid) = pid {
        kill_process(pid, Signal::TERM).ok();
    }
    if timeout(STOP_GRACE, child.wait()).await.is_err() {
        child.start_kill().ok();
        child.wait().await.ok();
    }
}
