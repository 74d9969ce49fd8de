//! Bodies on HTTP/2 streams, with trailers; used by the proxy and the tunnel.

use std::{
    error::Error,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use capt_util::error_chain;
use h2::{Reason, RecvStream, SendStream};
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::{Sleep, sleep};

use crate::local_transport::BoxError;

/// A received body. Flow-control capacity is released as data is taken.
#[derive(Debug)]
pub struct H2Body {
    recv: RecvStream,
    is_read: bool,
}

impl H2Body {
    pub(crate) fn new(recv: RecvStream) -> Self {
        Self { recv, is_read: false }
    }
}

impl Body for H2Body {
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
                // The peer reset with NO_ERROR: it needs no more of our data, and its own is complete.
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

/// A body was not sent completely.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SendBodyError {
    /// The stream failed.
    #[error("the stream failed")]
    Stream(#[source] h2::Error),
    /// The peer reset the stream.
    #[error("the peer reset the stream: {0}")]
    Reset(Reason),
    /// The peer gave no window for too long.
    #[error("the peer does not read")]
    Stalled,
    /// The body itself failed.
    #[error("the body ended early")]
    Source(#[source] BoxError),
}

/// Sends a body with its trailers; resets the stream if the body fails.
pub(crate) struct BodySender<B> {
    body: B,
    to: SendStream<Bytes>,
    /// Data that waits for flow-control capacity.
    pending: Option<Bytes>,
    /// How long it may wait.
    stall_limit: Option<Duration>,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<B> BodySender<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    pub(crate) fn new(body: B, to: SendStream<Bytes>) -> Self {
        Self { body, to, pending: None, stall_limit: None, stalled: None }
    }

    /// Resets the stream if the peer gives no window for this long while there is data to send.
    pub(crate) fn with_stall_limit(self, limit: Duration) -> Self {
        Self { stall_limit: Some(limit), ..self }
    }

    /// Sends a frame or the end of the stream; returns a result if it was the last.
    fn send_frame(
        &mut self,
        frame: Option<Result<Frame<Bytes>, B::Error>>,
    ) -> Option<Result<(), SendBodyError>> {
        let frame = match frame {
            None => return Some(self.to.send_data(Bytes::new(), true).map_err(SendBodyError::Stream)),
            Some(Err(error)) => {
                let error = error.into();
                self.to.send_reset(reset_reason(&*error));
                return Some(Err(SendBodyError::Source(error)));
            }
            Some(Ok(frame)) => frame,
        };
        match frame.into_data() {
            // The last chunk can wait for capacity inside h2.
            Ok(data) if self.body.is_end_stream() => {
                Some(self.to.send_data(data, true).map_err(SendBodyError::Stream))
            }
            Ok(data) => {
                self.pending = Some(data).filter(|data| !data.is_empty());
                None
            }
            Err(frame) => {
                let trailers = frame.into_trailers().ok()?;
                Some(self.to.send_trailers(trailers).map_err(SendBodyError::Stream))
            }
        }
    }

    /// Waits for capacity and then hands over the whole chunk: h2 buffers what does not fit.
    fn poll_pending(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SendBodyError>> {
        if self.pending.is_some() {
            self.to.reserve_capacity(1);
            while self.to.capacity() == 0 {
                if let Poll::Ready(reset) = self.to.poll_reset(cx) {
                    return Poll::Ready(Err(reset_error(reset)));
                }
                let Poll::Ready(room) = self.to.poll_capacity(cx) else { return self.poll_stalled(cx) };
                match room {
                    None => return Poll::Ready(Err(SendBodyError::Reset(Reason::CANCEL))),
                    Some(room) => room.map_err(SendBodyError::Stream)?,
                };
            }
            self.stalled = None;
        }
        let sent = self.pending.take().map_or(Ok(()), |data| self.to.send_data(data, false));
        Poll::Ready(sent.map_err(SendBodyError::Stream))
    }
}

impl<B> BodySender<B> {
    /// Waits for the end of the peer's patience limit, if it has one.
    fn poll_stalled(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SendBodyError>> {
        let Some(limit) = self.stall_limit else { return Poll::Pending };
        ready!(self.stalled.get_or_insert_with(|| Box::pin(sleep(limit))).as_mut().poll(cx));
        self.to.send_reset(Reason::CANCEL);
        Poll::Ready(Err(SendBodyError::Stalled))
    }
}

impl<B> Future for BodySender<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Output = Result<(), SendBodyError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), SendBodyError>> {
        loop {
            ready!(self.poll_pending(cx))?;
            let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) else {
                return self.to.poll_reset(cx).map(|reset| Err(reset_error(reset)));
            };
            if let Some(end) = self.send_frame(frame) {
                return Poll::Ready(end);
            }
        }
    }
}

fn reset_error(reset: Result<Reason, h2::Error>) -> SendBodyError {
    match reset {
        Ok(reason) => SendBodyError::Reset(reason),
        Err(error) => SendBodyError::Stream(error),
    }
}

/// The reset reason from the source chain of an error.
pub(crate) fn reset_reason(error: &(dyn Error + 'static)) -> Reason {
    let given = error_chain::chain(error)
        .filter_map(|error| error.downcast_ref::<h2::Error>())
        .find_map(h2::Error::reason);
    given.unwrap_or(Reason::INTERNAL_ERROR)
}
