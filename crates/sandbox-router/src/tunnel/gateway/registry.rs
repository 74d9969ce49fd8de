//! Who holds which workload. The rules are in `admit`; here is the memory, and who waits for whom.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use parking_lot::{Mutex, RwLock};
use tokio::{
    sync::{Notify, watch},
    time::{Instant, timeout_at},
};

use super::{
    super::{PortReport, Workload, hello::Hello},
    Expected, Failure, Grant, Phase, QUEUE, View,
    admit::{Holder, Known, admit, holder},
    session::{Farewell, Session},
};
use crate::tunnel::clock;

/// All workloads that were ever connected here.
pub(super) struct Registry {
    slots: RwLock<HashMap<Workload, Arc<Slot>>>,
    changed: watch::Sender<u64>,
    reconnects: AtomicU64,
}

impl Registry {
    pub(super) fn new() -> Self {
        Self { slots: RwLock::default(), changed: watch::Sender::new(0), reconnects: AtomicU64::new(0) }
    }

    /// An agent that had been connected is again.
    pub(super) fn reconnected(&self) {
        self.reconnects.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn reconnects(&self) -> u64 {
        self.reconnects.load(Ordering::Relaxed)
    }

    pub(super) fn slot(&self, workload: &Workload) -> Option<Arc<Slot>> {
        self.slots.read().get(workload).cloned()
    }

    /// Gives a workload to somebody who knocks, or says why not. Whoever had it gets no request from now on.
    pub(super) fn claim(&self, hello: &Hello, grant: &Grant) -> Result<(Arc<Slot>, u64), String> {
        let mut slots = self.slots.write();
        let slot = slots
            .entry(hello.workload.clone())
            .or_insert_with(|| Arc::new(Slot::new(hello.workload.clone(), self.changed.clone())));
        let epoch = slot.claim(hello, grant)?;
        Ok((Arc::clone(slot), epoch))
    }

    pub(super) fn forget(&self, workload: &Workload, why: &str) {
        let gone = self.slots.write().remove(workload);
        if let Some(slot) = gone {
            slot.end(None, why, Ending::Forgotten);
        }
    }

    /// Another gateway has a newer session than this one of ours. It is remembered that there was one: requests that come
    /// before everybody knows where it is now have to be sent there.
    pub(super) fn give_up(&self, workload: &Workload, epoch: u64, why: &str) {
        if let Some(slot) = self.slot(workload) {
            slot.end(Some(epoch), why, Ending::Moved);
        }
    }

    /// The agents of all sessions are told to go to another gateway, and expected there.
    pub(super) fn send_away(&self, why: &str) {
        let all: Vec<Arc<Slot>> = self.slots.read().values().cloned().collect();
        for slot in all {
            slot.send_away(why);
        }
    }

    /// Somebody was connected before this gateway was started, and is expected back.
    pub(super) fn expect(&self, expected: &Expected) {
        let mut slots = self.slots.write();
        if !slots.contains_key(&expected.workload) {
            let slot = Arc::new(Slot::new(expected.workload.clone(), self.changed.clone()));
            slots.insert(expected.workload.clone(), Arc::clone(&slot));
            slot.expect(expected);
        }
    }

    pub(super) fn views(&self) -> Vec<View> {
        self.slots.read().values().map(|slot| slot.view()).collect()
    }

    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }
}

/// One workload.
pub(super) struct Slot {
    workload: Workload,
    inner: Mutex<Inner>,
    moved: Notify,
    changed: watch::Sender<u64>,
}

struct Inner {
    holder: Holder,
    version: String,
    epoch: u64,
    state: State,
    why: Option<String>,
    grace: Duration,
    /// Whether its agent comes back if the connection breaks: one that never said a word may have ended as well.
    is_expected: bool,
    since: SystemTime,
    waiting: usize,
    ports: Vec<PortReport>,
}

enum State {
    Connected(Arc<Session>),
    Reconnecting { since: Instant },
    Disconnected { since: Instant, has_moved: bool },
}

/// Why a session ends that nobody waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// Its user left, or may not any longer.
    Left,
    /// The workload is gone. The agent is told.
    Forgotten,
    /// Another gateway has a newer one. The agent is told.
    Moved,
}

