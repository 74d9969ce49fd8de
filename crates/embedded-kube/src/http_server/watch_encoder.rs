//! Encodes watch events as lines of JSON. Events are sent immediately; those that are ready together share a write.

use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt, stream};
use tokio_util::sync::CancellationToken;

use super::{
    encode::Encoder,
    negotiation::Projection,
    response_body::{ChunkStream, ConnectionAborted},
};
use crate::{
    registry::Resource,
    request::{ObjectBody, WatchEvent, WatchEventStream, WatchEventType},
};

/// Maximum number of events per write.
const MAX_EVENTS_PER_WRITE: usize = 256;

/// Encodes the events of a watch.
pub struct WatchEncoder {
    encoder: Encoder,
    resource: Arc<Resource>,
    headings: bool,
}

impl WatchEncoder {
    /// An encoder for events of this resource.
    pub fn new(encoder: Encoder, resource: Arc<Resource>) -> Self {
        Self { encoder, resource, headings: true }
    }

    /// Encodes a stream of events.
    pub fn encode_stream(mut self, events: WatchEventStream) -> ChunkStream {
        Box::pin(
            events
                .ready_chunks(MAX_EVENTS_PER_WRITE)
                .map(move |events| Ok::<Bytes, ConnectionAborted>(self.encode_events(&events))),
        )
    }

    fn encode_events(&mut self, events: &[WatchEvent]) -> Bytes {
        let mut out = Vec::with_capacity(events.len() * 1024);
        for event in events {
            out.extend_from_slice(br#"{"type":""#);
            out.extend_from_slice(event.event_type.name().as_bytes());
            out.extend_from_slice(br#"","object":"#);
            self.encode_event_object(event, &mut out);
            out.extend_from_slice(b"}\n");
        }
        out.into()
    }

    fn encode_event_object(&mut self, event: &WatchEvent, out: &mut Vec<u8>) {
        match &event.object {
            ObjectBody::Stored(document) if self.encoder.representation.projection == Projection::Whole => {
                out.extend_from_slice(document.bytes());
            }
            object => {
                let value = object.value();
                let shown = if event.event_type == WatchEventType::Error {
                    value
                } else {
                    let headings = std::mem::take(&mut self.headings);
                    self.encoder
                        .project(&self.resource, value, headings)
                        .unwrap_or_else(|failure| failure.status())
                };
                if serde_json::to_writer(&mut *out, &shown).is_err() {
                    out.extend_from_slice(b"null");
                }
            }
        }
    }
}

/// Aborts (rather than ends) the stream when the token is cancelled.
pub fn abort_on_cancel(chunks: ChunkStream, token: CancellationToken) -> ChunkStream {
    let end = token.clone();
    let tail = stream::once(async move { end.is_cancelled().then_some(Err(ConnectionAborted)) })
        .filter_map(std::future::ready);
    Box::pin(chunks.take_until(token.cancelled_owned()).chain(tail))
}

/// Aborts (rather than ends) the stream after this many events.
pub fn abort_after_events(chunks: ChunkStream, events: usize) -> ChunkStream {
    Box::pin(stream::unfold(Some((chunks, events)), |state| async move {
        let (mut chunks, mut left) = state?;
        if left == 0 {
            return Some((Err(ConnectionAborted), None));
        }
        let next = chunks.next().await?.map(|bytes| first_lines(&bytes, &mut left));
        Some((next, Some((chunks, left))))
    }))
}

fn first_lines(bytes: &Bytes, left: &mut usize) -> Bytes {
    let mut end = 0;
    for (at, byte) in bytes.iter().enumerate() {
        if *left == 0 {
            break;
        }
        if *byte == b'\n' {
            *left -= 1;
            end = at + 1;
        }
    }
    bytes.slice(..end)
}
