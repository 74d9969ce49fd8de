//! A worker thread with its own runtime, listeners, connections and pool. Workers share only the table and read-mostly
//! state.

use std::{
    collections::HashMap,
    io,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, oneshot},
    time::Instant,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    connection, connection_budget::ConnectionBudget, entrypoint::Entrypoint, fast_path::BufferPool,
    pod_pool::PodPool, settings::ProxySettings, write_progress::WriteBudget,
};
use crate::{local_transport::LocalTransport, table::RouteTable};

/// Maximum number of requests that wait for sessions moving between routers.
const MAX_SESSION_WAITS: usize = 64;

/// State shared by all workers.
pub(super) struct ProxyShared {
    pub(super) settings: ProxySettings,
    pub(super) table: ArcSwap<RouteTable>,
    pub(super) locals: Arc<dyn LocalTransport>,
    /// Permits for caller connections.
    pub(super) connection_slots: Arc<Semaphore>,
    /// The share of each peer, and which connections are idle.
    pub(super) connections: Arc<ConnectionBudget>,
    /// What a caller must read.
    pub(super) writes: Arc<WriteBudget>,
    /// HTTP/2 connections closed because their callers reset too many requests.
    pub(super) reset_floods: AtomicU64,
    /// Notified after each new table.
    pub(super) table_changed: Notify,
    /// Permits for requests whose session is moving to another router.
    pub(super) session_wait_slots: Semaphore,
    /// Callers are told to reconnect elsewhere.
    pub(super) retired: AtomicBool,
    /// Closes connections as soon as they are idle.
    pub(super) drain: CancellationToken,
    /// Aborts the remaining connections.
    pub(super) abort: CancellationToken,
}

impl ProxyShared {
    pub(super) fn new(settings: ProxySettings, locals: Arc<dyn LocalTransport>) -> Self {
        Self {
            connection_slots: Arc::new(Semaphore::new(settings.limits.max_connections)),
            connections: Arc::new(ConnectionBudget::new(&settings.limits, Instant::now())),
            writes: Arc::new(WriteBudget::new(&settings.limits)),
            reset_floods: AtomicU64::new(0),
            settings,
            table: ArcSwap::new(Arc::new(RouteTable::default())),
            locals,
            table_changed: Notify::new(),
            session_wait_slots: Semaphore::new(MAX_SESSION_WAITS),
            retired: AtomicBool::new(false),
            drain: CancellationToken::new(),
            abort: CancellationToken::new(),
        }
    }
}

/// State of one worker.
pub(super) struct Worker {
    pub(super) shared: Arc<ProxyShared>,
    pub(super) pool: Arc<PodPool>,
    pub(super) buffers: BufferPool,
}

/// A command for a worker.
pub(super) enum WorkerCommand {
    /// Apply the current table; replies with the listeners that could not be opened.
    Table(oneshot::Sender<Vec<(u16, io::Error)>>),
    /// Stop accepting; replies when all connections have ended.
    Drain(oneshot::Sender<()>),
}

/// The main loop of a worker.
pub(super) async fn run(
    worker: Arc<Worker>,
    front: Option<TcpListener>,
    mut told: mpsc::Receiver<WorkerCommand>,
) {
    let mut listeners = ListenerSet::new(Arc::clone(&worker));
    if let Some(front) = front {
        drop(listeners.serve(front, Entrypoint::AllHosts));
    }
    let mut sweep = tokio::time::interval(super::pod_pool::SWEEP_INTERVAL);
    loop {
        tokio::select! {
            news = told.recv() => match news {
                Some(WorkerCommand::Table(done)) => {
                    let failed = listeners.apply_table(&worker.shared.table.load());
                    let _gone = done.send(failed);
                }
                Some(WorkerCommand::Drain(done)) => {
                    listeners.drain().await;
                    let _gone = done.send(());
                    return;
                }
                None => return,
            },
            _ = sweep.tick() => {
                worker.pool.sweep();
                worker.shared.connections.relieve(Instant::now());
                listeners.close_expired();
            }
        }
    }
}

/// The listeners of a worker.
struct ListenerSet {
    acceptor: Acceptor,
    open: HashMap<u16, OpenListener>,
    /// Stops accepting on all listeners.
    stop_all: CancellationToken,
}

struct OpenListener {
    listener: Arc<TcpListener>,
    /// Entry point of connections accepted from now on.
    entrypoint: Arc<ArcSwap<Entrypoint>>,
    stop: CancellationToken,
    /// When its route was removed.
    route_gone_since: Option<Instant>,
}

impl ListenerSet {
    fn new(worker: Arc<Worker>) -> Self {
        let acceptor = Acceptor { worker, connections: TaskTracker::new() };
        Self { acceptor, open: HashMap::new(), stop_all: CancellationToken::new() }
    }

    /// Opens listeners for new routes and marks those whose route was removed.
    fn apply_table(&mut self, table: &RouteTable) -> Vec<(u16, io::Error)> {
        for (port, open) in &mut self.open {
            let now = table.route_at_port(*port);
            let is_same = now.map(|route| route.service()) == open.entrypoint.load().service().as_ref();
            match now {
                Some(_) if is_same => open.entrypoint.load().refresh(table),
                Some(route) => self.acceptor.reassign(open, Entrypoint::port(*port, route)),
                None => {
                    open.route_gone_since.get_or_insert_with(Instant::now);
                    continue;
                }
            }
            open.route_gone_since = None;
        }
        let mut failed = Vec::new();
        for (port, route) in table.listeners() {
            if self.open.contains_key(&port) {
                continue;
            }
            let address = SocketAddr::new(self.acceptor.worker.shared.settings.address, port);
            match bind_reuseport(address).and_then(TcpListener::from_std) {
                Ok(listener) => {
                    let open = self.serve(listener, Entrypoint::port(port, route));
                    self.open.insert(port, open);
                }
                Err(error) => failed.push((port, error)),
            }
        }
        self.acceptor.worker.pool.retain_addresses(table.addresses());
        failed
    }

