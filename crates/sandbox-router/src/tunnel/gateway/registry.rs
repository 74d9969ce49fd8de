//! Registry of workload sessions. `admit` contains the admission rules; this module keeps the state and the waiting
//! requests.

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
    super::{PortReport, WorkloadName, hello::AgentHello},
    ExpectedSession, MAX_WAITING_REQUESTS, SessionGrant, SessionPhase, SessionStatus, TunnelError,
    admission::{KnownSession, SessionHolder, admit, current_holder},
    session::{CloseNotice, Session},
};
use crate::tunnel::clock;

/// All workloads that were ever connected here.
pub(super) struct Registry {
    slots: RwLock<HashMap<WorkloadName, Arc<WorkloadSlot>>>,
    changed: watch::Sender<u64>,
    reconnects: AtomicU64,
}

impl Registry {
    pub(super) fn new() -> Self {
        Self { slots: RwLock::default(), changed: watch::Sender::new(0), reconnects: AtomicU64::new(0) }
    }

    /// Counts a reconnect.
    pub(super) fn count_reconnect(&self) {
        self.reconnects.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn reconnects(&self) -> u64 {
        self.reconnects.load(Ordering::Relaxed)
    }

    pub(super) fn slot(&self, workload: &WorkloadName) -> Option<Arc<WorkloadSlot>> {
        self.slots.read().get(workload).cloned()
    }

    /// Assigns a workload to an agent, or returns why not. The previous holder gets no more requests.
    pub(super) fn claim(
        &self,
        hello: &AgentHello,
        grant: &SessionGrant,
    ) -> Result<(Arc<WorkloadSlot>, u64), String> {
        let mut slots = self.slots.write();
        let slot = slots
            .entry(hello.workload.clone())
            .or_insert_with(|| Arc::new(WorkloadSlot::new(hello.workload.clone(), self.changed.clone())));
        let epoch = slot.claim(hello, grant)?;
        Ok((Arc::clone(slot), epoch))
    }

    pub(super) fn remove(&self, workload: &WorkloadName, why: &str) {
        let gone = self.slots.write().remove(workload);
        if let Some(slot) = gone {
            slot.end(None, why, EndReason::Forgotten);
        }
    }

    /// Ends a session that another gateway has superseded. The slot remembers this: requests that arrive before the
    /// table is updated must be sent to that gateway.
    pub(super) fn fence_session(&self, workload: &WorkloadName, epoch: u64, why: &str) {
        if let Some(slot) = self.slot(workload) {
            slot.end(Some(epoch), why, EndReason::Moved);
        }
    }

    /// Tells the agents of all sessions to connect to another gateway.
    pub(super) fn move_all(&self, why: &str) {
        let all: Vec<Arc<WorkloadSlot>> = self.slots.read().values().cloned().collect();
        for slot in all {
            slot.move_to_other_gateway(why);
        }
    }

    /// Registers a session from before a restart as reconnecting.
    pub(super) fn expect_session(&self, expected: &ExpectedSession) {
        let mut slots = self.slots.write();
        if !slots.contains_key(&expected.workload) {
            let slot = Arc::new(WorkloadSlot::new(expected.workload.clone(), self.changed.clone()));
            slots.insert(expected.workload.clone(), Arc::clone(&slot));
            slot.expect_session(expected);
        }
    }

    pub(super) fn statuses(&self) -> Vec<SessionStatus> {
        self.slots.read().values().map(|slot| slot.status()).collect()
    }

    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }
}

/// One workload.
pub(super) struct WorkloadSlot {
    workload: WorkloadName,
    inner: Mutex<SlotState>,
    state_changed: Notify,
    changed: watch::Sender<u64>,
}

struct SlotState {
    holder: SessionHolder,
    version: String,
    epoch: u64,
    state: SessionState,
    why: Option<String>,
    grace: Duration,
    /// Whether a lost agent is expected to reconnect: one that never sent a report may have ended.
    expects_reconnect: bool,
    since: SystemTime,
    waiting: usize,
    ports: Vec<PortReport>,
}

enum SessionState {
    Connected(Arc<Session>),
    Reconnecting { since: Instant },
    Disconnected { since: Instant, has_moved: bool },
}

