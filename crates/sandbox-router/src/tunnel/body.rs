//! Bodies over HTTP/2 streams, trailers included.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, HeaderName, header};
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame, SizeHint};
use tokio::task::AbortHandle;

use super::wire;

/// What lives as long as a stream does: its place among the session's requests, and the sender of its other half.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// The sender of the other half.
    pub(super) pump: Option<AbortHandle>,
    /// One of the session's.
    pub(super) _ticket: Option<Arc<()>>,
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
    recv: RecvStream,
    is_read: bool,
    _held: Held,
}

impl Incoming {
    pub(super) fn new(recv: RecvStream, held: Held) -> Self {
        Self { recv, is_read: false, _held: held }
    }
}

impl Body for Incoming {
    type Data = Bytes;
    type Error = h2::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        if !self.is_read {
            match ready!(self.recv.poll_data(cx)) {
                Some(Ok(data)) => {
                    let released = self.recv.flow_control().release_capacity(data.len());
                    return Poll::Ready(Some(released.map(|()| Frame::data(data))));
                }
                // The other side has what it wanted before we had said everything; what it said is complete.
                Some(Err(error)) if error.reason() == Some(Reason::NO_ERROR) => return Poll::Ready(None),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => self.is_read = true,
            }
        }
        match ready!(self.recv.poll_trailers(cx)) {
            Ok(Some(trailers)) => Poll::Ready(Some(Ok(Frame::trailers(trailers)))),
            Ok(None) => Poll::Ready(None),
            Err(error) => Poll::Ready(Some(Err(error))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.recv.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        if self.recv.is_end_stream() { SizeHint::with_exact(0) } else { SizeHint::default() }
    }
}

/// Why a body was not sent to its end.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unsent {
    /// The stream is gone.
    #[error("the other side of the tunnel takes no more")]
    Stream(#[source] h2::Error),
    /// The other side asked us to stop.
    #[error("the other side of the tunnel does not want it")]
    Reset(Reason),
    /// What we read from broke.
    #[error("what was to be sent broke off: {0}")]
    Source(String),
}

/// Sends a body, and its trailers; resets the stream if the body breaks off.
pub(super) async fn pump<B>(body: B, to: &mut SendStream<Bytes>) -> Result<(), Unsent>
where
    B: Body<Data = Bytes>,
    B::Error: std::fmt::Display,
{
    let mut body = std::pin::pin!(body);
    loop {
        let frame = tokio::select! {
            frame = body.frame() => frame,
            reset = poll_fn(|cx| to.poll_reset(cx)) => return Err(was_reset(reset)),
        };
        match frame {
            None => return to.send_data(Bytes::new(), true).map_err(Unsent::Stream),
            Some(Err(error)) => {
                to.send_reset(Reason::INTERNAL_ERROR);
                return Err(Unsent::Source(error.to_string()));
            }
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) => {
                    let is_last = body.is_end_stream();
                    send(data, is_last, to).await?;
                    if is_last {
                        return Ok(());
                    }
                }
                Err(frame) => match frame.into_trailers() {
                    Ok(trailers) => return to.send_trailers(trailers).map_err(Unsent::Stream),
                    Err(_unknown) => {}
                },
            },
        }
    }
}

/// Waits for room, and then gives HTTP/2 the whole piece: it sends what fits and keeps the rest.
async fn send(data: Bytes, is_last: bool, to: &mut SendStream<Bytes>) -> Result<(), Unsent> {
    if data.is_empty() && !is_last {
        return Ok(());
    }
    to.reserve_capacity(1);
    while !data.is_empty() && to.capacity() == 0 {
        poll_fn(|cx| {
            if let Poll::Ready(reset) = to.poll_reset(cx) {
                return Poll::Ready(Err(was_reset(reset)));
            }
            Poll::Ready(match ready!(to.poll_capacity(cx)) {
                None => Err(Unsent::Reset(Reason::CANCEL)),
                Some(room) => room.map(drop).map_err(Unsent::Stream),
            })
        })
        .await?;
    }
    to.send_data(data, is_last).map_err(Unsent::Stream)
}

fn was_reset(reset: Result<Reason, h2::Error>) -> Unsent {
    match reset {
        Ok(reason) => Unsent::Reset(reason),
        Err(error) => Unsent::Stream(error),
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
