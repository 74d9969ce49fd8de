//! A thread with its own runtime, listeners, connections and pool. Threads share the table and nothing that is written.

use std::{
    collections::HashMap,
    io,
    net::{IpAddr, SocketAddr},
    sync::{Arc, atomic::AtomicBool},
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
        drop(listeners.serve(front, Origin::Front));
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
    queue: Queue,
    open: HashMap<u16, Open>,
    /// Ends accepting.
    all: CancellationToken,
}

struct Open {
    listener: Arc<TcpListener>,
    /// Of connections that are accepted from now on.
    origin: Arc<ArcSwap<Origin>>,
    stop: CancellationToken,
    /// When its route was gone.
    gone: Option<Instant>,
}

impl Listeners {
    fn new(worker: Arc<Worker>) -> Self {
        let queue = Queue { worker, connections: TaskTracker::new() };
        Self { queue, open: HashMap::new(), all: CancellationToken::new() }
    }

    /// Opens what is new in a table, and marks what is gone.
    fn follow(&mut self, table: &Table) -> Vec<(u16, io::Error)> {
        for (port, open) in &mut self.open {
            let now = table.at(*port);
            let is_same = now.map(|route| route.service()) == open.origin.load().service().as_ref();
            match now {
                Some(_) if is_same => open.origin.load().refresh(table),
                Some(route) => self.queue.hand_over(open, Origin::port(*port, route)),
                None => {
                    open.gone.get_or_insert_with(Instant::now);
                    continue;
                }
            }
            open.gone = None;
        }
        let mut failed = Vec::new();
        for (port, route) in table.listeners() {
            if self.open.contains_key(&port) {
                continue;
            }
            let address = SocketAddr::new(self.queue.worker.shared.settings.address, port);
            match listen(address).and_then(TcpListener::from_std) {
                Ok(listener) => {
                    let open = self.serve(listener, Origin::port(port, route));
                    self.open.insert(port, open);
                }
                Err(error) => failed.push((port, error)),
            }
        }
        self.queue.worker.pool.keep(table.addresses());
        failed
    }

    /// Closes listeners whose routes have been gone for long enough.
    fn close_old(&mut self) {
        let linger = self.queue.worker.shared.settings.linger;
        self.open.retain(|port, open| {
            let is_old = open.gone.is_some_and(|since| since.elapsed() >= linger);
            if is_old {
                tracing::info!(port, "a listener is closed: its route is gone");
                open.stop.cancel();
            }
            !is_old
        });
    }

    fn serve(&self, listener: TcpListener, origin: Origin) -> Open {
        let (listener, origin) = (Arc::new(listener), Arc::new(ArcSwap::from_pointee(origin)));
        let stop = self.all.child_token();
        let accepting = accept(Arc::clone(&listener), self.queue.clone(), Arc::clone(&origin), stop.clone());
        self.queue.connections.spawn(accepting);
        Open { listener, origin, stop, gone: None }
    }

    /// Accepts nothing more, and waits until all connections have ended.
    async fn leave(mut self) {
        self.all.cancel();
        // A listener is closed when the last of those who have it lets go.
        self.open.clear();
        let Queue { worker, connections } = &self.queue;
        worker.shared.leave.cancel();
        connections.close();
        tokio::select! {
            () = connections.wait() => {}
            () = worker.shared.end.cancelled() => {
                tracing::warn!(connections = connections.len(), "connections are cut: they did not end in time");
            }
        }
    }
}

/// A caller went away before it was accepted.
const GONE: [io::ErrorKind; 2] = [io::ErrorKind::ConnectionAborted, io::ErrorKind::Interrupted];

/// Where accepted connections go.
#[derive(Clone)]
struct Queue {
    worker: Arc<Worker>,
    connections: TaskTracker,
}

impl Queue {
    /// A port is another service's from now on. The listener stays, because the kernel would cut off those who wait in it: they meant
    /// the service of before, and get it.
    fn hand_over(&self, open: &Open, to: Origin) {
        let before = open.origin.load_full();
        self.serve_who_waits(&open.listener, &before);
        open.origin.store(Arc::new(to));
    }

    /// Serves everybody who is in the queue of a listener already.
    fn serve_who_waits(&self, listener: &TcpListener, origin: &Arc<Origin>) {
        loop {
            // Not by the runtime, which would have to be told first that somebody is there.
            let accepted = SockRef::from(listener).accept().and_then(|(socket, peer)| {
                socket.set_nonblocking(true)?;
                Ok((TcpStream::from_std(socket.into())?, peer.as_socket()))
            });
            match accepted {
                Ok((stream, Some(peer))) => self.serve_when_there_is_room(stream, peer, Arc::clone(origin)),
                Ok((_, None)) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // Who went away while it waited says nothing of the others.
                Err(error) if GONE.contains(&error.kind()) => {}
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    return;
                }
            }
        }
    }

    fn serve_when_there_is_room(&self, stream: TcpStream, peer: SocketAddr, origin: Arc<Origin>) {
        let (queue, room) = (self.clone(), Arc::clone(&self.worker.shared.room));
        self.connections.spawn(async move {
            if let Ok(place) = room.acquire_owned().await {
                queue.serve(stream, peer, origin, place);
            }
        });
    }

    fn serve(&self, stream: TcpStream, peer: SocketAddr, origin: Arc<Origin>, place: OwnedSemaphorePermit) {
        let serving = connection::serve(stream, peer, Arc::clone(&self.worker), origin);
        let end = self.worker.shared.end.clone();
        self.connections.spawn(async move {
            tokio::select! {
                () = serving => {}
                () = end.cancelled() => {}
            }
            drop(place);
        });
    }
}

async fn accept(
    listener: Arc<TcpListener>,
    queue: Queue,
    origin: Arc<ArcSwap<Origin>>,
    stop: CancellationToken,
) {
    loop {
        let accepted = tokio::select! {
            biased;
            accepted = listener.accept() => accepted,
            // Who is in the queue already came in time.
            () = stop.cancelled() => return queue.serve_who_waits(&listener, &origin.load_full()),
        };
        // Of the moment in which it was accepted, not of the one in which there is room.
        let origin = origin.load_full();
        // Further ones wait in the queue until there is room.
        let Ok(place) = Arc::clone(&queue.worker.shared.room).acquire_owned().await else { return };
        match accepted {
            Ok((stream, peer)) => queue.serve(stream, peer, origin, place),
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
