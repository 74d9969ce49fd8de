//! The background process of `capt up`, as the commands see it: started when needed, left running, stopped
//! without losing anything.
//!
//! Its `server.json` is written when it serves, so a record of a living process is all that readiness needs.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use terraform_driver::{
    exec::{ProcessId, background},
    workspace::files::{FileError, open_append, private_dir, read_json, write_json},
};
use thiserror::Error;
use tokio::{
    process::Child,
    time::{Instant, sleep},
};

use super::place::Place;
use crate::config::{AwsMode, Outer};

/// Why there is no background process, or still one.
#[derive(Debug, Error)]
pub enum UpError {
    /// It started and ended, or never came up.
    #[error("the background process did not come up; its log is {}{tail}", log.display())]
    NotUp {
        /// Its log.
        log: PathBuf,
        /// The last lines of it.
        tail: String,
    },
    /// It could not be started.
    #[error("cannot start the background process")]
    Start(#[source] std::io::Error),
    /// It could not be stopped.
    #[error("cannot stop the background process {pid}")]
    Stop {
        /// Its process.
        pid: i32,
        /// The system's answer.
        #[source]
        source: std::io::Error,
    },
    /// It was asked to end and did not.
    #[error(
        "the background process {pid} still ends its work after {}s; run the same command again to go on waiting, \
         or leave running terraforms to themselves with `capt stop --now --data {}`",
        seconds, data.display()
    )]
    StillRuns {
        /// Its process.
        pid: i32,
        /// How long it was waited for.
        seconds: u64,
        /// The data directory.
        data: PathBuf,
    },
    /// It runs with other settings.
    #[error(
        "the background process of {} runs with {has}, and this would be {wanted}; end it first with \
         `capt stop --data {}`, or use another directory with --data",
        data.display(), data.display()
    )]
    Otherwise {
        /// The data directory.
        data: PathBuf,
        /// What it runs with.
        has: String,
        /// What was asked for.
        wanted: String,
    },
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
}

/// What it is started with; in `DATA/up/settings.json`, so that the next start needs no flags.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Settings {
    /// Which AWS.
    pub aws: AwsMode,
    /// The Kubernetes API of somebody else, by a kubeconfig.
    pub kubeconfig: Option<PathBuf>,
    /// Which of its contexts.
    pub context: Option<String>,
    /// Which terraform.
    pub engine: Option<String>,
    /// Where its providers are.
    pub provider_mirror: Option<PathBuf>,
    /// Whether every terraform starts its own providers.
    pub no_gateway: bool,
    /// How many terraform processes may run at once.
    pub parallel: Option<usize>,
}

impl Settings {
    /// Whether the Kubernetes API is somebody else's.
    pub fn is_elsewhere(&self) -> bool {
        self.kubeconfig.is_some() || self.context.is_some()
    }

    /// What makes one process unlike another, in the words of the flags.
    fn essence(&self) -> String {
        let aws = match self.aws {
            AwsMode::Local => "--aws local",
            AwsMode::Real => "--aws real",
        };
        if !self.is_elsewhere() {
            return format!("{aws} and a Kubernetes API of its own");
        }
        let file = self.kubeconfig.as_ref().map(|path| format!(" --kubeconfig {}", path.display()));
        let context = self.context.as_ref().map(|name| format!(" --context {name}"));
        format!("{aws}{}{}", file.unwrap_or_default(), context.unwrap_or_default())
    }
}

/// What is known of a running one; in `DATA/up/server.json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Server {
    /// The process.
    pub process: ProcessId,
    /// How to reach the Kubernetes API; that of the machine's settings if left out.
    pub kubeconfig: Option<PathBuf>,
    /// Which context of it.
    pub context: Option<String>,
    /// When it was started.
    pub started: jiff::Timestamp,
    /// Which AWS.
    pub aws: AwsMode,
    /// What whoever started it should hear.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// How long it may take to serve on a busy machine.
const PATIENCE: Duration = Duration::from_mins(3);

/// How often something is looked at that others change.
const LOOK: Duration = Duration::from_millis(100);

/// The background process of one data directory.
#[derive(Clone)]
pub struct Up {
    outer: Outer,
    data: PathBuf,
    place: Place,
}

impl Up {
    /// The one of `data`.
    pub fn of(outer: &Outer, data: &Path) -> Self {
        Self { outer: outer.clone(), data: data.to_owned(), place: Place::of_up(data) }
    }

    /// Its files.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// The one that runs, if one does.
    pub fn running(&self) -> Result<Option<Server>, UpError> {
        Ok(read_json::<Server>(&self.place.server())?.filter(|server| server.process.is_alive()))
    }

    /// What it was started with last.
    pub fn settings(&self) -> Result<Option<Settings>, UpError> {
        Ok(read_json(&self.settings_file())?)
    }

