//! A caller's connection: bytes that were read already, and notes on what happens.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Instant,
};

use bytes::{Buf, Bytes};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

/// Notes on a connection that speaks HTTP/1. Written by its own thread, and read between two requests.
#[derive(Debug)]
pub(super) struct Notes {
    start: Instant,
    /// Requests without a whole answer: none or one.
    requests: AtomicU32,
    /// Bodies of requests that nobody has read to their ends: none or one.
    bodies: AtomicU32,
    /// Reads so far.
    reads: AtomicU64,
    /// When the first byte of an unfinished head came, in milliseconds since `start` and one; 0 for none.
    head: AtomicU64,
    /// Whether the last write had to wait.
    blocked: AtomicBool,
}

impl Notes {
    pub(super) fn new() -> Arc<Self> {
        let (requests, bodies, reads) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU64::new(0));
        let (head, blocked) = (AtomicU64::new(0), AtomicBool::new(false));
        Arc::new(Self { start: Instant::now(), requests, bodies, reads, head, blocked })
    }

    /// A head is complete.
    pub(super) fn begin(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.head.store(0, Ordering::Relaxed);
    }

    /// An answer is complete, or given up.
    pub(super) fn end(&self) {
        self.requests.fetch_sub(1, Ordering::Relaxed);
    }

    /// Nothing is under way outwards.
    pub(super) fn is_answered(&self) -> bool {
        self.requests.load(Ordering::Relaxed) == 0 && !self.blocked.load(Ordering::Relaxed)
    }

    /// A request may be answered before its body was read. What comes then is the rest of it, and no other request.
    pub(super) fn is_read(&self) -> bool {
        self.bodies.load(Ordering::Relaxed) == 0
    }

    pub(super) fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    /// Bytes of a head are there.
    pub(super) fn note_read(&self) {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let is_between = self.requests.load(Ordering::Relaxed) == 0 && self.is_read();
        if is_between && self.head.load(Ordering::Relaxed) == 0 {
            let since = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX - 1);
            self.head.store(since + 1, Ordering::Relaxed);
        }
    }

    /// How long the first byte of an unfinished head has been here.
    pub(super) fn head_age(&self) -> Option<std::time::Duration> {
        let since = self.head.load(Ordering::Relaxed).checked_sub(1)?;
        Some(self.start.elapsed().saturating_sub(std::time::Duration::from_millis(since)))
    }
}

/// The body of a request is not read to its end, as long as this lives.
pub(super) struct Unread(Arc<Notes>);

impl Unread {
    pub(super) fn new(notes: &Arc<Notes>) -> Self {
        notes.bodies.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(notes))
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        self.0.bodies.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A connection whose first bytes were read already.
#[derive(Debug)]
pub(super) struct Io {
    before: Bytes,
    stream: TcpStream,
    notes: Option<Arc<Notes>>,
}

impl Io {
    pub(super) fn new(before: Bytes, stream: TcpStream) -> Self {
        Self { before, stream, notes: None }
    }

    /// Somebody wants to know what happens.
    pub(super) fn noted(before: Bytes, stream: TcpStream, notes: &Arc<Notes>) -> Self {
        if !before.is_empty() {
            notes.note_read();
        }
        Self { before, stream, notes: Some(Arc::clone(notes)) }
    }

    /// The same connection, to ask the kernel about it while somebody else has this one.
    pub(super) fn wire(&self) -> io::Result<OwnedFd> {
        self.stream.as_fd().try_clone_to_owned()
    }

    /// The connection, and what nobody has read of what was read.
    pub(super) fn into_parts(self) -> (Bytes, TcpStream) {
        (self.before, self.stream)
    }

    fn wrote<T>(&self, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if let Some(notes) = &self.notes {
            notes.blocked.store(result.is_pending(), Ordering::Relaxed);
        }
        result
    }
}

impl AsyncRead for Io {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.before.is_empty() {
            let length = self.before.len().min(into.remaining());
            into.put_slice(&self.before[..length]);
            self.before.advance(length);
            return Poll::Ready(Ok(()));
        }
        let had = into.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(cx, into);
        if let (Some(notes), Poll::Ready(Ok(()))) = (&self.notes, &result)
            && into.filled().len() > had
        {
            notes.note_read();
        }
        result
    }
}

impl AsyncWrite for Io {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.wrote(result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.wrote(result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
