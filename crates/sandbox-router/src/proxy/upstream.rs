//! Requests to pods.
//!
//! A request is retried, immediately and on another connection, if and only if nothing of it was sent.

use std::{future::poll_fn, io, mem::take, net::SocketAddr, pin::Pin, task::Poll};

use bytes::Bytes;
use h2::client::SendRequest;
use http::{Request, Response, StatusCode, Version};
use hyper::body::Body as _;
use tokio::{net::TcpStream, task::AbortHandle};

use super::{
    forward::ForwardError,
    headers::strip_hop_by_hop,
    pod_pool::{H1Lease, H1Sender, H2StreamGuard},
    response::{ErrorResponse, ResponseBody},
    worker::Worker,
};
use crate::{
    h2_body::{BodySender, H2Body},
    request_body::RequestBody,
    table::Backend,
};

/// Sends a request to the next pods in rotation. The request is passed by reference and taken when it is sent, which
/// avoids copying it between futures.
pub(super) async fn send(
    worker: &Worker,
    backend: &Backend,
    request: &mut Request<RequestBody>,
) -> Result<Response<ResponseBody>, ForwardError> {
    let mut last = None;
    for to in backend.rotation() {
        let attempt = if request.version() == Version::HTTP_2 {
            send_h2(worker, to, request).await
        } else {
            send_h1(worker, to, request).await
        };
        match attempt {
            SendAttempt::Responded(response) => return Ok(response),
            SendAttempt::Failed(trouble) => return Err(trouble),
            SendAttempt::NotSent(error) => {
                tracing::debug!(%to, %error, "sending a request to a pod failed");
                last = Some(error);
            }
        }
    }
    Err(no_pod_response(last).into())
}

/// No pod accepted the request; `last` is the last error.
pub(super) fn no_pod_response(last: Option<io::Error>) -> ErrorResponse {
    match last {
        None => ErrorResponse::unavailable("no-endpoints", "no pod is ready to answer this request"),
        Some(error) => ErrorResponse::unavailable(
            "unreachable",
            format!("no pod accepts connections; last error: {error}"),
        ),
    }
}

/// Result of sending a request to one pod.
#[expect(clippy::large_enum_variant, reason = "a box would cost every request an allocation")]
pub(super) enum SendAttempt {
    Responded(Response<ResponseBody>),
    /// Nothing was sent, and the request is unchanged.
    NotSent(io::Error),
    Failed(ForwardError),
}

/// On an HTTP/1.1 connection of the pool.
async fn send_h1(worker: &Worker, to: SocketAddr, request: &mut Request<RequestBody>) -> SendAttempt {
    // Every idle connection may be dead; a new one is not.
    while let Some(mut sender) = worker.pool.take_idle_h1(to) {
        match sender.try_send_request(take(request)).await {
            Ok(response) => return responded(response, worker.pool.lease_h1(to, sender)),
            Err(mut error) => match error.take_message() {
                Some(untouched) => *request = untouched,
                None => return SendAttempt::Failed(bad_gateway_from(error.error()).into()),
            },
        }
    }
    match Box::pin(worker.pool.open_h1(to)).await {
        Ok(sender) => send_on_h1(worker, to, sender, request).await,
        Err(error) => SendAttempt::NotSent(error),
    }
}

/// On a new connection that is not pooled.
pub(super) async fn send_on_stream(
    worker: &Worker,
    (to, stream): (SocketAddr, TcpStream),
    request: &mut Request<RequestBody>,
) -> SendAttempt {
    if request.version() != Version::HTTP_2 {
        return match worker.pool.h1_on_stream(to, stream).await {
            Ok(sender) => send_on_h1(worker, to, sender, request).await,
            Err(error) => SendAttempt::NotSent(error),
        };
    }
    let (mut shared, place) = match worker.pool.h2_on_stream(to, stream).await {
        Ok(shared) => shared,
        Err(error) => return SendAttempt::NotSent(error),
    };
    if let Err(error) = poll_fn(|cx| shared.sender.poll_ready(cx)).await {
        return SendAttempt::NotSent(io::Error::other(error));
    }
    let asked = send_on_h2(shared.sender, place, request);
    asked.await.unwrap_or_else(|error| SendAttempt::Failed(ForwardError::Reset(error)))
}

