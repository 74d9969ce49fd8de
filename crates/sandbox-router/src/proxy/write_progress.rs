//! Callers that stop reading: a response that waits for its caller holds a connection to a pod, so a blocked write must make
//! progress, or the caller's connection is reset.

use std::{
    future::poll_fn,
    io,
    pin::Pin,
    sync::atomic::{AtomicU64, Ordering},
    task::{Context, Poll},
    time::Duration,
};

use socket2::SockRef;
use tokio::{
    io::AsyncWrite as _,
    net::TcpStream,
    time::{Instant, Sleep, sleep},
};

use super::settings::ProxyLimits;

/// How much a caller has to read.
#[derive(Debug)]
pub(super) struct WriteBudget {
    interval: Duration,
    min_bytes: usize,
    stalled: AtomicU64,
}

impl WriteBudget {
    pub(super) fn new(limits: &ProxyLimits) -> Self {
        Self {
            interval: limits.write_interval,
            min_bytes: limits.min_write_bytes.max(1),
            stalled: AtomicU64::new(0),
        }
    }

    /// How many connections were closed.
    pub(super) fn stalled(&self) -> u64 {
        self.stalled.load(Ordering::Relaxed)
    }
}

/// The progress of the writes to one caller. Costs nothing while the caller reads.
#[derive(Debug, Default)]
pub(super) struct WriteProgress {
    blocked: Option<BlockedWrite>,
}

#[derive(Debug)]
struct BlockedWrite {
    interval: Pin<Box<Sleep>>,
    /// In this interval.
    written: usize,
}

/// What became of a write.
struct Attempt<'a> {
    /// The first of the bytes that were to be written.
    first: &'a [u8],
    total: usize,
    result: Poll<io::Result<usize>>,
}

impl WriteProgress {
    /// Writes to the caller.
    pub(super) fn poll_write(
        &mut self,
        stream: &mut TcpStream,
        cx: &mut Context<'_>,
        bytes: &[u8],
        budget: &WriteBudget,
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut *stream).poll_write(cx, bytes);
        self.check(stream, cx, Attempt { first: bytes, total: bytes.len(), result }, budget)
    }

    /// Writes parts to the caller.
    pub(super) fn poll_write_vectored(
        &mut self,
        stream: &mut TcpStream,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
        budget: &WriteBudget,
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut *stream).poll_write_vectored(cx, parts);
        let total = parts.iter().map(|part| part.len()).sum();
        let first = parts.iter().find(|part| !part.is_empty()).map_or(&[][..], |part| part);
        self.check(stream, cx, Attempt { first, total, result }, budget)
    }

    fn check(
        &mut self,
        stream: &TcpStream,
        cx: &mut Context<'_>,
        Attempt { first, total, result }: Attempt<'_>,
        budget: &WriteBudget,
    ) -> Poll<io::Result<usize>> {
        match &result {
            Poll::Ready(Ok(written)) if *written < total => {
                if let Some(blocked) = &mut self.blocked {
                    blocked.written += written;
                }
                return result;
            }
            Poll::Ready(_) => {
                self.blocked = None;
                return result;
            }
            Poll::Pending => {}
        }
        let blocked = self
            .blocked
            .get_or_insert_with(|| BlockedWrite { interval: Box::pin(sleep(budget.interval)), written: 0 });
        if blocked.interval.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        // The runtime learns that a socket is writable when a third of its buffer is free. With a large buffer that takes a
        // slow but honest reader longer than the interval, so the kernel is asked directly.
        let sent = match SockRef::from(stream).send(first) {
            Ok(sent) => sent,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(error) => return Poll::Ready(Err(error)),
        };
        if blocked.written + sent < budget.min_bytes.min(total) {
            return Poll::Ready(Err(stall(stream, budget)));
        }
        blocked.written = 0;
        blocked.interval.as_mut().reset(Instant::now() + budget.interval);
        if sent > 0 {
            return Poll::Ready(Ok(sent));
        }
        // Registers for the end of the next interval.
        let _pending = blocked.interval.as_mut().poll(cx);
        Poll::Pending
    }
}

