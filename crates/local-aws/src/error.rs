//! Errors when starting a local AWS.

use std::{io, net::SocketAddr, path::PathBuf};

/// A local AWS could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The listen address is in use or not available.
    #[error("listening on {address}")]
    Listen {
        /// The configured address.
        address: SocketAddr,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The interpreter could not be started.
    #[error("starting moto with {}", python.display())]
    Spawn {
        /// The configured interpreter.
        python: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The interpreter started, but moto never reported that it is ready.
    #[error("moto, started with {}, did not become ready: {why}", python.display())]
    MotoStart {
        /// The configured interpreter.
        python: PathBuf,
        /// Exit status and the last lines of its output.
        why: String,
    },
    /// The persisted EKS model could not be read.
    #[error("reading the EKS model from {}", path.display())]
    Load {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The persisted EKS model could not be parsed.
    #[error("{} is not an EKS model of this version", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: serde_json::Error,
    },
    /// The log file could not be opened.
    #[error("opening the moto log {}", path.display())]
    Log {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
}
