//! The background process of a local AWS: `capt aws serve`.
//!
//! One per data directory. It writes down who and where it is once it answers, and ends when it is asked to,
//! or when nobody has called for hours.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use local_aws::{Config, LocalAws};
use serde::{Deserialize, Serialize};
use terraform_driver::{
    exec::ProcessId,
    workspace::{
        LockError,
        files::{FileError, private_dir, remove_optional, write_json},
    },
};
use thiserror::Error;
use tokio::signal::unix::{SignalKind, signal};

use super::{clusters::EmbeddedClusters, place::Place};

/// The port that is tried first, so that directories rendered before a start are right after it.
pub const USUAL_PORT: u16 = 4599;

/// What is known of a running local AWS; in `DATA/local-aws/server.json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Server {
    /// The process.
    pub process: ProcessId,
    /// Where it answers.
    pub endpoint: String,
    /// Changes whenever its memory is lost.
    pub instance: String,
    /// When it was started.
    pub started: jiff::Timestamp,
}

/// Why it cannot serve.
#[derive(Debug, Error)]
pub enum ServeError {
    /// Another one serves this directory.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// It did not start.
    #[error("cannot start the local AWS")]
    Start(#[source] local_aws::Error),
    /// The system would not tell us who we are, or pass on signals.
    #[error("cannot {what}")]
    System {
        /// What was refused.
        what: &'static str,
        /// The system's answer.
        #[source]
        source: std::io::Error,
    },
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
}

/// Serves until a signal or until nobody has called for `idle`.
pub async fn serve(
    place: &Place,
    python: PathBuf,
    port: Option<u16>,
    idle: Duration,
) -> Result<(), ServeError> {
    private_dir(place.dir())?;
    let _alone = place.take().await?;
    // Of one that was killed: from here on whoever is written down there is us.
    remove_optional(&place.server())?;
    let aws = start(place, python, port).await?;
    let process = ProcessId::of(std::process::id()).ok_or_else(|| ServeError::System {
        what: "find our own process",
        source: std::io::ErrorKind::NotFound.into(),
    })?;
    write_json(
        &place.server(),
        &Server {
            process,
            endpoint: aws.endpoint(),
            instance: aws.instance().to_owned(),
            started: terraform_driver::clock::now(),
        },
    )?;
    let outcome = until_unneeded(&aws, idle).await;
    aws.shutdown().await;
    place.forget(process)?;
    outcome
}

/// The usual port, or the one asked for; any free one if it is taken.
async fn start(place: &Place, python: PathBuf, port: Option<u16>) -> Result<LocalAws, ServeError> {
    let mut config = Config::new(python);
    config.host = Some(Arc::new(EmbeddedClusters::default()));
    config.log = Some(place.dir().join("moto.log"));
    config.listen = SocketAddr::from(([127, 0, 0, 1], port.unwrap_or(USUAL_PORT)));
    match LocalAws::start(config.clone()).await {
        Ok(aws) => Ok(aws),
        Err(error) if port.is_some() => Err(ServeError::Start(error)),
        Err(_taken) => {
            config.listen.set_port(0);
            LocalAws::start(config).await.map_err(ServeError::Start)
        }
    }
}

async fn until_unneeded(aws: &LocalAws, idle: Duration) -> Result<(), ServeError> {
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
