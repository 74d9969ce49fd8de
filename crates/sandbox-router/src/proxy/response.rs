//! Response bodies: from pods, from local processes, from the router itself.

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
    caller_io::ConnectionActivity,
    headers::ERROR,
    pod_pool::{H1Lease, H2StreamGuard},
};
use crate::{
    h2_body::H2Body,
    local_transport::BoxError,
    table::{ResponderKind, Route},
};

/// The body of a response.
pub(super) struct ResponseBody {
    source: BodySource,
    /// Name of the responder, if it is not the one that was selected.
    responder: Option<HeaderValue>,
    /// Dropped when the response ends.
    _guard: Option<RequestGuard>,
}

enum BodySource {
    Pod { incoming: Incoming, lease: Option<H1Lease> },
    H2 { received: H2Body, _place: H2StreamGuard },
    Local(UnsyncBoxBody<Bytes, BoxError>),
    Router(Option<Bytes>),
}

/// Covers a request from its head to the end of its response; records its duration.
pub(super) struct RequestGuard {
    route: Arc<Route>,
    responder_kind: ResponderKind,
    since: Instant,
    activity: Option<Arc<ConnectionActivity>>,
}

impl RequestGuard {
    pub(super) fn new(
        route: Arc<Route>,
        responder_kind: ResponderKind,
        since: Instant,
        activity: Option<Arc<ConnectionActivity>>,
    ) -> Self {
        Self { route, responder_kind, since, activity }
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.route.metrics().record_request(self.responder_kind, self.since.elapsed());
        if let Some(notes) = &self.activity {
            notes.finish_request();
        }
    }
}

impl ResponseBody {
    /// A response of a pod. A connection whose response has no body is released immediately.
    pub(super) fn from_pod(incoming: Incoming, lease: Option<H1Lease>) -> Self {
        let lease = match lease {
            Some(lease) if incoming.is_end_stream() => {
                lease.release();
                None
            }
            other => other,
        };
        Self { source: BodySource::Pod { incoming, lease }, responder: None, _guard: None }
    }

    /// A response of a pod on a shared HTTP/2 connection.
    pub(super) fn from_h2(received: H2Body, place: H2StreamGuard) -> Self {
        Self { source: BodySource::H2 { received, _place: place }, responder: None, _guard: None }
    }

    /// A response of a local process.
    pub(super) fn from_local(body: UnsyncBoxBody<Bytes, BoxError>) -> Self {
        Self { source: BodySource::Local(body), responder: None, _guard: None }
    }

    /// A response of the router itself.
    pub(super) fn from_text(text: impl Into<Bytes>) -> Self {
        Self {
            source: BodySource::Router(Some(text.into()).filter(|text| !text.is_empty())),
            responder: None,
            _guard: None,
        }
    }

    /// Records that another responder answered than the selected one.
    pub(super) fn set_responder(&mut self, name: HeaderValue) {
        self.responder = Some(name);
    }

    /// The responder, if it is not the selected one.
    pub(super) fn take_responder(&mut self) -> Option<HeaderValue> {
        self.responder.take()
    }

    /// Ties the guard to this response.
    pub(super) fn with_guard(self, visit: RequestGuard) -> Self {
        Self { _guard: Some(visit), ..self }
    }
}

impl hyper::body::Body for ResponseBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut self.source {
            BodySource::Pod { incoming, lease } => {
                let frame = Pin::new(&mut *incoming).poll_frame(cx);
                let is_end = match &frame {
                    Poll::Ready(None) => true,
                    Poll::Ready(Some(Ok(_))) => incoming.is_end_stream(),
                    _ => false,
                };
                if is_end && let Some(lease) = lease.take() {
                    lease.release();
                }
                frame.map_err(Into::into)
            }
            BodySource::H2 { received, .. } => Pin::new(received).poll_frame(cx).map_err(Into::into),
            BodySource::Local(body) => Pin::new(body).poll_frame(cx),
            BodySource::Router(text) => Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            BodySource::Pod { incoming, .. } => incoming.is_end_stream(),
            BodySource::H2 { received, .. } => received.is_end_stream(),
            BodySource::Local(body) => body.is_end_stream(),
            BodySource::Router(text) => text.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            BodySource::Pod { incoming, .. } => incoming.size_hint(),
            BodySource::H2 { received, .. } => received.size_hint(),
            BodySource::Local(body) => body.size_hint(),
            BodySource::Router(text) => SizeHint::with_exact(text.as_ref().map_or(0, Bytes::len) as u64),
        }
    }
}

/// An error response of the router.
#[derive(Debug)]
pub(super) struct ErrorResponse {
    pub(super) status: StatusCode,
    /// Value of `x-sandbox-error`.
    pub(super) error: HeaderValue,
    /// Message for humans.
    pub(super) message: String,
    /// Whether a retry is likely to succeed.
    pub(super) is_retryable: bool,
}

impl ErrorResponse {
    pub(super) fn new(status: StatusCode, error: &'static str, message: impl Into<String>) -> Self {
        let error = HeaderValue::from_static(error);
        Self { status, error, message: message.into(), is_retryable: false }
    }

    /// 503: no responder is available at the moment.
    pub(super) fn unavailable(error: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, error, message)
    }

    /// Converts to a response. gRPC callers get a gRPC status, because they would not show an HTTP error body.
    pub(super) fn into_response(self, to_grpc: bool) -> Response<ResponseBody> {
        let Self { status, error, message, is_retryable: again } = self;
        let mut response = if to_grpc {
            let mut response = Response::new(ResponseBody::from_text(""));
            let text =
                percent_encoding::utf8_percent_encode(&message, percent_encoding::CONTROLS).to_string();
            let message = HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("unavailable"));
            let headers = response.headers_mut();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
            headers.insert("grpc-status", HeaderValue::from_static("14"));
            headers.insert("grpc-message", message);
            response
        } else {
            let mut response = Response::new(ResponseBody::from_text(format!("{message}\n")));
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

/// Whether a request is a gRPC call.
pub(super) fn is_grpc<B>(request: &Request<B>) -> bool {
    let kind = request.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    kind.is_some_and(|kind| kind.starts_with(b"application/grpc"))
}
