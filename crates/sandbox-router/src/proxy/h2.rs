//! HTTP/2 connections with prior knowledge, such as gRPC.
//!
//! A connection and its requests are one task: frames of concurrent requests are written together, and responses need
//! no wakeup of another task.

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
    caller_io::CallerIo,
    forward::{Caller, forward},
    response::ResponseBody,
    settings::ProxyLimits,
};
use crate::{
    h2_body::{BodySender, H2Body, SendBodyError, reset_reason},
    request_body::RequestBody,
};

/// Serves a connection until it ends.
pub(super) async fn serve(first: Bytes, stream: TcpStream, caller: Caller) {
    let caller = Arc::new(caller);
    let limits = &caller.worker.shared.settings.limits;
    let handshake = builder(limits).handshake(CallerIo::new(first, stream));
    let ended = match timeout(limits.head_timeout, handshake).await {
        Ok(Ok(connection)) => serve_requests(connection, &caller).await,
        Ok(Err(error)) => Err(error),
        Err(_) => return tracing::debug!("HTTP/2 handshake timed out"),
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "caller connection ended");
    }
}

fn builder(limits: &ProxyLimits) -> Builder {
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(1000)
        .max_header_list_size(u32::try_from(limits.max_head_bytes).unwrap_or(u32::MAX))
        .initial_window_size(256 * 1024)
        .initial_connection_window_size(1024 * 1024);
    builder
}

async fn serve_requests(
    mut connection: Connection<CallerIo, Bytes>,
    caller: &Arc<Caller>,
) -> Result<(), h2::Error> {
    let mut leave = pin!(caller.worker.shared.drain.cancelled());
    let limit = caller.worker.shared.settings.limits.idle_timeout;
    let (mut idle, mut used) = (pin!(sleep(limit)), Instant::now());
    let mut is_leaving = false;
    let mut requests = FuturesUnordered::new();
    poll_fn(|cx| {
        if !is_leaving && leave.as_mut().poll(cx).is_ready() {
            is_leaving = true;
            connection.graceful_shutdown();
        }
        // One timer per connection, rearmed when it fires: resetting it for each request would cost too much.
        while idle.as_mut().poll(cx).is_ready() {
            if !requests.is_empty() {
                used = Instant::now();
            } else if used.elapsed() >= limit && is_leaving {
                // GOAWAY was sent and the caller did not close.
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
                    requests.push(H2Exchange::new(caller, request, respond));
                }
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(error)),
                Poll::Ready(None) => return Poll::Ready(Ok(())),
                Poll::Pending => break,
            }
        }
        // Frames they queue wake this task, which writes them.
        while let Poll::Ready(Some(())) = requests.poll_next_unpin(cx) {}
        Poll::Pending
    })
    .await
}

/// One request and its response.
enum H2Exchange {
    /// Boxed, so that it is freed when the response starts.
    AwaitingResponse(BoxFuture<'static, Result<Response<ResponseBody>, h2::Error>>, SendResponse<Bytes>),
    SendingBody(BodySender<ResponseBody>),
}

impl H2Exchange {
    fn new(caller: &Arc<Caller>, request: Request<RecvStream>, respond: SendResponse<Bytes>) -> Self {
        let caller = Arc::clone(caller);
        let mut request = request.map(|recv| RequestBody::Stream(H2Body::new(recv)));
        Self::AwaitingResponse(Box::pin(async move { forward(&caller, &mut request).await }), respond)
    }
}

impl Future for H2Exchange {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let pump = match &mut *self {
                Self::AwaitingResponse(asked, respond) => match asked.as_mut().poll(cx) {
                    // The caller reset the stream.
                    Poll::Pending => return respond.poll_reset(cx).map(drop),
                    Poll::Ready(Ok(response)) => send_head(response, respond),
                    Poll::Ready(Err(error)) => {
                        respond.send_reset(reset_reason_for_caller(&error));
                        None
                    }
                },
                Self::SendingBody(pump) => return Pin::new(pump).poll(cx).map(log_send_result),
            };
            match pump {
                Some(pump) => *self = Self::SendingBody(pump),
                None => return Poll::Ready(()),
            }
        }
    }
}

/// The reset reason for a request without a response. A pod that sent GOAWAY has not processed the request, so it can
/// be retried.
fn reset_reason_for_caller(error: &h2::Error) -> Reason {
    match reset_reason(error) {
        Reason::NO_ERROR if error.is_go_away() => Reason::REFUSED_STREAM,
        other => other,
    }
}

fn log_send_result(end: Result<(), SendBodyError>) {
    if let Err(error) = end {
        tracing::debug!(%error, "response was not sent completely");
    }
}

/// Sends the head of a response. Returns the sender of its body, if there is one.
fn send_head(
    response: Response<ResponseBody>,
    respond: &mut SendResponse<Bytes>,
) -> Option<BodySender<ResponseBody>> {
    let (mut parts, body) = response.into_parts();
    let is_empty = body.is_end_stream();
    // For responses of the router itself.
    if let Some(length) = body.size_hint().exact().filter(|_| !is_empty) {
        parts.headers.entry(CONTENT_LENGTH).or_insert(length.into());
    }
    match respond.send_response(Response::from_parts(parts, ()), is_empty) {
        Ok(to) => (!is_empty).then(|| BodySender::new(body, to)),
        Err(error) => {
            tracing::debug!(%error, "sending a response failed");
            respond.send_reset(Reason::INTERNAL_ERROR);
            None
        }
    }
}
