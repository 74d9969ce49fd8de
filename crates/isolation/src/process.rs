//! Processes that become confined programs, and processes that nobody may read.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    io,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::Command,
};

use rustix::process::{DumpableBehavior, set_dumpable_behavior};

use crate::{ConfineError, Confinement, enforce};

/// Why a program was not started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The rules are not a [`Confinement`].
    #[error("the rules of the confinement cannot be read")]
    Rules(#[from] serde_json::Error),
    /// The process could not be confined.
    #[error(transparent)]
    Confine(#[from] ConfineError),
    /// The program could not be executed.
    #[error("cannot execute {}", program.display())]
    Exec {
        /// The program.
        program: PathBuf,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
}

/// Arguments that make a wrapper process call [`become_confined`].
pub fn to_argument(policy: &Confinement) -> Result<String, serde_json::Error> {
    serde_json::to_string(policy)
}

/// The inverse of [`to_argument`].
pub fn from_argument(text: &str) -> Result<Confinement, serde_json::Error> {
    serde_json::from_str(text)
}

/// Confines this process and replaces it with `program`; returns only on failure. The process must have one thread. `changes` are
/// variables to set.
#[expect(clippy::disallowed_methods, reason = "this process becomes the program")]
pub fn become_confined(
    policy: &Confinement,
    program: &Path,
    args: &[OsString],
    changes: &BTreeMap<String, String>,
) -> StartError {
    if let Err(error) = enforce(policy) {
        return error.into();
    }
    let source = Command::new(program).args(args).envs(changes).exec();
    StartError::Exec { program: program.to_owned(), source }
}

/// Makes the environment, memory and descriptors of this process unreadable for other processes of the user, and disables core
/// dumps. Programs that it executes are readable again.
pub fn forbid_inspection() -> io::Result<()> {
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}
