//! Health and flow control of one connection.
//!
//! A connection is alive while any bytes arrive: a PING that waits behind a large upload on a slow line is no sign of
//! death. Stream windows start small and grow while the line carries more than one window per round trip; the
//! connection window covers all streams at their maximum, so a stream that is not read blocks only itself.

use std::{
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use h2::{Ping, PingPong};
use tokio::{
    sync::Notify,
    time::{Instant, sleep, sleep_until},
};

use super::{MAX_CONCURRENT_REQUESTS, TunnelTimeouts};

/// Initial window of a stream.
pub(super) const INITIAL_WINDOW: u32 = 64 * 1024;
/// Maximum window of a stream: 20 MB/s at 50 ms.
const MAX_WINDOW: u32 = 1024 * 1024;
/// Window of the connection.
pub(super) const CONNECTION_WINDOW: u32 = MAX_CONCURRENT_REQUESTS * MAX_WINDOW;
/// Maximum frame size.
pub(super) const MAX_FRAME_SIZE: u32 = 64 * 1024;

/// Health of a connection.
#[derive(Debug)]
pub(super) struct ConnectionHealth {
    started_at: Instant,
    read: AtomicU64,
    written: AtomicU64,
    /// Time of the last received data, in milliseconds since `started_at`.
    last_heard_ms: AtomicU64,
    /// Microseconds; 0 until the first PONG.
    rtt_micros: AtomicU64,
    /// When the connection became suspect, in milliseconds since `started_at`; 0 if it is not.
    suspected_at_ms: AtomicU64,
    window: AtomicU32,
    /// Bytes received when the last PING was sent.
    read_at_ping: AtomicU64,
    is_measuring: AtomicBool,
    /// Requests a measurement now.
    measure_now: Notify,
    /// The window has grown.
    window_grown: Notify,
}

impl ConnectionHealth {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            started_at: Instant::now(),
            read: AtomicU64::new(0),
            written: AtomicU64::new(0),
            last_heard_ms: AtomicU64::new(0),
            rtt_micros: AtomicU64::new(0),
            suspected_at_ms: AtomicU64::new(0),
            window: AtomicU32::new(INITIAL_WINDOW),
            read_at_ping: AtomicU64::new(0),
            is_measuring: AtomicBool::new(false),
            measure_now: Notify::new(),
            window_grown: Notify::new(),
        })
    }

    /// Bytes received and sent.
    pub(super) fn bytes(&self) -> (u64, u64) {
        (self.read.load(Ordering::Relaxed), self.written.load(Ordering::Relaxed))
    }

    /// Round-trip time of the last PING.
    pub(super) fn rtt(&self) -> Option<Duration> {
        Some(self.rtt_micros.load(Ordering::Relaxed)).filter(|it| *it > 0).map(Duration::from_micros)
    }

    /// Time since data was last received.
    pub(super) fn silent_for(&self) -> Duration {
        self.instant_at(self.last_heard_ms.load(Ordering::Relaxed)).elapsed()
    }

    /// Requests a first measurement without waiting for the PING interval.
    pub(super) fn request_measurement(&self) {
        self.measure_now.notify_one();
    }

    /// Marks the connection as suspect after a resume or network change: it must prove soon that it is alive.
    pub(super) fn suspect(&self) {
        self.suspected_at_ms.store(self.elapsed_ms().max(1), Ordering::Relaxed);
        self.measure_now.notify_one();
    }

    /// Waits until the windows grow; returns the new size.
    pub(super) async fn next_window(&self) -> u32 {
        self.window_grown.notified().await;
        self.window.load(Ordering::Relaxed)
    }

    /// Sends PINGs; returns when no data was received for too long.
    pub(super) async fn run_pings(&self, mut ping: PingPong, times: &TunnelTimeouts) {
        loop {
            tokio::select! {
                () = sleep(times.ping_interval) => {}
                () = self.measure_now.notified() => {}
            }
            let (sent, before) = (Instant::now(), self.read.load(Ordering::Relaxed));
            self.read_at_ping.store(before, Ordering::Relaxed);
            // An error means that one is in flight or the connection is closing: the PONG or the timeout decides.
            let _pending = ping.send_ping(Ping::opaque());
            loop {
                let until = self.dead_deadline(times);
                tokio::select! {
                    answer = poll_fn(|cx| ping.poll_pong(cx)) => {
                        if answer.is_err() {
                            return;
                        }
                        break;
                    }
                    () = sleep_until(until) => if self.dead_deadline(times) <= Instant::now() { return },
                    () = self.measure_now.notified() => {}
                }
            }
            let took = u64::try_from(sent.elapsed().as_micros()).unwrap_or(u64::MAX);
            self.rtt_micros.store(took.max(1), Ordering::Relaxed);
            self.adjust_window(self.read.load(Ordering::Relaxed) - before);
            self.is_measuring.store(false, Ordering::Relaxed);
        }
    }

    /// When the connection is dead unless data arrives.
    fn dead_deadline(&self, times: &TunnelTimeouts) -> Instant {
        let heard = self.last_heard_ms.load(Ordering::Relaxed);
        let doubted = self.suspected_at_ms.load(Ordering::Relaxed);
        let usual = self.instant_at(heard) + times.dead_after;
        if doubted > heard { usual.min(self.instant_at(doubted) + times.suspect_timeout) } else { usual }
    }

    /// Grows the window according to the bytes received within one round trip.
    fn adjust_window(&self, bytes: u64) {
        let window = self.window.load(Ordering::Relaxed);
        if bytes >= u64::from(window) * 2 / 3 && window < MAX_WINDOW {
            self.window.store((window * 2).min(MAX_WINDOW), Ordering::Relaxed);
            self.window_grown.notify_one();
        }
    }

    /// Records sent bytes.
    pub(super) fn record_written(&self, bytes: usize) {
        self.written.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Records received bytes.
    pub(super) fn record_read(&self, bytes: usize) {
        let read = self.read.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64;
        self.last_heard_ms.store(self.elapsed_ms(), Ordering::Relaxed);
        let window = self.window.load(Ordering::Relaxed);
        let is_much = read - self.read_at_ping.load(Ordering::Relaxed).min(read) > u64::from(window);
        if window < MAX_WINDOW && is_much && !self.is_measuring.swap(true, Ordering::Relaxed) {
            self.measure_now.notify_one();
        }
    }

    fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.started_at.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn instant_at(&self, millis: u64) -> Instant {
        self.started_at + Duration::from_millis(millis)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_grows_while_the_line_carries_more_and_stops_at_its_widest() {
        let line = ConnectionHealth::new();
        line.adjust_window(1000);
        assert_eq!(line.window.load(Ordering::Relaxed), INITIAL_WINDOW);
        for _ in 0..10 {
            line.adjust_window(u64::from(MAX_WINDOW));
        }
        assert_eq!(line.window.load(Ordering::Relaxed), MAX_WINDOW);
    }

    #[test]
    fn all_streams_at_their_widest_fit_into_the_connection() {
        assert!(u64::from(MAX_CONCURRENT_REQUESTS) * u64::from(MAX_WINDOW) <= u64::from(CONNECTION_WINDOW));
        const { assert!(CONNECTION_WINDOW < (1 << 31), "more than HTTP/2 can say") };
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_doubted_has_less_time() {
        let times = TunnelTimeouts::default();
        let line = ConnectionHealth::new();
        tokio::time::advance(Duration::from_secs(3)).await;
        line.record_read(1);
        assert_eq!(line.dead_deadline(&times) - Instant::now(), times.dead_after);
        tokio::time::advance(Duration::from_millis(10)).await;
        line.suspect();
        assert_eq!(line.dead_deadline(&times) - Instant::now(), times.suspect_timeout);
        tokio::time::advance(Duration::from_millis(10)).await;
        line.record_read(1);
        assert_eq!(line.dead_deadline(&times) - Instant::now(), times.dead_after);
    }
}
