//! Requests to pods.
//!
//! A request is sent again, at once and on another connection, if and only if nothing of it was sent before.

use std::{future::poll_fn, io, mem::take, net::SocketAddr, pin::Pin, task::Poll};

use bytes::Bytes;
use h2::client::SendRequest;
use http::{Request, Response, StatusCode, Version};
use hyper::body::Body as _;
use tokio::{net::TcpStream, task::AbortHandle};

use super::{
    answer::{Answer, Refusal},
    forward::Trouble,
    headers::strip_hop_by_hop,
    pool::{Lease, Single, Stream},
    worker::Worker,
};
use crate::{
    body::Body,
    streams::{Pump, Received},
    table::Backend,
};

/// Sends a request to the pods whose turn it is. The request is taken out when it is sent, and not before: what is not moved
/// from one future into the next is not copied.
pub(super) async fn send(
    worker: &Worker,
    backend: &Backend,
    request: &mut Request<Body>,
) -> Result<Response<Answer>, Trouble> {
    let mut last = None;
    for to in backend.turn() {
        let attempt = if request.version() == Version::HTTP_2 {
            share(worker, to, request).await
        } else {
            lend(worker, to, request).await
        };
        match attempt {
            Attempt::Answered(response) => return Ok(response),
            Attempt::Failed(trouble) => return Err(trouble),
            Attempt::Unsent(error) => {
                tracing::debug!(%to, %error, "a pod did not take a request");
                last = Some(error);
            }
        }
    }
    Err(nobody(last).into())
}

/// No pod took a request; the last one said why.
pub(super) fn nobody(last: Option<io::Error>) -> Refusal {
    match last {
        None => Refusal::unavailable("no-endpoints", "no pod is ready to answer this request"),
        Some(error) => Refusal::unavailable(
            "unreachable",
            format!("no pod takes connections; the last one said: {error}"),
        ),
    }
}

/// How it went with one pod.
#[expect(clippy::large_enum_variant, reason = "a box would cost every request an allocation")]
pub(super) enum Attempt {
    Answered(Response<Answer>),
    /// Nothing was sent, and the request is where it was.
    Unsent(io::Error),
    Failed(Trouble),
}

/// On a connection that has one request at a time.
async fn lend(worker: &Worker, to: SocketAddr, request: &mut Request<Body>) -> Attempt {
    // Every idle connection may be dead; a new one is not.
    while let Some(mut sender) = worker.pool.idle(to) {
        match sender.try_send_request(take(request)).await {
            Ok(response) => return answered(response, worker.pool.lease(to, sender)),
            Err(mut error) => match error.take_message() {
                Some(untouched) => *request = untouched,
                None => return Attempt::Failed(broken(error.error()).into()),
            },
        }
    }
    match Box::pin(worker.pool.open(to)).await {
        Ok(sender) => single(worker, to, sender, request).await,
        Err(error) => Attempt::Unsent(error),
    }
}

/// On a connection that is new, and that nobody else will have.
pub(super) async fn on(
    worker: &Worker,
    (to, stream): (SocketAddr, TcpStream),
    request: &mut Request<Body>,
) -> Attempt {
    if request.version() != Version::HTTP_2 {
        return match worker.pool.single_on(to, stream).await {
            Ok(sender) => single(worker, to, sender, request).await,
            Err(error) => Attempt::Unsent(error),
        };
    }
    let (mut shared, place) = match worker.pool.shared_on(to, stream).await {
        Ok(shared) => shared,
        Err(error) => return Attempt::Unsent(error),
    };
    if let Err(error) = poll_fn(|cx| shared.sender.poll_ready(cx)).await {
        return Attempt::Unsent(io::Error::other(error));
    }
    let asked = ask(shared.sender, place, request);
    asked.await.unwrap_or_else(|error| Attempt::Failed(Trouble::Reset(error)))
}

async fn single(worker: &Worker, to: SocketAddr, mut sender: Single, request: &mut Request<Body>) -> Attempt {
    match sender.try_send_request(take(request)).await {
        Ok(response) => answered(response, worker.pool.lease(to, sender)),
        Err(mut error) => match error.take_message() {
            Some(untouched) => {
                *request = untouched;
                Attempt::Unsent(io::Error::other(error.into_error()))
            }
            None => Attempt::Failed(broken(error.error()).into()),
        },
    }
}

fn answered(mut response: Response<hyper::body::Incoming>, lease: Lease) -> Attempt {
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        return Attempt::Failed(
            broke_off(&"it switched to another protocol, and nobody had asked for that").into(),
        );
    }
    strip_hop_by_hop(response.headers_mut(), false);
    Attempt::Answered(response.map(|incoming| Answer::pod(incoming, Some(lease))))
}

/// The pod broke off before its answer began.
pub(super) fn broken(error: &hyper::Error) -> Refusal {
    match std::error::Error::source(error) {
        Some(cause) => broke_off(&format_args!("{error}: {cause}")),
        None => broke_off(error),
    }
}

/// The same, in words.
pub(super) fn broke_off(why: &dyn std::fmt::Display) -> Refusal {
    let message = format!("the pod broke off before it answered: {why}");
    Refusal::new(StatusCode::BAD_GATEWAY, "upstream", message)
}

/// On a connection that has many requests at once.
async fn share(worker: &Worker, to: SocketAddr, request: &mut Request<Body>) -> Attempt {
    loop {
        let (mut shared, stream, is_new) = match worker.pool.share(to).await {
            Ok(shared) => shared,
            Err(error) => return Attempt::Unsent(error),
        };
        match poll_fn(|cx| shared.sender.poll_ready(cx)).await {
            Ok(()) => {
                let asked = ask(shared.sender, stream, request);
                return asked.await.unwrap_or_else(|error| Attempt::Failed(Trouble::Reset(error)));
            }
            Err(error) if is_new => return Attempt::Unsent(io::Error::other(error)),
            Err(_dead) => worker.pool.forget(to, &shared),
        }
    }
}

/// An error has the reason that the pod gave.
async fn ask(
    mut sender: SendRequest<Bytes>,
    stream: Stream,
    request: &mut Request<Body>,
) -> Result<Attempt, h2::Error> {
    let (parts, body) = take(request).into_parts();
    let is_empty = body.is_end_stream();
    let (answer, to) = sender.send_request(Request::from_parts(parts, ()), is_empty)?;
    drop(sender);
    let mut rest = Rest(if is_empty { None } else { start(Pump::new(body, to)).await });
    let response = answer.await?;
    // A pod may answer before it has read everything.
    rest.0 = None;
    Ok(Attempt::Answered(response.map(|recv| Answer::stream(Received::new(recv), stream))))
}

/// Sends the rest of a request, which nobody wants any more if there is nobody who waits for the answer.
struct Rest(Option<AbortHandle>);

impl Drop for Rest {
    fn drop(&mut self) {
        if let Some(pump) = &self.0 {
            pump.abort();
        }
    }
}

/// Sends a body. What is not there yet is sent by a task, as it comes.
async fn start(mut pump: Pump<Body>) -> Option<AbortHandle> {
    let begun = poll_fn(|cx| Poll::Ready(Pin::new(&mut pump).poll(cx))).await;
    // How it ends shows in the answer.
    begun.is_pending().then(|| tokio::spawn(async move { drop(pump.await) }).abort_handle())
}