/// Gives up on a caller. Without a reset the kernel would go on offering it what is in the buffer.
fn stall(stream: &TcpStream, budget: &WriteBudget) -> io::Error {
    budget.stalled.fetch_add(1, Ordering::Relaxed);
    if let Err(error) = SockRef::from(stream).set_linger(Some(Duration::ZERO)) {
        tracing::debug!(%error, "a connection cannot be reset");
    }
    io::Error::new(io::ErrorKind::TimedOut, "the caller does not read its response")
}

/// Writes all bytes to a caller.
pub(super) async fn write_all(
    stream: &mut TcpStream,
    mut bytes: &[u8],
    budget: &WriteBudget,
) -> io::Result<()> {
    let mut progress = WriteProgress::default();
    while !bytes.is_empty() {
        let written = poll_fn(|cx| progress.poll_write(stream, cx, bytes, budget)).await?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        bytes = &bytes[written..];
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    use super::*;
    use crate::proxy::caller_io::{CallerIo, ConnectionActivity};

    /// More than the buffers of both ends hold.
    const MORE_THAN_BUFFERS: usize = 4 * 1024 * 1024;

    /// A connection with small buffers: the router's end, and the caller's.
    async fn connection() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let caller = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (router, _) = listener.accept().await.unwrap();
        SockRef::from(&router).set_send_buffer_size(64 * 1024).unwrap();
        SockRef::from(&caller).set_recv_buffer_size(64 * 1024).unwrap();
        (router, caller)
    }

    fn budget(min_write_bytes: usize) -> WriteBudget {
        WriteBudget::new(&ProxyLimits { min_write_bytes, ..ProxyLimits::default() })
    }

    #[tokio::test(start_paused = true)]
    async fn m5_a_caller_that_does_not_read_is_given_up() {
        let (mut router, mut caller) = connection().await;
        let budget = budget(4096);
        let error = write_all(&mut router, &vec![b'x'; MORE_THAN_BUFFERS], &budget).await.unwrap_err();
        assert_eq!((error.kind(), budget.stalled()), (io::ErrorKind::TimedOut, 1));
        drop(router);
        let end = caller.read_to_end(&mut Vec::new()).await.unwrap_err();
        assert_eq!(end.kind(), io::ErrorKind::ConnectionReset);
    }

    /// Reads a part before each interval is over.
    async fn read_slowly(mut caller: TcpStream, part: usize) -> usize {
        let (mut buffer, mut total) = (vec![0; part], 0);
        loop {
            tokio::time::sleep(ProxyLimits::default().write_interval * 2 / 3).await;
            match caller.read_exact(&mut buffer).await {
                Ok(read) => total += read,
                Err(_) => return total,
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn m5_a_caller_that_reads_slowly_gets_everything() {
        let (mut router, caller) = connection().await;
        let reading = tokio::spawn(read_slowly(caller, 128 * 1024));
        let budget = budget(4096);
        write_all(&mut router, &vec![b'x'; MORE_THAN_BUFFERS], &budget).await.unwrap();
        drop(router);
        assert_eq!((reading.await.unwrap(), budget.stalled()), (MORE_THAN_BUFFERS, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn m5_a_caller_that_reads_less_than_the_budget_is_given_up() {
        let (mut router, caller) = connection().await;
        let reading = tokio::spawn(read_slowly(caller, 128 * 1024));
        let budget = budget(1024 * 1024);
        let error = write_all(&mut router, &vec![b'x'; MORE_THAN_BUFFERS], &budget).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(router);
        assert!(reading.await.unwrap() < MORE_THAN_BUFFERS);
    }

    #[tokio::test(start_paused = true)]
    async fn m5_the_general_path_gives_up_a_caller_too() {
        let (router, _caller) = connection().await;
        let budget = std::sync::Arc::new(budget(4096));
        let activity = ConnectionActivity::new();
        let mut io = CallerIo::with_activity(bytes::Bytes::new(), router, &activity).with_budget(&budget);
        let error = io.write_all(&vec![b'x'; MORE_THAN_BUFFERS]).await.unwrap_err();
        assert_eq!((error.kind(), budget.stalled()), (io::ErrorKind::TimedOut, 1));
    }
}
