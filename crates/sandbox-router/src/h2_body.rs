//! Bodies on streams of HTTP/2, trailers included: the proxy and the tunnel have them.

use std::{
    error::Error,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use h2::{Reason, RecvStream, SendStream};
use hyper::body::{Body, Frame, SizeHint};

use crate::locals::BoxError;

/// A body that comes in. Who sends it may send more when a piece was taken.
#[derive(Debug)]
pub struct Received {
    recv: RecvStream,
    is_read: bool,
}

impl Received {
    pub(crate) fn new(recv: RecvStream) -> Self {
        Self { recv, is_read: false }
    }
}

impl Body for Received {
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
pub(crate) enum Unsent {
    /// The stream is gone.
    #[error("the other side takes no more")]
    Stream(#[source] h2::Error),
    /// The other side asked us to stop.
    #[error("the other side does not want it: {0}")]
    Reset(Reason),
    /// What we read from broke.
    #[error("what was to be sent broke off")]
    Source(#[source] BoxError),
}

/// Sends a body, and its trailers; resets the stream if the body breaks off.
pub(crate) struct Pump<B> {
    body: B,
    to: SendStream<Bytes>,
    /// A piece for which there is no room yet.
    waiting: Option<Bytes>,
}

impl<B> Pump<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    pub(crate) fn new(body: B, to: SendStream<Bytes>) -> Self {
        Self { body, to, waiting: None }
    }

    /// What there is to do for a frame, or for the end of all; something comes back if it was the last.
    fn take(&mut self, frame: Option<Result<Frame<Bytes>, B::Error>>) -> Option<Result<(), Unsent>> {
        let frame = match frame {
            None => return Some(self.to.send_data(Bytes::new(), true).map_err(Unsent::Stream)),
            Some(Err(error)) => {
                let error = error.into();
                self.to.send_reset(reason(&*error));
                return Some(Err(Unsent::Source(error)));
            }
            Some(Ok(frame)) => frame,
        };
        match frame.into_data() {
            // The last piece can wait for its room in HTTP/2 as well as here.
            Ok(data) if self.body.is_end_stream() => {
                Some(self.to.send_data(data, true).map_err(Unsent::Stream))
            }
            Ok(data) => {
                self.waiting = Some(data).filter(|data| !data.is_empty());
                None
            }
            Err(frame) => {
                let trailers = frame.into_trailers().ok()?;
                Some(self.to.send_trailers(trailers).map_err(Unsent::Stream))
            }
        }
    }

    /// Waits for room, and then gives HTTP/2 the whole piece: it sends what fits and keeps the rest.
    fn poll_waiting(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Unsent>> {
        if self.waiting.is_some() {
            self.to.reserve_capacity(1);
            while self.to.capacity() == 0 {
                if let Poll::Ready(reset) = self.to.poll_reset(cx) {
                    return Poll::Ready(Err(was_reset(reset)));
                }
                match ready!(self.to.poll_capacity(cx)) {
                    None => return Poll::Ready(Err(Unsent::Reset(Reason::CANCEL))),
                    Some(room) => room.map_err(Unsent::Stream)?,
                };
            }
        }
        let sent = self.waiting.take().map_or(Ok(()), |data| self.to.send_data(data, false));
        Poll::Ready(sent.map_err(Unsent::Stream))
    }
}

impl<B> Future for Pump<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Output = Result<(), Unsent>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Unsent>> {
        loop {
            ready!(self.poll_waiting(cx))?;
            let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) else {
                return self.to.poll_reset(cx).map(|reset| Err(was_reset(reset)));
            };
            if let Some(end) = self.take(frame) {
                return Poll::Ready(end);
            }
        }
    }
}

fn was_reset(reset: Result<Reason, h2::Error>) -> Unsent {
    match reset {
        Ok(reason) => Unsent::Reset(reason),
        Err(error) => Unsent::Stream(error),
    }
}

/// The reason that the other side gave, wherever it stands among the causes of an error.
pub(crate) fn reason(error: &(dyn Error + 'static)) -> Reason {
    let causes = std::iter::successors(Some(error), |error: &&(dyn Error + 'static)| (*error).source());
    let given = causes.filter_map(|error| error.downcast_ref::<h2::Error>()).find_map(h2::Error::reason);
    given.unwrap_or(Reason::INTERNAL_ERROR)
}