    fn settings_file(&self) -> PathBuf {
        self.place.dir().join("settings.json")
    }

    /// Writes down what the next one is started with.
    pub fn write_settings(&self, settings: &Settings) -> Result<(), UpError> {
        private_dir(self.place.dir())?;
        Ok(write_json(&self.settings_file(), settings)?)
    }

    /// The one that runs with these settings; it is started if none does. The second value tells whether it was.
    pub async fn ensure(&self, settings: &Settings) -> Result<(Server, bool), UpError> {
        let begun = Instant::now();
        let mut ours: Option<(Child, Option<u32>)> = None;
        while begun.elapsed() < PATIENCE {
            if let Some(server) = self.running()? {
                self.refuse_if_different(settings)?;
                let started = ours.is_some_and(|(_, pid)| pid == u32::try_from(server.process.pid).ok());
                return Ok((server, started));
            }
            let coming = match &mut ours {
                Some((child, _)) => child.try_wait().map_err(UpError::Start)?.is_none(),
                None => false,
            };
            // Somebody else's may come up, or be about to end.
            if !coming && !self.place.is_taken()? {
                if ours.is_some() {
                    break;
                }
                self.write_settings(settings)?;
                let child = self.start(settings)?;
                let pid = child.id();
                ours = Some((child, pid));
            }
            sleep(LOOK).await;
        }
        Err(UpError::NotUp { log: self.place.log(), tail: self.place.tail()? })
    }

    fn refuse_if_different(&self, wanted: &Settings) -> Result<(), UpError> {
        match self.settings()? {
            Some(has) if has.essence() != wanted.essence() => Err(UpError::Otherwise {
                data: self.data.clone(),
                has: has.essence(),
                wanted: wanted.essence(),
            }),
            _ => Ok(()),
        }
    }

    fn start(&self, settings: &Settings) -> Result<Child, UpError> {
        let args = ["up-serve".to_owned(), "--data".to_owned(), self.data.display().to_string()];
        // What an earlier one said would be taken for the words of this one.
        terraform_driver::workspace::files::remove_optional(&self.place.log())?;
        let log = open_append(&self.place.log())?;
        background(&self.outer.exe, &args, &self.environment(settings.aws), log).map_err(UpError::Start)
    }

    /// Credentials are for a real account only.
    fn environment(&self, aws: AwsMode) -> BTreeMap<String, String> {
        let harmless = ["AWS_REGION", "AWS_DEFAULT_REGION"];
        let wanted =
            |name: &str| aws == AwsMode::Real || !name.starts_with("AWS_") || harmless.contains(&name);
        self.outer.env.iter().filter(|(name, _)| wanted(name)).map(|(k, v)| (k.clone(), v.clone())).collect()
    }

    /// What it says when it ends unexpectedly.
    pub fn gone(&self) -> UpError {
        let tail = self.place.tail().unwrap_or_default();
        UpError::NotUp { log: self.place.log(), tail }
    }

    /// Stops it; whether there was one. When this returns, it is gone. `now` does not wait for terraforms.
    pub async fn stop(&self, patience: Duration, now: bool, waits: impl FnOnce()) -> Result<bool, UpError> {
        let Some(server) = self.settled().await? else {
            self.place.forget_dead_server()?;
            return Ok(false);
        };
        let process = server.process;
        let ask = || match process.terminate() {
            Err(source) if process.is_alive() => Err(UpError::Stop { pid: process.pid, source }),
            _ => Ok(()),
        };
        ask()?;
        let begun = Instant::now();
        let mut waits = Some(waits);
        let mut hurry = now;
        while process.is_alive() {
            if begun.elapsed() >= patience {
                let (pid, data) = (process.pid, self.data.clone());
                return Err(UpError::StillRuns { pid, seconds: patience.as_secs(), data });
            }
            if begun.elapsed() >= SOON {
                if let Some(waits) = waits.take() {
                    waits();
                }
                // Two signals at once are one to the system.
                if std::mem::take(&mut hurry) {
                    ask()?;
                }
            }
            sleep(LOOK).await;
        }
        self.place.forget_dead_server()?;
        Ok(true)
    }

    /// The recorded one; one that is coming up is waited for, since it would be there a moment later.
    async fn settled(&self) -> Result<Option<Server>, UpError> {
        let begun = Instant::now();
        loop {
            if let Some(server) = self.running()? {
                return Ok(Some(server));
            }
            if !self.place.is_taken()? {
                return Ok(None);
            }
            if begun.elapsed() >= PATIENCE {
                return Err(self.gone());
            }
            sleep(LOOK).await;
        }
    }
}

/// What takes longer than this is told.
const SOON: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests;
