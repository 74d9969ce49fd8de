//! The gateway: registered runs and the provider processes behind them.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ffi::OsString,
    fmt, io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use lease_deadline::RunLease;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use thiserror::Error;

use crate::{
    counters::Counters,
    digest,
    journal::{ChangeInFlight, Journal},
    package::{Package, PackageCache, PackageError},
    pool::{ProcessLimits, ProviderGroup, ProviderPool, ProviderSpec},
    private_fs,
    probe::{ProbeReader, ProbeRequest, ProbeResult, ProbeTarget},
    response_cache::ResponseCache,
    serve::{Run, RunActivity, RunClients, RunSpec, SharedState},
    wire::{grpc::GrpcStatus, schema::TypeFilter},
};

/// A unix socket path is limited to 108 bytes; socket names take at most the rest.
const MAX_SOCKET_DIR_LEN: usize = 64;

/// Directories of a gateway and limits of its providers.
#[derive(Debug, Clone)]
pub struct GatewaySettings {
    /// State directory: journal and sockets.
    pub dir: PathBuf,
    /// Directory for schemas and checksums of providers, shared by all gateways of a user.
    pub cache: PathBuf,
    /// Parent directory for sockets if the path of `dir` is too long for them.
    pub tmp: PathBuf,
    /// Command that execs providers, see [`crate::plugin::launch`]; empty to start them directly.
    pub exec_wrapper: Vec<OsString>,
    /// Limits of a provider process.
    pub limits: ProcessLimits,
    /// A run without connections for this long is removed.
    pub run_idle_timeout: Duration,
    /// Reads per second and configuration that probes may make after a burst. The default is about the rate at which
    /// AWS refills its own buckets.
    pub reads_per_second: f64,
}

impl GatewaySettings {
    /// Settings with defaults.
    pub fn new(dir: PathBuf, tmp: PathBuf) -> Self {
        let (limits, run_idle_timeout, cache) =
            (ProcessLimits::default(), Duration::from_mins(15), dir.clone());
        Self { dir, cache, tmp, exec_wrapper: Vec::new(), limits, run_idle_timeout, reads_per_second: 50.0 }
    }
}

/// The gateway cannot serve a run.
#[derive(Debug, Error)]
pub enum GatewayError {
    /// The package does not match the lock file: the run must not continue.
    #[error(transparent)]
    Package(#[from] PackageError),
    /// The package is in no mirror.
    #[error(
        "the provider package {} is in none of the configured mirrors, so it is not shared between runs", path.display()
    )]
    ForeignPackage {
        /// Its directory.
        path: PathBuf,
    },
    /// The provider cannot be started or shared.
    #[error("{0}")]
    Provider(GrpcStatus),
    /// An I/O error.
    #[error("cannot {doing} {}", path.display())]
    Io {
        /// The operation.
        doing: &'static str,
        /// The file, directory or socket.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The run is unknown, or was removed.
    #[error("the run {0} is not registered")]
    UnknownRun(String),
    /// The journal could not be written.
    #[error("{0}")]
    Journal(String),
    /// The gateway accepts no more runs.
    #[error("the gateway is shutting down")]
    ShuttingDown,
}

/// A run that needs a provider. Contains credentials, so `Debug` prints the workspace only.
#[derive(Clone, Serialize, Deserialize)]
pub struct RunRegistration {
    /// Workspace name, for the journal.
    pub workspace: String,
    /// Two tenants never share a process.
    pub tenant: String,
    /// The provider's source address, `registry.terraform.io/hashicorp/aws`.
    pub address: String,
    /// The directory of the unpacked provider.
    pub package: PathBuf,
    /// The mirrors: a package elsewhere is not started.
    pub package_roots: Vec<PathBuf>,
    /// Hashes allowed by the lock file; `None` if there is no entry.
    pub locked: Option<Vec<String>>,
    /// The environment of the provider.
    pub env: BTreeMap<String, String>,
    /// Resource and data source types that the run may use; `None` for all.
    pub types: Option<BTreeSet<String>>,
    /// The leadership without which the run may begin no change; `None` without leader election.
    #[serde(default)]
    pub lease: Option<RunLease>,
    /// Whether somebody follows the journal of the workspace, and changes wait until their entries are stored elsewhere.
    #[serde(default)]
    pub is_replicated: bool,
    /// The processes that may connect to the socket of the run.
    pub clients: RunClients,
}

