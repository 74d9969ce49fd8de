//! The control loop of every controller: a snapshot, then watch events, with bounded concurrency.
//!
//! A controller reads the current state from the store when its key is processed, so a decision is never older than the
//! change that triggered it, and a change missed between two subscriptions is part of the next snapshot.

use std::{fmt::Debug, future::Future, hash::Hash, pin::Pin, sync::Arc, time::Duration};

use futures::{StreamExt, future::BoxFuture, stream::FuturesUnordered, stream::SelectAll};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    api_client::ControllerError,
    work_queue::{RunOutcome, WorkQueue},
};
use crate::store::{Entry, ListOptions, Store, StoreEvent, Watch};

const MAX_CONCURRENT_RECONCILES: usize = 16;
const MIN_RESUBSCRIBE_DELAY: Duration = Duration::from_millis(20);
const MAX_RESUBSCRIBE_DELAY: Duration = Duration::from_secs(1);

/// Result of a reconcile.
#[derive(Debug)]
pub struct ReconcileResult<K> {
    /// Reconcile the same key again after this time.
    pub requeue_after: Option<Duration>,
    /// Keys to reconcile now.
    pub enqueue: Vec<K>,
}

impl<K> Default for ReconcileResult<K> {
    fn default() -> Self {
        Self { requeue_after: None, enqueue: Vec::new() }
    }
}

/// A controller.
pub trait Controller: Send + Sync + 'static {
    /// The unit of reconciliation: a name, a uid.
    type Key: Clone + Ord + Hash + Debug + Send + Sync + 'static;

    /// Name for logs.
    const NAME: &'static str;

    /// Watched key prefixes.
    const PREFIXES: &'static [&'static str];

    /// Keys that a change affects.
    fn keys_for_change(&self, change: &ObjectChange<'_>) -> Vec<Self::Key>;

    /// A new snapshot follows: cached state is invalid.
    fn reset(&self) {}

    /// Keys that a new snapshot affects.
    fn keys_for_snapshot(&self, snapshot: &[(Arc<str>, Entry)]) -> Vec<Self::Key> {
        self.reset();
        snapshot
            .iter()
            .flat_map(|(key, entry)| {
                self.keys_for_change(&ObjectChange { key, current: Some(entry), previous: None })
            })
            .collect()
    }

    /// Reconciles one key.
    fn reconcile(
        &self,
        key: &Self::Key,
    ) -> impl Future<Output = Result<ReconcileResult<Self::Key>, ControllerError>> + Send;
}

/// A change in the store, or an object of a snapshot.
#[derive(Debug, Clone, Copy)]
pub struct ObjectChange<'a> {
    /// Storage key of the object.
    pub key: &'a str,
    /// Current state.
    pub current: Option<&'a Entry>,
    /// Previous state.
    pub previous: Option<&'a Entry>,
}

impl<'a> ObjectChange<'a> {
    /// Namespace from the storage key; empty if cluster-scoped.
    pub fn namespace(&self) -> &'a str {
        self.key.split('/').nth(2).unwrap_or_default()
    }

    /// Name from the storage key.
    pub fn name(&self) -> &'a str {
        self.key.splitn(4, '/').nth(3).unwrap_or_default()
    }

    /// Namespace and name.
    pub fn namespaced_name(&self) -> (String, String) {
        (self.namespace().to_owned(), self.name().to_owned())
    }

    /// Whether the key starts with this `group/plural/` prefix.
    pub fn has_prefix(&self, prefix: &str) -> bool {
        self.key.starts_with(prefix)
    }
}

impl<'a> From<&'a StoreEvent> for ObjectChange<'a> {
    fn from(event: &'a StoreEvent) -> Self {
        Self { key: &event.key, current: event.current.as_ref(), previous: event.previous.as_ref() }
    }
}

enum LoopEnd {
    Cancelled,
    /// The watch has expired or the store is closed; a closed store has no further events.
    WatchLost {
        has_lived: bool,
    },
}

type ReconcileRun<K> = BoxFuture<'static, (K, Result<ReconcileResult<K>, ControllerError>)>;

