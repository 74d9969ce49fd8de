//! What the first process of a container needs: a child that is like us, a signal for it, and the ends of
//! everybody who has no parent any more.

use std::{
    ffi::OsString,
    io,
    process::{Command, Stdio},
};

use rustix::{
    io::Errno,
    process::{Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, wait},
};

/// A signal that is handed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandedOn {
    /// To end.
    Terminate,
    /// To end, from a terminal.
    Interrupt,
    /// To read the settings again, or that the terminal is gone.
    HangUp,
}

/// What became of our children.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reaped {
    /// This one ended.
    Ended {
        /// Its id.
        pid: i32,
        /// Its exit code, or 128 and the signal that ended it, as shells have it.
        code: u8,
    },
    /// There are children, and none has ended.
    Nobody,
    /// There are no children at all.
    Childless,
}

/// From now on those whose parents die become children of this process, as they do of process 1.
pub fn adopt_orphans() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// Starts a program with our own environment and our own input and output. [`reap`] tells of its end.
#[expect(clippy::disallowed_methods, reason = "exec is where processes start")]
pub fn stand_in(program: &OsString, args: &[OsString]) -> io::Result<i32> {
    let child = Command::new(program)
        .args(args)
        .stdin(Stdio::inherit())
        .stdout(Stdio::inherit())
        .stderr(Stdio::inherit())
        .spawn()?;
    i32::try_from(child.id()).map_err(io::Error::other)
}

/// Sends a signal to one of our own children. One that was not reaped keeps its id, so nobody else is hit.
pub fn hand_on(pid: i32, signal: HandedOn) -> io::Result<()> {
    let signal = match signal {
        HandedOn::Terminate => Signal::TERM,
        HandedOn::Interrupt => Signal::INT,
        HandedOn::HangUp => Signal::HUP,
    };
    match Pid::from_raw(pid).map(|pid| kill_process(pid, signal)) {
        None | Some(Ok(()) | Err(Errno::SRCH)) => Ok(()),
        Some(Err(errno)) => Err(errno.into()),
    }
}

/// Takes note of one child that has ended, whichever it is. Never waits.
pub fn reap() -> io::Result<Reaped> {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) => {
                let signal = status.terminating_signal().map(|signal| 128 + signal);
                // One that only stopped or went on has not ended.
                if let Some(code) = status.exit_status().or(signal) {
                    let code = u8::try_from(code).unwrap_or(u8::MAX);
                    return Ok(Reaped::Ended { pid: pid.as_raw_pid(), code });
                }
            }
            Ok(None) => return Ok(Reaped::Nobody),
            Err(Errno::CHILD) => return Ok(Reaped::Childless),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}
