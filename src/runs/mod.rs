//! Runs of terraform, one at a time for each workspace.
//!
//! A reconcile starts a run, or reads its [`View`], and returns; nobody waits for terraform here but the run itself.
//! Whenever something worth knowing changes, the workspace's key goes to whoever [`Runs::subscribe`]d. A process that
//! dies leaves its terraforms to their shims; the next one [`Runs::adopt`]s them.

mod actor;
mod adopt;
mod host;
mod keep;
mod lanes;
mod meter;
mod order;
mod retry;
mod seen;
mod turns;
mod view;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

pub use keep::{Deposit, KeepError, Keeper};
pub use lanes::{Capacity, Lane};
pub use meter::{Meter, NoMeter, Timer};
pub use order::{Order, What};
pub use retry::{Trouble, pause};
use seen::Seen;
use terraform_driver::{
    output::Outputs,
    workspace::{WorkspaceError, files::FileError},
};
use tokio::sync::mpsc;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
pub use view::{End, View};

use self::{lanes::Lanes, turns::Turns};
use crate::{
    api::RunPhase,
    blueprint::Key,
    work::{Record, Site},
};

/// Between two changes of nothing but progress that are told: the status of an object is written at most so often.
const PROGRESS: Duration = Duration::from_secs(5);

/// All runs of this process.
#[derive(Clone)]
pub struct Runs {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    site: Site,
    lanes: Lanes,
    turns: Turns,
    meter: Arc<dyn Meter>,
    runs: Mutex<BTreeMap<Key, Entry>>,
    listener: mpsc::UnboundedSender<Key>,
    tasks: TaskTracker,
    closed: CancellationToken,
}

struct Entry {
    view: View,
    object: Key,
    stop: CancellationToken,
    seen: Arc<Seen>,
    told: Instant,
    timer: Option<Timer>,
}

impl Entry {
    /// Measures the phase that the run is in now.
    fn measure(&mut self, meter: &dyn Meter) {
        self.timer = None;
        if !self.view.is_over() {
            self.timer = Some(meter.phase(self.view.operation, self.view.phase));
        }
    }
}

impl Runs {
    /// Runs in this place. The receiver gets the object of each run of which something new is to be told.
    pub fn new(
        site: Site,
        capacity: Capacity,
        meter: Arc<dyn Meter>,
    ) -> (Self, mpsc::UnboundedReceiver<Key>) {
        let (listener, changes) = mpsc::unbounded_channel();
        let inner = Inner {
            site,
            lanes: Lanes::new(capacity),
            turns: Turns::default(),
            meter,
            runs: Mutex::default(),
            listener,
            tasks: TaskTracker::new(),
            closed: CancellationToken::new(),
        };
        (Self { inner: Arc::new(inner) }, changes)
    }

    /// Where the work is done.
    pub fn site(&self) -> &Site {
        &self.inner.site
    }

    /// Starts a run, unless one is under way for this workspace or no more are to be started; whether it did.
    pub fn start(&self, order: Order) -> bool {
        if self.inner.closed.is_cancelled() {
            return false;
        }
        actor::start(&self.inner, order)
    }

    /// The current or last run of this process.
    pub fn view(&self, key: &Key) -> Option<View> {
        self.inner.lock().get(key).map(|entry| entry.view.clone())
    }

    /// Takes a run back that has not begun to change anything; whether there was one.
    pub fn withdraw(&self, key: &Key) -> bool {
        let runs = self.inner.lock();
        let Some(entry) = runs.get(key).filter(|entry| !entry.view.is_over()) else { return false };
        let early = !entry.view.is_changing();
        if early {
            entry.stop.cancel();
        }
        early
    }

    /// Forgets a workspace that is gone for good, and removes its directory.
    pub fn forget(&self, key: &Key) -> Result<(), FileError> {
        let mut runs = self.inner.lock();
        if runs.get(key).is_some_and(|entry| !entry.view.is_over()) {
            return Ok(());
        }
        runs.remove(key);
        drop(runs);
        self.inner.site.workspace(key).remove()
    }

    /// The object that the workspace's directory was made for.
    pub fn owner(&self, key: &Key) -> Result<Option<String>, FileError> {
        Ok(Record::read(&self.inner.site.workspace(key))?.map(|record| record.owner))
    }

    /// Whether the last apply was told that its resources stay.
    pub fn is_retained(&self, key: &Key) -> Result<bool, FileError> {
        let record = Record::read(&self.inner.site.workspace(key))?;
        Ok(record.is_some_and(|record| record.retained))
    }

    /// The outputs in the state of the directory, if it has one.
    pub fn outputs(&self, key: &Key) -> Result<Option<Outputs>, WorkspaceError> {
        let workspace = self.inner.site.workspace(key);
        let Some(record) = Record::read(&workspace)? else { return Ok(None) };
        let bytes = record.place(&self.inner.site.data, key).state_bytes()?;
        Ok(bytes.and_then(|bytes| Outputs::from_state(&bytes).ok()))
    }

    /// Finds the runs that an earlier process left, and keeps others off their clusters until they are over.
    pub fn adopt(&self) -> Result<usize, FileError> {
        adopt::adopt(&self.inner)
    }

    /// No more runs. Those under way go on under their shims, and the next process follows them.
    pub fn close(&self) {
        self.inner.closed.cancel();
    }

    /// No more runs, and the end of those under way. What has not begun to change anything is taken back; what has is
    /// waited for, and its state is kept, so that whoever works elsewhere next finds it.
    pub async fn drain(&self) {
        self.close();
        for entry in self.inner.lock().values().filter(|entry| !entry.view.is_over()) {
            if !entry.view.is_changing() {
                entry.stop.cancel();
            }
        }
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
    }

    /// How many run or wait to.
    pub fn active(&self) -> usize {
        self.inner.lock().values().filter(|entry| !entry.view.is_over()).count()
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Entry>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in how far a run is: a new phase is told at once, mere progress now and then.
    fn hear(&self, key: &Key, phase: RunPhase, change: impl FnOnce(&mut View)) {
        let tell = {
            let mut runs = self.lock();
            let Some(entry) = runs.get_mut(key) else { return };
            let before = entry.view.progress.clone();
            let new = entry.view.phase != phase;
            entry.view.phase = phase;
            change(&mut entry.view);
            if new {
                entry.measure(self.meter.as_ref());
            }
            let moved = entry.view.progress != before && entry.told.elapsed() >= PROGRESS;
            if new || moved {
                entry.told = Instant::now();
            }
            new || moved
        };
        if tell {
            self.tell(key);
        }
    }

    fn change(&self, key: &Key, tell: bool, change: impl FnOnce(&mut View)) {
        if let Some(entry) = self.lock().get_mut(key) {
            let before = entry.view.phase;
            change(&mut entry.view);
            if entry.view.phase != before {
                entry.measure(self.meter.as_ref());
            }
        }
        if tell {
            self.tell(key);
        }
    }

    fn tell(&self, key: &Key) {
        let object = self.lock().get(key).map(|entry| entry.object.clone());
        if let Some(object) = object {
            // Nobody listens while the process ends.
            let _ended = self.listener.send(object);
        }
    }
}
