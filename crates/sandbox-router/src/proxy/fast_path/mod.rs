//! The short way of plain requests over HTTP/1.1: no body, nothing that is meant for the neighbour alone, and a head that came
//! in one piece. Most requests are such, and what HTTP needs in general costs them more than everything else.
//!
//! Contract: what is not plain goes to [`super::h1`] with every byte of it, and nothing has happened to it here. Who answers is
//! decided by the same function. A request is sent again, at once and on another connection, if and only if nothing of it
//! was sent before. A connection that waits, for its caller or for a pod, holds no buffer.

mod buffers;
mod framing;
mod head;
mod reply;
mod visit;

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

pub(super) use self::buffers::Buffers;
use self::{buffers::Buffer, head::plan, visit::visit};
use super::{forward::Caller, h1::QUIET};

/// How a run of plain requests ends.
pub(super) enum End {
    Closed,
    /// The next request has to go the long way. Some bytes of it were read.
    Other(Bytes, TcpStream),
}

/// What becomes of a caller's connection after a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    Next,
    Close,
}

/// Serves requests for as long as they are plain.
pub(super) async fn serve(first: Bytes, mut stream: TcpStream, caller: &Caller) -> End {
    let shared = &caller.worker.shared;
    if first.len() >= buffers::SIZE {
        return End::Other(first, stream);
    }
    let buffers = &caller.worker.buffers;
    let mut read = buffers.take();
    read.extend_from_slice(&first);
    drop(first);
    let mut used = Instant::now();
    // These two last as long as the connection: to make them for each request would cost more than the request.
    let mut leave = pin!(shared.leave.cancelled());
    let mut idle = pin!(sleep(shared.settings.limits.idle));
    let mut is_leaving = false;
    loop {
        if read.is_empty() {
            drop(read);
            let calm = Calm { used, idle: idle.as_mut(), is_leaving: &mut is_leaving };
            match calm.next(&mut stream, buffers, leave.as_mut(), shared.settings.limits.idle).await {
                Some(next) => read = next,
                None => return End::Closed,
            }
        }
        let begun = Instant::now();
        let mut out = buffers.take();
        let Some(plan) = plan(&read, caller, &mut out) else {
            return End::Other(Bytes::copy_from_slice(&read), stream);
        };
        let rest = behind(read, plan.length);
        match visit(plan, out, &mut stream, caller, begun).await {
            Then::Next => read = rest.unwrap_or_else(|| Buffer::none(buffers)),
            Then::Close => return End::Closed,
        }
        used = Instant::now();
    }
}

/// What a caller sent behind a request. Mostly that is nothing, and nothing needs no buffer.
fn behind(mut read: Buffer<'_>, length: usize) -> Option<Buffer<'_>> {
    if read.len() == length {
        return None;
    }
    read.drain(..length);
    Some(read)
}

/// A connection between two requests.
struct Calm<'a> {
    used: Instant,
    idle: Pin<&'a mut Sleep>,
    is_leaving: &'a mut bool,
}

impl Calm<'_> {
    /// The first bytes of the next request. None if there is none, or the connection may be closed.
    async fn next<'b>(
        mut self,
        stream: &mut TcpStream,
        buffers: &'b Buffers,
        mut leave: Pin<&mut impl Future<Output = ()>>,
        limit: Duration,
    ) -> Option<Buffer<'b>> {
        poll_fn(|cx| {
            if stream.poll_read_ready(cx).is_ready() {
                // That may be wrong: what filled its buffer to the last byte leaves the runtime in the belief that there is more.
                let mut buffer = buffers.take();
                if let Poll::Ready(read) = pin!(stream.read_buf(&mut *buffer)).poll(cx) {
                    return Poll::Ready(matches!(read, Ok(1..)).then_some(buffer));
                }
            }
            if !*self.is_leaving && leave.as_mut().poll(cx).is_ready() {
                // It may have been used a moment ago, and be used again.
                *self.is_leaving = true;
                self.idle.as_mut().reset(Instant::now() + QUIET);
            }
            while self.idle.as_mut().poll(cx).is_ready() {
                let until = self.used + limit;
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
