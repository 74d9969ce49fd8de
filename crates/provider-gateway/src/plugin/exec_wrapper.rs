//! Execs a provider so that it ends with its gateway, however the gateway ends.
//!
//! Linux can signal a process when its parent exits, and keeps that setting across `exec`. Setting it between `fork`
//! and `exec` needs unsafe code; a wrapper process that sets it and then execs the provider does not.

use std::{ffi::OsString, io, os::unix::process::CommandExt, process::Command};

use rustix::process::{Signal, getppid, set_parent_process_death_signal};

/// Replaces this process with `program`; returns only on failure.
#[expect(clippy::disallowed_methods, reason = "this process becomes the provider")]
pub fn become_provider(program: &OsString) -> io::Error {
    if let Err(errno) = set_parent_process_death_signal(Some(Signal::KILL)) {
        return errno.into();
    }
    // The gateway may have exited before the signal was set: then this process was reparented to init.
    if getppid().is_none_or(|parent| parent.as_raw_nonzero().get() == 1) {
        return io::Error::other("the gateway has exited");
    }
    Command::new(program).exec()
}
