//! The gateway of a data directory as others see it: found, or started, and asked.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use provider_gateway::admin::Client;
use terraform_driver::{
    exec::background,
    providers::Discovery,
    workspace::files::{FileError, open_append, private_dir, read_json},
};
use thiserror::Error;
use tokio::time::{Instant, sleep};

use super::serve::Server;
use crate::{config::Outer, local::place::Place};

/// How long a start may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(20);
/// How long a gateway stays when nobody needs it, so that the second command of a person is a quick one.
const IDLE: Duration = Duration::from_mins(10);

/// Why there is no gateway.
#[derive(Debug, Error)]
pub enum GatewayError {
    /// It started and did not come up.
    #[error("the gateway did not come up; its log is {}{tail}", log.display())]
    NotUp {
        /// Its log.
        log: PathBuf,
        /// The last lines of it.
        tail: String,
    },
    /// It could not be started.
    #[error("cannot start the gateway")]
    Start(#[source] std::io::Error),
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
}

/// What became of a gateway that was asked to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// There was none.
    NotThere,
    /// It is gone.
    Gone,
    /// It ends with the runs that use it.
    Later,
}

/// The gateway of one data directory, and where the providers are that it runs.
#[derive(Clone)]
pub struct Gateway {
    outer: Outer,
    data: PathBuf,
    place: Place,
    idle: Duration,
    /// Where providers are.
    pub discovery: Discovery,
}

impl Gateway {
    /// The one of `data`.
    pub fn of(outer: &Outer, data: &Path, discovery: Discovery) -> Self {
        let place = Place::of_gateway(data);
        Self { outer: outer.clone(), data: data.to_owned(), place, idle: IDLE, discovery }
    }

    /// The same, for somebody who comes back after longer pauses.
    #[must_use]
    pub fn staying(self, idle: Duration) -> Self {
        Self { idle, ..self }
    }

    /// A way to ask the one that runs, if one does.
    pub fn client(&self) -> Option<Client> {
        let server = Self::running(&self.data).ok().flatten()?;
        Some(Client::at(server.socket))
    }

    /// The one of `data` that runs, if one does.
    pub fn running(data: &Path) -> Result<Option<Server>, FileError> {
        let place = Place::of_gateway(data);
        Ok(read_json::<Server>(&place.server())?.filter(|server| server.process.is_alive()))
    }

    /// Lets the one of `data` end, as soon as no run uses it.
    pub async fn end(data: &Path) -> Result<Ended, FileError> {
        let Some(server) = Self::running(data)? else { return Ok(Ended::NotThere) };
        let client = Client::at(server.socket);
        // One that does not hear it is about to end, or ends by itself when nobody has needed it for a while.
        let _heard = client.end().await;
        let begun = Instant::now();
        while server.process.is_alive() {
            let busy = client.report().await.is_ok_and(|report| report.runs > 0);
            if busy || begun.elapsed() >= PATIENCE {
                return Ok(Ended::Later);
            }
            sleep(LOOK).await;
        }
        Ok(Ended::Gone)
    }

    /// A way to ask it; it is started if it does not run.
    pub async fn ensure(&self) -> Result<Client, GatewayError> {
        let begun = Instant::now();
        let mut ours = None;
        while begun.elapsed() < PATIENCE {
            if let Some(server) = Self::running(&self.data)? {
                return Ok(Client::at(server.socket));
            }
            // Somebody else's may be coming up, or be about to end.
            let coming = match &mut ours {
                Some(child) => {
                    let child: &mut tokio::process::Child = child;
                    child.try_wait().map_err(GatewayError::Start)?.is_none()
                }
                None => false,
            };
            if !coming && !self.place.is_taken()? {
                if ours.is_some() {
                    break;
                }
                ours = Some(self.start()?);
            }
            sleep(LOOK).await;
        }
        Err(GatewayError::NotUp { log: self.place.log(), tail: self.place.tail()? })
    }

    fn start(&self) -> Result<tokio::process::Child, GatewayError> {
        private_dir(self.place.dir())?;
        let args = ["gateway", "serve", "--data"].map(str::to_owned).into_iter();
        let idle = format!("{}s", self.idle.as_secs());
        let args: Vec<String> =
            args.chain([self.data.display().to_string(), "--idle".to_owned(), idle]).collect();
        let log = open_append(&self.place.log())?;
        background(&self.outer.exe, &args, &self.environment(), log).map_err(GatewayError::Start)
    }

    /// It needs nothing of ours, least of all credentials: each provider gets its own environment from its run.
    fn environment(&self) -> BTreeMap<String, String> {
        let cache = ("CAPT_CACHE".to_owned(), self.outer.cache().display().to_string());
        ["PATH", "HOME", "LANG", "TMPDIR"]
            .into_iter()
            .filter_map(|name| Some((name.to_owned(), self.outer.var(name)?.to_owned())))
            .chain([cache])
            .collect()
    }
}
