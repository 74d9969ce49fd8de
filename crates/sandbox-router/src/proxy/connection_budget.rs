//! How many caller connections may stay open: a share for each peer, and under pressure the oldest idle ones make room.
//! A connection with a request, an upgrade or passed-through bytes is never closed here. The time is an argument.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use futures::task::AtomicWaker;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::settings::ProxyLimits;

/// Connections that were idle for less are spared: a request that is on its way while one closes would be lost.
pub(super) const CLOSE_GRACE: Duration = Duration::from_millis(500);
/// Idle connections are looked for at most this often: that takes a look at all.
const SEARCH_INTERVAL: Duration = Duration::from_millis(100);
/// Under pressure from 80 % of the limit on; then idle connections are closed down to 75 %.
const PRESSURE_PERCENT: usize = 80;
const RELIEF_PERCENT: usize = 75;

/// Values of [`ConnectionState::idle_since`] that are no time.
const BUSY: u64 = 0;
const EVICTED: u64 = u64::MAX;

/// Budget of all workers.
pub(super) struct ConnectionBudget {
    start: Instant,
    max_connections: usize,
    max_per_peer: usize,
    open: Mutex<OpenConnections>,
    evicted: AtomicU64,
    refused: AtomicU64,
}

#[derive(Default)]
struct OpenConnections {
    next_id: u64,
    by_id: HashMap<u64, Arc<ConnectionState>>,
    by_peer: HashMap<IpAddr, usize>,
    searched: Option<Instant>,
}

/// One connection, as its own task and the budget share it.
struct ConnectionState {
    peer: IpAddr,
    /// Milliseconds since the start of the budget, plus one; or [`BUSY`], or [`EVICTED`].
    idle_since: AtomicU64,
    waker: AtomicWaker,
}

/// The entry of a connection; ends with it. Busy at first.
pub(super) struct OpenConnection {
    budget: Arc<ConnectionBudget>,
    id: u64,
    state: Arc<ConnectionState>,
}

impl ConnectionBudget {
    pub(super) fn new(limits: &ProxyLimits, now: Instant) -> Self {
        Self {
            start: now,
            max_connections: limits.max_connections,
            max_per_peer: limits.max_connections_per_peer.max(1),
            open: Mutex::default(),
            evicted: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }

    /// Admits a connection. `None` if its peer has used up its share, and none of its connections is idle.
    pub(super) fn open(self: &Arc<Self>, peer: IpAddr, now: Instant) -> Option<OpenConnection> {
        let peer = peer.to_canonical();
        let mut open = self.open.lock();
        let has = open.by_peer.get(&peer).copied().unwrap_or_default();
        if has >= self.max_per_peer && self.evict_oldest(&mut open, 1, Some(peer), now) == 0 {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let id = open.next_id;
        open.next_id += 1;
        let (idle_since, waker) = (AtomicU64::new(BUSY), AtomicWaker::new());
        let state = Arc::new(ConnectionState { peer, idle_since, waker });
        open.by_id.insert(id, Arc::clone(&state));
        *open.by_peer.entry(peer).or_default() += 1;
        drop(open);
        self.relieve(now);
        Some(OpenConnection { budget: Arc::clone(self), id, state })
    }

    /// Under pressure, closes the connections that have been idle for longest.
    pub(super) fn relieve(&self, now: Instant) {
        let mut open = self.open.lock();
        let percent = |part: usize| self.max_connections.saturating_mul(part) / 100;
        if open.by_id.len() < percent(PRESSURE_PERCENT).max(1) {
            return;
        }
        if open.searched.is_some_and(|last| now.saturating_duration_since(last) < SEARCH_INTERVAL) {
            return;
        }
        open.searched = Some(now);
        let excess = open.by_id.len().saturating_sub(percent(RELIEF_PERCENT));
        self.evict_oldest(&mut open, excess, None, now);
    }

    /// Evicts up to `most` idle connections, of one peer or of all. Returns how many.
    fn evict_oldest(
        &self,
        open: &mut OpenConnections,
        most: usize,
        peer: Option<IpAddr>,
        now: Instant,
    ) -> usize {
        let latest =
            self.millis(now).saturating_sub(u64::try_from(CLOSE_GRACE.as_millis()).unwrap_or(u64::MAX));
        let is_asked = |state: &ConnectionState| peer.is_none_or(|peer| peer == state.peer);
        let mut idle: Vec<(u64, u64)> = open
            .by_id
            .iter()
            .filter(|entry| is_asked(entry.1))
            .map(|entry| (entry.1.idle_since.load(Ordering::Acquire), *entry.0))
            .filter(|entry| entry.0 != BUSY && entry.0 <= latest)
            .collect();
        idle.sort_unstable();
        let mut evicted = 0;
        for entry in idle.into_iter().take(most) {
            let (since, id) = entry;
            let Some(state) = open.by_id.get(&id).cloned() else { continue };
            // It may just have become busy.
            let swapped =
                state.idle_since.compare_exchange(since, EVICTED, Ordering::AcqRel, Ordering::Acquire);
            if swapped.is_ok() {
                open.remove(id);
                state.waker.wake();
                evicted += 1;
            }
        }
        self.evicted.fetch_add(evicted as u64, Ordering::Relaxed);
        evicted
    }

    /// Never [`BUSY`].
    fn millis(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.start).as_millis();
        u64::try_from(since).unwrap_or(EVICTED - 2).min(EVICTED - 2) + 1
    }

    /// How many connections were closed to make room, and how many were refused.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.evicted.load(Ordering::Relaxed), self.refused.load(Ordering::Relaxed))
    }
}