struct ControlLoop<C: Controller> {
    controller: Arc<C>,
    queue: WorkQueue<C::Key>,
    running: FuturesUnordered<ReconcileRun<C::Key>>,
}

/// Runs a controller until cancelled.
pub async fn run_controller<C: Controller>(controller: C, store: Store, cancel: CancellationToken) {
    let mut this = ControlLoop {
        controller: Arc::new(controller),
        queue: WorkQueue::default(),
        running: FuturesUnordered::new(),
    };
    let mut pause = MIN_RESUBSCRIBE_DELAY;
    loop {
        if let Some(changes) = this.subscribe(&store) {
            match this.run_until_lost(changes, &cancel).await {
                LoopEnd::Cancelled => return,
                LoopEnd::WatchLost { has_lived: true } => pause = MIN_RESUBSCRIBE_DELAY,
                LoopEnd::WatchLost { has_lived: false } => {}
            }
        }
        tracing::debug!(controller = C::NAME, "watch ended, resyncing from a new snapshot");
        tokio::select! {
            () = cancel.cancelled() => return,
            () = tokio::time::sleep(pause) => pause = (pause * 2).min(MAX_RESUBSCRIBE_DELAY),
        }
    }
}

impl<C: Controller> ControlLoop<C> {
    fn subscribe(&mut self, store: &Store) -> Option<SelectAll<Pin<Box<Watch>>>> {
        let mut snapshot = Vec::new();
        let mut changes = SelectAll::new();
        for prefix in C::PREFIXES {
            let part = store.list(prefix, &ListOptions::default()).ok()?;
            changes.push(Box::pin(store.watch(prefix, part.revision).ok()?));
            snapshot.extend(part.entries);
        }
        let now = Instant::now();
        for key in self.controller.keys_for_snapshot(&snapshot) {
            self.queue.add(key, now);
        }
        Some(changes)
    }

    async fn run_until_lost(
        &mut self,
        mut changes: SelectAll<Pin<Box<Watch>>>,
        cancel: &CancellationToken,
    ) -> LoopEnd {
        let mut has_lived = false;
        loop {
            self.start_due();
            let due =
                if self.running.len() < MAX_CONCURRENT_RECONCILES { self.queue.next_due() } else { None };
            tokio::select! {
                () = cancel.cancelled() => return LoopEnd::Cancelled,
                change = changes.next() => match change {
                    Some(Ok(event)) => {
                        has_lived = true;
                        self.enqueue_change(&event);
                    }
                    Some(Err(_)) | None => return LoopEnd::WatchLost { has_lived },
                },
                Some((key, outcome)) = self.running.next(), if !self.running.is_empty() => self.finish_run(key, outcome),
                () = sleep_until(due), if due.is_some() => {}
            }
        }
    }

    fn start_due(&mut self) {
        let now = Instant::now();
        while self.running.len() < MAX_CONCURRENT_RECONCILES {
            let Some(key) = self.queue.start(now) else { return };
            let controller = Arc::clone(&self.controller);
            self.running.push(Box::pin(async move {
                let outcome = controller.reconcile(&key).await;
                (key, outcome)
            }));
        }
    }

    fn enqueue_change(&mut self, event: &StoreEvent) {
        let now = Instant::now();
        for key in self.controller.keys_for_change(&event.into()) {
            self.queue.add(key, now);
        }
    }

    fn finish_run(&mut self, key: C::Key, outcome: Result<ReconcileResult<C::Key>, ControllerError>) {
        let now = Instant::now();
        let ending = match outcome {
            Ok(next) => {
                for other in next.enqueue {
                    self.queue.add(other, now);
                }
                next.requeue_after.map_or(RunOutcome::Done, RunOutcome::RequeueAfter)
            }
            Err(trouble) => {
                tracing::debug!(controller = C::NAME, ?key, %trouble, "reconcile failed, requeued with backoff");
                RunOutcome::Failed
            }
        };
        self.queue.finish(key, ending, now);
    }
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}
