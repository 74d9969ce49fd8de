//! Bodies that are received through the tunnel.

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
use crate::h2_body::H2Body;

/// Resources that live as long as a stream: its request slot, and the sender of its other half.
#[derive(Debug, Default)]
pub(super) struct StreamGuard {
    /// The sender of the other half.
    pub(super) sender_task: Option<AbortHandle>,
    /// The request slot and its permit.
    pub(super) _request_slot: Option<(Arc<()>, OwnedSemaphorePermit)>,
}

impl Drop for StreamGuard {
    fn drop(&mut self) {
        if let Some(pump) = &self.sender_task {
            pump.abort();
        }
    }
}

/// A request or response body received through the tunnel.
#[derive(Debug)]
pub struct TunnelBody {
    received: H2Body,
    _held: StreamGuard,
}

impl TunnelBody {
    pub(super) fn new(recv: RecvStream, held: StreamGuard) -> Self {
        Self { received: H2Body::new(recv), _held: held }
    }
}

impl Body for TunnelBody {
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

/// Removes hop-by-hop headers and the headers of the tunnel protocol.
pub(super) fn strip_hop_by_hop(headers: &mut HeaderMap) {
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
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
    // HTTP/2 allows only this value, and gRPC requires it.
    if headers.get(header::TE).is_some_and(|it| it != "trailers") {
        headers.remove(header::TE);
    }
}

const HOP_BY_HOP: [HeaderName; 8] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("http2-settings"),
    wire::PORT,
    wire::ERROR,
];