/// Why a session ends without waiting for a reconnect.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EndReason {
    /// The user stopped the agent, or is no longer authorized.
    Left,
    /// The workload was deleted. The agent is notified.
    Forgotten,
    /// Another gateway holds a newer session. The agent is notified.
    Moved,
}

impl WorkloadSlot {
    fn new(workload: WorkloadName, changed: watch::Sender<u64>) -> Self {
        let inner = SlotState {
            holder: SessionHolder { session: String::new(), user: String::new() },
            version: String::new(),
            epoch: 0,
            state: SessionState::Disconnected { since: Instant::now(), has_moved: false },
            why: None,
            grace: Duration::ZERO,
            expects_reconnect: false,
            since: clock::now(),
            waiting: 0,
            ports: Vec::new(),
        };
        Self { workload, inner: Mutex::new(inner), state_changed: Notify::new(), changed }
    }

    fn claim(&self, hello: &AgentHello, grant: &SessionGrant) -> Result<u64, String> {
        let mut inner = self.inner.lock();
        let is_live = !matches!(inner.state, SessionState::Disconnected { .. });
        let known = KnownSession { holder: &inner.holder, epoch: inner.epoch, is_live };
        let epoch = admit(current_holder(known, grant), inner.epoch.max(grant.epoch), &grant.user, hello)?;
        let is_other = inner.holder.session != hello.session;
        if let SessionState::Connected(old) = &inner.state {
            // A reconnecting process knows that its old connection is dead; any other agent must be told.
            let why = || format!("{} took it over with another `capt connect`", grant.user);
            old.retire(is_other.then(|| CloseNotice::Fenced(why())));
        }
        if is_other {
            inner.ports.clear();
        }
        inner.holder = SessionHolder { session: hello.session.clone(), user: grant.user.clone() };
        inner.version.clone_from(&hello.version);
        inner.grace = grant.grace;
        inner.expects_reconnect = hello.epoch > 0;
        inner.epoch = epoch;
        inner.state = SessionState::Reconnecting { since: Instant::now() };
        Ok(epoch)
    }

    /// Installs an established session. Returns false if it was superseded.
    ///
    /// `count` runs before the status can be read, so that metrics never lag behind it.
    pub(super) fn install(self: &Arc<Self>, epoch: u64, session: Arc<Session>, count: impl FnOnce()) -> bool {
        let mut inner = self.inner.lock();
        if inner.epoch != epoch {
            return false;
        }
        count();
        inner.state = SessionState::Connected(session);
        inner.since = clock::now();
        inner.why = None;
        drop(inner);
        self.notify();
        true
    }

    /// The connection was lost. The agent has the grace period to reconnect, if it ever sent a report.
    pub(super) fn connection_lost(self: &Arc<Self>, epoch: u64, why: &str) {
        let mut inner = self.inner.lock();
        if inner.epoch != epoch || matches!(inner.state, SessionState::Disconnected { .. }) {
            return;
        }
        let (since, grace) = (Instant::now(), inner.expects_reconnect.then_some(inner.grace));
        inner.state = if grace.is_some() {
            SessionState::Reconnecting { since }
        } else {
            SessionState::Disconnected { since, has_moved: false }
        };
        inner.why = Some(why.to_owned());
        drop(inner);
        self.notify();
        if let Some(grace) = grace {
            self.expire_after(grace, epoch);
        }
    }

    /// Tells the agent to connect to another gateway, which is not known yet.
    pub(super) fn move_to_other_gateway(self: &Arc<Self>, why: &str) {
        let mut inner = self.inner.lock();
        let SessionState::Connected(session) = &inner.state else { return };
        session.retire(Some(CloseNotice::Move));
        inner.expects_reconnect = true;
        let epoch = inner.epoch;
        drop(inner);
        self.connection_lost(epoch, why);
    }

    fn expect_session(self: &Arc<Self>, expected: &ExpectedSession) {
        let mut inner = self.inner.lock();
        inner.holder = expected.holder.clone();
        inner.version.clone_from(&expected.agent_version);
        (inner.epoch, inner.grace, inner.since) = (expected.epoch, expected.grace, expected.since);
        inner.expects_reconnect = true;
        inner.state = SessionState::Reconnecting { since: Instant::now() };
        inner.why = Some("the router was restarted".to_owned());
        drop(inner);
        self.notify();
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
        let is_over =
            matches!(inner.state, SessionState::Reconnecting { since } if since.elapsed() >= inner.grace);
        if inner.epoch == epoch && is_over {
            inner.state = SessionState::Disconnected { since: Instant::now(), has_moved: false };
            drop(inner);
            self.notify();
        }
    }

