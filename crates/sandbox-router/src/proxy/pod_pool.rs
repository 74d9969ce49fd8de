//! Connections to pods, of one worker.
//!
//! Contract: a connection is lent to one request at a time (HTTP/1.1) or shared (HTTP/2). Idle ones are closed before the
//! other side does it: Node closes after five seconds, and a request that meets that is lost. Those to addresses that
//! no route has any more are dropped.

use std::{
    collections::{HashMap, HashSet},
    io,
    mem::MaybeUninit,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use h2::client::SendRequest;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use socket2::SockRef;
use tokio::net::TcpStream;

use super::{dial::Dial, settings::Settings};
use crate::body::Body;

/// How often idle connections are looked at. Their age is counted in looks: a clock for each request would cost more than
/// the rest of the pool.
pub(super) const LOOK: Duration = Duration::from_millis(500);
/// How many looks a connection of HTTP/1.1 may be idle for: 3.5 s.
const IDLE: u32 = 7;
/// How many one of HTTP/2 may be: a minute, because there the other side says goodbye before it closes.
const IDLE_SHARED: u32 = 120;

/// How many requests share a connection: the least that HTTP/2 advises servers to take.
const STREAMS: usize = 100;

/// A connection that speaks HTTP/1.1.
pub(super) type Single = http1::SendRequest<Body>;

/// A connection that speaks HTTP/2.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) sender: SendRequest<Bytes>,
    usage: Arc<Usage>,
    /// The look after which it was used last.
    since: u32,
}

/// What becomes of a shared connection.
#[derive(Debug, Default)]
struct Usage {
    streams: AtomicUsize,
    is_closed: AtomicBool,
}

impl Shared {
    fn is_closed(&self) -> bool {
        self.usage.is_closed.load(Ordering::Relaxed)
    }

    /// Whether a request that is sent now need not wait for others to end.
    fn has_room(&self) -> bool {
        self.usage.streams.load(Ordering::Relaxed) < STREAMS.min(self.sender.current_max_send_streams())
    }

    fn stream(&self) -> Stream {
        self.usage.streams.fetch_add(1, Ordering::Relaxed);
        Stream(Arc::clone(&self.usage))
    }
}

/// One request on a shared connection; counts as long as it lives.
#[derive(Debug)]
pub(super) struct Stream(Arc<Usage>);

impl Drop for Stream {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Connections to pods, of one worker.
pub(super) struct Pool {
    dial: Dial,
    builder: http1::Builder,
    shared_builder: h2::client::Builder,
    state: Mutex<State>,
    /// Held while a shared connection is opened, so that many who need one open one.
    opening: Mutex<HashMap<SocketAddr, Arc<tokio::sync::Mutex<()>>>>,
}

#[derive(Default)]
struct State {
    /// Each with the look after which it came back.
    single: HashMap<SocketAddr, Vec<(Single, u32)>>,
    /// The same, of connections for plain requests.
    plain: HashMap<SocketAddr, Vec<(TcpStream, u32)>>,
    shared: HashMap<SocketAddr, Vec<Shared>>,
    /// Those that some route has.
    known: HashSet<SocketAddr>,
    looks: u32,
}

/// A connection of HTTP/1.1 that goes back when its answer is read to the end.
pub(super) struct Lease {
    pool: Arc<Pool>,
    to: SocketAddr,
    sender: Single,
}

impl Lease {
    /// The answer is read to the end.
    pub(super) fn give_back(self) {
        let Self { pool, to, sender } = self;
        if sender.is_closed() {
            return;
        }
        let mut state = pool.state.lock();
        if state.known.contains(&to) {
            let looks = state.looks;
            state.single.entry(to).or_default().push((sender, looks));
        }
    }
}

impl Pool {
    pub(super) fn new(settings: &Settings) -> Arc<Self> {
        let limits = &settings.limits;
        let mut builder = http1::Builder::new();
        builder.max_headers(limits.head_lines).max_buf_size(limits.head_bytes.max(8192));
        let mut shared_builder = h2::client::Builder::new();
        shared_builder
            .enable_push(false)
            .initial_max_send_streams(STREAMS)
            .max_header_list_size(u32::try_from(limits.head_bytes).unwrap_or(u32::MAX))
            .initial_window_size(256 * 1024)
            .initial_connection_window_size(1024 * 1024);
        Arc::new(Self {
            dial: Dial::of(settings),
            builder,
            shared_builder,
            state: Mutex::default(),
            opening: Mutex::default(),
        })
    }

    /// An idle connection that seems to live.
    pub(super) fn idle(&self, to: SocketAddr) -> Option<Single> {
        let mut state = self.state.lock();
        let looks = state.looks;
        let all = state.single.get_mut(&to)?;
        let mut at = all.len();
        while at > 0 {
            at -= 1;
            let (sender, since) = &all[at];
            if sender.is_closed() || looks.wrapping_sub(*since) > IDLE {
                all.swap_remove(at);
            } else if sender.is_ready() {
                return Some(all.swap_remove(at).0);
            }
        }
        None
    }

    /// An idle connection for plain requests that seems to live.
    pub(super) fn idle_plain(&self, to: SocketAddr) -> Option<TcpStream> {
        let mut state = self.state.lock();
        let looks = state.looks;
        let all = state.plain.get_mut(&to)?;
        while let Some((stream, since)) = all.pop() {
            if looks.wrapping_sub(since) <= IDLE && is_quiet(&stream) {
                return Some(stream);
            }
        }
        None
    }

