//! Response bodies: buffered or streamed.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures::Stream;
use hyper::body::{Body, Frame, SizeHint};

/// The connection is aborted by an injected fault: the client sees neither a response nor a clean end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("connection broken by an injected fault")]
pub struct ConnectionAborted;

/// Streamed chunks.
pub type ChunkStream = Pin<Box<dyn Stream<Item = Result<Bytes, ConnectionAborted>> + Send>>;

/// Response body.
pub enum ResponseBody {
    /// Buffered; `None` after it has been sent.
    Full(Option<Bytes>),
    /// Streamed.
    Stream(ChunkStream),
}

impl ResponseBody {
    /// A buffered body.
    pub fn full(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self::Full((!bytes.is_empty()).then_some(bytes))
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = ConnectionAborted;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ConnectionAborted>>> {
        match self.get_mut() {
            Self::Full(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Stream(chunks) => chunks.as_mut().poll_next(context).map_ok(Frame::data),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Full(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Full(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Self::Stream(_) => SizeHint::default(),
        }
    }
}
