//! HTTP/1 connections. Simple requests take the fast path ([`plain`]), all others go through hyper.
//!
//! Idle connections are parked: the buffers of HTTP are released, so that a thousand idle callers cost little. They are
//! parked early, because buffers held at the same time fragment the heap when released one by one: the peak number of
//! buffers counts.

use std::{os::fd::OwnedFd, pin::pin, sync::Arc, time::Duration};

use bytes::Bytes;
use http::Request;
use hyper::{
    body::{Body as _, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use socket2::SockRef;
use tokio::{net::TcpStream, time::Instant};

use super::{
    caller_io::{CallerIo, ConnectionActivity, UnreadBodyGuard},
    connection_budget::CLOSE_GRACE,
    fast_path,
    forward::{Caller, forward},
    settings::ProxyLimits,
    upgrade,
};
use crate::request_body::{BodyDropGuard, RequestBody};

/// Interval of connection checks.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Serves a connection until it ends.
pub(super) async fn serve(first: Bytes, stream: TcpStream, mut caller: Caller) {
    let notes = ConnectionActivity::new();
    caller.activity = Some(Arc::clone(&notes));
    let caller = Arc::new(caller);
    let builder = builder(&caller.worker.shared.settings.limits);
    let mut next = (first, stream);
    loop {
        let fast_path::FastPathEnd::Fallback(bytes, stream) = fast_path::serve(next.0, next.1, &caller).await
        else {
            return;
        };
        let io = CallerIo::with_activity(bytes, stream, &notes).with_budget(&caller.worker.shared.writes);
        // Boxed, so that it is freed while the connection is parked.
        match Box::pin(serve_requests(io, &caller, &notes, &builder)).await {
            ServeEnd::Closed => return,
            ServeEnd::Switched(io) => {
                let joint = caller.upgraded.lock().take();
                if let Some(joint) = joint {
                    Box::pin(upgrade::copy_upgraded(io, joint)).await;
                }
                return;
            }
            ServeEnd::Parked(bytes, stream) => next = (bytes, stream),
        }
    }
}

fn builder(limits: &ProxyLimits) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        // A caller may finish sending and still wait for its response.
        .half_close(true)
        .auto_date_header(false)
        .max_headers(limits.max_headers)
        .max_buf_size(limits.max_head_bytes.max(8192))
        // Head timeouts are enforced in `requests`: a timer per request would cost too much.
        .header_read_timeout(None);
    builder
}

/// How a sequence of requests ends.
enum ServeEnd {
    Closed,
    /// Both ends agreed on another protocol.
    Switched(CallerIo),
    /// The connection is idle.
    Parked(Bytes, TcpStream),
}

async fn serve_requests(
    io: CallerIo,
    caller: &Arc<Caller>,
    notes: &Arc<ConnectionActivity>,
    builder: &http1::Builder,
) -> ServeEnd {
    let answer = {
        let (caller, notes) = (Arc::clone(caller), Arc::clone(notes));
        service_fn(move |request: Request<Incoming>| {
            let caller = Arc::clone(&caller);
            let mut request = request.map(|incoming| request_body(incoming, &notes));
            async move { forward(&caller, &mut request).await }
        })
    };
    let wire = io.duplicate_fd();
    let mut connection = builder.serve_connection(TokioIo::new(io), answer);
    let mut look = pin!(tokio::time::sleep(CHECK_INTERVAL));
    let mut leave = pin!(caller.worker.shared.drain.cancelled());
    let (mut is_leaving, mut seen) =
        (false, IdleTracker { reads: notes.reads(), last_active: Instant::now() });
    loop {
        tokio::select! {
            biased;
            done = &mut connection => {
                if let Err(error) = done {
                    tracing::debug!(%error, "caller connection ended");
                }
                let switched = caller.upgraded.lock().is_some();
                let parts = switched.then(|| connection.into_parts());
                return parts.map_or(ServeEnd::Closed, |parts| ServeEnd::Switched(with_read_buffer(parts.io.into_inner(), parts.read_buf)));
            }
            () = leave.as_mut(), if !is_leaving => {
                // A response in progress tells the caller to reconnect. A recently used connection stays open for a
                // while: a request sent while it closes would be lost.
                is_leaving = true;
            }
            () = look.as_mut() => {
                look.as_mut().reset(Instant::now() + CHECK_INTERVAL);
                // A half-closed caller is not read from while it waits, so its reset must be detected here.
                if !notes.is_answered() && wire.as_ref().is_ok_and(is_reset) {
                    return ServeEnd::Closed;
                }
                match seen.next_action(notes, &caller.worker.shared.settings.limits, is_leaving) {
                    ConnectionAction::Keep => {}
                    ConnectionAction::Close => return ServeEnd::Closed,
                    ConnectionAction::Park => {
                        let parts = connection.into_parts();
                        let (before, stream) = parts.io.into_inner().into_parts();
                        return ServeEnd::Parked(concat_bytes(parts.read_buf, before), stream);
                    }
                }
            }
        }
    }
}

/// Whether the caller reset the connection and no longer waits for the response.
fn is_reset(wire: &OwnedFd) -> bool {
    !matches!(SockRef::from(wire).take_error(), Ok(None))
}

/// The body of a request. An empty body needs no tracking.
fn request_body(incoming: Incoming, notes: &Arc<ConnectionActivity>) -> RequestBody {
    if incoming.is_end_stream() {
        return RequestBody::Incoming(incoming);
    }
    RequestBody::Guarded(incoming, BodyDropGuard::new(UnreadBodyGuard::new(notes)))
}

/// Tracks how long a connection has been idle.
struct IdleTracker {
    reads: u64,
    /// When it was last active.
    last_active: Instant,
}

/// What to do with a connection.
enum ConnectionAction {
    Keep,
    Park,
    Close,
}

impl IdleTracker {
    fn next_action(
        &mut self,
        notes: &ConnectionActivity,
        limits: &ProxyLimits,
        is_leaving: bool,
    ) -> ConnectionAction {
        let head = notes.head_age();
        if head.is_some_and(|age| age > limits.head_timeout) {
            tracing::debug!("request head timed out");
            return ConnectionAction::Close;
        }
        let is_idle = notes.is_answered() && head.is_none() && notes.reads() == self.reads;
        self.reads = notes.reads();
        if !is_idle {
            self.last_active = Instant::now();
        }
        if is_idle && !notes.is_body_read() {
            // A caller that stops sending its body after the response would also hold a pod's connection.
            let is_stuck = self.last_active.elapsed() >= limits.head_timeout;
            return if is_stuck { ConnectionAction::Close } else { ConnectionAction::Keep };
        }
        match (is_idle, is_leaving) {
            (true, false) => ConnectionAction::Park,
            (true, true) if self.last_active.elapsed() >= CLOSE_GRACE => ConnectionAction::Close,
            _ => ConnectionAction::Keep,
        }
    }
}

/// Bytes that hyper has read ahead come first.
fn with_read_buffer(io: CallerIo, read: Bytes) -> CallerIo {
    let (before, stream) = io.into_parts();
    CallerIo::new(concat_bytes(read, before), stream)
}

fn concat_bytes(first: Bytes, then: Bytes) -> Bytes {
    match (first.is_empty(), then.is_empty()) {
        // An empty remainder would keep its buffer alive.
        (true, true) => Bytes::new(),
        (true, _) => then,
        (_, true) => first,
        _ => [first, then].concat().into(),
    }
}
