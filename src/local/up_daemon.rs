//! Client side of the `capt up` daemon: starts it on demand, leaves it running, and stops it gracefully.
//!
//! It writes `server.json` once it serves, so a record of a live process means that it is ready.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use capt_engine::{daemon_files::DaemonFiles, process_env::ProcessEnv};
use serde::{Deserialize, Serialize};
use terraform_driver::{
    exec::{ProcessId, spawn_background},
    workspace::files::{FileError, create_private_dir, open_append, read_json, write_json},
};
use thiserror::Error;
use tokio::{
    process::Child,
    time::{Instant, sleep},
};

use crate::aws_mode::AwsMode;

/// Why the background process is not available, or could not be stopped.
#[derive(Debug, Error)]
pub enum UpError {
    /// It exited or did not start to serve in time.
    #[error("the background process did not start; its log is {}{tail}", log.display())]
    NotUp {
        /// Its log.
        log: PathBuf,
        /// The last lines of its log.
        tail: String,
    },
    /// The process could not be spawned.
    #[error("cannot start the background process")]
    Start(#[source] std::io::Error),
    /// It could not be signalled.
    #[error("cannot stop the background process {pid}")]
    Stop {
        /// Its process id.
        pid: i32,
        /// The system error.
        #[source]
        source: std::io::Error,
    },
    /// It did not exit in time.
    #[error(
        "the background process {pid} is still shutting down after {}s; run the same command again to keep waiting, \
        or do not wait for running terraform processes: `capt stop --now --data {}`",
        seconds, data.display()
    )]
    StillRuns {
        /// Its process id.
        pid: i32,
        /// How long the caller waited.
        seconds: u64,
        /// The data directory.
        data: PathBuf,
    },
    /// It runs with other settings.
    #[error(
        "the background process of {} runs with {has}, but {wanted} was requested; stop it first with \
        `capt stop --data {}`, or use another data directory with --data",
        data.display(), data.display()
    )]
    SettingsDiffer {
        /// The data directory.
        data: PathBuf,
        /// Its settings.
        has: String,
        /// The requested settings.
        wanted: String,
    },
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
}

/// Settings of the daemon: `DATA/up/settings.json`, so that the next start needs no flags.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UpSettings {
    /// Target AWS.
    pub aws: AwsMode,
    /// Kubeconfig of an external Kubernetes API.
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig.
    pub context: Option<String>,
    /// The engine.
    pub engine: Option<String>,
    /// The provider mirror.
    pub provider_mirror: Option<PathBuf>,
    /// Whether every terraform starts its own providers.
    pub no_gateway: bool,
    /// Whether runs are not confined.
    #[serde(default)]
    pub no_isolation: bool,
    /// Maximum concurrent terraform processes.
    pub parallel: Option<usize>,
}

impl UpSettings {
    /// Whether an external Kubernetes API is used.
    pub fn uses_external_api(&self) -> bool {
        self.kubeconfig.is_some() || self.context.is_some()
    }

    /// The settings that must not differ between starts, as flags.
    fn describe(&self) -> String {
        let aws = match self.aws {
            AwsMode::Local => "--aws local",
            AwsMode::Real => "--aws real",
        };
        if !self.uses_external_api() {
            return format!("{aws} and the embedded Kubernetes API");
        }
        let file = self.kubeconfig.as_ref().map(|path| format!(" --kubeconfig {}", path.display()));
        let context = self.context.as_ref().map(|name| format!(" --context {name}"));
        format!("{aws}{}{}", file.unwrap_or_default(), context.unwrap_or_default())
    }
}

/// Record of a running daemon: `DATA/up/server.json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct UpRecord {
    /// The process.
    pub process: ProcessId,
    /// Kubeconfig of its Kubernetes API; the default kubeconfig if `None`.
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig.
    pub context: Option<String>,
    /// When it was started.
    pub started: jiff::Timestamp,
    /// Target AWS.
    pub aws: AwsMode,
    /// Messages for the user who started it.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// Limit of a start on a busy machine.
const START_TIMEOUT: Duration = Duration::from_mins(3);

/// Poll interval of files that other processes change.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Handle on the `capt up` daemon of one data directory.
#[derive(Clone)]
pub struct UpDaemon {
    process_env: ProcessEnv,
    data: PathBuf,
    files: DaemonFiles,
}

impl UpDaemon {
    /// The daemon of `data`.
    pub fn new(process_env: &ProcessEnv, data: &Path) -> Self {
        Self { process_env: process_env.clone(), data: data.to_owned(), files: DaemonFiles::of_up(data) }
    }

    /// Its files.
    pub fn files(&self) -> &DaemonFiles {
        &self.files
    }

