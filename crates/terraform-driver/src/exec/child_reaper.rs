//! Init process support for containers: starts the main process, forwards signals to it and reaps orphaned processes.

use std::{
    ffi::{OsStr, OsString},
    fs, io,
    os::unix::ffi::OsStrExt as _,
    path::Path,
    process::{Command, Stdio},
};

use rustix::{
    io::Errno,
    process::{Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, wait},
};

/// A signal to forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForwardedSignal {
    /// SIGTERM.
    Terminate,
    /// SIGINT.
    Interrupt,
    /// SIGHUP.
    HangUp,
}

/// Result of reaping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReapResult {
    /// A child exited.
    Exited {
        /// Process id.
        pid: i32,
        /// Exit code, or 128 plus the signal, as in shells.
        code: u8,
    },
    /// There are children, and none has exited.
    NoneExited,
    /// There are no children.
    NoChildren,
}

/// Makes this process a child subreaper: orphaned descendants become its children.
pub fn become_subreaper() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// Starts a program that inherits environment and standard streams. [`reap`] reports its exit.
#[expect(clippy::disallowed_methods, reason = "exec is where processes start")]
pub fn spawn_inherited(program: &OsString, args: &[OsString]) -> io::Result<i32> {
    let child = Command::new(program)
        .args(args)
        .stdin(Stdio::inherit())
        .stdout(Stdio::inherit())
        .stderr(Stdio::inherit())
        .spawn()?;
    i32::try_from(child.id()).map_err(io::Error::other)
}

/// Sends a signal to a child. An unreaped child keeps its process id, so no other process can be hit.
pub fn forward_signal(pid: i32, signal: ForwardedSignal) -> io::Result<()> {
    let signal = match signal {
        ForwardedSignal::Terminate => Signal::TERM,
        ForwardedSignal::Interrupt => Signal::INT,
        ForwardedSignal::HangUp => Signal::HUP,
    };
    match Pid::from_raw(pid).map(|pid| kill_process(pid, signal)) {
        None | Some(Ok(()) | Err(Errno::SRCH)) => Ok(()),
        Some(Err(errno)) => Err(errno.into()),
    }
}

/// Reaps one exited child without blocking.
pub fn reap() -> io::Result<ReapResult> {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) => {
                let signal = status.terminating_signal().map(|signal| 128 + signal);
                // A stopped or continued child has not exited.
                if let Some(code) = status.exit_status().or(signal) {
                    let code = u8::try_from(code).unwrap_or(u8::MAX);
                    return Ok(ReapResult::Exited { pid: pid.as_raw_pid(), code });
                }
            }
            Ok(None) => return Ok(ReapResult::NoneExited),
            Err(Errno::CHILD) => return Ok(ReapResult::NoChildren),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// A child process that has not been reaped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildProcess {
    /// Process id.
    pub pid: i32,
    /// Program and arguments; empty for a zombie.
    pub command: Vec<OsString>,
}

/// The children of this process, reparented ones included. A child that exits meanwhile is left out.
pub fn children() -> io::Result<Vec<ChildProcess>> {
    let own = getpid().as_raw_pid();
    let mut children = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        if parent_of(&entry.path()) == Some(own) {
            children.push(ChildProcess { pid, command: command_line(&entry.path()) });
        }
    }
    Ok(children)
}

/// Field 4 of `/proc/PID/stat`; the name before it may contain spaces and parentheses.
fn parent_of(process: &Path) -> Option<i32> {
    let stat = fs::read_to_string(process.join("stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

fn command_line(process: &Path) -> Vec<OsString> {
    let bytes = fs::read(process.join("cmdline")).unwrap_or_default();
    let arguments = bytes.split(|byte| *byte == 0).map(|argument| OsStr::from_bytes(argument).to_owned());
    let mut command: Vec<OsString> = arguments.collect();
    // Every argument ends with a NUL byte, so the last piece is empty.
    command.pop();
    command
}
