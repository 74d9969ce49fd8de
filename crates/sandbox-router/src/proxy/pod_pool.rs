//! Connection pool to pods, one per worker.
//!
//! Contract: an HTTP/1.1 connection is leased to one request at a time; HTTP/2 connections are shared. Idle connections
//! are closed before the server does it: Node closes after five seconds, and a request sent at that moment is lost.
//! Connections to addresses that no route uses any more are dropped.

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

use super::{pod_dialer::PodDialer, settings::ProxySettings};
use crate::request_body::RequestBody;

/// Sweep interval. Idle time is counted in sweeps: reading the clock for each request would cost more than the rest of
/// the pool.
pub(super) const SWEEP_INTERVAL: Duration = Duration::from_millis(500);
/// Maximum idle sweeps of an HTTP/1.1 connection: 3.5 s.
const MAX_IDLE_SWEEPS: u32 = 7;
/// Maximum idle sweeps of an HTTP/2 connection: one minute, because servers send GOAWAY before they close.
const MAX_IDLE_SWEEPS_H2: u32 = 120;

/// Requests per HTTP/2 connection: the minimum that HTTP/2 recommends servers to accept.
const MAX_STREAMS: usize = 100;

/// An HTTP/1.1 connection.
pub(super) type H1Sender = http1::SendRequest<RequestBody>;

/// An HTTP/2 connection.
#[derive(Clone)]
pub(super) struct H2Connection {
    pub(super) sender: SendRequest<Bytes>,
    usage: Arc<H2Usage>,
    /// The sweep of its last use.
    last_used_sweep: u32,
}

/// Usage of an HTTP/2 connection.
#[derive(Debug, Default)]
struct H2Usage {
    streams: AtomicUsize,
    is_closed: AtomicBool,
}

impl H2Connection {
    fn is_closed(&self) -> bool {
        self.usage.is_closed.load(Ordering::Relaxed)
    }

    /// Whether another request can be sent without waiting.
    fn has_capacity(&self) -> bool {
        self.usage.streams.load(Ordering::Relaxed) < MAX_STREAMS.min(self.sender.current_max_send_streams())
    }

    fn stream(&self) -> H2StreamGuard {
        self.usage.streams.fetch_add(1, Ordering::Relaxed);
        H2StreamGuard(Arc::clone(&self.usage))
    }
}

/// One request on an HTTP/2 connection; counted while it lives.
#[derive(Debug)]
pub(super) struct H2StreamGuard(Arc<H2Usage>);

impl Drop for H2StreamGuard {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Connections to pods, of one worker.
pub(super) struct PodPool {
    dialer: PodDialer,
    builder: http1::Builder,
    shared_builder: h2::client::Builder,
    state: Mutex<PoolState>,
    /// Held while an HTTP/2 connection is opened, so that concurrent requests open only one.
    opening: Mutex<HashMap<SocketAddr, Arc<tokio::sync::Mutex<()>>>>,
}

#[derive(Default)]
struct PoolState {
    /// Each with the sweep of its return.
    h1: HashMap<SocketAddr, Vec<(H1Sender, u32)>>,
    /// Connections of the fast path.
    raw: HashMap<SocketAddr, Vec<(TcpStream, u32)>>,
    h2: HashMap<SocketAddr, Vec<H2Connection>>,
    /// Addresses used by routes.
    active_addresses: HashSet<SocketAddr>,
    sweeps: u32,
}

/// An HTTP/1.1 connection that is released after its response was read completely.
pub(super) struct H1Lease {
    pool: Arc<PodPool>,
    to: SocketAddr,
    sender: H1Sender,
}

impl H1Lease {
    /// Returns the connection to the pool.
    pub(super) fn release(self) {
        let Self { pool, to, sender } = self;
        if sender.is_closed() {
            return;
        }
        let mut state = pool.state.lock();
        if state.active_addresses.contains(&to) {
            let looks = state.sweeps;
            state.h1.entry(to).or_default().push((sender, looks));
        }
    }
}

impl PodPool {
    pub(super) fn new(settings: &ProxySettings) -> Arc<Self> {
        let limits = &settings.limits;
        let mut builder = http1::Builder::new();
        builder.max_headers(limits.max_headers).max_buf_size(limits.max_head_bytes.max(8192));
        let mut shared_builder = h2::client::Builder::new();
        shared_builder
            .enable_push(false)
            .initial_max_send_streams(MAX_STREAMS)
            .max_header_list_size(u32::try_from(limits.max_head_bytes).unwrap_or(u32::MAX))
            .initial_window_size(256 * 1024)
            .initial_connection_window_size(1024 * 1024);
        Arc::new(Self {
            dialer: PodDialer::from_settings(settings),
            builder,
            shared_builder,
            state: Mutex::default(),
            opening: Mutex::default(),
        })
    }