impl fmt::Debug for RunRegistration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration").field("workspace", &self.workspace).finish_non_exhaustive()
    }
}

/// A registered run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegisteredRun {
    /// The run's name.
    pub run: String,
    /// The value of `TF_REATTACH_PROVIDERS`.
    pub reattach: Value,
}

/// Registered runs.
#[derive(Default)]
struct RunTable {
    by_id: HashMap<String, Arc<Run>>,
    /// No more runs are accepted.
    closed: bool,
}

/// The gateway.
pub struct Gateway {
    settings: GatewaySettings,
    sockets: PathBuf,
    /// Set if the socket directory must be removed with the gateway.
    _temporary: Option<tempfile::TempDir>,
    packages: Arc<PackageCache>,
    /// Provider processes.
    pub pool: ProviderPool,
    pub(crate) shared: Arc<SharedState>,
    reads: ProbeReader,
    runs: Mutex<RunTable>,
    last_used: Mutex<Instant>,
    next_run: AtomicU64,
}

impl Gateway {
    /// Opens the gateway's directory. Starts no process.
    pub fn open(settings: GatewaySettings) -> Result<Arc<Self>, GatewayError> {
        let fail = |doing, path: &Path| {
            let path = path.to_owned();
            move |source| GatewayError::Io { doing, path, source }
        };
        let dir = settings.dir.clone();
        private_fs::create_private_dir(&dir).map_err(fail("make the directory", &dir))?;
        let cache = settings.cache.clone();
        private_fs::create_private_dir(&cache).map_err(fail("make the directory", &cache))?;
        let schemas = cache.join("schemas");
        private_fs::create_private_dir(&schemas).map_err(fail("make the directory", &schemas))?;
        let (sockets, temporary) =
            socket_dir(&settings).map_err(fail("make the directory for sockets", &settings.tmp))?;
        let path = dir.join("journal.jsonl");
        let counters = Arc::new(Counters::default());
        let journal = Journal::open_counting(&path, Arc::clone(&counters));
        let journal = journal.map_err(fail("open the journal", &path))?;
        let packages = Arc::new(PackageCache::persisted_in(cache.join("packages.json")));
        let pool = ProviderPool::new(
            sockets.clone(),
            settings.exec_wrapper.clone(),
            settings.limits.clone(),
            Arc::clone(&counters),
            Arc::clone(&packages),
        );
        let reads = ProbeReader::new(settings.reads_per_second);
        let shared =
            Arc::new(SharedState { cache: ResponseCache::default(), journal, counters, schema_dir: schemas });
        Ok(Arc::new(Self {
            packages,
            settings,
            sockets,
            _temporary: temporary,
            pool,
            shared,
            reads,
            runs: Mutex::default(),
            last_used: Mutex::new(Instant::now()),
            next_run: AtomicU64::new(1),
        }))
    }

    /// Counters.
    pub fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    /// Directory of the runs' sockets.
    pub fn sockets(&self) -> &Path {
        &self.sockets
    }

    /// Program and hashes of a package.
    pub async fn read_package(&self, dir: &Path) -> Result<Package, GatewayError> {
        let (packages, at) = (Arc::clone(&self.packages), dir.to_owned());
        let read = tokio::task::spawn_blocking(move || packages.read(&at)).await;
        let broken = |_| GatewayError::Io {
            doing: "read",
            path: dir.to_owned(),
            source: io::Error::other("the package reader panicked; this is a bug in capt"),
        };
        Ok(read.map_err(broken)??)
    }

