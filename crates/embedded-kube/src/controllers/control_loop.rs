//! The loop that every controller runs in: a snapshot, then changes, and as many runs at a time as are allowed.
//!
//! A controller reads the present state from the store when its key's turn comes, so what it decides is never older
//! than the change that woke it, and a change that is missed between two subscriptions is found in the next snapshot.

use std::{fmt::Debug, future::Future, hash::Hash, pin::Pin, sync::Arc, time::Duration};

use futures::{StreamExt, future::BoxFuture, stream::FuturesUnordered, stream::SelectAll};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    api::Trouble,
    queue::{Ending, Queue},
};
use crate::store::{Entry, Page, Store, StoreEvent, Watch};

const AT_ONCE: usize = 16;
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// What a run leaves to be done.
#[derive(Debug)]
pub struct Next<K> {
    /// Look at the same key again after this time.
    pub again: Option<Duration>,
    /// Keys that want a run now.
    pub also: Vec<K>,
}

impl<K> Default for Next<K> {
    fn default() -> Self {
        Self { again: None, also: Vec::new() }
    }
}

/// One controller.
pub trait Controller: Send + Sync + 'static {
    /// What is reconciled: a name, a uid.
    type Key: Clone + Ord + Hash + Debug + Send + Sync + 'static;

    /// For logs.
    const NAME: &'static str;

    /// Which parts of the store are watched.
    const PREFIXES: &'static [&'static str];

    /// Whom a change concerns.
    fn wake(&self, change: &Change<'_>) -> Vec<Self::Key>;

    /// A fresh snapshot follows: everything that was known before is void.
    fn forget(&self) {}

    /// Whom a fresh snapshot concerns.
    fn begin(&self, snapshot: &[(Arc<str>, Entry)]) -> Vec<Self::Key> {
        self.forget();
        snapshot
            .iter()
            .flat_map(|(key, entry)| self.wake(&Change { key, now: Some(entry), before: None }))
            .collect()
    }

    /// Brings one key to where it should be.
    fn reconcile(&self, key: &Self::Key) -> impl Future<Output = Result<Next<Self::Key>, Trouble>> + Send;
}

/// A change of the store, or an object of a snapshot.
#[derive(Debug, Clone, Copy)]
pub struct Change<'a> {
    /// Place of the object.
    pub key: &'a str,
    /// What is there now.
    pub now: Option<&'a Entry>,
    /// What was there.
    pub before: Option<&'a Entry>,
}

impl<'a> Change<'a> {
    /// Namespace of the object by its place; empty if it is cluster-scoped.
    pub fn namespace(&self) -> &'a str {
        self.key.split('/').nth(2).unwrap_or_default()
    }

    /// Name of the object by its place.
    pub fn name(&self) -> &'a str {
        self.key.splitn(4, '/').nth(3).unwrap_or_default()
    }

    /// Namespace and name.
    pub fn whose(&self) -> (String, String) {
        (self.namespace().to_owned(), self.name().to_owned())
    }

    /// `group/plural`.
    pub fn is_in(&self, prefix: &str) -> bool {
        self.key.starts_with(prefix)
    }
}

impl<'a> From<&'a StoreEvent> for Change<'a> {
    fn from(event: &'a StoreEvent) -> Self {
        Self { key: &event.key, now: event.now.as_ref(), before: event.before.as_ref() }
    }
}

enum Ended {
    Cancelled,
    /// The watch has expired, or the store is closed; in the latter case it has nothing more to tell.
    Lost {
        has_lived: bool,
    },
}

type Run<K> = BoxFuture<'static, (K, Result<Next<K>, Trouble>)>;

struct Loop<C: Controller> {
    controller: Arc<C>,
    queue: Queue<C::Key>,
    running: FuturesUnordered<Run<C::Key>>,
}

/// Runs a controller until it is cancelled.
pub async fn run<C: Controller>(controller: C, store: Store, cancel: CancellationToken) {
    let mut this =
        Loop { controller: Arc::new(controller), queue: Queue::default(), running: FuturesUnordered::new() };
    let mut pause = SHORTEST_PAUSE;
    loop {
        if let Some(changes) = this.subscribe(&store) {
            match this.follow(changes, &cancel).await {
                Ended::Cancelled => return,
                Ended::Lost { has_lived: true } => pause = SHORTEST_PAUSE,
                Ended::Lost { has_lived: false } => {}
            }
        }
        tracing::debug!(controller = C::NAME, "the watch has ended; starting from a fresh snapshot");
        tokio::select! {
            () = cancel.cancelled() => return,
            () = tokio::time::sleep(pause) => pause = (pause * 2).min(LONGEST_PAUSE),
        }
    }
}

impl<C: Controller> Loop<C> {
    fn subscribe(&mut self, store: &Store) -> Option<SelectAll<Pin<Box<Watch>>>> {
        let mut snapshot = Vec::new();
        let mut changes = SelectAll::new();
        for prefix in C::PREFIXES {
            let part = store.list(prefix, &Page::default()).ok()?;
            changes.push(Box::pin(store.watch(prefix, part.revision).ok()?));
            snapshot.extend(part.entries);
        }
        let now = Instant::now();
        for key in self.controller.begin(&snapshot) {
            self.queue.add(key, now);
        }
        Some(changes)
    }

    async fn follow(&mut self, mut changes: SelectAll<Pin<Box<Watch>>>, cancel: &CancellationToken) -> Ended {
        let mut has_lived = false;
        loop {
            self.start_due();
            let due = if self.running.len() < AT_ONCE { self.queue.next_due() } else { None };
            tokio::select! {
                () = cancel.cancelled() => return Ended::Cancelled,
                change = changes.next() => match change {
                    Some(Ok(event)) => {
                        has_lived = true;
                        self.woken(&event);
                    }
                    Some(Err(_)) | None => return Ended::Lost { has_lived },
                },
                Some((key, outcome)) = self.running.next(), if !self.running.is_empty() => self.finished(key, outcome),
                () = until(due), if due.is_some() => {}
            }
        }
    }

    fn start_due(&mut self) {
        let now = Instant::now();
        while self.running.len() < AT_ONCE {
            let Some(key) = self.queue.start(now) else { return };
            let controller = Arc::clone(&self.controller);
            self.running.push(Box::pin(async move {
                let outcome = controller.reconcile(&key).await;
                (key, outcome)
            }));
        }
    }

    fn woken(&mut self, event: &StoreEvent) {
        let now = Instant::now();
        for key in self.controller.wake(&event.into()) {
            self.queue.add(key, now);
        }
    }

    fn finished(&mut self, key: C::Key, outcome: Result<Next<C::Key>, Trouble>) {
        let now = Instant::now();
        let ending = match outcome {
            Ok(next) => {
                for other in next.also {
                    self.queue.add(other, now);
                }
                next.again.map_or(Ending::Done, Ending::Again)
            }
            Err(trouble) => {
                tracing::debug!(controller = C::NAME, ?key, %trouble, "trying again later");
                Ending::Failed
            }
        };
        self.queue.finish(key, ending, now);
    }
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}