    /// Closes listeners whose routes were removed long enough ago.
    fn close_expired(&mut self) {
        let linger = self.acceptor.worker.shared.settings.linger;
        self.open.retain(|port, open| {
            let is_old = open.route_gone_since.is_some_and(|since| since.elapsed() >= linger);
            if is_old {
                tracing::info!(port, "closing listener of a removed route");
                open.stop.cancel();
            }
            !is_old
        });
    }

    fn serve(&self, listener: TcpListener, origin: Entrypoint) -> OpenListener {
        let (listener, origin) = (Arc::new(listener), Arc::new(ArcSwap::from_pointee(origin)));
        let stop = self.stop_all.child_token();
        let accepting =
            accept_loop(Arc::clone(&listener), self.acceptor.clone(), Arc::clone(&origin), stop.clone());
        self.acceptor.connections.spawn(accepting);
        OpenListener { listener, entrypoint: origin, stop, route_gone_since: None }
    }

    /// Stops accepting and waits until all connections have ended.
    async fn drain(mut self) {
        self.stop_all.cancel();
        // The sockets close when the last reference is dropped.
        self.open.clear();
        let Acceptor { worker, connections } = &self.acceptor;
        worker.shared.drain.cancel();
        connections.close();
        tokio::select! {
            () = connections.wait() => {}
            () = worker.shared.abort.cancelled() => {
                tracing::warn!(connections = connections.len(), "aborting connections after the drain timeout");
            }
        }
    }
}

/// The caller disconnected before it was accepted.
const ABORTED_ACCEPT: [io::ErrorKind; 2] = [io::ErrorKind::ConnectionAborted, io::ErrorKind::Interrupted];

/// Accepts connections and spawns their tasks.
#[derive(Clone)]
struct Acceptor {
    worker: Arc<Worker>,
    connections: TaskTracker,
}

impl Acceptor {
    /// Assigns a port to another service. The listener stays open, because closing it would reset connections in its
    /// backlog; those were meant for the previous service, and get it.
    fn reassign(&self, open: &OpenListener, to: Entrypoint) {
        let before = open.entrypoint.load_full();
        self.drain_backlog(&open.listener, &before);
        open.entrypoint.store(Arc::new(to));
    }

    /// Serves all connections that are already in the backlog.
    fn drain_backlog(&self, listener: &TcpListener, origin: &Arc<Entrypoint>) {
        loop {
            // Directly, because the runtime's readiness may lag.
            let accepted = SockRef::from(listener).accept().and_then(|(socket, peer)| {
                socket.set_nonblocking(true)?;
                Ok((TcpStream::from_std(socket.into())?, peer.as_socket()))
            });
            match accepted {
                Ok((stream, Some(peer))) => self.serve_when_slot_free(stream, peer, Arc::clone(origin)),
                Ok((_, None)) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // One aborted connection says nothing about the others.
                Err(error) if ABORTED_ACCEPT.contains(&error.kind()) => {}
                Err(error) => {
                    tracing::warn!(%error, "accepting a connection failed");
                    return;
                }
            }
        }
    }

    fn serve_when_slot_free(&self, stream: TcpStream, peer: SocketAddr, origin: Arc<Entrypoint>) {
        let (queue, room) = (self.clone(), Arc::clone(&self.worker.shared.connection_slots));
        self.connections.spawn(async move {
            if let Ok(place) = room.acquire_owned().await {
                queue.serve(stream, peer, origin, place);
            }
        });
    }

    fn serve(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
        origin: Arc<Entrypoint>,
        place: OwnedSemaphorePermit,
    ) {
        let Some(open) = self.worker.shared.connections.open(peer.ip(), Instant::now()) else {
            return tracing::debug!(%peer, "refused a connection: its peer has used up its share");
        };
        let serving = connection::serve(stream, (peer, open), Arc::clone(&self.worker), origin);
        let end = self.worker.shared.abort.clone();
        self.connections.spawn(async move {
            tokio::select! {
                () = serving => {}
                () = end.cancelled() => {}
            }
            drop(place);
        });
    }
}

async fn accept_loop(
    listener: Arc<TcpListener>,
    queue: Acceptor,
    origin: Arc<ArcSwap<Entrypoint>>,
    stop: CancellationToken,
) {
    loop {
        let accepted = tokio::select! {
            biased;
            accepted = listener.accept() => accepted,
            // Connections in the backlog came in time.
            () = stop.cancelled() => return queue.drain_backlog(&listener, &origin.load_full()),
        };
        // The entry point at the time of acceptance, not at the time a slot becomes free.
        let origin = origin.load_full();
        // Further connections wait in the backlog.
        let Ok(place) = Arc::clone(&queue.worker.shared.connection_slots).acquire_owned().await else {
            return;
        };
        match accepted {
            Ok((stream, peer)) => queue.serve(stream, peer, origin, place),
            Err(error) => {
                tracing::warn!(%error, "accepting a connection failed");
                // Usually out of file descriptors: an immediate retry would not help.
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
}

/// Binds a listener with `SO_REUSEPORT`, so that workers share the port.
pub(super) fn bind_reuseport(address: SocketAddr) -> io::Result<std::net::TcpListener> {
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
