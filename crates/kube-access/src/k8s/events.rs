//! Deduplicated events. A failure to publish never fails a reconcile.
//!
//! Per object and action (`Run`, `Reconcile` …), an event equal to the last one is suppressed for ten minutes. Another event
//! in between resets the suppression. Actions are independent of each other.

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

use super::{error::K8sError, kube_client::KubeClient, objects::object_operation, truncate::truncate_text};

/// How long an equal event is suppressed.
const REPEAT_INTERVAL: Duration = Duration::from_mins(10);
/// Maximum length of a note, in bytes.
pub const MAX_NOTE_BYTES: usize = 1024;

/// An event to publish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventSpec {
    /// Normal or Warning.
    pub kind: EventType,
    /// The action: `Reconcile`, `Run` …
    pub action: &'static str,
    /// The reason, in CamelCase.
    pub reason: &'static str,
    /// Human-readable note, truncated if too long.
    pub note: String,
}

impl EventSpec {
    /// A normal event.
    pub fn normal(action: &'static str, reason: &'static str, note: impl Into<String>) -> Self {
        Self { kind: EventType::Normal, action, reason, note: note.into() }
    }

    /// A warning event.
    pub fn warning(action: &'static str, reason: &'static str, note: impl Into<String>) -> Self {
        Self { kind: EventType::Warning, action, reason, note: note.into() }
    }
}

/// The last event and its time, by object UID and action.
#[derive(Default)]
struct EventHistory(HashMap<EventKey, (EventSpec, Instant)>);

type EventKey = (String, &'static str);

impl EventHistory {
    /// Whether the event differs from the last one or the interval is over; records it if so.
    fn is_new(&mut self, subject: &EventKey, news: &EventSpec, now: Instant) -> bool {
        self.0.retain(|_, (_, at)| now.duration_since(*at) < REPEAT_INTERVAL);
        if self.0.get(subject).is_some_and(|(last, _)| last == news) {
            return false;
        }
        self.0.insert(subject.clone(), (news.clone(), now));
        true
    }
}

/// Publishes events. Cheap to clone; clones share the history.
#[derive(Clone)]
pub struct EventPublisher {
    kube: KubeClient,
    recorder: Arc<EventRecorder>,
    history: Arc<Mutex<EventHistory>>,
    dropped: Arc<AtomicU64>,
}

impl std::fmt::Debug for EventPublisher {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("EventPublisher").field("lost", &self.dropped).finish_non_exhaustive()
    }
}

impl EventPublisher {
    /// A publisher for this reporting controller (`capt/workspace`) and instance.
    pub fn new(kube: KubeClient, controller: &str, instance: &str) -> Self {
        let reporter = Reporter { controller: controller.to_owned(), instance: Some(instance.to_owned()) };
        // `Kube` enforces the deadline; the recorder's own timeout must not fire first.
        let recorder = EventRecorder::new(kube.client().clone(), reporter).with_timeout(REPEAT_INTERVAL);
        Self { kube, recorder: Arc::new(recorder), history: Arc::default(), dropped: Arc::default() }
    }

    /// Number of events that could not be published.
    pub fn dropped_count(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Publishes the event unless it is a duplicate. Works for any scope and for objects being deleted.
    pub async fn publish<K>(&self, object: &K, mut news: EventSpec)
    where
        K: Resource,
        K::DynamicType: Default,
    {
        news.note = truncate_text(&news.note, MAX_NOTE_BYTES);
        let subject = (object.meta().uid.clone().unwrap_or_default(), news.action);
        if !self.history().is_new(&subject, &news, Instant::now()) {
            return;
        }
        let event = Event {
            type_: news.kind,
            reason: news.reason.to_owned(),
            action: news.action.to_owned(),
            note: Some(news.note),
            related: None,
        };
        match self.send_event(object, &event).await {
            Ok(()) => {}
            // Events cannot be created in a terminating namespace.
            Err(error) if error.is_terminating() || error.is_not_found() => {}
            Err(error) => {
                self.dropped.fetch_add(1, Ordering::Relaxed);
                self.history().0.remove(&subject);
                tracing::warn!(
                    reason = event.reason,
                    error = &error as &dyn std::error::Error,
                    "cannot publish event"
                );
            }
        }
    }

    async fn send_event<K>(&self, object: &K, event: &Event) -> Result<(), K8sError>
    where
        K: Resource,
        K::DynamicType: Default,
    {
        let operation = object_operation("create", object);
        let sent = async {
            self.recorder.publish(object, event).await.map_err(|error| match error {
                PublishError::Kube(error) => K8sError::from_kube(operation.clone(), error),
                other => K8sError::Unsendable { operation: operation.clone(), source: other.into() },
            })
        };
        self.kube.send_within_deadline(&operation, sent).await
    }

    fn history(&self) -> MutexGuard<'_, EventHistory> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_ten_minutes_the_same_is_worth_a_word_again() {
        let (mut memory, start) = (EventHistory::default(), Instant::now());
        let (cart, news) = (("uid".to_owned(), "Run"), EventSpec::normal("Run", "Applied", "9 resources"));
        assert!(memory.is_new(&cart, &news, start));
        assert!(!memory.is_new(&cart, &news, start + Duration::from_secs(599)));
        assert!(memory.is_new(&cart, &news, start + Duration::from_mins(10)));
        assert!(memory.is_new(&("other".to_owned(), "Run"), &news, start + Duration::from_hours(1)));
        assert_eq!(memory.0.len(), 1, "what is long ago is forgotten");
    }
}
