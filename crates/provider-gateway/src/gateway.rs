//! The gateway as a whole: runs that come and go, and the processes behind them.

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

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use thiserror::Error;

use crate::{
    cache::Cache,
    counters::Counters,
    digest, disk,
    journal::Journal,
    package::{Package, PackageError, Packages},
    pool::{Herd, Limits, Origin, Pool},
    probe::{Ask, Probed, Provider, Reads},
    serve::{Make, Run, Seen, Shared},
    wire::{grpc::Status, schema::Wanted},
};

/// The path of a unix socket has 108 bytes; names of ours take at most these.
const LONGEST_DIR: usize = 70;

/// Where a gateway lives, and what its providers may use.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Its own directory: journal and sockets.
    pub dir: PathBuf,
    /// Where schemas and checksums of providers are kept, which are the same for every gateway of a user.
    pub cache: PathBuf,
    /// Where sockets go if the path of `dir` is too long for them.
    pub tmp: PathBuf,
    /// What providers are started through, see [`crate::plugin::launch`]; empty to start them directly.
    pub through: Vec<OsString>,
    /// What a provider may use.
    pub limits: Limits,
    /// A run that nobody has been connected to for so long is over.
    pub forget: Duration,
    /// How many objects probes may read in a second, for each configuration, once a burst is over. AWS refills its own
    /// buckets about as fast as the default.
    pub reads_per_second: f64,
}

impl Settings {
    /// With defaults.
    pub fn new(dir: PathBuf, tmp: PathBuf) -> Self {
        let (limits, forget, cache) = (Limits::default(), Duration::from_mins(15), dir.clone());
        Self { dir, cache, tmp, through: Vec::new(), limits, forget, reads_per_second: 50.0 }
    }
}

/// Why a run cannot have the gateway.
#[derive(Debug, Error)]
pub enum GatewayError {
    /// The package is not what it should be: the run must not go on.
    #[error(transparent)]
    Package(#[from] PackageError),
    /// The provider cannot be shared.
    #[error("{0}")]
    Provider(Status),
    /// A directory, a file or a socket.
    #[error("cannot {doing} {}", path.display())]
    Io {
        /// What was being done.
        doing: &'static str,
        /// With what.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// The run is not known (any more).
    #[error("the run {0} is not registered")]
    NoRun(String),
    /// It takes no more runs.
    #[error("the gateway is about to end")]
    Ending,
}

/// A run that wants providers. Holds credentials, so they are never printed.
#[derive(Clone, Serialize, Deserialize)]
pub struct Registration {
    /// Whose, for the journal.
    pub workspace: String,
    /// For whom; two tenants never share a process.
    pub tenant: String,
    /// The provider's address, `registry.terraform.io/hashicorp/aws`.
    pub address: String,
    /// The directory of the unpacked provider.
    pub package: PathBuf,
    /// What the lock file allows; `None` if there is no entry.
    pub locked: Option<Vec<String>>,
    /// The environment of the provider.
    pub env: BTreeMap<String, String>,
    /// Types that the run can meet; `None` for all.
    pub types: Option<BTreeSet<String>>,
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration").field("workspace", &self.workspace).finish_non_exhaustive()
    }
}

/// A run that has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registered {
    /// The run's name.
    pub run: String,
    /// The value of `TF_REATTACH_PROVIDERS`.
    pub reattach: Value,
}

/// The runs that there are.
#[derive(Default)]
struct Runs {
    all: HashMap<String, Arc<Run>>,
    /// Nobody is let in any more.
    closed: bool,
}

/// The gateway.
pub struct Gateway {
    settings: Settings,
    sockets: PathBuf,
    /// Set if it has to go with the gateway.
    _temporary: Option<tempfile::TempDir>,
    packages: Arc<Packages>,
    /// Processes.
    pub pool: Pool,
    pub(crate) shared: Arc<Shared>,
    reads: Reads,
    runs: Mutex<Runs>,
    used: Mutex<Instant>,
    next: AtomicU64,
}

