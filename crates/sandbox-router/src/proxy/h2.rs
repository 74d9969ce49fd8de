//! HTTP/2 connections with prior knowledge, such as gRPC.
//!
//! A connection and its requests are one task: frames of concurrent requests are written together, and responses need
//! no wakeup of another task.

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll, ready},
    time::Duration,
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
    time::{Instant, Sleep, sleep, timeout},
};

use super::{
    caller_io::CallerIo,
    forward::{Caller, forward},
    premature_resets::ResetBudget,
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
    let io = CallerIo::new(first, stream).with_budget(&caller.worker.shared.writes);
    let handshake = builder(limits).handshake(io);
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
    connection: Connection<CallerIo, Bytes>,
    caller: &Arc<Caller>,
) -> Result<(), h2::Error> {
    let shared = &caller.worker.shared;
    let mut leave = pin!(shared.drain.cancelled());
    let mut idle = pin!(sleep(shared.settings.limits.idle_timeout));
    let mut served = ServedConnection {
        connection,
        caller,
        requests: FuturesUnordered::new(),
        resets: ResetBudget::new(&shared.settings.limits),
        used: Instant::now(),
        is_leaving: false,
        is_closing: false,
    };
    poll_fn(|cx| {
        if !served.is_leaving && leave.as_mut().poll(cx).is_ready() {
            served.leave();
        }
        if served.poll_idle(cx, idle.as_mut()).is_ready() {
            return Poll::Ready(Ok(()));
        }
        if let Poll::Ready(end) = served.poll_accept(cx) {
            return Poll::Ready(end);
        }
        served.poll_requests(cx);
        served.poll_evicted(cx);
        // Sends GOAWAY and closes.
        if served.is_closing { served.connection.poll_closed(cx) } else { Poll::Pending }
    })
    .await
}

/// A connection and its requests.
struct ServedConnection<'a> {
    connection: Connection<CallerIo, Bytes>,
    caller: &'a Arc<Caller>,
    requests: FuturesUnordered<H2Exchange>,
    resets: ResetBudget,
    /// When it was used last.
    used: Instant,
    /// GOAWAY was sent; requests in progress may finish.
    is_leaving: bool,
    /// It closes without waiting for requests.
    is_closing: bool,
}

impl ServedConnection<'_> {
    fn leave(&mut self) {
        self.is_leaving = true;
        self.connection.graceful_shutdown();
    }

    fn close(&mut self, reason: Reason) {
        self.is_closing = true;
        self.connection.abrupt_shutdown(reason);
        self.requests.clear();
    }

    /// Leaves after the idle timeout; ready if the caller did not close after another one. One timer per connection,
    /// rearmed when it fires: resetting it for each request would cost too much.
    fn poll_idle(&mut self, cx: &mut Context<'_>, mut idle: Pin<&mut Sleep>) -> Poll<()> {
        let limit = self.caller.worker.shared.settings.limits.idle_timeout;
        while idle.as_mut().poll(cx).is_ready() {
            if !self.requests.is_empty() {
                self.used = Instant::now();
            } else if self.used.elapsed() >= limit && self.is_leaving {
                return Poll::Ready(());
            } else if self.used.elapsed() >= limit {
                self.used = Instant::now();
                self.leave();
            }
            idle.as_mut().reset(self.used + limit);
        }
        Poll::Pending
    }

    /// Starts the requests that have arrived; ready when the connection has ended.
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), h2::Error>> {
        loop {
            match ready!(self.connection.poll_accept(cx)) {
                Some(Ok(accepted)) => {
                    let (request, respond) = accepted;
                    self.used = Instant::now();
                    if !self.is_closing && self.caller.connection.mark_busy() {
                        self.requests.push(H2Exchange::new(self.caller, request, respond));
                    }
                }
                Some(Err(error)) => return Poll::Ready(Err(error)),
                None => return Poll::Ready(Ok(())),
            }
        }
    }

    /// Drives the requests. Frames they queue wake the task, which writes them.
    fn poll_requests(&mut self, cx: &mut Context<'_>) {
        while let Poll::Ready(Some(end)) = self.requests.poll_next_unpin(cx) {
            if end == ExchangeEnd::ResetBeforeResponse && self.resets.record(Instant::now()) {
                self.caller.worker.shared.reset_floods.fetch_add(1, Ordering::Relaxed);
                self.close(Reason::ENHANCE_YOUR_CALM);
            }
        }
    }

    /// Without requests it may have to make room.
    fn poll_evicted(&mut self, cx: &Context<'_>) {
        if !self.requests.is_empty() || self.is_closing {
            return;
        }
        self.caller.connection.mark_idle(self.used);
        if self.caller.connection.poll_evicted(cx).is_ready() {
            self.close(Reason::NO_ERROR);
        }
    }
}

/// How an exchange ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExchangeEnd {
    Done,
    /// The caller did not wait for its response.
    ResetBeforeResponse,
}

/// One request and its response.
enum H2Exchange {
    /// Boxed, so that it is freed when the response starts.
    AwaitingResponse {
        response: BoxFuture<'static, Result<Response<ResponseBody>, h2::Error>>,
        respond: SendResponse<Bytes>,
        stall_limit: Duration,
    },
    SendingBody(Box<BodySender<ResponseBody>>),
}

impl H2Exchange {
    fn new(caller: &Arc<Caller>, request: Request<RecvStream>, respond: SendResponse<Bytes>) -> Self {
        let caller = Arc::clone(caller);
        let stall_limit = caller.worker.shared.settings.limits.idle_timeout;
        let mut request = request.map(|recv| RequestBody::Stream(H2Body::new(recv)));
        let response = Box::pin(async move { forward(&caller, &mut request).await });
        Self::AwaitingResponse { response, respond, stall_limit }
    }
}

impl Future for H2Exchange {
    type Output = ExchangeEnd;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<ExchangeEnd> {
        loop {
            let pump = match &mut *self {
                Self::AwaitingResponse { response, respond, stall_limit } => match response.as_mut().poll(cx)
                {
                    Poll::Pending => {
                        return respond.poll_reset(cx).map(|_| ExchangeEnd::ResetBeforeResponse);
                    }
                    Poll::Ready(Ok(response)) => send_head(response, respond, *stall_limit),
                    Poll::Ready(Err(error)) => {
                        respond.send_reset(reset_reason_for_caller(&error));
                        None
                    }
                },
                Self::SendingBody(pump) => {
                    return Pin::new(pump).poll(cx).map(log_send_result).map(|()| ExchangeEnd::Done);
                }
            };
            match pump {
                Some(pump) => *self = Self::SendingBody(Box::new(pump)),
                None => return Poll::Ready(ExchangeEnd::Done),
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
    stall_limit: Duration,
) -> Option<BodySender<ResponseBody>> {
    let (mut parts, body) = response.into_parts();
    let is_empty = body.is_end_stream();
    // For responses of the router itself.
    if let Some(length) = body.size_hint().exact().filter(|_| !is_empty) {
        parts.headers.entry(CONTENT_LENGTH).or_insert(length.into());
    }
    match respond.send_response(Response::from_parts(parts, ()), is_empty) {
        Ok(to) => (!is_empty).then(|| BodySender::new(body, to).with_stall_limit(stall_limit)),
        Err(error) => {
            tracing::debug!(%error, "sending a response failed");
            respond.send_reset(Reason::INTERNAL_ERROR);
            None
        }
    }
}
