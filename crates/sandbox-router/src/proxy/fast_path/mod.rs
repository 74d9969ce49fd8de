//! The fast path for simple HTTP/1.1 requests: no body, no hop-by-hop headers, and a head that arrived in one read.
//! Most requests qualify, and general HTTP handling would cost them more than everything else.
//!
//! Contract: requests that do not qualify go to [`super::h1`] with all their bytes, unmodified. Routing uses the same
//! function. A request is retried, immediately and on another connection, if and only if nothing of it was sent. A
//! connection that waits for its caller or for a pod holds no buffer.

mod buffers;
mod exchange;
mod framing;
mod request_head;
mod response_head;

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    task::Poll,
    time::Duration,
};

use bytes::Bytes;
use tokio::{
    io::AsyncReadExt as _,
    net::TcpStream,
    time::{Instant, Sleep, sleep},
};

pub(super) use self::buffers::BufferPool;
use self::{buffers::PooledBuffer, exchange::exchange, request_head::plan_request};
use super::{
    connection_budget::{CLOSE_GRACE, OpenConnection},
    forward::Caller,
};

/// How a sequence of fast-path requests ends.
pub(super) enum FastPathEnd {
    Closed,
    /// The next request needs general HTTP handling. Contains the bytes read so far.
    Fallback(Bytes, TcpStream),
}

/// What to do with the caller's connection after a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NextStep {
    KeepOpen,
    Close,
}

/// Serves requests while they qualify for the fast path.
pub(super) async fn serve(first: Bytes, mut stream: TcpStream, caller: &Caller) -> FastPathEnd {
    let shared = &caller.worker.shared;
    if first.len() >= buffers::BUFFER_SIZE {
        return FastPathEnd::Fallback(first, stream);
    }
    let buffers = &caller.worker.buffers;
    let mut read = buffers.take();
    read.extend_from_slice(&first);
    drop(first);
    let mut used = Instant::now();
    // Created once per connection: creating them per request would cost more than the request.
    let mut leave = pin!(shared.drain.cancelled());
    let mut idle = pin!(sleep(shared.settings.limits.idle_timeout));
    let mut is_leaving = false;
    loop {
        if read.is_empty() {
            drop(read);
            let calm = IdleConnection {
                last_used: used,
                idle: idle.as_mut(),
                is_leaving: &mut is_leaving,
                open: &caller.connection,
            };
            match calm
                .wait_for_request(&mut stream, buffers, leave.as_mut(), shared.settings.limits.idle_timeout)
                .await
            {
                Some(next) => read = next,
                None => return FastPathEnd::Closed,
            }
        }
        let begun = Instant::now();
        let mut out = buffers.take();
        let is_enabled = shared.settings.http1_fast_path;
        let Some(plan) = is_enabled.then(|| plan_request(&read, caller, &mut out)).flatten() else {
            return FastPathEnd::Fallback(Bytes::copy_from_slice(&read), stream);
        };
        let rest = pipelined_bytes(read, plan.head_len);
        match exchange(plan, out, &mut stream, caller, begun).await {
            NextStep::KeepOpen => read = rest.unwrap_or_else(|| PooledBuffer::empty(buffers)),
            NextStep::Close => return FastPathEnd::Closed,
        }
        used = Instant::now();
    }
}

/// Pipelined bytes after a request. Usually there are none, and no buffer is needed.
fn pipelined_bytes(mut read: PooledBuffer<'_>, length: usize) -> Option<PooledBuffer<'_>> {
    if read.len() == length {
        return None;
    }
    read.drain(..length);
    Some(read)
}

/// A connection between two requests.
struct IdleConnection<'a> {
    last_used: Instant,
    idle: Pin<&'a mut Sleep>,
    is_leaving: &'a mut bool,
    open: &'a OpenConnection,
}

impl IdleConnection<'_> {
    /// Waits for the first bytes of the next request. `None` if the connection is closed or should be closed.
    async fn wait_for_request<'b>(
        mut self,
        stream: &mut TcpStream,
        buffers: &'b BufferPool,
        mut leave: Pin<&mut impl Future<Output = ()>>,
        limit: Duration,
    ) -> Option<PooledBuffer<'b>> {
        self.open.mark_idle(self.last_used);
        poll_fn(|cx| {
            if stream.poll_read_ready(cx).is_ready() {
                // Readiness may be stale: after a read that exactly filled its buffer the runtime still assumes more
                // data.
                let mut buffer = buffers.take();
                if let Poll::Ready(read) = pin!(stream.read_buf(&mut *buffer)).poll(cx) {
                    let is_kept = matches!(read, Ok(1..)) && self.open.mark_busy();
                    return Poll::Ready(is_kept.then_some(buffer));
                }
            }
            if !*self.is_leaving && leave.as_mut().poll(cx).is_ready() {
                // A recently used connection gets a grace period.
                *self.is_leaving = true;
                self.idle.as_mut().reset(Instant::now() + CLOSE_GRACE);
            }
            if self.open.poll_evicted(cx).is_ready() {
                return Poll::Ready(None);
            }
            while self.idle.as_mut().poll(cx).is_ready() {
                let until = self.last_used + limit;
                if *self.is_leaving || until <= Instant::now() {
                    return Poll::Ready(None);
                }
                self.idle.as_mut().reset(until);
            }
            Poll::Pending
        })
        .await
    }
}
