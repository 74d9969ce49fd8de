//! Events about objects, as the controllers of a real cluster leave them. Best effort: a lost event is no trouble.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::api::{Api, PatchKind, collection, object};
use crate::{
    clock,
    object::{Meta, text},
};

const REMEMBERED: usize = 1024;

/// Kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// As it should be.
    Normal,
    /// Somebody should look at it.
    Warning,
}

type Seen = HashMap<[String; 3], (String, u64)>;

/// See the module.
#[derive(Clone)]
pub struct Recorder {
    api: Api,
    component: &'static str,
    seen: Arc<Mutex<Seen>>,
}

impl Recorder {
    /// For the controller of this name.
    pub fn new(api: Api, component: &'static str) -> Self {
        Self { api, component, seen: Arc::default() }
    }

    /// Writes an event about an object; the same event again only counts up.
    pub async fn record(&self, about: &Value, kind: Kind, reason: &str, message: &str) {
        let namespace = if about.namespace().is_empty() { "default" } else { about.namespace() };
        let now = clock::now();
        let same = [about.uid().to_owned(), reason.to_owned(), message.to_owned()];
        if let Some((name, count)) = self.count(&same) {
            let path = object("v1", namespace, "events", &name);
            let change = json!({"count": count, "lastTimestamp": clock::seconds(now)});
            if self.api.patch(&path, PatchKind::Merge, &change).await.is_ok() {
                return;
            }
        }
        let name = format!("{}.{:x}", about.name(), now.as_nanosecond());
        let event = json!({
            "kind": "Event", "apiVersion": "v1",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": {
                "kind": text(about, &["kind"]), "apiVersion": text(about, &["apiVersion"]),
                "namespace": about.namespace(), "name": about.name(), "uid": about.uid(),
                "resourceVersion": about.resource_version(),
            },
            "reason": reason, "message": message,
            "source": {"component": self.component},
            "firstTimestamp": clock::seconds(now), "lastTimestamp": clock::seconds(now), "count": 1,
            "type": match kind { Kind::Normal => "Normal", Kind::Warning => "Warning" },
            "eventTime": null, "reportingComponent": self.component, "reportingInstance": "",
        });
        match self.api.create(&collection("v1", namespace, "events"), &event).await {
            Ok(_) => self.remember(same, name),
            Err(trouble) => tracing::debug!(%trouble, reason, "an event was lost"),
        }
    }

    fn count(&self, same: &[String; 3]) -> Option<(String, u64)> {
        let mut seen = self.seen.lock();
        let (name, count) = seen.get_mut(same)?;
        *count += 1;
        Some((name.clone(), *count))
    }

    fn remember(&self, same: [String; 3], name: String) {
        let mut seen = self.seen.lock();
        if seen.len() >= REMEMBERED {
            seen.clear();
        }
        seen.insert(same, (name, 1));
    }
}