    /// The answer to a plain request was read to the end.
    pub(super) fn keep_plain(&self, to: SocketAddr, stream: TcpStream) {
        let mut state = self.state.lock();
        if state.known.contains(&to) {
            let looks = state.looks;
            state.plain.entry(to).or_default().push((stream, looks));
        }
    }

    /// A new connection to a pod.
    pub(super) async fn dial(&self, to: SocketAddr) -> io::Result<TcpStream> {
        self.dial.pod(to).await
    }

    /// A new connection of HTTP/1.1.
    pub(super) async fn open(&self, to: SocketAddr) -> io::Result<Single> {
        let stream = self.dial.pod(to).await?;
        self.single_on(to, stream).await
    }

    /// The same, on a stream that was opened already.
    pub(super) async fn single_on(&self, to: SocketAddr, stream: TcpStream) -> io::Result<Single> {
        let (sender, connection) =
            self.builder.handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%to, %error, "a connection to a pod ended");
            }
        });
        Ok(sender)
    }

    /// For the answer's body.
    pub(super) fn lease(self: &Arc<Self>, to: SocketAddr, sender: Single) -> Lease {
        Lease { pool: Arc::clone(self), to, sender }
    }

    /// A shared connection with room for one more request, new if there is none; and whether it is new.
    pub(super) async fn share(&self, to: SocketAddr) -> io::Result<(Shared, Stream, bool)> {
        match self.room(to) {
            Some((shared, stream)) => Ok((shared, stream, false)),
            // In a box: what is rare takes no room in what every request needs.
            None => Box::pin(self.share_new(to)).await,
        }
    }

    async fn share_new(&self, to: SocketAddr) -> io::Result<(Shared, Stream, bool)> {
        let opening = Arc::clone(self.opening.lock().entry(to).or_default());
        let _mine = opening.lock().await;
        if let Some((shared, stream)) = self.room(to) {
            return Ok((shared, stream, false));
        }
        let stream = self.dial.pod(to).await?;
        let (shared, stream) = self.shared_on(to, stream).await?;
        let mut state = self.state.lock();
        if state.known.contains(&to) {
            state.shared.entry(to).or_default().push(shared.clone());
        }
        Ok((shared, stream, true))
    }

    /// A shared connection on a stream that was opened already, and its first request.
    pub(super) async fn shared_on(&self, to: SocketAddr, stream: TcpStream) -> io::Result<(Shared, Stream)> {
        let (sender, connection) = self.shared_builder.handshake(stream).await.map_err(io::Error::other)?;
        let usage = Arc::new(Usage::default());
        let since = self.state.lock().looks;
        let shared = Shared { sender, usage: Arc::clone(&usage), since };
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%to, %error, "a connection to a pod ended");
            }
            usage.is_closed.store(true, Ordering::Relaxed);
        });
        let stream = shared.stream();
        Ok((shared, stream))
    }

    fn room(&self, to: SocketAddr) -> Option<(Shared, Stream)> {
        let mut state = self.state.lock();
        let looks = state.looks;
        let all = state.shared.get_mut(&to)?;
        all.retain(|it| !it.is_closed());
        let shared = all.iter_mut().find(|it| it.has_room())?;
        shared.since = looks;
        Some((shared.clone(), shared.stream()))
    }

    /// A shared connection turned out to be dead.
    pub(super) fn forget(&self, to: SocketAddr, dead: &Shared) {
        if let Some(all) = self.state.lock().shared.get_mut(&to) {
            all.retain(|it| !Arc::ptr_eq(&it.usage, &dead.usage));
        }
    }

    /// Closes what has been idle for too long.
    pub(super) fn sweep(&self) {
        let mut state = self.state.lock();
        state.looks = state.looks.wrapping_add(1);
        let looks = state.looks;
        state.single.retain(|_, all| {
            all.retain(|(sender, since)| !sender.is_closed() && looks.wrapping_sub(*since) <= IDLE);
            !all.is_empty()
        });
        state.plain.retain(|_, all| {
            all.retain(|(stream, since)| looks.wrapping_sub(*since) <= IDLE && is_quiet(stream));
            !all.is_empty()
        });
        state.shared.retain(|_, all| {
            all.retain(|it| {
                let is_used = it.usage.streams.load(Ordering::Relaxed) > 0;
                !it.is_closed() && (is_used || looks.wrapping_sub(it.since) <= IDLE_SHARED)
            });
            !all.is_empty()
        });
    }

    /// From now on only these addresses are somebody's. Requests under way are left to end.
    pub(super) fn keep(&self, known: HashSet<SocketAddr>) {
        let mut state = self.state.lock();
        self.opening.lock().retain(|to, _| known.contains(to));
        state.single.retain(|to, _| known.contains(to));
        state.plain.retain(|to, _| known.contains(to));
        state.shared.retain(|to, _| known.contains(to));
        state.known = known;
    }

    /// Idle connections of HTTP/1.1, and connections of HTTP/2.
    pub(super) fn sizes(&self) -> (usize, usize) {
        let state = self.state.lock();
        let single: usize = state.single.values().map(Vec::len).sum();
        let plain: usize = state.plain.values().map(Vec::len).sum();
        (single + plain, state.shared.values().map(Vec::len).sum())
    }
}

/// Whether an idle connection has nothing to say: neither that it is closed, nor something that nobody asked for. The kernel is asked:
/// the runtime knows only what it has seen, and what it has seen it tells only so often.
fn is_quiet(stream: &TcpStream) -> bool {
    let mut byte = [MaybeUninit::uninit()];
    matches!(SockRef::from(stream).peek(&mut byte), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}
