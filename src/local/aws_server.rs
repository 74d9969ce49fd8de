//! The local AWS daemon: `capt aws serve`.
//!
//! One per data directory. It records its process and endpoint once it serves, and exits on a signal or after hours
//! without requests.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use capt_engine::daemon_files::DaemonFiles;
use local_aws::{Config, LocalAws};
use terraform_driver::{
    exec::ProcessId,
    workspace::{
        LockError,
        files::{FileError, create_private_dir, remove_optional, write_json},
    },
};
use thiserror::Error;
use tokio::signal::unix::{SignalKind, signal};

use super::{
    aws_record::{DEFAULT_PORT, LocalAwsRecord},
    eks_hosts::EmbeddedClusters,
};

/// Why the local AWS cannot serve.
#[derive(Debug, Error)]
pub enum ServeError {
    /// Another process serves this directory.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// It did not start.
    #[error("cannot start the local AWS")]
    Start(#[source] local_aws::Error),
    /// A system call failed.
    #[error("cannot {what}")]
    System {
        /// What failed.
        what: &'static str,
        /// The system error.
        #[source]
        source: std::io::Error,
    },
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
}

/// Serves until a signal, or until no request arrived for `idle`.
pub async fn serve(
    place: &DaemonFiles,
    python: PathBuf,
    port: Option<u16>,
    idle: Duration,
) -> Result<(), ServeError> {
    create_private_dir(place.dir())?;
    let _alone = place.acquire_lock().await?;
    // Removes the record of a killed predecessor; under the lock it can only be stale.
    remove_optional(&place.server_file())?;
    let aws = start(place, python, port).await?;
    let process = ProcessId::from_pid(std::process::id()).ok_or_else(|| ServeError::System {
        what: "identify this process in /proc",
        source: std::io::ErrorKind::NotFound.into(),
    })?;
    write_json(
        &place.server_file(),
        &LocalAwsRecord {
            process,
            endpoint: aws.endpoint(),
            instance: aws.instance().to_owned(),
            started: terraform_driver::clock::now(),
        },
    )?;
    let outcome = wait_until_idle_or_stopped(&aws, idle).await;
    aws.shutdown().await;
    place.remove_record(process)?;
    outcome
}

/// Starts at the requested port, or at the default port with a free one as fallback.
async fn start(place: &DaemonFiles, python: PathBuf, port: Option<u16>) -> Result<LocalAws, ServeError> {
    let mut config = Config::new(python);
    config.host = Some(Arc::new(EmbeddedClusters::default()));
    config.log = Some(place.dir().join("moto.log"));
    config.listen = SocketAddr::from(([127, 0, 0, 1], port.unwrap_or(DEFAULT_PORT)));
    match LocalAws::start(config.clone()).await {
        Ok(aws) => Ok(aws),
        Err(error) if port.is_some() => Err(ServeError::Start(error)),
        Err(_taken) => {
            config.listen.set_port(0);
            LocalAws::start(config).await.map_err(ServeError::Start)
        }
    }
}

async fn wait_until_idle_or_stopped(aws: &LocalAws, idle: Duration) -> Result<(), ServeError> {
    let listen =
        |kind| signal(kind).map_err(|source| ServeError::System { what: "listen for signals", source });
    let (mut terminate, mut interrupt) = (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
    let mut look = tokio::time::interval(Duration::from_secs(30));
    loop {
        tokio::select! {
            _ = terminate.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
            () = aws.stop_requested() => return Ok(()),
            _ = look.tick() => {
                if aws.idle_for() >= idle {
                    return Ok(());
                }
            }
        }
    }
}
