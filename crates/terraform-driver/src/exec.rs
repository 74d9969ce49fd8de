//! The only place of this crate that starts processes and sends signals.
//!
//! A terraform command has two processes of ours around it: the caller starts a **shim** (the same binary
//! again, in a session of its own), and the shim starts the engine. The caller can die; the shim stays.

pub mod children;

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
use tokio::process::{Child, Command};

/// How to start the shim: `capt shim`, or the crate's own binary.
#[derive(Debug, Clone)]
pub struct ShimProgram {
    /// The executable.
    pub program: PathBuf,
    /// Its arguments before the run directory.
    pub args: Vec<String>,
}

/// A process that can be recognised later: ids are used again, start times are not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessId {
    /// The id.
    pub pid: i32,
    /// Kernel ticks at its start.
    pub started: u64,
}

impl ProcessId {
    /// Looks a living process up.
    pub fn of(pid: u32) -> Option<Self> {
        let pid = i32::try_from(pid).ok()?;
        Some(Self { pid, started: start_ticks(pid)? })
    }

    /// Whether this very process still runs.
    pub fn is_alive(self) -> bool {
        start_ticks(self.pid) == Some(self.started)
            && Pid::from_raw(self.pid).is_some_and(|pid| test_kill_process(pid).is_ok())
    }

    /// Asks the process to end, if it is still the same one.
    pub fn terminate(self) -> io::Result<()> {
        match Pid::from_raw(self.pid) {
            Some(pid) if self.is_alive() => Ok(kill_process(pid, Signal::TERM)?),
            _ => Ok(()),
        }
    }
}

/// Field 22 of `/proc/<pid>/stat`; the name in field 2 may contain spaces, so counting starts behind it.
/// A zombie has ended, whatever its entry says.
fn start_ticks(pid: i32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

/// Starts a shim for a prepared run directory. `lock` becomes its standard input: shim, engine and
/// providers inherit it, so the run's lock is held until the last of them is gone.
#[expect(clippy::disallowed_methods, reason = "exec is where processes start")]
pub(crate) fn shim(
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

/// Starts the engine in a process group of its own, its words going straight to disk: no pipe can fill up,
/// and nobody's death breaks one. The environment is the shim's, which is the run's.
#[expect(clippy::disallowed_methods, reason = "exec is where processes start")]
pub(crate) fn engine(
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

/// Sends the one polite signal, to terraform alone: its providers ignore SIGINT, but a SIGTERM to the
/// group would kill them under it.
pub(crate) fn interrupt(pid: i32) -> io::Result<()> {
    match Pid::from_raw(pid) {
        Some(pid) => Ok(kill_process(pid, Signal::INT)?),
        None => Ok(()),
    }
}

/// Ends a whole process group. A group id of 1 or less would mean every process we may signal.
pub(crate) fn kill_group(pgid: i32) -> io::Result<()> {
    match Pid::from_raw(pgid) {
        Some(group) if pgid > 1 => match kill_process_group(group, Signal::KILL) {
            Err(rustix::io::Errno::SRCH) | Ok(()) => Ok(()),
            Err(errno) => Err(errno.into()),
        },
        _ => Ok(()),
    }
}

/// What a short command said.
#[derive(Debug)]
pub struct Said {
    /// Whether it ended with 0.
    pub success: bool,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
}

/// Runs a short command that changes nothing (`version`, `show`) and takes its output.
#[expect(clippy::disallowed_methods, reason = "exec is where processes start")]
pub async fn capture(
    program: &Path,
    args: &[&str],
    env: &BTreeMap<String, String>,
    cwd: &Path,
    patience: Duration,
) -> io::Result<Said> {
    let child = Command::new(program)
        .args(args)
        .current_dir(cwd)
        .env_clear()
        .envs(env)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let output = tokio::time::timeout(patience, child.wait_with_output())
        .await
        .map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "no answer in time"))??;
    Ok(Said { success: output.status.success(), stdout: output.stdout, stderr: output.stderr })
}

/// Starts a process that outlives us: a session of its own is its own business, its words go to `log`.
#[expect(clippy::disallowed_methods, reason = "exec is where processes start")]
pub fn background(
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
