//! Metered transport of a connection that keeps reading while a write is blocked.
//!
//! h2 does not read while a PONG waits to be written. If both sides have more to send than the line takes, both can
//! reach that state and deadlock. So this adapter reads ahead while a write is pending; the stream windows bound the
//! amount.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::connection_health::ConnectionHealth;

/// Bound of the read-ahead buffer; peers that respect the windows stay below it.
const MAX_READ_AHEAD: usize = 64 * 1024 * 1024;
/// Read size.
const READ_CHUNK: usize = 64 * 1024;

/// A metered transport.
#[derive(Debug)]
pub(super) struct MeteredIo<T> {
    io: T,
    health: Arc<ConnectionHealth>,
    /// Data that was read while a write was pending.
    read_ahead: BytesMut,
    /// End of file or error that was read ahead.
    read_end: Option<io::Result<()>>,
}

impl<T: AsyncRead + AsyncWrite + Unpin> MeteredIo<T> {
    pub(super) fn new(io: T, health: Arc<ConnectionHealth>) -> Self {
        Self { io, health, read_ahead: BytesMut::new(), read_end: None }
    }

    /// Reads ahead if the write is pending.
    fn after_write<R>(&mut self, cx: &mut Context<'_>, done: Poll<R>) -> Poll<R> {
        if done.is_pending() {
            self.fill_read_ahead(cx);
        }
        done
    }

    fn fill_read_ahead(&mut self, cx: &mut Context<'_>) {
        while self.read_end.is_none() && self.read_ahead.len() < MAX_READ_AHEAD {
            let mut piece = vec![0; READ_CHUNK];
            let mut buffer = ReadBuf::new(&mut piece);
            match Pin::new(&mut self.io).poll_read(cx, &mut buffer) {
                Poll::Pending => return,
                Poll::Ready(Err(error)) => self.read_end = Some(Err(error)),
                Poll::Ready(Ok(())) if buffer.filled().is_empty() => self.read_end = Some(Ok(())),
                Poll::Ready(Ok(())) => {
                    self.health.record_read(buffer.filled().len());
                    self.read_ahead.extend_from_slice(buffer.filled());
                }
            }
        }
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncRead for MeteredIo<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.read_ahead.is_empty() {
            let taken = self.read_ahead.len().min(buf.remaining());
            buf.put_slice(&self.read_ahead[..taken]);
            self.read_ahead.advance(taken);
            if self.read_ahead.is_empty() {
                // Releases the memory of the read-ahead buffer.
                self.read_ahead = BytesMut::new();
            }
            return Poll::Ready(Ok(()));
        }
        match self.read_end.take() {
            None => {}
            Some(Ok(())) => {
                self.read_end = Some(Ok(()));
                return Poll::Ready(Ok(()));
            }
            Some(Err(error)) => return Poll::Ready(Err(error)),
        }
        let before = buf.filled().len();
        let done = Pin::new(&mut self.io).poll_read(cx, buf);
        let came = buf.filled().len() - before;
        if came > 0 {
            self.health.record_read(came);
        }
        done
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncWrite for MeteredIo<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.io).poll_write(cx, buf);
        if let Poll::Ready(Ok(bytes)) = done {
            self.health.record_written(bytes);
        }
        self.after_write(cx, done)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.io).poll_flush(cx);
        self.after_write(cx, done)
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
            self.health.record_written(bytes);
        }
        self.after_write(cx, done)
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
            let mut io = MeteredIo::new(io, ConnectionHealth::new());
            io.write_all(&vec![1; 1 << 20]).await.unwrap();
            io.flush().await.unwrap();
            let mut heard = vec![0; 1 << 20];
            io.read_exact(&mut heard).await.unwrap();
            // The peer may still be reading.
            (io, heard)
        };
        let both = async { tokio::join!(say_then_listen(near), say_then_listen(far)) };
        let (near, far) = tokio::time::timeout(std::time::Duration::from_mins(1), both).await.expect("stuck");
        assert_eq!(near.1, far.1);
    }

    #[tokio::test]
    async fn the_end_that_was_read_ahead_comes_after_what_was_said_before_it() {
        let (near, mut far) = duplex(16);
        let mut near = MeteredIo::new(near, ConnectionHealth::new());
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
