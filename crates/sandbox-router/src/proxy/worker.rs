//! A thread with its own runtime, listeners, connections and pool. Threads share the table and nothing that is written.

use std::{
    collections::HashMap,
    io,
    net::{IpAddr, SocketAddr},
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use arc_swap::ArcSwap;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::{
    net::TcpListener,
    sync::{Notify, Semaphore, mpsc, oneshot},
    time::Instant,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{connection, origin::Origin, plain::Buffers, pool::Pool, settings::Settings};
use crate::{locals::Locals, table::Table};

/// How many requests wait for sessions that are on their way from one router to another.
const SEEKERS: usize = 64;

/// What all workers have in common.
pub(super) struct Shared {
    pub(super) settings: Settings,
    pub(super) table: ArcSwap<Table>,
    pub(super) locals: Arc<dyn Locals>,
    /// Room for connections.
    pub(super) room: Arc<Semaphore>,
    /// There is another table.
    pub(super) applied: Notify,
    /// Room for requests whose session is on its way to another router.
    pub(super) seekers: Semaphore,
    /// Callers are told to connect again, to somebody else.
    pub(super) retired: AtomicBool,
    /// Ends connections as soon as they have nothing under way.
    pub(super) leave: CancellationToken,
    /// Ends whatever is left.
    pub(super) end: CancellationToken,
}

impl Shared {
    pub(super) fn new(settings: Settings, locals: Arc<dyn Locals>) -> Self {
        Self {
            room: Arc::new(Semaphore::new(settings.limits.connections)),
            settings,
            table: ArcSwap::new(Arc::new(Table::default())),
            locals,
            applied: Notify::new(),
            seekers: Semaphore::new(SEEKERS),
            retired: AtomicBool::new(false),
            leave: CancellationToken::new(),
            end: CancellationToken::new(),
        }
    }
}

/// One thread's own.
pub(super) struct Worker {
    pub(super) shared: Arc<Shared>,
    pub(super) pool: Arc<Pool>,
    pub(super) buffers: Buffers,
}

/// What a worker is told.
pub(super) enum Told {
    /// There is another table: its listeners are open when the answer comes. Names those that could not be opened.
    Table(oneshot::Sender<Vec<(u16, io::Error)>>),
    /// Accept nothing more. The answer comes when all connections have ended.
    Leave(oneshot::Sender<()>),
}

/// The loop of a worker.
pub(super) async fn run(worker: Arc<Worker>, front: Option<TcpListener>, mut told: mpsc::Receiver<Told>) {
    let mut listeners = Listeners::new(Arc::clone(&worker));
    if let Some(front) = front {
        listeners.serve(front, Arc::new(Origin::Front));
    }
    let mut sweep = tokio::time::interval(super::pool::LOOK);
    loop {
        tokio::select! {
            news = told.recv() => match news {
                Some(Told::Table(done)) => {
                    let failed = listeners.follow(&worker.shared.table.load());
                    let _gone = done.send(failed);
                }
                Some(Told::Leave(done)) => {
                    listeners.leave().await;
                    let _gone = done.send(());
                    return;
                }
                None => return,
            },
            _ = sweep.tick() => {
                worker.pool.sweep();
                listeners.close_old();
            }
        }
    }
}

/// The listeners of a worker.
struct Listeners {
    worker: Arc<Worker>,
    open: HashMap<u16, Open>,
    connections: TaskTracker,
    /// Ends accepting.
    all: CancellationToken,
}

struct Open {
    origin: Arc<Origin>,
    stop: CancellationToken,
    /// When its route was gone.
    gone: Option<Instant>,
}

impl Listeners {
    fn new(worker: Arc<Worker>) -> Self {
        let (connections, all) = (TaskTracker::new(), CancellationToken::new());
        Self { worker, open: HashMap::new(), connections, all }
    }

    /// Opens what is new in a table, and marks what is gone.
    fn follow(&mut self, table: &Table) -> Vec<(u16, io::Error)> {
        for (port, open) in &mut self.open {
            let now = table.at(*port).map(|route| route.service());
            let is_same = now.is_some() && now == open.origin.service().as_ref();
            if is_same {
                open.gone = None;
                open.origin.refresh(table);
            } else if open.gone.is_none() {
                open.gone = Some(Instant::now());
            }
            // The port is another service's now: who connected before is served as before.
            if now.is_some() && !is_same {
                open.stop.cancel();
            }
        }
        self.open.retain(|_, open| !open.stop.is_cancelled());
        let mut failed = Vec::new();
        for (port, route) in table.listeners() {
            if self.open.contains_key(&port) {
                continue;
            }
            let address = SocketAddr::new(self.worker.shared.settings.address, port);
            match listen(address).and_then(TcpListener::from_std) {
                Ok(listener) => {
                    let origin = Arc::new(Origin::port(port, route));
                    let stop = self.serve(listener, Arc::clone(&origin));
                    self.open.insert(port, Open { origin, stop, gone: None });
                }
                Err(error) => failed.push((port, error)),
            }
        }
        self.worker.pool.keep(table.addresses());
        failed
    }

    /// Closes listeners whose routes have been gone for long enough.
    fn close_old(&mut self) {
        let linger = self.worker.shared.settings.linger;
        self.open.retain(|port, open| {
            let is_old = open.gone.is_some_and(|since| since.elapsed() >= linger);
            if is_old {
                tracing::info!(port, "a listener is closed: its route is gone");
                open.stop.cancel();
            }
            !is_old
        });
    }

    fn serve(&self, listener: TcpListener, origin: Arc<Origin>) -> CancellationToken {
        let stop = self.all.child_token();
        let accepting =
            accept(listener, Arc::clone(&self.worker), origin, stop.clone(), self.connections.clone());
        self.connections.spawn(accepting);
        stop
    }

    /// Accepts nothing more, and waits until all connections have ended.
    async fn leave(self) {
        self.all.cancel();
        self.worker.shared.leave.cancel();
        self.connections.close();
        tokio::select! {
            () = self.connections.wait() => {}
            () = self.worker.shared.end.cancelled() => {
                tracing::warn!(connections = self.connections.len(), "connections are cut: they did not end in time");
            }
        }
    }
}

async fn accept(
    listener: TcpListener,
    worker: Arc<Worker>,
    origin: Arc<Origin>,
    stop: CancellationToken,
    connections: TaskTracker,
) {
    let mut last_call = false;
    loop {
        let accepted = tokio::select! {
            biased;
            accepted = listener.accept() => accepted,
            () = stop.cancelled(), if !last_call => {
                // Who is in the queue already came in time.
                last_call = true;
                continue;
            }
            () = std::future::ready(()), if last_call => return,
        };
        // Further ones wait in the queue until there is room.
        let Ok(place) = Arc::clone(&worker.shared.room).acquire_owned().await else { return };
        match accepted {
            Ok((stream, peer)) => {
                let serving = connection::serve(stream, peer, Arc::clone(&worker), Arc::clone(&origin));
                let end = worker.shared.end.clone();
                connections.spawn(async move {
                    tokio::select! {
                        () = serving => {}
                        () = end.cancelled() => {}
                    }
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                // Mostly there are no more descriptors: nothing is won by asking again at once.
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
}

/// A listener that shares its port with those of the other workers.
pub(super) fn listen(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let domain = if address.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 };
    let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
    if matches!(address.ip(), IpAddr::V6(ip) if ip.is_unspecified()) {
        socket.set_only_v6(false)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(4096)?;
    Ok(socket.into())
}
