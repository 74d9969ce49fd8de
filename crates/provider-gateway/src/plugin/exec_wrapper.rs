//! A provider that ends with its gateway, however the gateway ends.
//!
//! Linux sends a signal of one's choice when a parent dies, and keeps that wish over an `exec`. Setting it between
//! `fork` and `exec` needs unsafe code; a process that sets it for itself and then becomes the provider does not.

use std::{ffi::OsString, io, os::unix::process::CommandExt, process::Command};

use rustix::process::{Signal, getppid, set_parent_process_death_signal};

/// Becomes `program`; returns only if that fails.
#[expect(clippy::disallowed_methods, reason = "this process becomes the provider")]
pub fn become_provider(program: &OsString) -> io::Error {
    if let Err(errno) = set_parent_process_death_signal(Some(Signal::KILL)) {
        return errno.into();
    }
    // A gateway that died before the wish was heard: then init is our parent now.
    if getppid().is_none_or(|parent| parent.as_raw_nonzero().get() == 1) {
        return io::Error::other("the gateway is gone");
    }
    Command::new(program).exec()
}