    /// Ends the session without a grace period: the user is no longer authorized, or stopped the agent.
    pub(super) fn revoke(&self, epoch: u64, why: &str) {
        self.end(Some(epoch), why, EndReason::Left);
    }

    /// Ends the session; with an epoch, only if it is still the current one.
    fn end(&self, epoch: Option<u64>, why: &str, ending: EndReason) {
        let mut inner = self.inner.lock();
        if epoch.is_some_and(|it| it != inner.epoch) {
            return;
        }
        if let SessionState::Connected(session) = &inner.state {
            session.retire((ending != EndReason::Left).then(|| CloseNotice::Fenced(why.to_owned())));
        }
        inner.state =
            SessionState::Disconnected { since: Instant::now(), has_moved: ending == EndReason::Moved };
        inner.why = Some(why.to_owned());
        drop(inner);
        self.notify();
    }

    pub(super) fn set_grace(&self, epoch: u64, grace: Duration) {
        let mut inner = self.inner.lock();
        if inner.epoch == epoch {
            inner.grace = grace;
        }
    }

    /// Records the reported ports, which also proves that the agent is alive.
    pub(super) fn set_ports(&self, epoch: u64, ports: Vec<PortReport>) {
        let mut inner = self.inner.lock();
        if inner.epoch != epoch {
            return;
        }
        inner.expects_reconnect = true;
        if inner.ports != ports {
            inner.ports = ports;
            drop(inner);
            self.notify();
        }
    }

    /// The current session. Waits for a reconnecting one; `spent` is a session that was found broken.
    pub(super) async fn wait_for_session(
        &self,
        wait: Duration,
        spent: Option<&Arc<Session>>,
    ) -> Result<Arc<Session>, TunnelError> {
        if let Some(found) = self.current_session(spent)? {
            return Ok(found);
        }
        let _place = self.enter_queue()?;
        let until = Instant::now() + wait;
        loop {
            let mut moved = std::pin::pin!(self.state_changed.notified());
            moved.as_mut().enable();
            if let Some(found) = self.current_session(spent)? {
                return Ok(found);
            }
            timeout_at(until, moved).await.map_err(|_| TunnelError::Reconnecting)?;
        }
    }

    fn current_session(&self, spent: Option<&Arc<Session>>) -> Result<Option<Arc<Session>>, TunnelError> {
        match &self.inner.lock().state {
            SessionState::Connected(session) if spent.is_some_and(|it| Arc::ptr_eq(it, session)) => Ok(None),
            SessionState::Connected(session) => Ok(Some(Arc::clone(session))),
            SessionState::Reconnecting { .. } => Ok(None),
            SessionState::Disconnected { has_moved: true, .. } => Err(TunnelError::Moved),
            SessionState::Disconnected { .. } => Err(TunnelError::Disconnected),
        }
    }

    fn enter_queue(&self) -> Result<QueuePermit<'_>, TunnelError> {
        let mut inner = self.inner.lock();
        if inner.waiting >= MAX_WAITING_REQUESTS {
            return Err(TunnelError::Reconnecting);
        }
        inner.waiting += 1;
        Ok(QueuePermit(self))
    }

    pub(super) fn status(&self) -> SessionStatus {
        let inner = self.inner.lock();
        let (phase, silent_for, line) = match &inner.state {
            SessionState::Connected(session) => {
                (SessionPhase::Connected, session.health.silent_for(), Some(Arc::clone(&session.health)))
            }
            SessionState::Reconnecting { since } => (SessionPhase::Reconnecting, since.elapsed(), None),
            SessionState::Disconnected { since, .. } => (SessionPhase::Disconnected, since.elapsed(), None),
        };
        SessionStatus {
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

    fn notify(&self) {
        self.state_changed.notify_waiters();
        self.changed.send_modify(|count| *count += 1);
    }
}

/// A slot in the queue of one workload.
struct QueuePermit<'a>(&'a WorkloadSlot);

impl Drop for QueuePermit<'_> {
    fn drop(&mut self) {
        self.0.inner.lock().waiting -= 1;
    }
}
