//! The body of a request that the proxy forwards.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use hyper::body::{Frame, Incoming, SizeHint};

use crate::h2_body::H2Body;

/// The body of a request. Data is not copied.
#[derive(Debug)]
pub enum RequestBody {
    /// Streamed from the caller's HTTP/1 connection.
    Incoming(Incoming),
    /// The same, with a guard that is dropped when the body was read or abandoned.
    Guarded(Incoming, BodyDropGuard),
    /// Streamed from an HTTP/2 stream.
    Stream(H2Body),
    /// A buffered body; `None` once it was taken.
    Full(Option<Bytes>),
}

/// Observes a body; dropped together with it.
pub trait BodyObserver: Send + Sync + 'static {
    /// The body failed: its framing is malformed, or the connection ended within it.
    fn record_failure(&self);
}

/// An observer of a body, dropped when the body was read or abandoned.
pub struct BodyDropGuard(Box<dyn BodyObserver>);

impl BodyDropGuard {
    /// Wraps an observer.
    pub fn new(observer: impl BodyObserver) -> Self {
        Self(Box::new(observer))
    }
}

impl fmt::Debug for BodyDropGuard {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("BodyDropGuard").finish_non_exhaustive()
    }
}

/// A body ended early.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// An HTTP/1 body; the connection failed.
    #[error("the connection failed")]
    Incoming(#[from] hyper::Error),
    /// An HTTP/2 body; the source has the reset reason.
    #[error("the stream was reset")]
    Stream(#[from] h2::Error),
}

impl RequestBody {
    /// An empty body.
    pub fn empty() -> Self {
        Self::Full(None)
    }

    /// A body of these bytes.
    pub fn full(bytes: Bytes) -> Self {
        Self::Full(Some(bytes).filter(|bytes| !bytes.is_empty()))
    }
}

impl Default for RequestBody {
    fn default() -> Self {
        Self::empty()
    }
}

impl hyper::body::Body for RequestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut *self {
            Self::Incoming(incoming) => Pin::new(incoming).poll_frame(cx).map_err(Into::into),
            Self::Guarded(incoming, BodyDropGuard(observer)) => {
                let frame = Pin::new(incoming).poll_frame(cx);
                if matches!(frame, Poll::Ready(Some(Err(_)))) {
                    observer.record_failure();
                }
                frame.map_err(Into::into)
            }
            Self::Stream(received) => Pin::new(received).poll_frame(cx).map_err(Into::into),
            Self::Full(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Incoming(incoming) | Self::Guarded(incoming, _) => incoming.is_end_stream(),
            Self::Stream(received) => received.is_end_stream(),
            Self::Full(bytes) => bytes.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Incoming(incoming) | Self::Guarded(incoming, _) => incoming.size_hint(),
            Self::Stream(received) => received.size_hint(),
            Self::Full(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
        }
    }
}
