//! Assignment of provider processes.
//!
//! A **provider group** holds all processes of one program with one environment for one tenant. A process is bound to a
//! configuration by its first `Configure` and keeps it: providers hold one configuration per process, so a second
//! `Configure` would change the responses of everyone using the first. A **provider configuration** tracks its process,
//! and the `Configure` request for the next process if that one is lost.

use std::{
    collections::{BTreeMap, HashMap},
    ffi::OsString,
    path::PathBuf,
    sync::{
        Arc, Weak,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use capt_util::error_chain::format_error_chain;
use parking_lot::Mutex;
use tokio::{sync::Mutex as AsyncMutex, time::timeout};

use crate::{
    counters::Counters,
    digest::{self, DigestKey},
    package::PackageCache,
    plugin::{LaunchSpec, ProviderProcess},
    wire::{
        grpc::{GrpcCode, GrpcResponse, GrpcStatus, frame, unframe},
        messages::{normalize_configure, read_diagnostics},
    },
};

/// Limits of a process.
#[derive(Debug, Clone)]
pub struct ProcessLimits {
    /// A process without calls for this long ends.
    pub idle: Duration,
    /// A process older than this gets no new work.
    pub age: Duration,
    /// A process with more resident memory than this gets no new work.
    pub memory: u64,
}

impl Default for ProcessLimits {
    fn default() -> Self {
        Self { idle: Duration::from_mins(30), age: Duration::from_hours(12), memory: 2 << 30 }
    }
}

/// What a process is started from.
#[derive(Clone)]
pub struct ProviderSpec {
    /// The provider's program.
    pub program: PathBuf,
    /// Its SHA-256.
    pub checksum: String,
    /// Its complete environment; never logged.
    pub env: BTreeMap<String, String>,
    /// Two tenants never share a process.
    pub tenant: String,
}

impl ProviderSpec {
    /// Key over everything that distinguishes processes.
    pub fn key(&self) -> DigestKey {
        let Self { program: _, checksum, env, tenant } = self;
        let parts = [checksum.as_bytes(), tenant.as_bytes()].into_iter();
        digest::hash_parts(
            parts.chain(env.iter().flat_map(|(name, value)| [name.as_bytes(), value.as_bytes()])),
        )
    }
}

/// All provider processes.
pub struct ProviderPool {
    socket_dir: PathBuf,
    exec_wrapper: Vec<OsString>,
    /// Limits of each process.
    pub limits: ProcessLimits,
    counters: Arc<Counters>,
    packages: Arc<PackageCache>,
    groups: Mutex<HashMap<DigestKey, Arc<ProviderGroup>>>,
}

/// The processes of one spec.
pub struct ProviderGroup {
    /// Key of the spec.
    pub key: DigestKey,
    /// The common spec.
    pub spec: ProviderSpec,
    launch: LaunchSpec,
    counters: Arc<Counters>,
    /// A process without a configuration. The lock is held during a start, so that only one is started.
    unconfigured: AsyncMutex<Option<Arc<ProviderProcess>>>,
    configurations: Mutex<HashMap<DigestKey, Arc<ProviderConfiguration>>>,
    /// All live processes, including one that is just being configured.
    live: Mutex<Vec<Weak<ProviderProcess>>>,
    crashes: CrashBackoff,
}

/// One configuration of a provider.
pub struct ProviderConfiguration {
    /// Digest of the spec and the configuration.
    pub key: DigestKey,
    path: String,
    configure: Bytes,
    assigned: AsyncMutex<Option<ConfiguredProcess>>,
    last_used: Mutex<Instant>,
}

/// A process with its response to `Configure`.
#[derive(Clone)]
struct ConfiguredProcess {
    process: Arc<ProviderProcess>,
    answer: GrpcResponse,
}

impl ProviderPool {
    /// An empty pool; `sockets` is the parent of socket directories, `through` the exec wrapper.
    pub fn new(
        socket_dir: PathBuf,
        exec_wrapper: Vec<OsString>,
        limits: ProcessLimits,
        counters: Arc<Counters>,
        packages: Arc<PackageCache>,
    ) -> Self {
        Self { socket_dir, exec_wrapper, limits, counters, packages, groups: Mutex::default() }
    }

    /// The group of a spec.
    pub fn group(&self, origin: ProviderSpec) -> Arc<ProviderGroup> {
        let key = origin.key();
        let mut groups = self.groups.lock();
        Arc::clone(groups.entry(key).or_insert_with(|| {
            let launch = LaunchSpec {
                program: origin.program.clone(),
                checksum: origin.checksum.clone(),
                packages: Arc::clone(&self.packages),
                env: origin.env.clone(),
                socket_dir: self.socket_dir.clone(),
                exec_wrapper: self.exec_wrapper.clone(),
            };
            Arc::new(ProviderGroup {
                key,
                spec: origin,
                launch,
                counters: Arc::clone(&self.counters),
                unconfigured: AsyncMutex::default(),
                configurations: Mutex::default(),
                live: Mutex::default(),
                crashes: CrashBackoff::default(),
            })
        }))
    }

    /// All groups.
    pub fn groups(&self) -> Vec<Arc<ProviderGroup>> {
        self.groups.lock().values().cloned().collect()
    }

    /// Drops processes that are idle, too old, too large or dead. Called every few seconds.
    pub fn tidy(&self) {
        for group in self.groups() {
            group.tidy(&self.limits);
        }
        // Remove groups without processes and configurations.
        self.groups.lock().retain(|_, group| {
            let empty = group.unconfigured.try_lock().is_ok_and(|spare| spare.is_none());
            Arc::strong_count(group) > 1 || !empty || !group.configurations.lock().is_empty()
        });
    }
}

impl ProviderGroup {
    /// Any process, for calls that need no configuration.
    pub async fn any_process(&self) -> Result<Arc<ProviderProcess>, GrpcStatus> {
        if let Some(process) = self.available_process() {
            return Ok(process);
        }
        let mut spare = self.unconfigured.lock().await;
        // Another task may have started one while this one waited.
        if let Some(process) = self.available_process() {
            return Ok(process);
        }
        let process = self.start().await?;
        *spare = Some(Arc::clone(&process));
        Ok(process)
    }

    /// The configuration of a `Configure` request.
    pub fn configuration(&self, path: &str, configure: &Bytes) -> Arc<ProviderConfiguration> {
        let configure =
            unframe(configure).map_or_else(|| configure.clone(), |it| frame(&normalize_configure(it)));
        let key = digest::hash_parts([&self.key[..], path.as_bytes(), &configure]);
        let mut configurations = self.configurations.lock();
        Arc::clone(configurations.entry(key).or_insert_with(|| {
            Arc::new(ProviderConfiguration {
                key,
                path: path.to_owned(),
                configure,
                assigned: AsyncMutex::default(),
                last_used: Mutex::new(Instant::now()),
            })
        }))
    }

    /// A configuration that was used before.
    pub fn known_configuration(&self, key: &DigestKey) -> Option<Arc<ProviderConfiguration>> {
        self.configurations.lock().get(key).cloned()
    }

    /// The process of a configuration and its response to `Configure`. A rejected configuration has no process; the
    /// response carries the error.
    pub async fn configured_process(
        &self,
        configuration: &ProviderConfiguration,
    ) -> Result<(Option<Arc<ProviderProcess>>, GrpcResponse), GrpcStatus> {
        *configuration.last_used.lock() = Instant::now();
        let mut taken = configuration.assigned.lock().await;
        if let Some(ConfiguredProcess { process, answer }) = taken.as_ref().filter(|it| it.is_usable()) {
            self.counters.configure_hits.increment();
            return Ok((Some(Arc::clone(process)), answer.clone()));
        }
        let process = self.unconfigured_process().await?;
        let answer = process.call(&configuration.path, configuration.configure.clone()).await?;
        let refused =
            answer.message().is_none_or(|it| read_diagnostics(it, 1).is_ok_and(|verdict| verdict.error));
        if refused {
            // Not reused: a rejected `Configure` may have changed its state.
            return Ok((None, answer));
        }
        *taken = Some(ConfiguredProcess { process: Arc::clone(&process), answer: answer.clone() });
        Ok((Some(process), answer))
    }

    /// A process without a configuration.
    async fn unconfigured_process(&self) -> Result<Arc<ProviderProcess>, GrpcStatus> {
        // Held during the start: a concurrent `any` would start a second process.
        let mut spare = self.unconfigured.lock().await;
        match spare.take().filter(|it| !it.is_dead() && !it.is_retiring()) {
            Some(process) => Ok(process),
            None => self.start().await,
        }
    }

    async fn start(&self) -> Result<Arc<ProviderProcess>, GrpcStatus> {
        if let Some(pause) = self.crashes.delay() {
            tokio::time::sleep(pause).await;
        }
        let started = ProviderProcess::start(&self.launch).await;
        self.counters.started.increment();
        match started {
            Ok(process) => {
                tracing::info!(pid = process.pid, protocol = process.protocol, "provider started");
                self.crashes.watch_process(&process);
                self.live.lock().push(Arc::downgrade(&process));
                Ok(process)
            }
            Err(error) => {
                self.crashes.record_crash();
                tracing::warn!(%error, "provider could not be started");
                Err(GrpcStatus::new(GrpcCode::Aborted, format_error_chain(&error)))
            }
        }
    }

    /// A process that accepts new work.
    fn available_process(&self) -> Option<Arc<ProviderProcess>> {
        self.processes().into_iter().find(|process| !process.is_dead() && !process.is_retiring())
    }

    /// All live processes.
    pub fn processes(&self) -> Vec<Arc<ProviderProcess>> {
        let mut all = self.live.lock();
        all.retain(|process| process.strong_count() > 0);
        all.iter().filter_map(Weak::upgrade).collect()
    }

    /// Kills all processes, including one that is starting, and waits for their exit.
    pub(crate) async fn shut_down(&self) {
        // One that hangs during its start ends with this process.
        let _nobody_starts = timeout(SHUTDOWN_TIMEOUT, self.unconfigured.lock()).await;
        for process in self.processes() {
            process.kill();
            // Only the confirmation by the system is awaited.
            let _gone = timeout(SHUTDOWN_TIMEOUT, process.wait_for_exit()).await;
        }
    }

    /// Number of known configurations.
    pub fn configuration_count(&self) -> usize {
        self.configurations.lock().len()
    }

    fn tidy(&self, limits: &ProcessLimits) {
        let over = |process: &Arc<ProviderProcess>, holders: usize| {
            if process.age() > limits.age || process.memory_bytes() > limits.memory {
                process.retire();
            }
            // A task that holds the process may be about to call it.
            let idle = Arc::strong_count(process) <= holders && process.idle_for() > limits.idle;
            process.is_dead() || process.is_retiring() || idle
        };
        let all: Vec<Arc<ProviderConfiguration>> = self.configurations.lock().values().cloned().collect();
        for configuration in all {
            if let Ok(mut taken) = configuration.assigned.try_lock()
                && taken.as_ref().is_some_and(|it| over(&it.process, 1))
            {
                *taken = None;
            }
        }
        if let Ok(mut spare) = self.unconfigured.try_lock()
            && spare.as_ref().is_some_and(|it| over(it, 1))
        {
            *spare = None;
        }
        // Configurations contain credentials; they are dropped after a day without use.
        self.configurations.lock().retain(|_, configuration| {
            Arc::strong_count(configuration) > 1
                || configuration.assigned.try_lock().map_or(true, |taken| taken.is_some())
                || configuration.last_used.lock().elapsed() < CONFIGURATION_TTL
        });
    }
}

/// How long shutdown waits for a provider.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);
const CONFIGURATION_TTL: Duration = Duration::from_hours(24);

impl ConfiguredProcess {
    fn is_usable(&self) -> bool {
        !self.process.is_dead() && !self.process.is_retiring()
    }
}

/// Exponential backoff for providers that crash shortly after their start.
#[derive(Default)]
struct CrashBackoff {
    count: Arc<AtomicU32>,
}

/// A crash after this time does not count as a start problem.
const STABLE_AFTER: Duration = Duration::from_mins(1);
const MAX_DELAY: Duration = Duration::from_secs(30);

impl CrashBackoff {
    fn record_crash(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// The first restart is immediate.
    fn delay(&self) -> Option<Duration> {
        let count = self.count.load(Ordering::Relaxed).checked_sub(2)?;
        Some(Duration::from_millis(500).saturating_mul(2_u32.saturating_pow(count.min(10))).min(MAX_DELAY))
    }

    fn watch_process(&self, process: &ProviderProcess) {
        let (count, ended) = (Arc::clone(&self.count), process.wait_for_exit());
        tokio::spawn(async move {
            tokio::select! {
                crashed = ended => if crashed { count.fetch_add(1, Ordering::Relaxed); },
                () = tokio::time::sleep(STABLE_AFTER) => count.store(0, Ordering::Relaxed),
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(change: impl FnOnce(&mut ProviderSpec)) -> DigestKey {
        let mut origin = ProviderSpec {
            program: "/p".into(),
            checksum: "c".to_owned(),
            env: [("A".to_owned(), "1".to_owned())].into(),
            tenant: "t".to_owned(),
        };
        change(&mut origin);
        origin.key()
    }

    #[test]
    fn whatever_could_differ_makes_another_process() {
        let plain = origin(|_| {});
        assert_ne!(plain, origin(|it| it.checksum = "d".to_owned()));
        assert_ne!(plain, origin(|it| it.tenant = "u".to_owned()));
        assert_ne!(plain, origin(|it| drop(it.env.insert("A".to_owned(), "2".to_owned()))));
        assert_ne!(plain, origin(|it| drop(it.env.insert("B".to_owned(), "1".to_owned()))));
        // The path of the program does not matter.
        assert_eq!(plain, origin(|it| it.program = "/q".into()));
    }

    #[test]
    fn who_dies_young_again_and_again_is_waited_for_longer() {
        let crashes = CrashBackoff::default();
        let mut pauses = Vec::new();
        for _ in 0..12 {
            pauses.push(crashes.delay());
            crashes.record_crash();
        }
        assert_eq!(pauses[..3], [None, None, Some(Duration::from_millis(500))]);
        assert_eq!(pauses.last(), Some(&Some(MAX_DELAY)));
    }
}
