//! A caller's connection from its first byte: HTTP/1, HTTP/2, or opaque bytes.

use std::{
    future::poll_fn,
    io,
    net::SocketAddr,
    pin::{Pin, pin},
    sync::Arc,
    task::Poll,
};

use bytes::{Bytes, BytesMut};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional},
    net::TcpStream,
    time::{Instant, sleep_until, timeout_at},
};

use super::{
    connection_budget::OpenConnection,
    entrypoint::Entrypoint,
    forward::Caller,
    h1, h2, headers,
    pod_dialer::{PodDialer, set_socket_options},
    sniff::{SniffedProtocol, is_http_greeting, sniff_protocol},
    worker::Worker,
};
use crate::table::{AppProtocol, Route};

/// Serves a connection until it ends.
pub(super) async fn serve(
    stream: TcpStream,
    (peer, open): (SocketAddr, OpenConnection),
    worker: Arc<Worker>,
    origin: Arc<Entrypoint>,
) {
    if let Err(error) = set_socket_options(&stream) {
        return tracing::debug!(%error, "caller disconnected immediately");
    }
    let route = origin.route_without_request(&worker.shared.table.load());
    if let Some(route) = route.as_ref().filter(|route| route.protocol() == AppProtocol::Tcp) {
        return Box::pin(pass_through(stream, None, Bytes::new(), route, &worker)).await;
    }
    // Boxed, so that the state of this phase is not retained while the connection is idle.
    let opened = match while_kept(&open, Box::pin(detect_protocol(stream, route, &worker))).await {
        Some(Ok(opened)) => opened,
        Some(Err(error)) => return tracing::debug!(%error, "cannot detect the protocol of a connection"),
        None => return tracing::debug!("closed a connection that asked nothing, to make room"),
    };
    let peer = headers::address_value(peer.ip());
    let caller = |worker| Caller {
        worker,
        entrypoint: origin,
        peer,
        connection: open,
        activity: None,
        upgraded: parking_lot::Mutex::default(),
    };
    match opened {
        DetectedProtocol::Http1(first, stream) => Box::pin(h1::serve(first, stream, caller(worker))).await,
        DetectedProtocol::Http2(first, stream) => Box::pin(h2::serve(first, stream, caller(worker))).await,
        DetectedProtocol::Opaque { first, stream, pod, route } => {
            Box::pin(pass_through(stream, pod, first, &route, &worker)).await;
        }
    }
}

/// Waits for a caller that may be evicted meanwhile. `None` if it was.
async fn while_kept<T>(open: &OpenConnection, waiting: Pin<Box<impl Future<Output = T>>>) -> Option<T> {
    open.mark_idle(Instant::now());
    let mut waiting = pin!(waiting);
    let done = poll_fn(|cx| match waiting.as_mut().poll(cx) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending => open.poll_evicted(cx).map(|()| None),
    });
    let done = done.await;
    done.filter(|_| open.mark_busy())
}

/// The detected protocol of a connection.
enum DetectedProtocol {
    Http1(Bytes, TcpStream),
    Http2(Bytes, TcpStream),
    Opaque { first: Bytes, stream: TcpStream, pod: Option<TcpStream>, route: Arc<Route> },
}

