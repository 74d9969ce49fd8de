//! A byte stream over one HTTP/2 stream, as opened by CONNECT.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf as _, Bytes};
use h2::{Reason, RecvStream, SendStream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::body::StreamGuard;

/// Maximum bytes passed to h2 at once.
const MAX_CHUNK: usize = 64 * 1024;

/// A bidirectional byte stream with independent ends.
#[derive(Debug)]
pub struct TunnelStream {
    send: SendStream<Bytes>,
    recv: RecvStream,
    rest: Bytes,
    is_shut_down: bool,
    _held: StreamGuard,
}

impl TunnelStream {
    pub(super) fn new(send: SendStream<Bytes>, recv: RecvStream, held: StreamGuard) -> Self {
        Self { send, recv, rest: Bytes::new(), is_shut_down: false, _held: held }
    }
}

impl AsyncRead for TunnelStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.rest.is_empty() {
            match ready!(self.recv.poll_data(cx)) {
                None => return Poll::Ready(Ok(())),
                Some(Ok(data)) => self.rest = data,
                // The peer reset with NO_ERROR: it is done in both directions.
                Some(Err(error)) if error.reason() == Some(Reason::NO_ERROR) => return Poll::Ready(Ok(())),
                Some(Err(error)) => return Poll::Ready(Err(into_io_error(error))),
            }
        }
        let taken = self.rest.len().min(buf.remaining());
        buf.put_slice(&self.rest[..taken]);
        self.rest.advance(taken);
        Poll::Ready(self.recv.flow_control().release_capacity(taken).map_err(into_io_error))
    }
}

impl AsyncWrite for TunnelStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if buf.is_empty() {
            return Poll::Ready(Ok(0));
        }
        self.send.reserve_capacity(buf.len().min(MAX_CHUNK));
        loop {
            let room = match ready!(self.send.poll_capacity(cx)) {
                None => return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
                Some(room) => room.map_err(into_io_error)?,
            };
            if room > 0 {
                let taken = room.min(buf.len()).min(MAX_CHUNK);
                let data = Bytes::copy_from_slice(&buf[..taken]);
                return Poll::Ready(self.send.send_data(data, false).map(|()| taken).map_err(into_io_error));
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_shut_down {
            return Poll::Ready(Ok(()));
        }
        self.is_shut_down = true;
        match self.send.send_data(Bytes::new(), true) {
            Ok(()) => Poll::Ready(Ok(())),
            // A reset with NO_ERROR is a regular end.
            Err(error) => match self.send.poll_reset(cx) {
                Poll::Ready(Ok(Reason::NO_ERROR)) => Poll::Ready(Ok(())),
                _ => Poll::Ready(Err(into_io_error(error))),
            },
        }
    }
}

fn into_io_error(error: h2::Error) -> io::Error {
    if error.is_io() {
        return error.into_io().unwrap_or_else(|| io::ErrorKind::BrokenPipe.into());
    }
    io::Error::new(io::ErrorKind::ConnectionReset, error)
}
