//! Execs a provider so that it ends with its gateway, however the gateway ends.
//!
//! Linux can signal a process when its parent exits, and keeps that setting across `exec`. Setting it between `fork`
//! and `exec` needs unsafe code; a wrapper process that sets it and then execs the provider does not.

use std::{ffi::OsStr, io, os::unix::process::CommandExt, process::Command};

use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use super::exec::STANDARD_INPUT;

/// Replaces this process with the program that is open as its standard input, under the name `program`. The gateway has
/// verified that file; the one that has the name now may be another one. Returns only on failure.
#[expect(clippy::disallowed_methods, reason = "this process becomes the provider")]
pub fn become_provider(program: &OsStr) -> io::Error {
    end_with_parent().err().unwrap_or_else(|| Command::new(STANDARD_INPUT).arg0(program).exec())
}

/// Replaces this process with the file of this name, for a gateway of an earlier version. Returns only on failure.
#[expect(clippy::disallowed_methods, reason = "this process becomes the provider")]
pub fn become_named_provider(program: &OsStr) -> io::Error {
    end_with_parent().err().unwrap_or_else(|| Command::new(program).exec())
}

fn end_with_parent() -> io::Result<()> {
    if let Err(errno) = set_parent_process_death_signal(Some(Signal::KILL)) {
        return Err(errno.into());
    }
    // The gateway may have exited before the signal was set: then this process was reparented to init.
    if getppid().is_none_or(|parent| parent.as_raw_nonzero().get() == 1) {
        return Err(io::Error::other("the gateway has exited"));
    }
    Ok(())
}
