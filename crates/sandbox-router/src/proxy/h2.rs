//! Connections that speak HTTP/2: gRPC, and everything else that knows in advance.
//!
//! A connection and its requests are one task: what many requests have to say at the same time is written at once, and no
//! request has to be woken to have its answer written.

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures::{StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use h2::{
    Reason, RecvStream,
    server::{Builder, Connection, SendResponse},
};
use http::{Request, Response, header::CONTENT_LENGTH};
use hyper::body::Body as _;
use tokio::{
    net::TcpStream,
    time::{Instant, sleep, timeout},
};

use super::{
    answer::Answer,
    forward::{Caller, forward},
    io::Io,
    settings::Limits,
};
use crate::{
    body::Body,
    streams::{Pump, Received, Unsent, reason},
};

/// Serves a connection until it ends.
pub(super) async fn serve(first: Bytes, stream: TcpStream, caller: Caller) {
    let caller = Arc::new(caller);
    let limits = &caller.worker.shared.settings.limits;
    let handshake = builder(limits).handshake(Io::new(first, stream));
    let ended = match timeout(limits.head_time, handshake).await {
        Ok(Ok(connection)) => requests(connection, &caller).await,
        Ok(Err(error)) => Err(error),
        Err(_) => return tracing::debug!("a caller took too long to begin"),
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a caller's connection ended");
    }
}

fn builder(limits: &Limits) -> Builder {
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(1000)
        .max_header_list_size(u32::try_from(limits.head_bytes).unwrap_or(u32::MAX))
        .initial_window_size(256 * 1024)
        .initial_connection_window_size(1024 * 1024);
    builder
}

async fn requests(mut connection: Connection<Io, Bytes>, caller: &Arc<Caller>) -> Result<(), h2::Error> {
    let mut leave = pin!(caller.worker.shared.leave.cancelled());
    let limit = caller.worker.shared.settings.limits.idle;
    let (mut idle, mut used) = (pin!(sleep(limit)), Instant::now());
    let mut is_leaving = false;
    let mut requests = FuturesUnordered::new();
    poll_fn(|cx| {
        if !is_leaving && leave.as_mut().poll(cx).is_ready() {
            is_leaving = true;
            connection.graceful_shutdown();
        }
        // A timer for each request would cost too much: it is set when it rings.
        while idle.as_mut().poll(cx).is_ready() {
            if !requests.is_empty() {
                used = Instant::now();
            } else if used.elapsed() >= limit && is_leaving {
                // It was told, and does not go.
                return Poll::Ready(Ok(()));
            } else if used.elapsed() >= limit {
                (is_leaving, used) = (true, Instant::now());
                connection.graceful_shutdown();
            }
            idle.as_mut().reset(used + limit);
        }
        loop {
            match connection.poll_accept(cx) {
                Poll::Ready(Some(Ok((request, respond)))) => {
                    used = Instant::now();
                    requests.push(Exchange::new(caller, request, respond));
                }
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(error)),
                Poll::Ready(None) => return Poll::Ready(Ok(())),
                Poll::Pending => break,
            }
        }
        // What they send wakes this task again, and is written then.
        while let Poll::Ready(Some(())) = requests.poll_next_unpin(cx) {}
        Poll::Pending
    })
    .await
}

/// One request, and then its answer.
enum Exchange {
    /// In a box, which is given back when the answer begins.
    Asked(BoxFuture<'static, Result<Response<Answer>, h2::Error>>, SendResponse<Bytes>),
    Answered(Pump<Answer>),
}

impl Exchange {
    fn new(caller: &Arc<Caller>, request: Request<RecvStream>, respond: SendResponse<Bytes>) -> Self {
        let caller = Arc::clone(caller);
        let mut request = request.map(|recv| Body::Stream(Received::new(recv)));
        Self::Asked(Box::pin(async move { forward(&caller, &mut request).await }), respond)
    }
}

impl Future for Exchange {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let pump = match &mut *self {
                Self::Asked(asked, respond) => match asked.as_mut().poll(cx) {
                    // Who gave up wants no answer.
                    Poll::Pending => return respond.poll_reset(cx).map(drop),
                    Poll::Ready(Ok(response)) => begin(response, respond),
                    Poll::Ready(Err(error)) => {
                        respond.send_reset(told(&error));
                        None
                    }
                },
                Self::Answered(pump) => return Pin::new(pump).poll(cx).map(ended),
            };
            match pump {
                Some(pump) => *self = Self::Answered(pump),
                None => return Poll::Ready(()),
            }
        }
    }
}

/// What a caller is told of a request that has no answer. A pod that goes away has not looked at what came after, so it can
/// be sent again.
fn told(error: &h2::Error) -> Reason {
    match reason(error) {
        Reason::NO_ERROR if error.is_go_away() => Reason::REFUSED_STREAM,
        other => other,
    }
}

fn ended(end: Result<(), Unsent>) {
    if let Err(error) = end {
        tracing::debug!(%error, "an answer was not sent to its end");
    }
}

/// Sends the head of an answer. What comes back is its body, if it has one.
fn begin(response: Response<Answer>, respond: &mut SendResponse<Bytes>) -> Option<Pump<Answer>> {
    let (mut parts, body) = response.into_parts();
    let is_empty = body.is_end_stream();
    // Of the router's own answers.
    if let Some(length) = body.size_hint().exact().filter(|_| !is_empty) {
        parts.headers.entry(CONTENT_LENGTH).or_insert(length.into());
    }
    match respond.send_response(Response::from_parts(parts, ()), is_empty) {
        Ok(to) => (!is_empty).then(|| Pump::new(body, to)),
        Err(error) => {
            tracing::debug!(%error, "an answer cannot be sent");
            respond.send_reset(Reason::INTERNAL_ERROR);
            None
        }
    }
}
