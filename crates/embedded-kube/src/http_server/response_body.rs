//! Body of an answer: all at once, or as it comes.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures::Stream;
use hyper::body::{Body, Frame, SizeHint};

/// The connection was broken on purpose: the client must see neither an answer nor a proper end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("connection broken by an injected fault")]
pub struct Broken;

/// Chunks as they come.
pub type Chunks = Pin<Box<dyn Stream<Item = Result<Bytes, Broken>> + Send>>;

/// Body of an answer.
pub enum Payload {
    /// All at once; `None` when it has been sent.
    Full(Option<Bytes>),
    /// As it comes.
    Stream(Chunks),
}

impl Payload {
    /// All at once.
    pub fn full(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self::Full((!bytes.is_empty()).then_some(bytes))
    }
}

impl Body for Payload {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
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
