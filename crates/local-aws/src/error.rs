//! Why a local AWS could not start.

use std::{io, net::SocketAddr, path::PathBuf};

/// Why a local AWS could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address of the front door is taken or not ours.
    #[error("listening on {address}")]
    Listen {
        /// What the configuration asked for.
        address: SocketAddr,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The interpreter could not be started.
    #[error("starting moto with {}", python.display())]
    Spawn {
        /// What the configuration named.
        python: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The interpreter started, but moto never said that it serves.
    #[error("moto, started with {}, did not come up: {why}", python.display())]
    MotoStart {
        /// What the configuration named.
        python: PathBuf,
        /// How it ended, with the end of what it printed.
        why: String,
    },
    /// The file with the persisted EKS model could not be read.
    #[error("reading the EKS model from {}", path.display())]
    Load {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The file with the persisted EKS model is not one.
    #[error("{} is no EKS model of this version", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: serde_json::Error,
    },
    /// The log file could not be opened.
    #[error("opening the moto log {}", path.display())]
    Log {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
}