    /// The provider group of a registration, after its package was verified.
    pub async fn provider_group(&self, wanted: &RunRegistration) -> Result<Arc<ProviderGroup>, GatewayError> {
        *self.last_used.lock() = Instant::now();
        let dir = find_in_roots(&wanted.package, &wanted.package_roots)?;
        let package = self.read_package(&dir).await?;
        if let Some(allowed) = &wanted.locked {
            package.verify(allowed, &wanted.package)?;
        }
        Ok(self.pool.group(ProviderSpec {
            program: package.program,
            checksum: package.sha256,
            env: wanted.env.clone(),
            tenant: wanted.tenant.clone(),
        }))
    }

    /// Registers a run: verifies its provider and opens a socket for it.
    pub async fn register(&self, wanted: RunRegistration) -> Result<RegisteredRun, GatewayError> {
        let group = self.provider_group(&wanted).await?;
        self.shared.journal.expect_follower(&wanted.workspace, wanted.is_replicated);
        let protocol = self.protocol_version(&group).await?;
        let run = format!("r{}", self.next_run.fetch_add(1, Ordering::Relaxed));
        let make = RunSpec {
            id: run.clone(),
            workspace: wanted.workspace,
            group,
            type_filter: wanted.types.map_or(TypeFilter::All, TypeFilter::Types),
            lease: wanted.lease,
            clients: wanted.clients,
        };
        let opened = Run::open(make, &self.sockets, Arc::clone(&self.shared)).map_err(|source| {
            GatewayError::Io { doing: "open a socket in", path: self.sockets.clone(), source }
        })?;
        self.shared.counters.runs.increment();
        let reattach = json!({ wanted.address: {
            "Protocol": "grpc",
            "ProtocolVersion": protocol,
            // Terraform checks every second whether this process is alive, and gives up if it is not.
            "Pid": std::process::id(),
            // Without it Terraform would kill the process at the end of the run.
            "Test": true,
            "Addr": { "Network": "unix", "String": opened.socket },
        }});
        let mut runs = self.runs.lock();
        if runs.closed {
            opened.close();
            return Err(GatewayError::ShuttingDown);
        }
        runs.by_id.insert(run.clone(), opened);
        Ok(RegisteredRun { run, reattach })
    }

    /// The protocol version of a provider. Known versions are looked up by checksum; the provider then starts in the
    /// background while Terraform starts.
    async fn protocol_version(&self, group: &Arc<ProviderGroup>) -> Result<u8, GatewayError> {
        let file = self.shared.schema_dir.join(format!("{}.protocol", group.spec.checksum));
        let known = std::fs::read_to_string(&file).ok().and_then(|text| text.parse().ok());
        if let Some(known) = known {
            let group = Arc::clone(group);
            // A start error is returned to the call that needs the provider.
            tokio::spawn(async move { group.any_process().await.map(drop) });
            return Ok(known);
        }
        let protocol = group.any_process().await.map_err(GatewayError::Provider)?.protocol;
        // Best effort: without the file the provider is asked again.
        let _next_time = private_fs::write_atomic(&file, protocol.to_string().as_bytes());
        Ok(protocol)
    }

    /// Activity of a run so far.
    pub fn run_activity(&self, run: &str) -> Result<RunActivity, GatewayError> {
        let found = self.runs.lock().by_id.get(run).cloned();
        found.map(|run| run.activity()).ok_or_else(|| GatewayError::UnknownRun(run.to_owned()))
    }

    /// Ends a run; returns its activity.
    pub fn release(&self, run: &str) -> Result<RunActivity, GatewayError> {
        *self.last_used.lock() = Instant::now();
        let found = self.runs.lock().by_id.remove(run);
        let found = found.ok_or_else(|| GatewayError::UnknownRun(run.to_owned()))?;
        found.close();
        Ok(found.activity())
    }

