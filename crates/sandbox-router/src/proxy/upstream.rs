//! Requests to pods.
//!
//! A request is sent again, at once and on another connection, if and only if nothing of it was sent before.

use std::{io, net::SocketAddr};

use http::{Request, Response, StatusCode, Version};

use super::{
    answer::{Answer, Refusal},
    forward::Trouble,
    headers::strip_hop_by_hop,
    pool::Lease,
    worker::Worker,
};
use crate::{body::Body, table::Backend};

/// Sends a request to the pods whose turn it is.
pub(super) async fn send(
    worker: &Worker,
    backend: &Backend,
    request: Request<Body>,
) -> Result<Response<Answer>, Trouble> {
    let mut request = request;
    let mut last = None;
    for to in backend.turn() {
        match send_to(worker, to, request).await {
            Attempt::Answered(response) => return Ok(response),
            Attempt::Failed(trouble) => return Err(trouble),
            Attempt::Unsent(untouched, error) => {
                tracing::debug!(%to, %error, "a pod did not take a request");
                (request, last) = (*untouched, Some(error));
            }
        }
    }
    Err(nobody(last).into())
}

fn nobody(last: Option<io::Error>) -> Refusal {
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
enum Attempt {
    Answered(Response<Answer>),
    /// Nothing was sent.
    Unsent(Box<Request<Body>>, io::Error),
    Failed(Trouble),
}

async fn send_to(worker: &Worker, to: SocketAddr, request: Request<Body>) -> Attempt {
    if request.version() == Version::HTTP_2 {
        return share(worker, to, request).await;
    }
    let mut request = request;
    // Every idle connection may be dead; a new one is not.
    while let Some(mut sender) = worker.pool.idle(to) {
        match sender.try_send_request(request).await {
            Ok(response) => return Attempt::Answered(answered(response, worker.pool.lease(to, sender))),
            Err(mut error) => match error.take_message() {
                Some(untouched) => request = untouched,
                None => return Attempt::Failed(broken(error.error()).into()),
            },
        }
    }
    let mut sender = match worker.pool.open(to).await {
        Ok(sender) => sender,
        Err(error) => return Attempt::Unsent(Box::new(request), error),
    };
    match sender.try_send_request(request).await {
        Ok(response) => Attempt::Answered(answered(response, worker.pool.lease(to, sender))),
        Err(mut error) => match error.take_message() {
            Some(untouched) => Attempt::Unsent(Box::new(untouched), io::Error::other(error.into_error())),
            None => Attempt::Failed(broken(error.error()).into()),
        },
    }
}

fn answered(mut response: Response<hyper::body::Incoming>, lease: Lease) -> Response<Answer> {
    strip_hop_by_hop(response.headers_mut(), false);
    response.map(|incoming| Answer::pod(incoming, Some(lease), None))
}

/// The pod broke off before its answer began.
pub(super) fn broken(error: &hyper::Error) -> Refusal {
    let mut message = format!("the pod broke off before it answered: {error}");
    if let Some(cause) = std::error::Error::source(error) {
        message = format!("{message}: {cause}");
    }
    Refusal::new(StatusCode::BAD_GATEWAY, "upstream", message)
}

async fn share(worker: &Worker, to: SocketAddr, request: Request<Body>) -> Attempt {
    let mut request = request;
    loop {
        let (mut shared, stream, is_new) = match worker.pool.share(to).await {
            Ok(shared) => shared,
            Err(error) => return Attempt::Unsent(Box::new(request), error),
        };
        match shared.sender.try_send_request(request).await {
            Ok(response) => {
                let answer = |incoming| Answer::pod(incoming, None, Some(stream));
                return Attempt::Answered(response.map(answer));
            }
            Err(mut error) => match error.take_message() {
                Some(untouched) if is_new => {
                    return Attempt::Unsent(Box::new(untouched), io::Error::other(error.into_error()));
                }
                Some(untouched) => {
                    worker.pool.forget(to, &shared);
                    request = untouched;
                }
                // With the reason that the pod gave.
                None => return Attempt::Failed(Trouble::Reset(Box::new(error.into_error()))),
            },
        }
    }
}