    /// The running daemon, if any.
    pub fn running(&self) -> Result<Option<UpRecord>, UpError> {
        Ok(read_json::<UpRecord>(&self.files.server_file())?.filter(|server| server.process.is_alive()))
    }

    /// The settings of the last start.
    pub fn settings(&self) -> Result<Option<UpSettings>, UpError> {
        Ok(read_json(&self.settings_file())?)
    }

    fn settings_file(&self) -> PathBuf {
        self.files.dir().join("settings.json")
    }

    /// Stores the settings of the next start.
    pub fn write_settings(&self, settings: &UpSettings) -> Result<(), UpError> {
        create_private_dir(self.files.dir())?;
        Ok(write_json(&self.settings_file(), settings)?)
    }

    /// The daemon with these settings, started if necessary; the second value tells whether this call started it.
    pub async fn ensure_running(&self, settings: &UpSettings) -> Result<(UpRecord, bool), UpError> {
        let begun = Instant::now();
        let mut ours: Option<(Child, Option<u32>)> = None;
        while begun.elapsed() < START_TIMEOUT {
            if let Some(server) = self.running()? {
                self.refuse_if_different(settings)?;
                let started = ours.is_some_and(|(_, pid)| pid == u32::try_from(server.process.pid).ok());
                return Ok((server, started));
            }
            let coming = match &mut ours {
                Some((child, _)) => child.try_wait().map_err(UpError::Start)?.is_none(),
                None => false,
            };
            // Another process may be starting, or about to exit.
            if !coming && !self.files.is_locked()? {
                if ours.is_some() {
                    break;
                }
                self.write_settings(settings)?;
                let child = self.spawn(settings)?;
                let pid = child.id();
                ours = Some((child, pid));
            }
            sleep(POLL_INTERVAL).await;
        }
        Err(UpError::NotUp { log: self.files.log_file(), tail: self.files.log_tail()? })
    }

    fn refuse_if_different(&self, wanted: &UpSettings) -> Result<(), UpError> {
        match self.settings()? {
            Some(has) if has.describe() != wanted.describe() => Err(UpError::SettingsDiffer {
                data: self.data.clone(),
                has: has.describe(),
                wanted: wanted.describe(),
            }),
            _ => Ok(()),
        }
    }

    fn spawn(&self, settings: &UpSettings) -> Result<Child, UpError> {
        let args = ["up-serve".to_owned(), "--data".to_owned(), self.data.display().to_string()];
        // Error messages quote the log; lines of an earlier process would mislead.
        terraform_driver::workspace::files::remove_optional(&self.files.log_file())?;
        let log = open_append(&self.files.log_file())?;
        spawn_background(&self.process_env.exe, &args, &self.environment(settings.aws), log)
            .map_err(UpError::Start)
    }

    /// Passes AWS credentials only for a real account.
    fn environment(&self, aws: AwsMode) -> BTreeMap<String, String> {
        let harmless = ["AWS_REGION", "AWS_DEFAULT_REGION"];
        let wanted =
            |name: &str| aws == AwsMode::Real || !name.starts_with("AWS_") || harmless.contains(&name);
        self.process_env
            .env
            .iter()
            .filter(|(name, _)| wanted(name))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect()
    }

    /// The error for an unexpected exit, with the end of the log.
    pub fn not_up_error(&self) -> UpError {
        let tail = self.files.log_tail().unwrap_or_default();
        UpError::NotUp { log: self.files.log_file(), tail }
    }

    /// Stops it and waits until it has exited; returns whether one was running. `now` does not wait for terraform processes.
    pub async fn stop(&self, patience: Duration, now: bool, waits: impl FnOnce()) -> Result<bool, UpError> {
        let Some(server) = self.wait_for_record().await? else {
            self.files.remove_stale_record()?;
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
            if begun.elapsed() >= SLOW_STOP {
                if let Some(waits) = waits.take() {
                    waits();
                }
                // Signals sent together coalesce, so the second one is sent later.
                if std::mem::take(&mut hurry) {
                    ask()?;
                }
            }
            sleep(POLL_INTERVAL).await;
        }
        self.files.remove_stale_record()?;
        Ok(true)
    }

    /// The recorded daemon; waits for one that is still starting.
    async fn wait_for_record(&self) -> Result<Option<UpRecord>, UpError> {
        let begun = Instant::now();
        loop {
            if let Some(server) = self.running()? {
                return Ok(Some(server));
            }
            if !self.files.is_locked()? {
                return Ok(None);
            }
            if begun.elapsed() >= START_TIMEOUT {
                return Err(self.not_up_error());
            }
            sleep(POLL_INTERVAL).await;
        }
    }
}

/// A stop that takes longer than this is reported.
const SLOW_STOP: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests;