/// Reads until the protocol is known. A silent caller may be waiting for a server-first protocol: a pod is connected,
/// and if it sends data first, the connection is passed through. Unless that data is HTTP: then the caller is merely
/// slow, and its requests are routed by key like all others.
async fn detect_protocol(
    mut stream: TcpStream,
    route: Option<Arc<Route>>,
    worker: &Worker,
) -> io::Result<DetectedProtocol> {
    let limits = &worker.shared.settings.limits;
    let begin = Instant::now();
    let mut first = BytesMut::with_capacity(1024);
    let quiet = timeout_at(begin + limits.server_first_delay, stream.read_buf(&mut first)).await;
    let mut pod = None;
    match (quiet, &route) {
        (Ok(read), _) => ensure_not_eof(read?)?,
        (Err(_), Some(route)) if route.protocol() == AppProtocol::Http => {
            if let Some(mut answers) = connect_to_baseline(route, worker).await {
                match wait_for_first_speaker(
                    &mut stream,
                    &mut answers,
                    &mut first,
                    begin + limits.first_byte_timeout,
                )
                .await?
                {
                    FirstSpeaker::Caller { is_pod_silent } => pod = is_pod_silent.then_some(answers),
                    FirstSpeaker::Pod(greeting) => {
                        stream.write_all(&greeting).await?;
                        return Ok(opaque(first, stream, Some(answers), route));
                    }
                }
            }
        }
        // Services that declare HTTP/2 are not server-first.
        (Err(_), _) => {}
    }
    let mut limit =
        if first.is_empty() { begin + limits.first_byte_timeout } else { begin + limits.head_timeout };
    loop {
        match (sniff_protocol(&first), &route) {
            (SniffedProtocol::Http1, _) => return Ok(DetectedProtocol::Http1(first.freeze(), stream)),
            (SniffedProtocol::Http2, _) => return Ok(DetectedProtocol::Http2(first.freeze(), stream)),
            (SniffedProtocol::Other, Some(route)) => return Ok(opaque(first, stream, pod, route)),
            (SniffedProtocol::Other, None) => {
                return Err(io::Error::other("only HTTP is supported on the listener that routes by host"));
            }
            (SniffedProtocol::Incomplete, _) => {
                ensure_not_eof(
                    timeout_at(limit, stream.read_buf(&mut first)).await.map_err(io::Error::other)??,
                )?;
                limit = limit.min(Instant::now() + limits.head_timeout);
            }
        }
    }
}

fn opaque(
    first: BytesMut,
    stream: TcpStream,
    pod: Option<TcpStream>,
    route: &Arc<Route>,
) -> DetectedProtocol {
    DetectedProtocol::Opaque { first: first.freeze(), stream, pod, route: Arc::clone(route) }
}

fn ensure_not_eof(read: usize) -> io::Result<()> {
    if read == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
}

/// The side that sends first.
enum FirstSpeaker {
    /// The connection to the pod is reusable if the pod has sent nothing.
    Caller {
        is_pod_silent: bool,
    },
    Pod(Bytes),
}

/// Waits for the first byte of either side. A pod that closes or sends HTTP does not count as speaking first.
async fn wait_for_first_speaker(
    caller: &mut TcpStream,
    pod: &mut TcpStream,
    first: &mut BytesMut,
    until: Instant,
) -> io::Result<FirstSpeaker> {
    let mut greeting = BytesMut::with_capacity(1024);
    let mut is_open = true;
    loop {
        tokio::select! {
            read = caller.read_buf(first) => {
                ensure_not_eof(read?)?;
                return Ok(FirstSpeaker::Caller { is_pod_silent: is_open && greeting.is_empty() });
            }
            read = pod.read_buf(&mut greeting), if is_open => match read {
                Ok(read) if read > 0 => match is_http_greeting(&greeting) {
                    Some(true) => is_open = false,
                    Some(false) => return Ok(FirstSpeaker::Pod(greeting.freeze())),
                    None => {}
                },
                _ => is_open = false,
            },
            () = sleep_until(until) => return Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

/// Connects to the first baseline pod that accepts.
async fn connect_to_baseline(route: &Route, worker: &Worker) -> Option<TcpStream> {
    for to in route.baseline().rotation() {
        match PodDialer::from_settings(&worker.shared.settings).connect(to).await {
            Ok(pod) => return Some(pod),
            Err(error) => tracing::debug!(%to, %error, "connecting to a pod failed"),
        }
    }
    None
}

/// Copies bytes between a caller and the baseline. Each side may finish before the other.
async fn pass_through(
    mut caller: TcpStream,
    pod: Option<TcpStream>,
    first: Bytes,
    route: &Route,
    worker: &Worker,
) {
    route.metrics().record_passthrough();
    let pod = match pod {
        Some(pod) => Some(pod),
        None => connect_to_baseline(route, worker).await,
    };
    let Some(mut pod) = pod else {
        return tracing::debug!(service = %route.service(), "no pod accepts a passed-through connection");
    };
    let copied = async {
        pod.write_all(&first).await?;
        copy_bidirectional(&mut caller, &mut pod).await
    };
    if let Err(error) = copied.await {
        tracing::debug!(%error, service = %route.service(), "passed-through connection ended");
    }
}
