//! Events: what happened to an object, told once, and never a reason for a reconcile to fail.
//!
//! Under one action (`Run`, `Reconcile` …) the same reason and note as last time are not told again for ten minutes; as soon
//! as something else was told in between, it is news again. Actions do not hush each other up.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

pub use k8s_controller::events::EventType;
use k8s_controller::events::{Event, EventRecorder, PublishError};
use kube::{Resource, runtime::events::Reporter};
use tokio::time::Instant;

use super::{call::Kube, error::K8sError, objects::deed_on, text::cut};

/// How long the same is not told again.
const QUIET: Duration = Duration::from_mins(10);
/// Longest note that the API server takes, in bytes.
pub const LONGEST_NOTE: usize = 1024;

/// Something worth telling.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct News {
    /// Whether somebody should look.
    pub kind: EventType,
    /// What we were doing: `Reconcile`, `Run` …
    pub action: &'static str,
    /// What came of it, in one word.
    pub reason: &'static str,
    /// For people. Cut if it is too long.
    pub note: String,
}

impl News {
    /// All is well.
    pub fn normal(action: &'static str, reason: &'static str, note: impl Into<String>) -> Self {
        Self { kind: EventType::Normal, action, reason, note: note.into() }
    }

    /// Somebody should look.
    pub fn warning(action: &'static str, reason: &'static str, note: impl Into<String>) -> Self {
        Self { kind: EventType::Warning, action, reason, note: note.into() }
    }
}

/// What was told last about an object under an action.
struct Told {
    news: News,
    at: Instant,
}

/// By uid of the object and action.
type Memory = HashMap<(String, &'static str), Told>;

/// Tells. Cheap to clone; clones share their memory.
#[derive(Clone)]
pub struct Events {
    kube: Kube,
    recorder: Arc<EventRecorder>,
    told: Arc<Mutex<Memory>>,
    lost: Arc<AtomicU64>,
}

impl std::fmt::Debug for Events {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Events").field("lost", &self.lost).finish_non_exhaustive()
    }
}

impl Events {
    /// As this controller (`capt/workspace`), in this process.
    pub fn new(kube: Kube, controller: &str, instance: &str) -> Self {
        let reporter = Reporter { controller: controller.to_owned(), instance: Some(instance.to_owned()) };
        // The deadline is the one of every call; the recorder's own must not come first.
        let recorder = EventRecorder::new(kube.client().clone(), reporter).with_timeout(QUIET);
        Self { kube, recorder: Arc::new(recorder), told: Arc::default(), lost: Arc::default() }
    }

    /// Events that could not be delivered.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Tells it, if it is news. For objects of any scope, also while they are being deleted.
    pub async fn tell<K>(&self, object: &K, mut news: News)
    where
        K: Resource,
        K::DynamicType: Default,
    {
        news.note = cut(&news.note, LONGEST_NOTE);
        let key = (object.meta().uid.clone().unwrap_or_default(), news.action);
        if !self.is_news(&key, &news) {
            return;
        }
        let event = Event {
            type_: news.kind,
            reason: news.reason.to_owned(),
            action: news.action.to_owned(),
            note: Some(news.note),
            related: None,
        };
        match self.publish(object, &event).await {
            Ok(()) => {}
            // Nobody can tell anything there any more, and nobody will look.
            Err(error) if error.is_terminating() => {}
            Err(error) => {
                self.lost.fetch_add(1, Ordering::Relaxed);
                self.told.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
                tracing::warn!(
                    reason = event.reason,
                    error = &error as &dyn std::error::Error,
                    "an event is lost"
                );
            }
        }
    }

    async fn publish<K>(&self, object: &K, event: &Event) -> Result<(), K8sError>
    where
        K: Resource,
        K::DynamicType: Default,
    {
        let deed = deed_on("create", object);
        let sent = async {
            self.recorder.publish(object, event).await.map_err(|error| match error {
                PublishError::Kube(error) => K8sError::of(deed.clone(), error),
                other => K8sError::Unsendable { deed: deed.clone(), source: other.into() },
            })
        };
        self.kube.call(&deed, sent).await
    }

    /// Whether something else was told last, or long ago. What is news is remembered.
    fn is_news(&self, key: &(String, &'static str), news: &News) -> bool {
        let now = Instant::now();
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.retain(|_, one| now.duration_since(one.at) < QUIET);
        if told.get(key).is_some_and(|one| one.news == *news) {
            return false;
        }
        told.insert(key.clone(), Told { news: news.clone(), at: now });
        true
    }
}
