//! Answers: of pods, of local processes, of the router itself.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

use bytes::Bytes;
use http::{
    HeaderValue, Request, Response, StatusCode,
    header::{CONTENT_TYPE, RETRY_AFTER},
};
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Body as _, Frame, Incoming, SizeHint};

use super::{
    headers::ERROR,
    io::Notes,
    pool::{Lease, Stream},
};
use crate::{
    locals::BoxError,
    streams::Received,
    table::{Kind, Route},
};

/// The body of an answer.
pub(super) struct Answer {
    from: From,
    /// Who gave it, where that is not who was asked.
    by: Option<HeaderValue>,
    /// Dropped at the end of the answer.
    _visit: Option<Visit>,
}

enum From {
    Pod { incoming: Incoming, lease: Option<Lease> },
    Stream { received: Received, _place: Stream },
    Local(UnsyncBoxBody<Bytes, BoxError>),
    Router(Option<Bytes>),
}

/// A request from its head to the end of its answer.
pub(super) struct Visit {
    route: Arc<Route>,
    by: Kind,
    since: Instant,
    notes: Option<Arc<Notes>>,
}

impl Visit {
    pub(super) fn new(route: Arc<Route>, by: Kind, since: Instant, notes: Option<Arc<Notes>>) -> Self {
        Self { route, by, since, notes }
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.route.meter().answered(self.by, self.since.elapsed());
        if let Some(notes) = &self.notes {
            notes.end();
        }
    }
}

impl Answer {
    /// Of a pod. A connection whose answer has no body goes back at once.
    pub(super) fn pod(incoming: Incoming, lease: Option<Lease>) -> Self {
        let lease = match lease {
            Some(lease) if incoming.is_end_stream() => {
                lease.give_back();
                None
            }
            other => other,
        };
        Self { from: From::Pod { incoming, lease }, by: None, _visit: None }
    }

    /// Of a pod, on a shared connection.
    pub(super) fn stream(received: Received, place: Stream) -> Self {
        Self { from: From::Stream { received, _place: place }, by: None, _visit: None }
    }

    /// Of a local process.
    pub(super) fn local(body: UnsyncBoxBody<Bytes, BoxError>) -> Self {
        Self { from: From::Local(body), by: None, _visit: None }
    }

    /// Of the router itself.
    pub(super) fn text(text: impl Into<Bytes>) -> Self {
        Self { from: From::Router(Some(text.into()).filter(|text| !text.is_empty())), by: None, _visit: None }
    }

    /// Somebody else gave it than who was asked.
    pub(super) fn given_by(&mut self, name: HeaderValue) {
        self.by = Some(name);
    }

    /// Who gave it, where that is not who was asked.
    pub(super) fn take_giver(&mut self) -> Option<HeaderValue> {
        self.by.take()
    }

    /// The visit ends with this answer.
    pub(super) fn of(self, visit: Visit) -> Self {
        Self { _visit: Some(visit), ..self }
    }
}

impl hyper::body::Body for Answer {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut self.from {
            From::Pod { incoming, lease } => {
                let frame = Pin::new(&mut *incoming).poll_frame(cx);
                let is_end = match &frame {
                    Poll::Ready(None) => true,
                    Poll::Ready(Some(Ok(_))) => incoming.is_end_stream(),
                    _ => false,
                };
                if is_end && let Some(lease) = lease.take() {
                    lease.give_back();
                }
                frame.map_err(Into::into)
            }
            From::Stream { received, .. } => Pin::new(received).poll_frame(cx).map_err(Into::into),
            From::Local(body) => Pin::new(body).poll_frame(cx),
            From::Router(text) => Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.from {
            From::Pod { incoming, .. } => incoming.is_end_stream(),
            From::Stream { received, .. } => received.is_end_stream(),
            From::Local(body) => body.is_end_stream(),
            From::Router(text) => text.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.from {
            From::Pod { incoming, .. } => incoming.size_hint(),
            From::Stream { received, .. } => received.size_hint(),
            From::Local(body) => body.size_hint(),
            From::Router(text) => SizeHint::with_exact(text.as_ref().map_or(0, Bytes::len) as u64),
        }
    }
}

/// Why the router answers itself.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    /// The word of `x-sandbox-error`.
    pub(super) error: HeaderValue,
    /// For people.
    pub(super) message: String,
    /// It is worth to ask again soon.
    pub(super) again: bool,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, error: &'static str, message: impl Into<String>) -> Self {
        let error = HeaderValue::from_static(error);
        Self { status, error, message: message.into(), again: false }
    }

    /// Nobody answers at the moment.
    pub(super) fn unavailable(error: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, error, message)
    }

    /// As an answer. Callers of gRPC get it in their own words: they would not show ours.
    pub(super) fn answer(self, to_grpc: bool) -> Response<Answer> {
        let Self { status, error, message, again } = self;
        let mut response = if to_grpc {
            let mut response = Response::new(Answer::text(""));
            let text =
                percent_encoding::utf8_percent_encode(&message, percent_encoding::CONTROLS).to_string();
            let message = HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("unavailable"));
            let headers = response.headers_mut();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
            headers.insert("grpc-status", HeaderValue::from_static("14"));
            headers.insert("grpc-message", message);
            response
        } else {
            let mut response = Response::new(Answer::text(format!("{message}\n")));
            *response.status_mut() = status;
            let plain = HeaderValue::from_static("text/plain; charset=utf-8");
            response.headers_mut().insert(CONTENT_TYPE, plain);
            response
        };
        response.headers_mut().insert(ERROR, error);
        if again {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

/// Whether a request is one of gRPC.
pub(super) fn is_grpc<B>(request: &Request<B>) -> bool {
    let kind = request.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    kind.is_some_and(|kind| kind.starts_with(b"application/grpc"))
}
