//! Records Events as the controllers of a real cluster do. Best effort: a lost Event is not an error.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::api_client::{ApiClient, PatchKind, collection_path, object_path};
use crate::{
    clock,
    object::{MetaAccessor, str_at},
};

const MAX_RECENT_EVENTS: usize = 1024;

/// Type of an Event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventType {
    /// Expected operation.
    Normal,
    /// A problem.
    Warning,
}

type RecentEvents = HashMap<[String; 3], (String, u64)>;

/// Records Events of one controller.
#[derive(Clone)]
pub struct EventRecorder {
    api: ApiClient,
    component: &'static str,
    recent: Arc<Mutex<RecentEvents>>,
}

impl EventRecorder {
    /// A recorder for the controller of this name.
    pub fn new(api: ApiClient, component: &'static str) -> Self {
        Self { api, component, recent: Arc::default() }
    }

    /// Records an Event about an object; a repeated Event increments its count.
    pub async fn record(&self, about: &Value, kind: EventType, reason: &str, message: &str) {
        let namespace = if about.namespace().is_empty() { "default" } else { about.namespace() };
        let now = clock::now();
        let same = [about.uid().to_owned(), reason.to_owned(), message.to_owned()];
        if let Some((name, count)) = self.increment_count(&same) {
            let path = object_path("v1", namespace, "events", &name);
            let change = json!({"count": count, "lastTimestamp": clock::format_time(now)});
            if self.api.patch(&path, PatchKind::Merge, &change).await.is_ok() {
                return;
            }
        }
        let name = format!("{}.{:x}", about.name(), now.as_nanosecond());
        let event = json!({
            "kind": "Event", "apiVersion": "v1",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": {
                "kind": str_at(about, &["kind"]), "apiVersion": str_at(about, &["apiVersion"]),
                "namespace": about.namespace(), "name": about.name(), "uid": about.uid(),
                "resourceVersion": about.resource_version(),
            },
            "reason": reason, "message": message,
            "source": {"component": self.component},
            "firstTimestamp": clock::format_time(now), "lastTimestamp": clock::format_time(now), "count": 1,
            "type": match kind { EventType::Normal => "Normal", EventType::Warning => "Warning" },
            "eventTime": null, "reportingComponent": self.component, "reportingInstance": "",
        });
        match self.api.create(&collection_path("v1", namespace, "events"), &event).await {
            Ok(_) => self.remember(same, name),
            Err(trouble) => tracing::debug!(%trouble, reason, "failed to record event"),
        }
    }

    fn increment_count(&self, same: &[String; 3]) -> Option<(String, u64)> {
        let mut seen = self.recent.lock();
        let (name, count) = seen.get_mut(same)?;
        *count += 1;
        Some((name.clone(), *count))
    }

    fn remember(&self, same: [String; 3], name: String) {
        let mut seen = self.recent.lock();
        if seen.len() >= MAX_RECENT_EVENTS {
            seen.clear();
        }
        seen.insert(same, (name, 1));
    }
}
