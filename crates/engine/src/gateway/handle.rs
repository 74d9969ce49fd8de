//! Handle to the provider gateway of a data directory: finds the running daemon, or starts it.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use provider_gateway::admin::GatewayClient;
use terraform_driver::{
    exec::{ProcessId, spawn_background},
    providers::ProviderDiscovery,
    workspace::files::{FileError, create_private_dir, open_append, read_json},
};
use thiserror::Error;
use tokio::time::{Instant, sleep};

use super::daemon::GatewayProcess;
use crate::{daemon_files::DaemonFiles, process_env::ProcessEnv};

/// Timeout of the start; generous for a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Idle timeout of the daemon, so that the next command finds it running.
const DEFAULT_IDLE_TIMEOUT: Duration = Duration::from_mins(10);

/// Why the gateway is not available.
#[derive(Debug, Error)]
pub enum GatewayStartError {
    /// The daemon started and did not become ready.
    #[error("the provider gateway did not become ready; see its log {}{tail}", log.display())]
    NotReady {
        /// Path of its log.
        log: PathBuf,
        /// The last lines of the log.
        tail: String,
    },
    /// The daemon could not be started.
    #[error("cannot start the provider gateway")]
    Start(#[source] std::io::Error),
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
}

/// Result of stopping a gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GatewayStopOutcome {
    /// No gateway was running.
    NotRunning,
    /// The gateway stopped.
    Stopped,
    /// The gateway stops when the runs that use it end.
    StopsAfterRuns,
}

/// The gateway of one data directory and the provider packages that it can run.
#[derive(Clone)]
pub struct GatewayHandle {
    process_env: ProcessEnv,
    data: PathBuf,
    daemon_dir: DaemonFiles,
    idle_timeout: Duration,
    /// The outdated daemon that was asked to exit.
    asked_to_exit: Arc<Mutex<Option<ProcessId>>>,
    /// Provider mirror.
    pub discovery: ProviderDiscovery,
}

impl GatewayHandle {
    /// Creates a handle for a data directory; starts nothing.
    pub fn new(process_env: &ProcessEnv, data: &Path, discovery: ProviderDiscovery) -> Self {
        let daemon_dir = DaemonFiles::of_gateway(data);
        Self {
            process_env: process_env.clone(),
            data: data.to_owned(),
            daemon_dir,
            idle_timeout: DEFAULT_IDLE_TIMEOUT,
            asked_to_exit: Arc::default(),
            discovery,
        }
    }

    /// Sets the idle timeout of a daemon that this handle starts.
    #[must_use]
    pub fn with_idle_timeout(self, idle: Duration) -> Self {
        Self { idle_timeout: idle, ..self }
    }

    /// Client of the running daemon; `None` if none runs.
    pub fn client(&self) -> Option<GatewayClient> {
        let server = Self::find_running(&self.data).ok().flatten()?;
        Some(server.client())
    }

    /// The running daemon of a data directory; `None` if none runs.
    pub fn find_running(data: &Path) -> Result<Option<GatewayProcess>, FileError> {
        let place = DaemonFiles::of_gateway(data);
        Ok(read_json::<GatewayProcess>(&place.server_file())?.filter(|server| server.process.is_alive()))
    }

    /// Stops the daemon of a data directory; it exits when no run uses it.
    pub async fn stop(data: &Path) -> Result<GatewayStopOutcome, FileError> {
        let Some(server) = Self::find_running(data)? else { return Ok(GatewayStopOutcome::NotRunning) };
        let client = server.client();
        // A daemon that does not answer is exiting, or exits by its idle timeout.
        let _heard = client.shutdown().await;
        let begun = Instant::now();
        while server.process.is_alive() {
            let busy = client.report().await.is_ok_and(|report| report.runs > 0);
            if busy || begun.elapsed() >= START_TIMEOUT {
                return Ok(GatewayStopOutcome::StopsAfterRuns);
            }
            sleep(POLL_INTERVAL).await;
        }
        Ok(GatewayStopOutcome::Stopped)
    }

    /// Client of the daemon; starts the daemon if it is not running.
    pub async fn ensure_running(&self) -> Result<GatewayClient, GatewayStartError> {
        let begun = Instant::now();
        let mut ours = None;
        while begun.elapsed() < START_TIMEOUT {
            if let Some(server) = Self::find_running(&self.data)? {
                if !self.is_handing_over(&server).await {
                    return Ok(server.client());
                }
                sleep(POLL_INTERVAL).await;
                continue;
            }
            // A daemon of another process may be starting or exiting.
            let coming = match &mut ours {
                Some(child) => {
                    let child: &mut tokio::process::Child = child;
                    child.try_wait().map_err(GatewayStartError::Start)?.is_none()
                }
                None => false,
            };
            if !coming && !self.daemon_dir.is_locked()? {
                if ours.is_some() {
                    break;
                }
                ours = Some(self.spawn_daemon()?);
            }
            sleep(POLL_INTERVAL).await;
        }
        Err(GatewayStartError::NotReady {
            log: self.daemon_dir.log_file(),
            tail: self.daemon_dir.log_tail()?,
        })
    }

    /// Asks a gateway of an earlier version to exit, once; returns whether it is about to. While runs use it, it serves others too:
    /// only one gateway can write the journal.
    async fn is_handing_over(&self, server: &GatewayProcess) -> bool {
        if !server.is_outdated() {
            return false;
        }
        let client = server.client();
        let is_first = self
            .asked_to_exit
            .lock()
            .is_ok_and(|mut asked| asked.replace(server.process) != Some(server.process));
        if is_first {
            tracing::info!(pid = server.process.pid, "replacing a gateway of an earlier version");
            // If it does not answer, it is exiting.
            let _heard = client.shutdown().await;
        }
        client.report().await.is_ok_and(|report| report.runs == 0) || !server.process.is_alive()
    }

    fn spawn_daemon(&self) -> Result<tokio::process::Child, GatewayStartError> {
        create_private_dir(self.daemon_dir.dir())?;
        let args = ["gateway", "serve", "--data"].map(str::to_owned).into_iter();
        let idle = format!("{}s", self.idle_timeout.as_secs());
        let args: Vec<String> =
            args.chain([self.data.display().to_string(), "--idle".to_owned(), idle]).collect();
        let log = open_append(&self.daemon_dir.log_file())?;
        spawn_background(&self.process_env.exe, &args, &self.daemon_environment(), log)
            .map_err(GatewayStartError::Start)
    }

    /// Environment of the daemon. It gets no credentials: each provider gets the environment of its run.
    fn daemon_environment(&self) -> BTreeMap<String, String> {
        let cache = ("CAPT_CACHE".to_owned(), self.process_env.cache_dir().display().to_string());
        ["PATH", "HOME", "LANG", "TMPDIR"]
            .into_iter()
            .filter_map(|name| Some((name.to_owned(), self.process_env.var(name)?.to_owned())))
            .chain([cache])
            .collect()
    }
}
