//! I/O of a caller's connection: replays bytes that were already read, and tracks activity.

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

use super::write_progress::{WriteBudget, WriteProgress};
use crate::request_body::BodyObserver;

/// Activity of an HTTP/1 connection. Written by its own thread.
#[derive(Debug)]
pub(super) struct ConnectionActivity {
    start: Instant,
    /// Requests without a complete response: 0 or 1.
    active_requests: AtomicU32,
    /// Request bodies that were not read completely: 0 or 1.
    unread_bodies: AtomicU32,
    /// Number of reads.
    reads: AtomicU64,
    /// Milliseconds since `start`, plus one, at the first byte of an incomplete head; 0 for none.
    head_started_ms: AtomicU64,
    /// Whether the last write was pending.
    is_write_blocked: AtomicBool,
    /// Whether the body of the current request was malformed or cut off.
    is_body_broken: AtomicBool,
}

impl ConnectionActivity {
    pub(super) fn new() -> Arc<Self> {
        let (requests, bodies, reads) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU64::new(0));
        let (head, blocked) = (AtomicU64::new(0), AtomicBool::new(false));
        Arc::new(Self {
            start: Instant::now(),
            active_requests: requests,
            unread_bodies: bodies,
            reads,
            head_started_ms: head,
            is_write_blocked: blocked,
            is_body_broken: AtomicBool::new(false),
        })
    }

    /// A head is complete.
    pub(super) fn start_request(&self) {
        self.active_requests.fetch_add(1, Ordering::Relaxed);
        self.head_started_ms.store(0, Ordering::Relaxed);
        self.is_body_broken.store(false, Ordering::Relaxed);
    }

    /// Whether the body of the current request was malformed or cut off. Then a missing response is the caller's fault.
    pub(super) fn is_body_broken(&self) -> bool {
        self.is_body_broken.load(Ordering::Relaxed)
    }

    /// A response is complete or abandoned.
    pub(super) fn finish_request(&self) {
        self.active_requests.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether no response is in progress.
    pub(super) fn is_answered(&self) -> bool {
        self.active_requests.load(Ordering::Relaxed) == 0 && !self.is_write_blocked.load(Ordering::Relaxed)
    }

    /// A request may be answered before its body was read. Further bytes then belong to the body, not to a new request.
    pub(super) fn is_body_read(&self) -> bool {
        self.unread_bodies.load(Ordering::Relaxed) == 0
    }

    pub(super) fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    /// Records a read; between requests it starts a head.
    pub(super) fn record_read(&self) {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let is_between = self.active_requests.load(Ordering::Relaxed) == 0 && self.is_body_read();
        if is_between && self.head_started_ms.load(Ordering::Relaxed) == 0 {
            let since = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX - 1);
            self.head_started_ms.store(since + 1, Ordering::Relaxed);
        }
    }

    /// Time since the first byte of an incomplete head.
    pub(super) fn head_age(&self) -> Option<std::time::Duration> {
        let since = self.head_started_ms.load(Ordering::Relaxed).checked_sub(1)?;
        Some(self.start.elapsed().saturating_sub(std::time::Duration::from_millis(since)))
    }
}

/// Marks a request body as not completely read while it lives.
pub(super) struct UnreadBodyGuard(Arc<ConnectionActivity>);

impl UnreadBodyGuard {
    pub(super) fn new(notes: &Arc<ConnectionActivity>) -> Self {
        notes.unread_bodies.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(notes))
    }
}

impl BodyObserver for UnreadBodyGuard {
    fn record_failure(&self) {
        self.0.is_body_broken.store(true, Ordering::Relaxed);
    }
}

impl Drop for UnreadBodyGuard {
    fn drop(&mut self) {
        self.0.unread_bodies.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A connection whose first bytes were already read.
#[derive(Debug)]
pub(super) struct CallerIo {
    prefix: Bytes,
    stream: TcpStream,
    activity: Option<Arc<ConnectionActivity>>,
    /// Without a budget a caller may read as slowly as it likes.
    budget: Option<Arc<WriteBudget>>,
    progress: WriteProgress,
}

impl CallerIo {
    pub(super) fn new(prefix: Bytes, stream: TcpStream) -> Self {
        Self { prefix, stream, activity: None, budget: None, progress: WriteProgress::default() }
    }

    /// With activity tracking.
    pub(super) fn with_activity(prefix: Bytes, stream: TcpStream, notes: &Arc<ConnectionActivity>) -> Self {
        if !prefix.is_empty() {
            notes.record_read();
        }
        Self { activity: Some(Arc::clone(notes)), ..Self::new(prefix, stream) }
    }

    /// Fails writes of which the caller does not read enough.
    pub(super) fn with_budget(mut self, budget: &Arc<WriteBudget>) -> Self {
        self.budget = Some(Arc::clone(budget));
        self
    }

    /// A duplicate file descriptor, to query the socket while another task owns the connection.
    pub(super) fn duplicate_fd(&self) -> io::Result<OwnedFd> {
        self.stream.as_fd().try_clone_to_owned()
    }

    /// The unread prefix and the connection.
    pub(super) fn into_parts(self) -> (Bytes, TcpStream) {
        (self.prefix, self.stream)
    }

    fn record_write<T>(&self, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if let Some(notes) = &self.activity {
            notes.is_write_blocked.store(result.is_pending(), Ordering::Relaxed);
        }
        result
    }
}

impl AsyncRead for CallerIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.prefix.is_empty() {
            let length = self.prefix.len().min(into.remaining());
            into.put_slice(&self.prefix[..length]);
            self.prefix.advance(length);
            return Poll::Ready(Ok(()));
        }
        let had = into.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(cx, into);
        if let (Some(notes), Poll::Ready(Ok(()))) = (&self.activity, &result)
            && into.filled().len() > had
        {
            notes.record_read();
        }
        result
    }
}

impl AsyncWrite for CallerIo {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let Self { stream, budget, progress, .. } = &mut *self;
        let result = match budget {
            Some(budget) => progress.poll_write(stream, cx, bytes, budget),
            None => Pin::new(stream).poll_write(cx, bytes),
        };
        self.record_write(result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let Self { stream, budget, progress, .. } = &mut *self;
        let result = match budget {
            Some(budget) => progress.poll_write_vectored(stream, cx, parts, budget),
            None => Pin::new(stream).poll_write_vectored(cx, parts),
        };
        self.record_write(result)
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