impl Gateway {
    /// Opens its directory. Nothing is started yet.
    pub fn open(settings: Settings) -> Result<Arc<Self>, GatewayError> {
        let fail = |doing, path: &Path| {
            let path = path.to_owned();
            move |source| GatewayError::Io { doing, path, source }
        };
        let dir = settings.dir.clone();
        disk::private_dir(&dir).map_err(fail("make the directory", &dir))?;
        let cache = settings.cache.clone();
        disk::private_dir(&cache).map_err(fail("make the directory", &cache))?;
        let schemas = cache.join("schemas");
        disk::private_dir(&schemas).map_err(fail("make the directory", &schemas))?;
        let (sockets, temporary) =
            socket_dir(&settings).map_err(fail("make the directory for sockets", &settings.tmp))?;
        let path = dir.join("journal.jsonl");
        let journal = Journal::open(&path).map_err(fail("open the journal", &path))?;
        let counters = Arc::new(Counters::default());
        let pool = Pool::new(
            sockets.clone(),
            settings.through.clone(),
            settings.limits.clone(),
            Arc::clone(&counters),
        );
        let reads = Reads::new(settings.reads_per_second);
        let shared = Arc::new(Shared { cache: Cache::default(), journal, counters, schemas });
        Ok(Arc::new(Self {
            packages: Arc::new(Packages::remembered_in(cache.join("packages.json"))),
            settings,
            sockets,
            _temporary: temporary,
            pool,
            shared,
            reads,
            runs: Mutex::default(),
            used: Mutex::new(Instant::now()),
            next: AtomicU64::new(1),
        }))
    }

    /// Numbers.
    pub fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    /// Where the runs' sockets are.
    pub fn sockets(&self) -> &Path {
        &self.sockets
    }

    /// A package's program and hashes.
    pub async fn package(&self, dir: &Path) -> Result<Package, GatewayError> {
        let (packages, at) = (Arc::clone(&self.packages), dir.to_owned());
        let read = tokio::task::spawn_blocking(move || packages.read(&at)).await;
        let broken = |_| GatewayError::Io {
            doing: "read",
            path: dir.to_owned(),
            source: io::Error::other("the reader broke; this is a bug in capt"),
        };
        Ok(read.map_err(broken)??)
    }

    /// The processes for a registration, after its package was checked.
    pub async fn herd(&self, wanted: &Registration) -> Result<Arc<Herd>, GatewayError> {
        *self.used.lock() = Instant::now();
        let package = self.package(&wanted.package).await?;
        if let Some(allowed) = &wanted.locked {
            package.verify(allowed, &wanted.package)?;
        }
        Ok(self.pool.herd(Origin {
            program: package.program,
            checksum: package.sha256,
            env: wanted.env.clone(),
            tenant: wanted.tenant.clone(),
        }))
    }

    /// Registers a run: checks its provider, and opens a socket for it.
    pub async fn register(&self, wanted: Registration) -> Result<Registered, GatewayError> {
        let herd = self.herd(&wanted).await?;
        let protocol = self.protocol(&herd).await?;
        let run = format!("r{}", self.next.fetch_add(1, Ordering::Relaxed));
        let make = Make {
            id: run.clone(),
            workspace: wanted.workspace,
            herd,
            wanted: wanted.types.map_or(Wanted::Everything, Wanted::Types),
        };
        let opened = Run::open(make, &self.sockets, Arc::clone(&self.shared)).map_err(|source| {
            GatewayError::Io { doing: "open a socket in", path: self.sockets.clone(), source }
        })?;
        self.shared.counters.runs.add();
        let reattach = json!({ wanted.address: {
            "Protocol": "grpc",
            "ProtocolVersion": protocol,
            // Terraform looks every second whether this process lives, and gives up when it does not.
            "Pid": std::process::id(),
            // Otherwise terraform would end that process with the run.
            "Test": true,
            "Addr": { "Network": "unix", "String": opened.socket },
        }});
        let mut runs = self.runs.lock();
        if runs.closed {
            opened.close();
            return Err(GatewayError::Ending);
        }
        runs.all.insert(run.clone(), opened);
        Ok(Registered { run, reattach })
    }

