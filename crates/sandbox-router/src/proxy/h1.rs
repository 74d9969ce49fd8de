//! Connections that speak HTTP/1. Plain requests go a short way ([`plain`]), and others that of hyper.
//!
//! Between two requests a connection is parked: what HTTP needs (two buffers above all) is given back, and a thousand idle
//! callers cost little. They are parked soon, because buffers that were held at the same time leave holes in the heap when
//! they are given back one by one: what counts is how many are held at once.

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
    forward::{Caller, forward},
    io::{Io, Notes, Unread},
    plain,
    settings::Limits,
    upgrade,
};
use crate::body::{Body, Hold};

/// How often a connection is looked at.
const LOOK: Duration = Duration::from_millis(50);
/// How long a connection must have been quiet until it may be closed: who writes while we close gets no answer.
pub(super) const QUIET: Duration = Duration::from_millis(500);

/// Serves a connection until it ends.
pub(super) async fn serve(first: Bytes, stream: TcpStream, mut caller: Caller) {
    let notes = Notes::new();
    caller.notes = Some(Arc::clone(&notes));
    let caller = Arc::new(caller);
    let builder = builder(&caller.worker.shared.settings.limits);
    let mut next = (first, stream);
    loop {
        let plain::End::Other(bytes, stream) = plain::serve(next.0, next.1, &caller).await else { return };
        let io = Io::noted(bytes, stream, &notes);
        // In a box, which is given back while the connection is parked.
        match Box::pin(requests(io, &caller, &notes, &builder)).await {
            End::Closed => return,
            End::Switched(io) => {
                let joint = caller.joint.lock().take();
                if let Some(joint) = joint {
                    Box::pin(upgrade::copy(io, joint)).await;
                }
                return;
            }
            End::Parked(bytes, stream) => next = (bytes, stream),
        }
    }
}

fn builder(limits: &Limits) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        // A caller may be done with sending and still wait for its answer.
        .half_close(true)
        .auto_date_header(false)
        .max_headers(limits.head_lines)
        .max_buf_size(limits.head_bytes.max(8192))
        // Heads have their time limit here, see `requests`: a timer for each request would cost too much.
        .header_read_timeout(None);
    builder
}

/// How a run of requests ends.
enum End {
    Closed,
    /// Both ends agreed on another protocol.
    Switched(Io),
    /// Nothing has happened for a while.
    Parked(Bytes, TcpStream),
}

async fn requests(io: Io, caller: &Arc<Caller>, notes: &Arc<Notes>, builder: &http1::Builder) -> End {
    let answer = {
        let (caller, notes) = (Arc::clone(caller), Arc::clone(notes));
        service_fn(move |request: Request<Incoming>| {
            let caller = Arc::clone(&caller);
            let mut request = request.map(|incoming| body(incoming, &notes));
            async move { forward(&caller, &mut request).await }
        })
    };
    let wire = io.wire();
    let mut connection = builder.serve_connection(TokioIo::new(io), answer);
    let mut look = pin!(tokio::time::sleep(LOOK));
    let mut leave = pin!(caller.worker.shared.leave.cancelled());
    let (mut is_leaving, mut seen) = (false, Seen { reads: notes.reads(), last: Instant::now() });
    loop {
        tokio::select! {
            biased;
            done = &mut connection => {
                if let Err(error) = done {
                    tracing::debug!(%error, "a caller's connection ended");
                }
                let switched = caller.joint.lock().is_some();
                let parts = switched.then(|| connection.into_parts());
                return parts.map_or(End::Closed, |parts| End::Switched(rest(parts.io.into_inner(), parts.read_buf)));
            }
            () = leave.as_mut(), if !is_leaving => {
                // An answer that is under way tells the caller. A connection that was used just now may be used again
                // any moment, and is left open for a while: who writes while we close gets no answer.
                is_leaving = true;
            }
            () = look.as_mut() => {
                look.as_mut().reset(Instant::now() + LOOK);
                // A caller that may be done with sending is not listened to while it waits.
                if !notes.is_answered() && wire.as_ref().is_ok_and(is_torn) {
                    return End::Closed;
                }
                match seen.look(notes, &caller.worker.shared.settings.limits, is_leaving) {
                    Verdict::Stay => {}
                    Verdict::Close => return End::Closed,
                    Verdict::Park => {
                        let parts = connection.into_parts();
                        let (before, stream) = parts.io.into_inner().into_parts();
                        return End::Parked(together(parts.read_buf, before), stream);
                    }
                }
            }
        }
    }
}

/// Whether a connection was torn off by its caller: nobody waits for an answer.
fn is_torn(wire: &OwnedFd) -> bool {
    !matches!(SockRef::from(wire).take_error(), Ok(None))
}

/// The body of a request. One that is empty needs no notes.
fn body(incoming: Incoming, notes: &Arc<Notes>) -> Body {
    if incoming.is_end_stream() {
        return Body::Incoming(incoming);
    }
    Body::Held(incoming, Hold::new(Unread::new(notes)))
}

/// What was seen of a connection when it was looked at last.
struct Seen {
    reads: u64,
    /// When it was not idle.
    last: Instant,
}

/// What is to become of a connection.
enum Verdict {
    Stay,
    Park,
    Close,
}

impl Seen {
    fn look(&mut self, notes: &Notes, limits: &Limits, is_leaving: bool) -> Verdict {
        let head = notes.head_age();
        if head.is_some_and(|age| age > limits.head_time) {
            tracing::debug!("a caller took too long for the head of its request");
            return Verdict::Close;
        }
        let is_idle = notes.is_answered() && head.is_none() && notes.reads() == self.reads;
        self.reads = notes.reads();
        if !is_idle {
            self.last = Instant::now();
        }
        if is_idle && !notes.is_read() {
            // Somebody who has an answer and does not go on with the request holds a pod's connection, too.
            let is_stuck = self.last.elapsed() >= limits.head_time;
            return if is_stuck { Verdict::Close } else { Verdict::Stay };
        }
        match (is_idle, is_leaving) {
            (true, false) => Verdict::Park,
            (true, true) if self.last.elapsed() >= QUIET => Verdict::Close,
            _ => Verdict::Stay,
        }
    }
}

/// What HTTP has read too much comes first.
fn rest(io: Io, read: Bytes) -> Io {
    let (before, stream) = io.into_parts();
    Io::new(together(read, before), stream)
}

fn together(first: Bytes, then: Bytes) -> Bytes {
    match (first.is_empty(), then.is_empty()) {
        // An empty rest would hold the buffer that it is the rest of.
        (true, true) => Bytes::new(),
        (true, _) => then,
        (_, true) => first,
        _ => [first, then].concat().into(),
    }
}