async fn send_on_h1(
    worker: &Worker,
    to: SocketAddr,
    mut sender: H1Sender,
    request: &mut Request<RequestBody>,
) -> SendAttempt {
    match sender.try_send_request(take(request)).await {
        Ok(response) => responded(response, worker.pool.lease_h1(to, sender)),
        Err(mut error) => match error.take_message() {
            Some(untouched) => {
                *request = untouched;
                SendAttempt::NotSent(io::Error::other(error.into_error()))
            }
            None => SendAttempt::Failed(bad_gateway_from(error.error()).into()),
        },
    }
}

fn responded(mut response: Response<hyper::body::Incoming>, lease: H1Lease) -> SendAttempt {
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        return SendAttempt::Failed(bad_gateway(&"unexpected 101 Switching Protocols").into());
    }
    strip_hop_by_hop(response.headers_mut(), false);
    SendAttempt::Responded(response.map(|incoming| ResponseBody::from_pod(incoming, Some(lease))))
}

/// 502: the pod failed before its response started.
pub(super) fn bad_gateway_from(error: &hyper::Error) -> ErrorResponse {
    match std::error::Error::source(error) {
        Some(cause) => bad_gateway(&format_args!("{error}: {cause}")),
        None => bad_gateway(error),
    }
}

/// The same with a message.
pub(super) fn bad_gateway(why: &dyn std::fmt::Display) -> ErrorResponse {
    let message = format!("the pod failed before it responded: {why}");
    ErrorResponse::new(StatusCode::BAD_GATEWAY, "upstream", message)
}

/// On a shared HTTP/2 connection.
async fn send_h2(worker: &Worker, to: SocketAddr, request: &mut Request<RequestBody>) -> SendAttempt {
    loop {
        let (mut shared, stream, is_new) = match worker.pool.acquire_h2(to).await {
            Ok(shared) => shared,
            Err(error) => return SendAttempt::NotSent(error),
        };
        match poll_fn(|cx| shared.sender.poll_ready(cx)).await {
            Ok(()) => {
                let asked = send_on_h2(shared.sender, stream, request);
                return asked.await.unwrap_or_else(|error| SendAttempt::Failed(ForwardError::Reset(error)));
            }
            Err(error) if is_new => return SendAttempt::NotSent(io::Error::other(error)),
            Err(_dead) => worker.pool.remove_h2(to, &shared),
        }
    }
}

/// An error carries the reset reason of the pod.
async fn send_on_h2(
    mut sender: SendRequest<Bytes>,
    stream: H2StreamGuard,
    request: &mut Request<RequestBody>,
) -> Result<SendAttempt, h2::Error> {
    let (parts, body) = take(request).into_parts();
    let is_empty = body.is_end_stream();
    let (answer, to) = sender.send_request(Request::from_parts(parts, ()), is_empty)?;
    drop(sender);
    let mut rest =
        BodyAbortGuard(if is_empty { None } else { start_sending_body(BodySender::new(body, to)).await });
    let response = answer.await?;
    // A pod may respond before it has read the whole body; the rest is still sent.
    rest.0 = None;
    Ok(SendAttempt::Responded(response.map(|recv| ResponseBody::from_h2(H2Body::new(recv), stream))))
}

/// Aborts sending the body when the caller no longer waits for the response.
struct BodyAbortGuard(Option<AbortHandle>);

impl Drop for BodyAbortGuard {
    fn drop(&mut self) {
        if let Some(pump) = &self.0 {
            pump.abort();
        }
    }
}

/// Starts sending a body. Data that is not available yet is sent by a task.
async fn start_sending_body(mut pump: BodySender<RequestBody>) -> Option<AbortHandle> {
    let begun = poll_fn(|cx| Poll::Ready(Pin::new(&mut pump).poll(cx))).await;
    // Errors show in the response.
    begun.is_pending().then(|| tokio::spawn(async move { drop(pump.await) }).abort_handle())
}
