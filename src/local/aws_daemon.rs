//! Client side of the local AWS daemon of a data directory: starts it on demand, leaves it running, and detects when it
//! lost its resources.
//!
//! Its state follows from three facts: the lock in its [`DaemonFiles`] is held for its whole lifetime, `server.json` exists
//! while it serves, and the process recorded there is alive. A live process that does not respond is busy or stuck, and
//! is never treated as absent.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use capt_engine::{daemon_files::DaemonFiles, process_env::ProcessEnv};
use terraform_driver::{
    exec::spawn_background,
    workspace::files::{FileError, create_private_dir, open_append, read_json, read_optional, write_atomic},
};
use thiserror::Error;
use tokio::{
    process::Child,
    time::{Instant, sleep},
};

use super::{
    admin::{AdminClient, AdminError},
    aws_record::LocalAwsRecord,
    venv::{VenvError, ensure_python},
};

/// Why the local AWS is not available.
#[derive(Debug, Error)]
pub enum LocalAwsError {
    /// It did not start to serve in time.
    #[error("the local AWS did not start; its log is {}{tail}", log.display())]
    NotUp {
        /// Its log.
        log: PathBuf,
        /// The last lines of its log.
        tail: String,
    },
    /// The process could not be spawned.
    #[error("cannot start the local AWS")]
    Start(#[source] std::io::Error),
    /// The process is alive and does not respond.
    #[error(
        "the local AWS of {} (process {pid}) is running but has not responded for {seconds} seconds; retry when \
        the machine is less busy, or stop it and discard its resources: `capt aws stop --data {}`",
        data.display(), data.display()
    )]
    Unresponsive {
        /// The data directory.
        data: PathBuf,
        /// Its process id.
        pid: i32,
        /// How long it was tried.
        seconds: u64,
        /// Error of the last attempt.
        #[source]
        source: AdminError,
    },
    /// It could not be signalled.
    #[error("cannot stop the local AWS (process {pid})")]
    Stop {
        /// Its process id.
        pid: i32,
        /// The system error.
        #[source]
        source: std::io::Error,
    },
    /// It did not exit after SIGTERM.
    #[error(
        "the local AWS (process {pid}) is still running {seconds} seconds after SIGTERM; to force it to exit: \
        `kill -9 {pid}`"
    )]
    StillRuns {
        /// Its process id.
        pid: i32,
        /// How long the caller waited.
        seconds: u64,
    },
    /// The lock is held, but no record appears.
    #[error(
        "the local AWS in {} has been starting for too long and cannot be stopped; its log is {}",
        data.display(), log.display()
    )]
    StillStarting {
        /// The data directory.
        data: PathBuf,
        /// Its log.
        log: PathBuf,
    },
    /// It is another instance than the one the workspaces were applied to.
    #[error(
        "the local AWS of {} was restarted after {count} workspace(s) were applied, and lost its resources (they \
        are kept in memory only). Nothing was planned. To start over: `capt aws reset --data {}`",
        data.display(), data.display()
    )]
    MemoryLost {
        /// The data directory.
        data: PathBuf,
        /// Number of workspaces whose resources are lost.
        count: usize,
    },
    /// No usable python.
    #[error(transparent)]
    Python(#[from] VenvError),
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// An admin call failed.
    #[error(transparent)]
    Admin(#[from] AdminError),
}

/// Limit of a cold start on a busy machine.
const START_TIMEOUT: Duration = Duration::from_mins(2);

/// How long a live server may not respond; a busy machine stalls it for a while.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);

/// Limit of a shutdown: requests in flight and moto each get two seconds.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// Poll interval of files that other processes change.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Handle on the local AWS daemon of one data directory.
#[derive(Clone)]
pub struct LocalAwsDaemon {
    process_env: ProcessEnv,
    data: PathBuf,
    files: DaemonFiles,
}

impl LocalAwsDaemon {
    /// The daemon of `data`.
    pub fn new(process_env: &ProcessEnv, data: &Path) -> Self {
        Self {
            process_env: process_env.clone(),
            data: data.to_owned(),
            files: DaemonFiles::of_local_aws(data),
        }
    }

    /// The running daemon, if any.
    pub async fn running(&self) -> Result<Option<LocalAwsRecord>, LocalAwsError> {
        self.responding_within(RESPONSE_TIMEOUT).await
    }

    async fn responding_within(&self, patience: Duration) -> Result<Option<LocalAwsRecord>, LocalAwsError> {
        let begun = Instant::now();
        // Re-reads the record each time: the unresponsive process may exit and another one replace it.
        while let Some(server) = self.live_record()? {
            match AdminClient::new(&server.endpoint).health().await {
                Ok(health) => return Ok(Some(LocalAwsRecord { instance: health.instance, ..server })),
                Err(source @ AdminError::Unreachable { .. }) if begun.elapsed() >= patience => {
                    let (data, pid) = (self.data.clone(), server.process.pid);
                    return Err(LocalAwsError::Unresponsive {
                        data,
                        pid,
                        seconds: patience.as_secs(),
                        source,
                    });
                }
                Err(AdminError::Unreachable { .. }) => sleep(POLL_INTERVAL).await,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(None)
    }

    /// The record of a live process.
    fn live_record(&self) -> Result<Option<LocalAwsRecord>, FileError> {
        Ok(read_json::<LocalAwsRecord>(&self.files.server_file())?.filter(|server| server.process.is_alive()))
    }

    /// The running daemon, started if necessary; the second value tells whether this call started it.
    pub async fn ensure_running(&self, tell: impl Fn(&str)) -> Result<(LocalAwsRecord, bool), LocalAwsError> {
        if let Some(server) = self.running().await? {
            return Ok((server, false));
        }
        let python = ensure_python(&self.process_env, tell).await?;
        create_private_dir(self.files.dir())?;
        let begun = Instant::now();
        let mut ours: Option<(Child, Option<u32>)> = None;
        while begun.elapsed() < START_TIMEOUT {
            if let Some(server) = self.running().await? {
                let started = ours.is_some_and(|(_, pid)| pid == u32::try_from(server.process.pid).ok());
                return Ok((server, started));
            }
            let coming = match &mut ours {
                Some((child, _)) => child.try_wait().map_err(LocalAwsError::Start)?.is_none(),
                None => false,
            };
            // Another process may be starting while ours failed to get the lock, or may be about to exit.
            if !coming && !self.files.is_locked()? {
                if ours.is_some() {
                    break;
                }
                let child = self.spawn(&python)?;
                let pid = child.id();
                ours = Some((child, pid));
            }
            sleep(POLL_INTERVAL).await;
        }
        Err(LocalAwsError::NotUp { log: self.files.log_file(), tail: self.files.log_tail()? })
    }

    fn spawn(&self, python: &Path) -> Result<Child, LocalAwsError> {
        let args = [
            "aws".to_owned(),
            "serve".to_owned(),
            "--data".to_owned(),
            self.data.display().to_string(),
            "--python".to_owned(),
            python.display().to_string(),
        ];
        let log = open_append(&self.files.log_file())?;
        spawn_background(&self.process_env.exe, &args, &self.environment(), log).map_err(LocalAwsError::Start)
    }

    /// A minimal environment; AWS credentials must not reach it.
    fn environment(&self) -> BTreeMap<String, String> {
        ["PATH", "HOME", "LANG", "TMPDIR"]
            .into_iter()
            .filter_map(|name| Some((name.to_owned(), self.process_env.var(name)?.to_owned())))
            .collect()
    }

    /// Stops it and waits until it has exited; returns whether one was running.
    pub async fn stop(&self) -> Result<bool, LocalAwsError> {
        let Some(server) = self.wait_for_record().await? else {
            self.files.remove_stale_record()?;
            return Ok(false);
        };
        let process = server.process;
        if let Err(source) = process.terminate()
            && process.is_alive()
        {
            return Err(LocalAwsError::Stop { pid: process.pid, source });
        }
        let begun = Instant::now();
        while process.is_alive() {
            if begun.elapsed() >= STOP_TIMEOUT {
                return Err(LocalAwsError::StillRuns { pid: process.pid, seconds: STOP_TIMEOUT.as_secs() });
            }
            sleep(POLL_INTERVAL).await;
        }
        self.files.remove_stale_record()?;
        Ok(true)
    }

    /// The recorded daemon; waits for one that is still starting.
    async fn wait_for_record(&self) -> Result<Option<LocalAwsRecord>, LocalAwsError> {
        let begun = Instant::now();
        loop {
            if let Some(server) = self.live_record()? {
                return Ok(Some(server));
            }
            if !self.files.is_locked()? {
                return Ok(None);
            }
            if begun.elapsed() >= START_TIMEOUT {
                return Err(LocalAwsError::StillStarting {
                    data: self.data.clone(),
                    log: self.files.log_file(),
                });
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    /// Fails if workspaces were applied to another instance: terraform would find none of the resources in the states and
    /// plan to create everything again.
    pub fn verify_instance(&self, server: &LocalAwsRecord, holding: usize) -> Result<(), LocalAwsError> {
        let known = read_optional(&self.instance_file())?;
        match known {
            Some(known) if known != server.instance.as_bytes() && holding > 0 => {
                Err(LocalAwsError::MemoryLost { data: self.data.clone(), count: holding })
            }
            Some(known) if known == server.instance.as_bytes() => Ok(()),
            _ => Ok(write_atomic(&self.instance_file(), server.instance.as_bytes(), false)?),
        }
    }

    /// Forgets which instance the workspaces were applied to.
    pub fn forget_instance(&self) -> Result<(), LocalAwsError> {
        let path = self.instance_file();
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(FileError::new("remove", &path, error).into())
            }
            _ => Ok(()),
        }
    }

    fn instance_file(&self) -> PathBuf {
        self.files.dir().join("instance")
    }
}

#[cfg(test)]
mod tests;