    /// Takes an idle HTTP/1.1 connection that appears alive.
    pub(super) fn take_idle_h1(&self, to: SocketAddr) -> Option<H1Sender> {
        let mut state = self.state.lock();
        let looks = state.sweeps;
        let all = state.h1.get_mut(&to)?;
        let mut at = all.len();
        while at > 0 {
            at -= 1;
            let (sender, since) = &all[at];
            if sender.is_closed() || looks.wrapping_sub(*since) > MAX_IDLE_SWEEPS {
                all.swap_remove(at);
            } else if sender.is_ready() {
                return Some(all.swap_remove(at).0);
            }
        }
        None
    }

    /// Takes an idle fast-path connection that appears alive.
    pub(super) fn take_idle_raw(&self, to: SocketAddr) -> Option<TcpStream> {
        let mut state = self.state.lock();
        let looks = state.sweeps;
        let all = state.raw.get_mut(&to)?;
        while let Some((stream, since)) = all.pop() {
            if looks.wrapping_sub(since) <= MAX_IDLE_SWEEPS && is_alive_and_idle(&stream) {
                return Some(stream);
            }
        }
        None
    }

    /// Returns a fast-path connection to the pool.
    pub(super) fn return_raw(&self, to: SocketAddr, stream: TcpStream) {
        let mut state = self.state.lock();
        if state.active_addresses.contains(&to) {
            let looks = state.sweeps;
            state.raw.entry(to).or_default().push((stream, looks));
        }
    }

    /// Opens a connection to a pod.
    pub(super) async fn connect(&self, to: SocketAddr) -> io::Result<TcpStream> {
        self.dialer.connect(to).await
    }

    /// Opens an HTTP/1.1 connection.
    pub(super) async fn open_h1(&self, to: SocketAddr) -> io::Result<H1Sender> {
        let stream = self.dialer.connect(to).await?;
        self.h1_on_stream(to, stream).await
    }

