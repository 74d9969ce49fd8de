//! Bodies that come through the tunnel.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use h2::RecvStream;
use http::{HeaderMap, HeaderName, header};
use hyper::body::{Body, Frame, SizeHint};
use tokio::{sync::OwnedSemaphorePermit, task::AbortHandle};

use super::wire;
use crate::streams::Received;

/// What lives as long as a stream does: its place among the session's requests, and the sender of its other half.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// The sender of the other half.
    pub(super) pump: Option<AbortHandle>,
    /// One of the session's, and the room that it takes.
    pub(super) _ticket: Option<(Arc<()>, OwnedSemaphorePermit)>,
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(pump) = &self.pump {
            pump.abort();
        }
    }
}

/// The body of a request or of an answer that came through the tunnel.
#[derive(Debug)]
pub struct Incoming {
    received: Received,
    _held: Held,
}

impl Incoming {
    pub(super) fn new(recv: RecvStream, held: Held) -> Self {
        Self { received: Received::new(recv), _held: held }
    }
}

impl Body for Incoming {
    type Data = Bytes;
    type Error = h2::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        Pin::new(&mut self.received).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.received.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.received.size_hint()
    }
}

/// Headers that concern one connection alone, and the words of the tunnel itself.
pub(super) fn strip(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|it| it.to_str().ok())
        .flat_map(|it| it.split(','))
        .filter_map(|it| it.trim().parse().ok())
        .collect();
    for name in &named {
        headers.remove(name);
    }
    for name in HOP {
        headers.remove(name);
    }
    // HTTP/2 allows one value of it, and gRPC insists on that one.
    if headers.get(header::TE).is_some_and(|it| it != "trailers") {
        headers.remove(header::TE);
    }
}

const HOP: [HeaderName; 8] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("http2-settings"),
    wire::PORT,
    wire::ERROR,
];