impl Slot {
    fn new(workload: Workload, changed: watch::Sender<u64>) -> Self {
        let inner = Inner {
            holder: Holder { session: String::new(), user: String::new() },
            version: String::new(),
            epoch: 0,
            state: State::Disconnected { since: Instant::now(), has_moved: false },
            why: None,
            grace: Duration::ZERO,
            is_expected: false,
            since: clock::now(),
            waiting: 0,
            ports: Vec::new(),
        };
        Self { workload, inner: Mutex::new(inner), moved: Notify::new(), changed }
    }

    fn claim(&self, hello: &Hello, grant: &Grant) -> Result<u64, String> {
        let mut inner = self.inner.lock();
        let is_live = !matches!(inner.state, State::Disconnected { .. });
        let known = Known { holder: &inner.holder, epoch: inner.epoch, is_live };
        let epoch = admit(holder(known, grant), inner.epoch.max(grant.epoch), &grant.user, hello)?;
        let is_other = inner.holder.session != hello.session;
        if let State::Connected(old) = &inner.state {
            // A process that comes back knows that its old connection is dead; anybody else has to be told.
            let why = || format!("{} took it over with another `capt connect`", grant.user);
            old.retire(is_other.then(|| Farewell::Fenced(why())));
        }
        if is_other {
            inner.ports.clear();
        }
        inner.holder = Holder { session: hello.session.clone(), user: grant.user.clone() };
        inner.version.clone_from(&hello.version);
        inner.grace = grant.grace;
        inner.is_expected = hello.epoch > 0;
        inner.epoch = epoch;
        inner.state = State::Reconnecting { since: Instant::now() };
        Ok(epoch)
    }

    /// The connection stands. Whether it is still wanted.
    pub(super) fn install(self: &Arc<Self>, epoch: u64, session: Arc<Session>) -> bool {
        let mut inner = self.inner.lock();
        if inner.epoch != epoch {
            return false;
        }
        inner.state = State::Connected(session);
        inner.since = clock::now();
        inner.why = None;
        drop(inner);
        self.tell();
        true
    }

    /// The connection is gone. Its agent has the time of grace to come back, if it was ever heard of.
    pub(super) fn lost(self: &Arc<Self>, epoch: u64, why: &str) {
        let mut inner = self.inner.lock();
        if inner.epoch != epoch || matches!(inner.state, State::Disconnected { .. }) {
            return;
        }
        let (since, grace) = (Instant::now(), inner.is_expected.then_some(inner.grace));
        inner.state = if grace.is_some() {
            State::Reconnecting { since }
        } else {
            State::Disconnected { since, has_moved: false }
        };
        inner.why = Some(why.to_owned());
        drop(inner);
        self.tell();
        if let Some(grace) = grace {
            self.expire_after(grace, epoch);
        }
    }

    /// Its agent is told to go to another gateway, and nobody knows yet to which.
    pub(super) fn send_away(self: &Arc<Self>, why: &str) {
        let mut inner = self.inner.lock();
        let State::Connected(session) = &inner.state else { return };
        session.retire(Some(Farewell::Move));
        inner.is_expected = true;
        let epoch = inner.epoch;
        drop(inner);
        self.lost(epoch, why);
    }

    fn expect(self: &Arc<Self>, expected: &Expected) {
        let mut inner = self.inner.lock();
        inner.holder = expected.holder.clone();
        inner.version.clone_from(&expected.agent_version);
        (inner.epoch, inner.grace, inner.since) = (expected.epoch, expected.grace, expected.since);
        inner.is_expected = true;
        inner.state = State::Reconnecting { since: Instant::now() };
        inner.why = Some("the router was started anew".to_owned());
        drop(inner);
        self.tell();
        self.expire_after(expected.grace, expected.epoch);
    }

    fn expire_after(self: &Arc<Self>, grace: Duration, epoch: u64) {
        let slot = Arc::clone(self);
        tokio::spawn(async move {
            tokio::time::sleep(grace).await;
            slot.expire(epoch);
        });
    }

    fn expire(&self, epoch: u64) {
        let mut inner = self.inner.lock();
        let is_over = matches!(inner.state, State::Reconnecting { since } if since.elapsed() >= inner.grace);
        if inner.epoch == epoch && is_over {
            inner.state = State::Disconnected { since: Instant::now(), has_moved: false };
            drop(inner);
            self.tell();
        }
    }

