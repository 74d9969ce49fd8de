//! Events: what happened to an object, told once, and never a reason for a reconcile to fail.
//!
//! Under one action (`Run`, `Reconcile` …) the same reason and note as last time are not told again for ten minutes; as soon
//! as something else was told in between, it is news again. Actions do not hush each other up.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

pub use k8s_controller::events::EventType;
use k8s_controller::events::{Event, EventRecorder, PublishError};
use kube::{Resource, runtime::events::Reporter};

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

/// What was told last, and when, by uid of the object and action.
#[derive(Default)]
struct Memory(HashMap<Subject, (News, Instant)>);

type Subject = (String, &'static str);

impl Memory {
    /// Whether something else was told last, or long ago. What is news is remembered.
    fn is_news(&mut self, subject: &Subject, news: &News, now: Instant) -> bool {
        self.0.retain(|_, (_, at)| now.duration_since(*at) < QUIET);
        if self.0.get(subject).is_some_and(|(last, _)| last == news) {
            return false;
        }
        self.0.insert(subject.clone(), (news.clone(), now));
        true
    }
}

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
        let subject = (object.meta().uid.clone().unwrap_or_default(), news.action);
        if !self.memory().is_news(&subject, &news, Instant::now()) {
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
            Err(error) if error.is_terminating() || error.is_not_found() => {}
            Err(error) => {
                self.lost.fetch_add(1, Ordering::Relaxed);
                self.memory().0.remove(&subject);
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

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_ten_minutes_the_same_is_worth_a_word_again() {
        let (mut memory, start) = (Memory::default(), Instant::now());
        let (cart, news) = (("uid".to_owned(), "Run"), News::normal("Run", "Applied", "9 resources"));
        assert!(memory.is_news(&cart, &news, start));
        assert!(!memory.is_news(&cart, &news, start + Duration::from_secs(599)));
        assert!(memory.is_news(&cart, &news, start + Duration::from_mins(10)));
        assert!(memory.is_news(&("other".to_owned(), "Run"), &news, start + Duration::from_hours(1)));
        assert_eq!(memory.0.len(), 1, "what is long ago is forgotten");
    }
}
