//! What a connection runs over: it writes down what it carries, and never stops listening because it cannot speak.
//!
//! HTTP/2 does not read on while an answer to a PING waits to be written. If both sides have more to say than the line
//! takes, both can come to that point, and each then waits for the other to listen. So whoever cannot write reads ahead
//! here; how much that can be is bounded by the windows of the streams.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::line::Line;

/// Nobody who keeps to the windows sends as much ahead.
const AHEAD: usize = 64 * 1024 * 1024;
/// How much is read ahead at once.
const PIECE: usize = 64 * 1024;

/// A connection under observation.
#[derive(Debug)]
pub(super) struct Metered<T> {
    io: T,
    line: Arc<Line>,
    /// What was read while nothing could be written.
    ahead: BytesMut,
    /// The end, or an error, was read ahead too.
    end: Option<io::Result<()>>,
}

impl<T: AsyncRead + AsyncWrite + Unpin> Metered<T> {
    pub(super) fn new(io: T, line: Arc<Line>) -> Self {
        Self { io, line, ahead: BytesMut::new(), end: None }
    }

    /// Notes what was written; if nothing could be, listens meanwhile.
    fn wrote<R>(&mut self, cx: &mut Context<'_>, done: Poll<R>) -> Poll<R> {
        if done.is_pending() {
            self.listen(cx);
        }
        done
    }

    fn listen(&mut self, cx: &mut Context<'_>) {
        while self.end.is_none() && self.ahead.len() < AHEAD {
            let mut piece = vec![0; PIECE];
            let mut buffer = ReadBuf::new(&mut piece);
            match Pin::new(&mut self.io).poll_read(cx, &mut buffer) {
                Poll::Pending => return,
                Poll::Ready(Err(error)) => self.end = Some(Err(error)),
                Poll::Ready(Ok(())) if buffer.filled().is_empty() => self.end = Some(Ok(())),
                Poll::Ready(Ok(())) => {
                    self.line.came(buffer.filled().len());
                    self.ahead.extend_from_slice(buffer.filled());
                }
            }
        }
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncRead for Metered<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.ahead.is_empty() {
            let taken = self.ahead.len().min(buf.remaining());
            buf.put_slice(&self.ahead[..taken]);
            self.ahead.advance(taken);
            if self.ahead.is_empty() {
                // What was needed once need not be kept for ever.
                self.ahead = BytesMut::new();
            }
            return Poll::Ready(Ok(()));
        }
        match self.end.take() {
            None => {}
            Some(Ok(())) => {
                self.end = Some(Ok(()));
                return Poll::Ready(Ok(()));
            }
            Some(Err(error)) => return Poll::Ready(Err(error)),
        }
        let before = buf.filled().len();
        let done = Pin::new(&mut self.io).poll_read(cx, buf);
        let came = buf.filled().len() - before;
        if came > 0 {
            self.line.came(came);
        }
        done
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Metered<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.io).poll_write(cx, buf);
        if let Poll::Ready(Ok(bytes)) = done {
            self.line.went(bytes);
        }
        self.wrote(cx, done)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.io).poll_flush(cx);
        self.wrote(cx, done)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        if let Poll::Ready(Ok(bytes)) = done {
            self.line.went(bytes);
        }
        self.wrote(cx, done)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    #[tokio::test]
    async fn two_who_both_have_much_to_say_before_they_listen_come_to_an_end() {
        let (near, far) = duplex(1024);
        let say_then_listen = |io| async move {
            let mut io = Metered::new(io, Line::new());
            io.write_all(&vec![1; 1 << 20]).await.unwrap();
            io.flush().await.unwrap();
            let mut heard = vec![0; 1 << 20];
            io.read_exact(&mut heard).await.unwrap();
            // The other side may still be reading.
            (io, heard)
        };
        let both = async { tokio::join!(say_then_listen(near), say_then_listen(far)) };
        let (near, far) = tokio::time::timeout(std::time::Duration::from_mins(1), both).await.expect("stuck");
        assert_eq!(near.1, far.1);
    }

    #[tokio::test]
    async fn the_end_that_was_read_ahead_comes_after_what_was_said_before_it() {
        let (near, mut far) = duplex(16);
        let mut near = Metered::new(near, Line::new());
        far.write_all(b"goodbye").await.unwrap();
        let heard = tokio::spawn(async move {
            let mut heard = Vec::new();
            far.read_to_end(&mut heard).await.unwrap();
            far.shutdown().await.unwrap();
            heard.len()
        });
        near.write_all(&[0; 4096]).await.unwrap();
        near.shutdown().await.unwrap();
        let mut text = String::new();
        near.read_to_string(&mut text).await.unwrap();
        assert_eq!((text.as_str(), heard.await.unwrap()), ("goodbye", 4096));
    }
}
