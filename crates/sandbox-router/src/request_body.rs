//! The body of a request on its way through.

use std::{
    any::Any,
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use hyper::body::{Frame, Incoming, SizeHint};

use crate::streams::Received;

/// The body of a request. Nothing of it is copied.
#[derive(Debug)]
pub enum Body {
    /// As it comes in.
    Incoming(Incoming),
    /// The same, where somebody has to know when it was read to its end or given up.
    Held(Incoming, Hold),
    /// As it comes in on a stream of HTTP/2.
    Stream(Received),
    /// All of it at once; `None` when it was taken.
    Whole(Option<Bytes>),
}

/// Something that is dropped together with a body.
pub struct Hold {
    _held: Box<dyn Any + Send + Sync>,
}

impl Hold {
    /// Holds this.
    pub fn new(held: impl Any + Send + Sync) -> Self {
        Self { _held: Box::new(held) }
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Hold").finish_non_exhaustive()
    }
}

/// A body did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    /// On a connection of its own.
    #[error("the connection broke off")]
    Incoming(#[from] hyper::Error),
    /// On a stream of HTTP/2; the cause has the reason that was given.
    #[error("the stream was reset")]
    Stream(#[from] h2::Error),
}

impl Body {
    /// No body.
    pub fn empty() -> Self {
        Self::Whole(None)
    }

    /// These bytes.
    pub fn whole(bytes: Bytes) -> Self {
        Self::Whole(Some(bytes).filter(|bytes| !bytes.is_empty()))
    }
}

impl Default for Body {
    fn default() -> Self {
        Self::empty()
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        match &mut *self {
            Self::Incoming(incoming) | Self::Held(incoming, _) => {
                Pin::new(incoming).poll_frame(cx).map_err(Into::into)
            }
            Self::Stream(received) => Pin::new(received).poll_frame(cx).map_err(Into::into),
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Incoming(incoming) | Self::Held(incoming, _) => incoming.is_end_stream(),
            Self::Stream(received) => received.is_end_stream(),
            Self::Whole(bytes) => bytes.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Incoming(incoming) | Self::Held(incoming, _) => incoming.size_hint(),
            Self::Stream(received) => received.size_hint(),
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
        }
    }
}
