//! A caller's connection from its first byte: HTTP/1, HTTP/2, or bytes that nobody here understands.

use std::{io, net::SocketAddr, sync::Arc};

use bytes::{Bytes, BytesMut};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional},
    net::TcpStream,
    time::{Instant, sleep_until, timeout_at},
};

use super::{
    dial::{Dial, prepare},
    forward::Caller,
    h1, h2, headers,
    origin::Origin,
    sniff::{Opening, is_http_greeting, opening},
    worker::Worker,
};
use crate::table::{AppProtocol, Route};

/// Serves a connection until it ends.
pub(super) async fn serve(stream: TcpStream, peer: SocketAddr, worker: Arc<Worker>, origin: Arc<Origin>) {
    if let Err(error) = prepare(&stream) {
        return tracing::debug!(%error, "a caller went away at once");
    }
    let route = origin.blind(&worker.shared.table.load());
    if let Some(route) = route.as_ref().filter(|route| route.protocol() == AppProtocol::Tcp) {
        return Box::pin(pass(stream, None, Bytes::new(), route, &worker)).await;
    }
    // In boxes: what a connection needed before must not be carried along while it is idle.
    let opened = match Box::pin(open(stream, route, &worker)).await {
        Ok(opened) => opened,
        Err(error) => return tracing::debug!(%error, "a caller said nothing that could be served"),
    };
    let peer = headers::address(peer.ip());
    let caller = |worker| Caller { worker, origin, peer, notes: None, joint: parking_lot::Mutex::default() };
    match opened {
        Opened::Http1(first, stream) => Box::pin(h1::serve(first, stream, caller(worker))).await,
        Opened::Http2(first, stream) => Box::pin(h2::serve(first, stream, caller(worker))).await,
        Opened::Bytes { first, stream, pod, route } => {
            Box::pin(pass(stream, pod, first, &route, &worker)).await;
        }
    }
}

/// What a connection turned out to be.
enum Opened {
    Http1(Bytes, TcpStream),
    Http2(Bytes, TcpStream),
    Bytes { first: Bytes, stream: TcpStream, pod: Option<TcpStream>, route: Arc<Route> },
}

/// Reads until it is clear what a connection speaks. A caller that says nothing may be waiting for the service to speak
/// first: so a pod is asked, and if it does speak, the two are left alone. Unless it speaks HTTP: then the caller is slow,
/// and its requests have keys like all others.
async fn open(mut stream: TcpStream, route: Option<Arc<Route>>, worker: &Worker) -> io::Result<Opened> {
    let limits = &worker.shared.settings.limits;
    let begin = Instant::now();
    let mut first = BytesMut::with_capacity(1024);
    let quiet = timeout_at(begin + limits.silence, stream.read_buf(&mut first)).await;
    let mut pod = None;
    match (quiet, &route) {
        (Ok(read), _) => ended(read?)?,
        (Err(_), Some(route)) if route.protocol() == AppProtocol::Http => {
            if let Some(mut answers) = first_pod(route, worker).await {
                match either(&mut stream, &mut answers, &mut first, begin + limits.first_byte).await? {
                    First::Caller { is_pod_silent } => pod = is_pod_silent.then_some(answers),
                    First::Pod(greeting) => {
                        stream.write_all(&greeting).await?;
                        return Ok(bytes(first, stream, Some(answers), route));
                    }
                }
            }
        }
        // Who says that it is HTTP/2 is not asked.
        (Err(_), _) => {}
    }
    let mut limit = if first.is_empty() { begin + limits.first_byte } else { begin + limits.head_time };
    loop {
        match (opening(&first), &route) {
            (Opening::Http1, _) => return Ok(Opened::Http1(first.freeze(), stream)),
            (Opening::Http2, _) => return Ok(Opened::Http2(first.freeze(), stream)),
            (Opening::Other, Some(route)) => return Ok(bytes(first, stream, pod, route)),
            (Opening::Other, None) => {
                return Err(io::Error::other("only HTTP is spoken where routes go by their host"));
            }
            (Opening::Unclear, _) => {
                ended(timeout_at(limit, stream.read_buf(&mut first)).await.map_err(io::Error::other)??)?;
                limit = limit.min(Instant::now() + limits.head_time);
            }
        }
    }
}

fn bytes(first: BytesMut, stream: TcpStream, pod: Option<TcpStream>, route: &Arc<Route>) -> Opened {
    Opened::Bytes { first: first.freeze(), stream, pod, route: Arc::clone(route) }
}

fn ended(read: usize) -> io::Result<()> {
    if read == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
}

/// Who speaks first.
enum First {
    /// The connection to the pod can be used if the pod has said nothing.
    Caller {
        is_pod_silent: bool,
    },
    Pod(Bytes),
}

/// Waits for the first byte of either side. A pod that closes has nothing to say, and neither has one that speaks HTTP.
async fn either(
    caller: &mut TcpStream,
    pod: &mut TcpStream,
    first: &mut BytesMut,
    until: Instant,
) -> io::Result<First> {
    let mut greeting = BytesMut::with_capacity(1024);
    let mut is_open = true;
    loop {
        tokio::select! {
            read = caller.read_buf(first) => {
                ended(read?)?;
                return Ok(First::Caller { is_pod_silent: is_open && greeting.is_empty() });
            }
            read = pod.read_buf(&mut greeting), if is_open => match read {
                Ok(read) if read > 0 => match is_http_greeting(&greeting) {
                    Some(true) => is_open = false,
                    Some(false) => return Ok(First::Pod(greeting.freeze())),
                    None => {}
                },
                _ => is_open = false,
            },
            () = sleep_until(until) => return Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

/// A connection to the first pod of the baseline that takes one.
async fn first_pod(route: &Route, worker: &Worker) -> Option<TcpStream> {
    for to in route.baseline().turn() {
        match Dial::of(&worker.shared.settings).pod(to).await {
            Ok(pod) => return Some(pod),
            Err(error) => tracing::debug!(%to, %error, "a pod takes no connection"),
        }
    }
    None
}

/// Copies bytes between a caller and the baseline. Each side may finish before the other.
async fn pass(mut caller: TcpStream, pod: Option<TcpStream>, first: Bytes, route: &Route, worker: &Worker) {
    route.meter().passed_through();
    let pod = match pod {
        Some(pod) => Some(pod),
        None => first_pod(route, worker).await,
    };
    let Some(mut pod) = pod else {
        return tracing::debug!(service = %route.service(), "no pod for bytes that are passed through");
    };
    let copied = async {
        pod.write_all(&first).await?;
        copy_bidirectional(&mut caller, &mut pod).await
    };
    if let Err(error) = copied.await {
        tracing::debug!(%error, service = %route.service(), "a connection that was passed through ended");
    }
}