    /// The same on an existing stream.
    pub(super) async fn h1_on_stream(&self, to: SocketAddr, stream: TcpStream) -> io::Result<H1Sender> {
        let (sender, connection) =
            self.builder.handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%to, %error, "pod connection ended");
            }
        });
        Ok(sender)
    }

    /// Lease for a response body.
    pub(super) fn lease_h1(self: &Arc<Self>, to: SocketAddr, sender: H1Sender) -> H1Lease {
        H1Lease { pool: Arc::clone(self), to, sender }
    }

    /// An HTTP/2 connection with capacity for a request, opened if necessary; and whether it is new.
    pub(super) async fn acquire_h2(&self, to: SocketAddr) -> io::Result<(H2Connection, H2StreamGuard, bool)> {
        match self.h2_with_capacity(to) {
            Some((shared, stream)) => Ok((shared, stream, false)),
            // Boxed: rare cases must not enlarge the future of every request.
            None => Box::pin(self.open_h2(to)).await,
        }
    }

    async fn open_h2(&self, to: SocketAddr) -> io::Result<(H2Connection, H2StreamGuard, bool)> {
        let opening = Arc::clone(self.opening.lock().entry(to).or_default());
        let _mine = opening.lock().await;
        if let Some((shared, stream)) = self.h2_with_capacity(to) {
            return Ok((shared, stream, false));
        }
        let stream = self.dialer.connect(to).await?;
        let (shared, stream) = self.h2_on_stream(to, stream).await?;
        let mut state = self.state.lock();
        if state.active_addresses.contains(&to) {
            state.h2.entry(to).or_default().push(shared.clone());
        }
        Ok((shared, stream, true))
    }

    /// An HTTP/2 connection on an existing stream, with its first request slot.
    pub(super) async fn h2_on_stream(
        &self,
        to: SocketAddr,
        stream: TcpStream,
    ) -> io::Result<(H2Connection, H2StreamGuard)> {
        let (sender, connection) = self.shared_builder.handshake(stream).await.map_err(io::Error::other)?;
        let usage = Arc::new(H2Usage::default());
        let since = self.state.lock().sweeps;
        let shared = H2Connection { sender, usage: Arc::clone(&usage), last_used_sweep: since };
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%to, %error, "pod connection ended");
            }
            usage.is_closed.store(true, Ordering::Relaxed);
        });
        let stream = shared.stream();
        Ok((shared, stream))
    }

    fn h2_with_capacity(&self, to: SocketAddr) -> Option<(H2Connection, H2StreamGuard)> {
        let mut state = self.state.lock();
        let looks = state.sweeps;
        let all = state.h2.get_mut(&to)?;
        all.retain(|it| !it.is_closed());
        let shared = all.iter_mut().find(|it| it.has_capacity())?;
        shared.last_used_sweep = looks;
        Some((shared.clone(), shared.stream()))
    }

    /// Removes a dead HTTP/2 connection.
    pub(super) fn remove_h2(&self, to: SocketAddr, dead: &H2Connection) {
        if let Some(all) = self.state.lock().h2.get_mut(&to) {
            all.retain(|it| !Arc::ptr_eq(&it.usage, &dead.usage));
        }
    }

    /// Closes connections that were idle for too long.
    pub(super) fn sweep(&self) {
        let mut state = self.state.lock();
        state.sweeps = state.sweeps.wrapping_add(1);
        let looks = state.sweeps;
        state.h1.retain(|_, all| {
            all.retain(|(sender, since)| {
                !sender.is_closed() && looks.wrapping_sub(*since) <= MAX_IDLE_SWEEPS
            });
            !all.is_empty()
        });
        state.raw.retain(|_, all| {
            all.retain(|(stream, since)| {
                looks.wrapping_sub(*since) <= MAX_IDLE_SWEEPS && is_alive_and_idle(stream)
            });
            !all.is_empty()
        });
        state.h2.retain(|_, all| {
            all.retain(|it| {
                let is_used = it.usage.streams.load(Ordering::Relaxed) > 0;
                !it.is_closed() && (is_used || looks.wrapping_sub(it.last_used_sweep) <= MAX_IDLE_SWEEPS_H2)
            });
            !all.is_empty()
        });
    }

    /// Keeps only connections to these addresses. Requests in progress are not interrupted.
    pub(super) fn retain_addresses(&self, known: HashSet<SocketAddr>) {
        let mut state = self.state.lock();
        self.opening.lock().retain(|to, _| known.contains(to));
        state.h1.retain(|to, _| known.contains(to));
        state.raw.retain(|to, _| known.contains(to));
        state.h2.retain(|to, _| known.contains(to));
        state.active_addresses = known;
    }

    /// Numbers of idle HTTP/1.1 connections and of HTTP/2 connections.
    pub(super) fn sizes(&self) -> (usize, usize) {
        let state = self.state.lock();
        let single: usize = state.h1.values().map(Vec::len).sum();
        let plain: usize = state.raw.values().map(Vec::len).sum();
        (single + plain, state.h2.values().map(Vec::len).sum())
    }
}

/// Whether an idle connection is still open and has no unexpected data. Asks the kernel, because the runtime's
/// readiness may be stale.
fn is_alive_and_idle(stream: &TcpStream) -> bool {
    let mut byte = [MaybeUninit::uninit()];
    matches!(SockRef::from(stream).peek(&mut byte), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}