    /// The user may not any longer, or does not want to: there is no grace.
    pub(super) fn revoke(&self, epoch: u64, why: &str) {
        self.end(Some(epoch), why, Ending::Left);
    }

    /// Ends it; with an epoch, only if it has that one still.
    fn end(&self, epoch: Option<u64>, why: &str, ending: Ending) {
        let mut inner = self.inner.lock();
        if epoch.is_some_and(|it| it != inner.epoch) {
            return;
        }
        if let State::Connected(session) = &inner.state {
            session.retire((ending != Ending::Left).then(|| Farewell::Fenced(why.to_owned())));
        }
        inner.state = State::Disconnected { since: Instant::now(), has_moved: ending == Ending::Moved };
        inner.why = Some(why.to_owned());
        drop(inner);
        self.tell();
    }

    pub(super) fn set_grace(&self, epoch: u64, grace: Duration) {
        let mut inner = self.inner.lock();
        if inner.epoch == epoch {
            inner.grace = grace;
        }
    }

    /// What the agent says of its ports, and that it is there.
    pub(super) fn set_ports(&self, epoch: u64, ports: Vec<PortReport>) {
        let mut inner = self.inner.lock();
        if inner.epoch != epoch {
            return;
        }
        inner.is_expected = true;
        if inner.ports != ports {
            inner.ports = ports;
            drop(inner);
            self.tell();
        }
    }

    /// The session that gets requests now. One that is coming back is waited for; `spent` is one that was found broken.
    pub(super) async fn ready(
        &self,
        wait: Duration,
        spent: Option<&Arc<Session>>,
    ) -> Result<Arc<Session>, Failure> {
        if let Some(found) = self.look(spent)? {
            return Ok(found);
        }
        let _place = self.queue()?;
        let until = Instant::now() + wait;
        loop {
            let mut moved = std::pin::pin!(self.moved.notified());
            moved.as_mut().enable();
            if let Some(found) = self.look(spent)? {
                return Ok(found);
            }
            timeout_at(until, moved).await.map_err(|_| Failure::Reconnecting)?;
        }
    }

    fn look(&self, spent: Option<&Arc<Session>>) -> Result<Option<Arc<Session>>, Failure> {
        match &self.inner.lock().state {
            State::Connected(session) if spent.is_some_and(|it| Arc::ptr_eq(it, session)) => Ok(None),
            State::Connected(session) => Ok(Some(Arc::clone(session))),
            State::Reconnecting { .. } => Ok(None),
            State::Disconnected { has_moved: true, .. } => Err(Failure::Moved),
            State::Disconnected { .. } => Err(Failure::Disconnected),
        }
    }

    fn queue(&self) -> Result<Place<'_>, Failure> {
        let mut inner = self.inner.lock();
        if inner.waiting >= QUEUE {
            return Err(Failure::Reconnecting);
        }
        inner.waiting += 1;
        Ok(Place(self))
    }

    pub(super) fn view(&self) -> View {
        let inner = self.inner.lock();
        let (phase, silent_for, line) = match &inner.state {
            State::Connected(session) => {
                (Phase::Connected, session.line.silent_for(), Some(Arc::clone(&session.line)))
            }
            State::Reconnecting { since } => (Phase::Reconnecting, since.elapsed(), None),
            State::Disconnected { since, .. } => (Phase::Disconnected, since.elapsed(), None),
        };
        View {
            workload: self.workload.clone(),
            phase,
            why: inner.why.clone(),
            session: inner.holder.session.clone(),
            user: inner.holder.user.clone(),
            agent_version: inner.version.clone(),
            epoch: inner.epoch,
            since: inner.since,
            silent_for,
            rtt: line.as_ref().and_then(|it| it.rtt()),
            bytes: line.map(|it| it.bytes()).unwrap_or_default(),
            ports: inner.ports.clone(),
        }
    }

    fn tell(&self) {
        self.moved.notify_waiters();
        self.changed.send_modify(|count| *count += 1);
    }
}

/// A place in the queue of one workload.
struct Place<'a>(&'a Slot);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.inner.lock().waiting -= 1;
    }
}
