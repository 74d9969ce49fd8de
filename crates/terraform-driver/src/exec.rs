//! Starts processes and sends signals; no other module of this crate does.
//!
//! A terraform command runs under two processes: the caller starts a **shim** (the same binary, in its own session), and the
//! shim starts the engine. The shim survives the death of the caller.

pub mod child_reaper;

use std::{
    collections::BTreeMap,
    fs::File,
    io,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process};
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::{Child, Command},
};

/// How to start the shim: `capt shim`, or the crate's own binary.
#[derive(Debug, Clone)]
pub struct ShimProgram {
    /// The executable.
    pub program: PathBuf,
    /// Its arguments before the run directory.
    pub args: Vec<String>,
}

/// Identity of a process: process ids are reused, pairs of id and start time are not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessId {
    /// Process id.
    pub pid: i32,
    /// Start time in kernel ticks.
    pub started: u64,
}

impl ProcessId {
    /// Identifies a running process.
    pub fn from_pid(pid: u32) -> Option<Self> {
        let pid = i32::try_from(pid).ok()?;
        Some(Self { pid, started: start_ticks(pid)? })
    }

    /// Whether this process still runs.
    pub fn is_alive(self) -> bool {
        start_ticks(self.pid) == Some(self.started)
            && Pid::from_raw(self.pid).is_some_and(|pid| test_kill_process(pid).is_ok())
    }

    /// Sends SIGTERM if the process still runs.
    pub fn terminate(self) -> io::Result<()> {
        match Pid::from_raw(self.pid) {
            Some(pid) if self.is_alive() => Ok(kill_process(pid, Signal::TERM)?),
            _ => Ok(()),
        }
    }
}

/// Field 22 of `/proc/<pid>/stat`; counted from behind field 2, whose name may contain spaces. `None` for a zombie.
fn start_ticks(pid: i32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

/// Starts a shim for a prepared run directory. `lock` becomes its standard input: shim, engine and providers inherit it, so
/// the run's lock is held until the last of them exits.
#[expect(clippy::disallowed_methods, reason = "exec is where processes start")]
pub(crate) fn spawn_shim(
    program: &ShimProgram,
    run_dir: &Path,
    env: &BTreeMap<String, String>,
    lock: File,
) -> io::Result<Child> {
    Command::new(&program.program)
        .args(&program.args)
        .arg(run_dir)
        .env_clear()
        .envs(env)
        .stdin(Stdio::from(lock))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}

/// Starts the engine in its own process group, with its output in files: a pipe could fill up or break. It inherits the shim's
/// environment, which is that of the run.
#[expect(clippy::disallowed_methods, reason = "exec is where processes start")]
pub(crate) fn spawn_engine(
    program: &Path,
    args: &[String],
    cwd: &Path,
    stdout: File,
    stderr: File,
) -> io::Result<Child> {
    Command::new(program)
        .args(args)
        .current_dir(cwd)
        .stdin(Stdio::inherit())
        .stdout(Stdio::from(stdout))
        .stderr(Stdio::from(stderr))
        .process_group(0)
        .kill_on_drop(false)
        .spawn()
}

/// Sends SIGINT to terraform only. Providers ignore SIGINT, but a SIGTERM to the group would kill them while terraform needs
/// them.
pub(crate) fn send_interrupt(pid: i32) -> io::Result<()> {
    match Pid::from_raw(pid) {
        Some(pid) => Ok(kill_process(pid, Signal::INT)?),
        None => Ok(()),
    }
}

/// Kills a process group. Ignores ids of 1 or less, which would address every process.
pub(crate) fn kill_group(pgid: i32) -> io::Result<()> {
    match Pid::from_raw(pgid) {
        Some(group) if pgid > 1 => match kill_process_group(group, Signal::KILL) {
            Err(rustix::io::Errno::SRCH) | Ok(()) => Ok(()),
            Err(errno) => Err(errno.into()),
        },
        _ => Ok(()),
    }
}

/// Output of a short command that is kept in memory: a pulled state, or a plan as JSON.
const MAX_CAPTURED_BYTES: u64 = 256 << 20;

/// Captured output of a short command.
#[derive(Debug)]
pub struct CapturedOutput {
    /// Whether the exit code is 0.
    pub success: bool,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
}

/// Runs a short read-only command (`version`, `show`) and captures its output.
pub async fn capture_output(
    program: &Path,
    args: &[&str],
    env: &BTreeMap<String, String>,
    cwd: &Path,
    patience: Duration,
) -> io::Result<CapturedOutput> {
    start_captured(program, args, env, cwd)?.finish(patience).await
}

/// A short command whose output is captured.
pub(crate) struct CapturedCommand {
    child: Child,
}

impl CapturedCommand {
    /// Its process, the leader of a group of its own.
    pub(crate) fn process(&self) -> Option<ProcessId> {
        self.child.id().and_then(ProcessId::from_pid)
    }

    /// Waits for its end.
    pub(crate) async fn finish(self, patience: Duration) -> io::Result<CapturedOutput> {
        tokio::time::timeout(patience, collect_output(self.child))
            .await
            .map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "timed out"))?
    }
}

/// Starts a short read-only command.
#[expect(clippy::disallowed_methods, reason = "exec is where processes start")]
pub(crate) fn start_captured(
    program: &Path,
    args: &[&str],
    env: &BTreeMap<String, String>,
    cwd: &Path,
) -> io::Result<CapturedCommand> {
    let child = Command::new(program)
        .args(args)
        .current_dir(cwd)
        .env_clear()
        .envs(env)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()?;
    Ok(CapturedCommand { child })
}

/// The output of a process, up to a limit.
async fn collect_output(mut child: Child) -> io::Result<CapturedOutput> {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (stdout, stderr) = tokio::try_join!(read_limited(stdout), read_limited(stderr))?;
    Ok(CapturedOutput { success: child.wait().await?.success(), stdout, stderr })
}

async fn read_limited(pipe: Option<impl AsyncRead + Unpin>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let Some(pipe) = pipe else { return Ok(bytes) };
    pipe.take(MAX_CAPTURED_BYTES + 1).read_to_end(&mut bytes).await?;
    if bytes.len() as u64 > MAX_CAPTURED_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the command prints more than 256 MiB"));
    }
    Ok(bytes)
}

/// Starts a process that outlives this one, with its output in `log`. It has to create its own session.
#[expect(clippy::disallowed_methods, reason = "exec is where processes start")]
pub fn spawn_background(
    program: &Path,
    args: &[String],
    env: &BTreeMap<String, String>,
    log: File,
) -> io::Result<Child> {
    let errors = log.try_clone()?;
    Command::new(program)
        .args(args)
        .env_clear()
        .envs(env)
        .stdin(Stdio::null())
        .stdout(Stdio::from(log))
        .stderr(Stdio::from(errors))
        .process_group(0)
        .kill_on_drop(false)
        .spawn()
}
