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
    Failure, Grant, Phase, QUEUE, View,
    admit::{Holder, admit},
    session::Session,
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
            slot.end(why, Some(why.to_owned()));
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
    Disconnected { since: Instant },
}

impl Slot {
    fn new(workload: Workload, changed: watch::Sender<u64>) -> Self {
        let inner = Inner {
            holder: Holder { session: String::new(), user: String::new() },
            version: String::new(),
            epoch: 0,
            state: State::Disconnected { since: Instant::now() },
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
        let holder = match inner.state {
            State::Disconnected { .. } => None,
            State::Connected(_) | State::Reconnecting { .. } => Some(&inner.holder),
        };
        let epoch = admit(holder, inner.epoch.max(grant.epoch), &grant.user, hello)?;
        let is_other = inner.holder.session != hello.session;
        if let State::Connected(old) = &inner.state {
            // A process that comes back knows that its old connection is dead; anybody else has to be told.
            old.retire(is_other.then(|| format!("{} took it over with another `capt connect`", grant.user)));
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
        inner.state =
            if grace.is_some() { State::Reconnecting { since } } else { State::Disconnected { since } };
        inner.why = Some(why.to_owned());
        drop(inner);
        self.tell();
        let Some(grace) = grace else { return };
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
            inner.state = State::Disconnected { since: Instant::now() };
            drop(inner);
            self.tell();
        }
    }

    /// The user may not any longer, or does not want to: there is no grace.
    pub(super) fn revoke(&self, epoch: u64, why: &str) {
        if self.inner.lock().epoch == epoch {
            self.end(why, None);
        }
    }

    fn end(&self, why: &str, farewell: Option<String>) {
        let mut inner = self.inner.lock();
        if let State::Connected(session) = &inner.state {
            session.retire(farewell);
        }
        inner.state = State::Disconnected { since: Instant::now() };
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
            State::Disconnected { since } => (Phase::Disconnected, since.elapsed(), None),
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
