//! Watch events as lines of JSON. Each event goes out at once; those that are ready together share a write.

use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt, stream};
use tokio_util::sync::CancellationToken;

use super::{
    accept::View,
    encode::Encoder,
    payload::{Broken, Chunks},
};
use crate::{
    registry::Resource,
    request::{Body, Change, Events, WatchEvent},
};

/// Events that may share one write.
const TOGETHER: usize = 256;

/// Encodes the events of one watch.
pub struct Framing {
    encoder: Encoder,
    resource: Arc<Resource>,
    headings: bool,
}

impl Framing {
    /// For events of this resource.
    pub fn new(encoder: Encoder, resource: Arc<Resource>) -> Self {
        Self { encoder, resource, headings: true }
    }

    /// The stream of lines.
    pub fn lines(mut self, events: Events) -> Chunks {
        Box::pin(events.ready_chunks(TOGETHER).map(move |events| Ok::<Bytes, Broken>(self.frame(&events))))
    }

    fn frame(&mut self, events: &[WatchEvent]) -> Bytes {
        let mut out = Vec::with_capacity(events.len() * 1024);
        for event in events {
            out.extend_from_slice(br#"{"type":""#);
            out.extend_from_slice(event.change.name().as_bytes());
            out.extend_from_slice(br#"","object":"#);
            self.object(event, &mut out);
            out.extend_from_slice(b"}\n");
        }
        out.into()
    }

    fn object(&mut self, event: &WatchEvent, out: &mut Vec<u8>) {
        match &event.object {
            Body::Stored(document) if self.encoder.wanted.view == View::Whole => {
                out.extend_from_slice(document.bytes());
            }
            object => {
                let value = object.value();
                let shown = if event.change == Change::Error {
                    value
                } else {
                    let headings = std::mem::take(&mut self.headings);
                    self.encoder
                        .view(&self.resource, value, headings)
                        .unwrap_or_else(|failure| failure.status())
                };
                if serde_json::to_writer(&mut *out, &shown).is_err() {
                    out.extend_from_slice(b"null");
                }
            }
        }
    }
}

/// A stream of lines that breaks (rather than ends) when the token is cancelled.
pub fn breaking_on(chunks: Chunks, token: CancellationToken) -> Chunks {
    let end = token.clone();
    let tail =
        stream::once(async move { end.is_cancelled().then_some(Err(Broken)) }).filter_map(std::future::ready);
    Box::pin(chunks.take_until(token.cancelled_owned()).chain(tail))
}

/// A stream of lines that breaks (rather than ends) after this many events.
pub fn breaking_after(chunks: Chunks, events: usize) -> Chunks {
    Box::pin(stream::unfold(Some((chunks, events)), |state| async move {
        let (mut chunks, mut left) = state?;
        if left == 0 {
            return Some((Err(Broken), None));
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
