//! One run: its socket and its recorded activity.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use lease_deadline::RunLease;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::net::{UnixListener, UnixStream};
use tokio_util::sync::CancellationToken;

use super::{RunClients, SharedState, clients::ClientCheck, connection};
use crate::{
    digest::{self, DigestKey},
    pool::ProviderGroup,
    random_token,
    wire::schema::TypeFilter,
};

/// Larger requests and further data sources are not recorded.
const MAX_REQUEST_BYTES: usize = 1 << 20;
const MAX_DATA_READS: usize = 256;

/// A data source read: the request and the digest of the response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataSourceRead {
    /// Key of the provider configuration.
    pub seat: String,
    /// Method path.
    pub path: String,
    /// Request message in base64.
    pub request: String,
    /// Digest of the response.
    pub digest: String,
}

/// Activity of a run, as needed by probes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunActivity {
    /// Keys of the configurations that it used.
    pub seats: BTreeSet<String>,
    /// Data sources that it read.
    pub data: Vec<DataSourceRead>,
    /// Digests of the values of all resources that it read.
    pub reads: BTreeSet<String>,
    /// Whether a data source read could not be recorded.
    pub too_much: bool,
    /// Types that it called and that its schema did not contain.
    pub unwanted: BTreeSet<String>,
}

/// A registered run.
pub struct Run {
    /// Run id.
    pub id: String,
    /// Workspace name.
    pub workspace: String,
    /// Its socket.
    pub socket: PathBuf,
    /// Its provider group.
    pub group: Arc<ProviderGroup>,
    /// Types that it may use.
    pub type_filter: TypeFilter,
    lease: Option<RunLease>,
    clients: ClientCheck,
    pub(super) shared: Arc<SharedState>,
    pub(super) closed: CancellationToken,
    connections: AtomicUsize,
    last_used: Mutex<Instant>,
    activity: Mutex<RunActivity>,
    schema_versions: Mutex<BTreeMap<String, u64>>,
}

/// Parameters of a new run.
pub struct RunSpec {
    /// Run id.
    pub id: String,
    /// Workspace name.
    pub workspace: String,
    /// Its provider group.
    pub group: Arc<ProviderGroup>,
    /// Types that it may use.
    pub type_filter: TypeFilter,
    /// The leadership without which it may begin no change.
    pub lease: Option<RunLease>,
    /// The processes that may connect.
    pub clients: RunClients,
}

impl Run {
    /// Opens the run's socket and serves it until the run is closed. Nobody guesses its name.
    pub fn open(make: RunSpec, dir: &Path, shared: Arc<SharedState>) -> io::Result<Arc<Self>> {
        let RunSpec { id, workspace, group: herd, type_filter: wanted, lease, clients } = make;
        let socket = dir.join(format!("r{}.sock", random_token::name_token()?));
        let listener = UnixListener::bind(&socket)?;
        std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o600))?;
        let run = Arc::new(Self {
            id,
            workspace,
            socket,
            group: herd,
            type_filter: wanted,
            lease,
            clients: ClientCheck::new(clients),
            shared,
            closed: CancellationToken::new(),
            connections: AtomicUsize::new(0),
            last_used: Mutex::new(Instant::now()),
            activity: Mutex::default(),
            schema_versions: Mutex::default(),
        });
        tokio::spawn(accept_connections(listener, Arc::clone(&run)));
        Ok(run)
    }

    /// Closes the run: no new connections, and existing ones end. A change in progress completes.
    pub fn close(&self) {
        self.closed.cancel();
    }

    /// Why this call may not be sent to the provider now. The answer holds for a moment only. Reads need no leader.
    pub(super) fn refusal(&self, method: &str) -> Option<String> {
        if self.closed.is_cancelled() {
            return Some("the run has ended".to_owned());
        }
        if !matches!(method, "ApplyResourceChange" | "InvokeAction") {
            return None;
        }
        let lost = self.lease.as_ref()?.check().err()?;
        tracing::warn!(run = self.id, workspace = self.workspace, error = %lost, "change refused");
        Some(format!("the operator that started this run is not the leader any more: {lost}"))
    }

    /// Time without connections.
    pub fn idle_for(&self) -> Duration {
        if self.connections.load(Ordering::Relaxed) > 0 {
            Duration::ZERO
        } else {
            self.last_used.lock().elapsed()
        }
    }

    /// Current connections.
    pub fn connection_count(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Activity so far.
    pub fn activity(&self) -> RunActivity {
        self.activity.lock().clone()
    }

    pub(super) fn record_configuration(&self, seat: &DigestKey) {
        self.activity.lock().seats.insert(digest::to_hex(seat));
    }

    pub(super) fn record_filtered_type(&self, kind: &str) {
        self.activity.lock().unwanted.insert(kind.to_owned());
    }

    pub(super) fn record_schema_versions(&self, versions: BTreeMap<String, u64>) {
        *self.schema_versions.lock() = versions;
    }

    pub(super) fn schema_version(&self, kind: &str) -> Option<u64> {
        self.schema_versions.lock().get(kind).copied()
    }

    pub(super) fn record_resource(&self, value: &[u8]) {
        let digest = digest::to_hex(digest::hash_parts([value]));
        self.activity.lock().reads.insert(digest);
    }

    pub(super) fn record_data_source(&self, seat: &DigestKey, path: &str, request: &[u8], value: &[u8]) {
        let mut seen = self.activity.lock();
        if request.len() > MAX_REQUEST_BYTES || seen.data.len() >= MAX_DATA_READS {
            seen.too_much = true;
            return;
        }
        let read = DataSourceRead {
            seat: digest::to_hex(seat),
            path: path.to_owned(),
            request: BASE64_STANDARD.encode(request),
            digest: digest::to_hex(digest::hash_parts([value])),
        };
        if !seen.data.contains(&read) {
            seen.data.push(read);
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // The file may already be gone.
        let _gone = std::fs::remove_file(&self.socket);
    }
}

/// Accepts connections until the run is closed.
async fn accept_connections(listener: UnixListener, run: Arc<Run>) {
    loop {
        let accepted = tokio::select! {
            () = run.closed.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                tokio::spawn(serve_connection(stream, Arc::clone(&run)));
            }
            // Out of file descriptors, for example: the next attempt may succeed.
            Err(error) => {
                tracing::warn!(run = run.id, %error, "accepting a connection failed");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    let _gone = std::fs::remove_file(&run.socket);
}

/// Whether the peer runs as the same user. The directory mode already ensures that; this is defence in depth.
pub(crate) fn is_same_user(stream: &UnixStream) -> bool {
    stream.peer_cred().is_ok_and(|peer| peer.uid() == rustix::process::geteuid().as_raw())
}

async fn serve_connection(stream: UnixStream, run: Arc<Run>) {
    if !run.clients.admits(&stream).await {
        run.shared.counters.strangers.increment();
        let pid = stream.peer_cred().ok().and_then(|peer| peer.pid());
        tracing::warn!(run = run.id, workspace = run.workspace, pid, "a process of another run was rejected");
        return;
    }
    run.connections.fetch_add(1, Ordering::Relaxed);
    connection::serve(stream, &run).await;
    *run.last_used.lock() = Instant::now();
    run.connections.fetch_sub(1, Ordering::Relaxed);
}
