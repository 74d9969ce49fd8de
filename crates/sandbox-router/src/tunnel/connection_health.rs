//! One connection: what was heard on it, whether it still lives, and how wide its windows are.
//!
//! A connection is alive while bytes come, whatever they are: a PING that waits behind a large upload on a slow line is no
//! sign of death. A window begins small and grows while the line carries more in one round trip than the window holds;
//! the connection as a whole has room for all streams at their widest, so a stream that nobody reads holds up itself alone.

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

use super::{STREAMS, Times};

/// The window of a stream at first.
pub(super) const WINDOW_FIRST: u32 = 64 * 1024;
/// The widest window of a stream: 20 MB/s at 50 ms.
const WINDOW_LAST: u32 = 1024 * 1024;
/// The window of the connection.
pub(super) const WINDOW_ALL: u32 = STREAMS * WINDOW_LAST;
/// What a frame carries at most.
pub(super) const FRAME: u32 = 64 * 1024;

/// What is known of a connection, by whoever asks.
#[derive(Debug)]
pub(super) struct Line {
    born: Instant,
    read: AtomicU64,
    written: AtomicU64,
    /// When something was heard, in milliseconds since `born`.
    heard: AtomicU64,
    /// Microseconds; 0 until the first answer.
    rtt: AtomicU64,
    /// When somebody began to doubt, in milliseconds since `born`; 0 if nobody does.
    doubted: AtomicU64,
    window: AtomicU32,
    /// How much was read when the last PING was sent.
    pinged: AtomicU64,
    is_busy: AtomicBool,
    /// It is worth measuring now, or necessary.
    ask: Notify,
    /// The window shall change.
    wider: Notify,
}

impl Line {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            born: Instant::now(),
            read: AtomicU64::new(0),
            written: AtomicU64::new(0),
            heard: AtomicU64::new(0),
            rtt: AtomicU64::new(0),
            doubted: AtomicU64::new(0),
            window: AtomicU32::new(WINDOW_FIRST),
            pinged: AtomicU64::new(0),
            is_busy: AtomicBool::new(false),
            ask: Notify::new(),
            wider: Notify::new(),
        })
    }

    /// Bytes that came and went.
    pub(super) fn bytes(&self) -> (u64, u64) {
        (self.read.load(Ordering::Relaxed), self.written.load(Ordering::Relaxed))
    }

    /// How long the last PING took.
    pub(super) fn rtt(&self) -> Option<Duration> {
        Some(self.rtt.load(Ordering::Relaxed)).filter(|it| *it > 0).map(Duration::from_micros)
    }

    /// How long ago something was heard.
    pub(super) fn silent_for(&self) -> Duration {
        self.at(self.heard.load(Ordering::Relaxed)).elapsed()
    }

    /// Asks for the first round trip, without waiting for the first PING.
    pub(super) fn measure(&self) {
        self.ask.notify_one();
    }

    /// The machine slept, or its address changed: the connection has to show soon that it lives.
    pub(super) fn doubt(&self) {
        self.doubted.store(self.millis().max(1), Ordering::Relaxed);
        self.ask.notify_one();
    }

    /// Waits until the windows shall be wider, and says how wide.
    pub(super) async fn wider(&self) -> u32 {
        self.wider.notified().await;
        self.window.load(Ordering::Relaxed)
    }

    /// Sends PINGs, and returns when nothing was heard for too long.
    pub(super) async fn pulse(&self, mut ping: PingPong, times: &Times) {
        loop {
            tokio::select! {
                () = sleep(times.ping) => {}
                () = self.ask.notified() => {}
            }
            let (sent, before) = (Instant::now(), self.read.load(Ordering::Relaxed));
            self.pinged.store(before, Ordering::Relaxed);
            // One is under way already, or the connection is closing: the answer, or the silence, will tell.
            let _pending = ping.send_ping(Ping::opaque());
            loop {
                let until = self.dead_at(times);
                tokio::select! {
                    answer = poll_fn(|cx| ping.poll_pong(cx)) => {
                        if answer.is_err() {
                            return;
                        }
                        break;
                    }
                    () = sleep_until(until) => if self.dead_at(times) <= Instant::now() { return },
                    () = self.ask.notified() => {}
                }
            }
            let took = u64::try_from(sent.elapsed().as_micros()).unwrap_or(u64::MAX);
            self.rtt.store(took.max(1), Ordering::Relaxed);
            self.learn(self.read.load(Ordering::Relaxed) - before);
            self.is_busy.store(false, Ordering::Relaxed);
        }
    }

    /// When the connection is dead unless something is heard.
    fn dead_at(&self, times: &Times) -> Instant {
        let heard = self.heard.load(Ordering::Relaxed);
        let doubted = self.doubted.load(Ordering::Relaxed);
        let usual = self.at(heard) + times.dead;
        if doubted > heard { usual.min(self.at(doubted) + times.doubt) } else { usual }
    }

    /// So much came within one round trip.
    fn learn(&self, bytes: u64) {
        let window = self.window.load(Ordering::Relaxed);
        if bytes >= u64::from(window) * 2 / 3 && window < WINDOW_LAST {
            self.window.store((window * 2).min(WINDOW_LAST), Ordering::Relaxed);
            self.wider.notify_one();
        }
    }

    /// So much went out.
    pub(super) fn went(&self, bytes: usize) {
        self.written.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// So much came in.
    pub(super) fn came(&self, bytes: usize) {
        let read = self.read.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64;
        self.heard.store(self.millis(), Ordering::Relaxed);
        let window = self.window.load(Ordering::Relaxed);
        let is_much = read - self.pinged.load(Ordering::Relaxed).min(read) > u64::from(window);
        if window < WINDOW_LAST && is_much && !self.is_busy.swap(true, Ordering::Relaxed) {
            self.ask.notify_one();
        }
    }

    fn millis(&self) -> u64 {
        u64::try_from(self.born.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn at(&self, millis: u64) -> Instant {
        self.born + Duration::from_millis(millis)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_grows_while_the_line_carries_more_and_stops_at_its_widest() {
        let line = Line::new();
        line.learn(1000);
        assert_eq!(line.window.load(Ordering::Relaxed), WINDOW_FIRST);
        for _ in 0..10 {
            line.learn(u64::from(WINDOW_LAST));
        }
        assert_eq!(line.window.load(Ordering::Relaxed), WINDOW_LAST);
    }

    #[test]
    fn all_streams_at_their_widest_fit_into_the_connection() {
        assert!(u64::from(STREAMS) * u64::from(WINDOW_LAST) <= u64::from(WINDOW_ALL));
        const { assert!(WINDOW_ALL < (1 << 31), "more than HTTP/2 can say") };
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_doubted_has_less_time() {
        let times = Times::default();
        let line = Line::new();
        tokio::time::advance(Duration::from_secs(3)).await;
        line.came(1);
        assert_eq!(line.dead_at(&times) - Instant::now(), times.dead);
        tokio::time::advance(Duration::from_millis(10)).await;
        line.doubt();
        assert_eq!(line.dead_at(&times) - Instant::now(), times.doubt);
        tokio::time::advance(Duration::from_millis(10)).await;
        line.came(1);
        assert_eq!(line.dead_at(&times) - Instant::now(), times.dead);
    }
}