impl OpenConnections {
    fn remove(&mut self, id: u64) {
        let Some(state) = self.by_id.remove(&id) else { return };
        if let Some(count) = self.by_peer.get_mut(&state.peer) {
            *count -= 1;
            if *count == 0 {
                self.by_peer.remove(&state.peer);
            }
        }
    }
}

impl OpenConnection {
    /// It may be evicted from now on; `since` is when it was used last.
    pub(super) fn mark_idle(&self, since: Instant) {
        let new = self.budget.millis(since);
        // Only a busy connection becomes idle; an evicted one stays evicted.
        let _other = self.state.idle_since.compare_exchange(BUSY, new, Ordering::AcqRel, Ordering::Acquire);
    }

    /// It is in use. False if it was evicted before.
    pub(super) fn mark_busy(&self) -> bool {
        let busy = |since| (since != EVICTED).then_some(BUSY);
        self.state.idle_since.fetch_update(Ordering::AcqRel, Ordering::Acquire, busy).is_ok()
    }

    /// Ready when it has to close.
    pub(super) fn poll_evicted(&self, cx: &Context<'_>) -> Poll<()> {
        self.state.waker.register(cx.waker());
        if self.state.idle_since.load(Ordering::Acquire) == EVICTED { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.budget.open.lock().remove(self.id);
    }
}

#[cfg(test)]
mod tests {
    use futures::future::poll_fn;

    use super::*;

    const LONG: Duration = Duration::from_mins(1);

    fn budget(max_connections: usize, max_connections_per_peer: usize) -> (Arc<ConnectionBudget>, Instant) {
        let now = Instant::now();
        let limits = ProxyLimits { max_connections, max_connections_per_peer, ..ProxyLimits::default() };
        (Arc::new(ConnectionBudget::new(&limits, now)), now)
    }

    fn peer(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    fn is_evicted(connection: &OpenConnection) -> bool {
        !connection.mark_busy()
    }

    #[test]
    fn m5_the_oldest_idle_connections_make_room_at_80_percent() {
        let (budget, now) = budget(100, 100);
        let open: Vec<_> = (0..79).map(|_| budget.open(peer(1), now).unwrap()).collect();
        // The later it was opened, the longer it has been idle; the last one is busy.
        for (at, connection) in open.iter().enumerate().take(78) {
            connection.mark_idle(now + LONG - Duration::from_millis(at as u64 * 500));
        }
        let later = now + LONG * 2;
        budget.relieve(later);
        assert_eq!(budget.counts(), (0, 0));
        let _eightieth = budget.open(peer(2), later).unwrap();
        assert_eq!(budget.counts(), (5, 0));
        let evicted: Vec<usize> = (0..79).filter(|at| is_evicted(&open[*at])).collect();
        assert_eq!(evicted, [73, 74, 75, 76, 77]);
    }

    #[test]
    fn m5_a_busy_or_just_used_connection_is_never_closed() {
        let (budget, now) = budget(10, 10);
        let open: Vec<_> = (0..10).map(|_| budget.open(peer(1), now).unwrap()).collect();
        let later = now + LONG;
        for connection in &open[..5] {
            connection.mark_idle(later);
        }
        budget.relieve(later + CLOSE_GRACE - Duration::from_millis(1));
        assert!(!open.iter().any(is_evicted));
        assert_eq!(budget.counts(), (0, 0));
    }

    #[test]
    fn m5_no_peer_gets_more_than_its_share() {
        let (budget, now) = budget(100, 2);
        let held = [budget.open(peer(1), now).unwrap(), budget.open(peer(1), now).unwrap()];
        let mapped = "::ffff:10.0.0.1".parse().unwrap();
        assert!(budget.open(peer(1), now).is_none() && budget.open(mapped, now).is_none());
        assert!(budget.open(peer(2), now).is_some());
        assert_eq!(budget.counts(), (0, 2));
        drop(held);
        assert!(budget.open(peer(1), now).is_some());
        assert!(budget.open.lock().by_peer.is_empty());
    }

    #[test]
    fn m5_a_peer_at_its_share_loses_its_own_idle_connection_and_nobody_elses() {
        let (budget, now) = budget(100, 2);
        let other = budget.open(peer(2), now).unwrap();
        let own = [budget.open(peer(1), now).unwrap(), budget.open(peer(1), now).unwrap()];
        for connection in [&other, &own[0]] {
            connection.mark_idle(now);
        }
        let _third = budget.open(peer(1), now + LONG).unwrap();
        assert_eq!([&other, &own[0], &own[1]].map(is_evicted), [false, true, false]);
    }

    #[test]
    fn m5_the_search_for_idle_connections_is_not_repeated_for_each_new_one() {
        let (budget, now) = budget(10, 10);
        let open: Vec<_> = (0..8).map(|_| budget.open(peer(1), now).unwrap()).collect();
        open[0].mark_idle(now);
        budget.relieve(now + SEARCH_INTERVAL / 2);
        assert_eq!(budget.open.lock().searched, Some(now));
        budget.relieve(now + LONG);
        assert!(is_evicted(&open[0]));
    }

    #[tokio::test]
    async fn m5_an_evicted_connection_is_woken() {
        let (budget, now) = budget(1, 1);
        let connection = budget.open(peer(1), now).unwrap();
        connection.mark_idle(now);
        let waiting = tokio::spawn(async move { poll_fn(|cx| connection.poll_evicted(cx)).await });
        tokio::task::yield_now().await;
        budget.relieve(now + LONG);
        waiting.await.unwrap();
    }
}
