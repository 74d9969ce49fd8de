//! One run: a socket of its own, and what is known about who uses it.

use std::{
    collections::BTreeSet,
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
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::net::{UnixListener, UnixStream};
use tokio_util::sync::CancellationToken;

use super::{Shared, connection};
use crate::{
    digest::{self, Key},
    pool::Herd,
    wire::schema::Wanted,
};

/// Larger requests are not remembered, and so many at most.
const LARGEST: usize = 1 << 20;
const MOST: usize = 256;

/// A data source as it was read: what was asked, and the digest of the answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataRead {
    /// The configuration that read it, as a key.
    pub seat: String,
    /// The call's path.
    pub path: String,
    /// The message in base64.
    pub request: String,
    /// Of the answer.
    pub digest: String,
}

/// What a run has done that a probe wants to know.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// The configurations that it used.
    pub seats: BTreeSet<String>,
    /// The data sources that it read.
    pub data: Vec<DataRead>,
    /// Digests of the values of all resources that it read.
    pub reads: BTreeSet<String>,
    /// Whether something was read that could not be remembered.
    pub too_much: bool,
    /// Types that it asked for and that its schema did not have.
    pub unwanted: BTreeSet<String>,
}

/// A registered run.
pub struct Run {
    /// Its name.
    pub id: String,
    /// Whose.
    pub workspace: String,
    /// Its socket.
    pub socket: PathBuf,
    /// Whose providers it uses.
    pub herd: Arc<Herd>,
    /// The types that it can meet.
    pub wanted: Wanted,
    pub(super) shared: Arc<Shared>,
    pub(super) over: CancellationToken,
    connections: AtomicUsize,
    used: Mutex<Instant>,
    seen: Mutex<Seen>,
}

/// What a run is made from.
pub struct Make {
    /// Its name; also that of its socket.
    pub id: String,
    /// Whose.
    pub workspace: String,
    /// Whose providers it uses.
    pub herd: Arc<Herd>,
    /// The types that it can meet.
    pub wanted: Wanted,
}

impl Run {
    /// Opens the run's socket and serves it until the run is over.
    pub fn open(make: Make, dir: &Path, shared: Arc<Shared>) -> io::Result<Arc<Self>> {
        let Make { id, workspace, herd, wanted } = make;
        let socket = dir.join(format!("{id}.sock"));
        let listener = UnixListener::bind(&socket)?;
        std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o600))?;
        let run = Arc::new(Self {
            id,
            workspace,
            socket,
            herd,
            wanted,
            shared,
            over: CancellationToken::new(),
            connections: AtomicUsize::new(0),
            used: Mutex::new(Instant::now()),
            seen: Mutex::default(),
        });
        tokio::spawn(listen(listener, Arc::clone(&run)));
        Ok(run)
    }

    /// Ends it: nobody can connect any more, and its connections end. A change under way goes on.
    pub fn close(&self) {
        self.over.cancel();
    }

    /// How long nobody has been connected.
    pub fn idle(&self) -> Duration {
        if self.connections.load(Ordering::Relaxed) > 0 { Duration::ZERO } else { self.used.lock().elapsed() }
    }

    /// Connections now.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// What it has done so far.
    pub fn seen(&self) -> Seen {
        self.seen.lock().clone()
    }

    pub(super) fn saw_seat(&self, seat: &Key) {
        self.seen.lock().seats.insert(digest::hex(seat));
    }

    pub(super) fn saw_unwanted(&self, kind: &str) {
        self.seen.lock().unwanted.insert(kind.to_owned());
    }

    pub(super) fn saw_resource(&self, value: &[u8]) {
        let digest = digest::hex(&digest::of([value]));
        self.seen.lock().reads.insert(digest);
    }

    pub(super) fn saw_data(&self, seat: &Key, path: &str, request: &[u8], value: &[u8]) {
        let mut seen = self.seen.lock();
        if request.len() > LARGEST || seen.data.len() >= MOST {
            seen.too_much = true;
            return;
        }
        let read = DataRead {
            seat: digest::hex(seat),
            path: path.to_owned(),
            request: BASE64_STANDARD.encode(request),
            digest: digest::hex(&digest::of([value])),
        };
        if !seen.data.contains(&read) {
            seen.data.push(read);
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // A socket that was removed by somebody else is removed.
        let _gone = std::fs::remove_file(&self.socket);
    }
}

/// Accepts until the run is over.
async fn listen(listener: UnixListener, run: Arc<Run>) {
    loop {
        let accepted = tokio::select! {
            () = run.over.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) if is_ours(&stream) => {
                tokio::spawn(serve(stream, Arc::clone(&run)));
            }
            Ok(_) => {
                run.shared.counters.strangers.add();
                tracing::warn!(run = run.id, "a connection of another user was refused");
            }
            // Out of descriptors, for one: the next may fare better.
            Err(error) => {
                tracing::warn!(run = run.id, %error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    let _gone = std::fs::remove_file(&run.socket);
}

/// Whether it is a process of the same user; the directory says so already, and this says it again.
pub(crate) fn is_ours(stream: &UnixStream) -> bool {
    stream.peer_cred().is_ok_and(|peer| peer.uid() == rustix::process::geteuid().as_raw())
}

async fn serve(stream: UnixStream, run: Arc<Run>) {
    run.connections.fetch_add(1, Ordering::Relaxed);
    connection::serve(stream, &run).await;
    *run.used.lock() = Instant::now();
    run.connections.fetch_sub(1, Ordering::Relaxed);
}