    /// Changes of earlier runs of a workspace that their provider has not answered yet. Closes these runs first: their
    /// terraform has exited, and no other change of theirs may start.
    pub fn close_runs_and_list_changes(&self, workspace: &str) -> Vec<ChangeInFlight> {
        *self.last_used.lock() = Instant::now();
        self.runs.lock().by_id.retain(|_, run| {
            let other = run.workspace != workspace;
            if !other {
                run.close();
            }
            other
        });
        self.shared.journal.in_flight(workspace)
    }

    /// The journal.
    pub fn journal(&self) -> &Journal {
        &self.shared.journal
    }

    /// Number of registered runs.
    pub fn run_count(&self) -> usize {
        self.runs.lock().by_id.len()
    }

    /// Stops accepting runs if the gateway has been idle for the given time; returns whether it has stopped. Registered
    /// runs are never abandoned; a rejected run can use the next gateway.
    pub fn close_if_idle(&self, idle: Duration) -> bool {
        let mut runs = self.runs.lock();
        let busy = !runs.by_id.is_empty()
            || self
                .pool
                .groups()
                .iter()
                .flat_map(|group| group.processes())
                .any(|process| process.active_calls() > 0);
        let mut used = self.last_used.lock();
        if busy {
            *used = Instant::now();
        }
        if !busy && used.elapsed() >= idle {
            runs.closed = true;
        }
        runs.closed
    }

    /// Removes idle processes and abandoned runs. Called every few seconds.
    pub fn tidy(&self) {
        self.pool.tidy();
        let mut runs = self.runs.lock();
        runs.by_id.retain(|_, run| {
            let keep = run.idle_for() < self.settings.run_idle_timeout;
            if !keep {
                // Its client exited without releasing it.
                run.close();
            }
            keep
        });
    }

    /// Ends all providers and removes the sockets. Providers would end with this process too, but one that exits after
    /// its directory was removed would leave its socket behind.
    pub async fn shut_down(&self) -> io::Result<()> {
        for group in self.pool.groups() {
            group.shut_down().await;
        }
        match std::fs::remove_dir_all(&self.sockets) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Reads the objects of a workspace through its provider. `None` if the provider's configuration is not known here.
    pub async fn probe(
        &self,
        wanted: &RunRegistration,
        ask: &ProbeRequest,
    ) -> Result<Option<ProbeResult>, GatewayError> {
        let group = self.provider_group(wanted).await?;
        let config = digest::parse_hex(&ask.seat).and_then(|key| group.known_configuration(&key));
        let Some(config) = config else { return Ok(None) };
        let (process, _) = group.configured_process(&config).await.map_err(GatewayError::Provider)?;
        let Some(process) = process else { return Ok(None) };
        let provider =
            ProbeTarget { shared: &self.shared, group: &group, process: &process, configuration: config.key };
        Ok(Some(self.reads.probe(&provider, ask).await))
    }
}

/// The directory of a package without symlinks, if it is below one of the roots.
fn find_in_roots(package: &Path, roots: &[PathBuf]) -> Result<PathBuf, GatewayError> {
    let fail = |source| PackageError::Read { path: package.to_owned(), source };
    let dir = package.canonicalize().map_err(fail)?;
    let is_below = |root: &PathBuf| root.canonicalize().is_ok_and(|root| dir.starts_with(root));
    if roots.iter().any(is_below) {
        return Ok(dir);
    }
    Err(GatewayError::ForeignPackage { path: dir })
}

fn socket_dir(settings: &GatewaySettings) -> io::Result<(PathBuf, Option<tempfile::TempDir>)> {
    let near = settings.dir.join("s");
    if near.as_os_str().len() <= MAX_SOCKET_DIR_LEN {
        // Left by an earlier gateway that was killed; its providers ended with it.
        if near.exists() {
            std::fs::remove_dir_all(&near)?;
        }
        private_fs::create_private_dir(&near)?;
        return Ok((near, None));
    }
    let temporary = private_fs::create_temporary_dir("capt-gw-", &settings.tmp)?;
    Ok((temporary.path().to_owned(), Some(temporary)))
}