    /// What a provider speaks. One that has spoken before is known by its checksum: it is started while terraform
    /// starts, and not before.
    async fn protocol(&self, herd: &Arc<Herd>) -> Result<u8, GatewayError> {
        let file = self.shared.schemas.join(format!("{}.protocol", herd.origin.checksum));
        let known = std::fs::read_to_string(&file).ok().and_then(|text| text.parse().ok());
        if let Some(known) = known {
            let herd = Arc::clone(herd);
            // One that does not start tells whoever needs it why.
            tokio::spawn(async move { herd.any().await.map(drop) });
            return Ok(known);
        }
        let protocol = herd.any().await.map_err(GatewayError::Provider)?.protocol;
        // Not kept is asked for again, and nothing worse.
        let _next_time = disk::replace(&file, protocol.to_string().as_bytes());
        Ok(protocol)
    }

    /// What a run has done so far.
    pub fn seen(&self, run: &str) -> Result<Seen, GatewayError> {
        let found = self.runs.lock().all.get(run).cloned();
        found.map(|run| run.seen()).ok_or_else(|| GatewayError::NoRun(run.to_owned()))
    }

    /// Ends a run; what it has done.
    pub fn release(&self, run: &str) -> Result<Seen, GatewayError> {
        *self.used.lock() = Instant::now();
        let found = self.runs.lock().all.remove(run);
        let found = found.ok_or_else(|| GatewayError::NoRun(run.to_owned()))?;
        found.close();
        Ok(found.seen())
    }

    /// How many runs there are.
    pub fn runs(&self) -> usize {
        self.runs.lock().all.len()
    }

    /// Takes no more runs if it has had nothing to do for so long; whether that is so. A run that was let in is not
    /// left standing, and one that was not can ask the next gateway.
    pub fn close_after(&self, idle: Duration) -> bool {
        let mut runs = self.runs.lock();
        let busy = !runs.all.is_empty()
            || self.pool.herds().iter().flat_map(|herd| herd.processes()).any(|process| process.calls() > 0);
        let mut used = self.used.lock();
        if busy {
            *used = Instant::now();
        }
        if !busy && used.elapsed() >= idle {
            runs.closed = true;
        }
        runs.closed
    }

    /// Lets go of what nobody needs. Somebody calls it every few seconds.
    pub fn tidy(&self) {
        self.pool.tidy();
        let mut runs = self.runs.lock();
        runs.all.retain(|_, run| {
            let keep = run.idle() < self.settings.forget;
            if !keep {
                // Whoever registered it is gone without a word.
                run.close();
            }
            keep
        });
    }

    /// Ends all providers and takes the sockets away. They would go with this process too, but one that dies a moment
    /// later than its directory is removed leaves its socket behind.
    pub async fn leave(&self) -> io::Result<()> {
        for herd in self.pool.herds() {
            herd.end().await;
        }
        match std::fs::remove_dir_all(&self.sockets) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Asks a provider about the objects of a workspace. `None` if the configuration is not known here.
    pub async fn probe(&self, wanted: &Registration, ask: &Ask) -> Result<Option<Probed>, GatewayError> {
        let herd = self.herd(wanted).await?;
        let seat = digest::parse(&ask.seat).and_then(|key| herd.known_seat(&key));
        let Some(seat) = seat else { return Ok(None) };
        let (process, _) = herd.sit(&seat).await.map_err(GatewayError::Provider)?;
        let Some(process) = process else { return Ok(None) };
        let provider = Provider { shared: &self.shared, herd: &herd, process: &process, seat: seat.key };
        Ok(Some(self.reads.probe(&provider, ask).await))
    }
}

fn socket_dir(settings: &Settings) -> io::Result<(PathBuf, Option<tempfile::TempDir>)> {
    let near = settings.dir.join("s");
    if near.as_os_str().len() <= LONGEST_DIR {
        // What an earlier gateway left behind when it was killed; its providers died with it.
        if near.exists() {
            std::fs::remove_dir_all(&near)?;
        }
        disk::private_dir(&near)?;
        return Ok((near, None));
    }
    let temporary = disk::temporary_dir("capt-gw-", &settings.tmp)?;
    Ok((temporary.path().to_owned(), Some(temporary)))
}
