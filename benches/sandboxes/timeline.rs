//! When something was first seen of an object: watches of the API server tell, in the process where it runs.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::Context as _;
use futures::StreamExt as _;
use kube::runtime::{WatchStreamExt as _, watcher};
use serde_json::Value;
use tokio::sync::watch;

use crate::shop::{GROUP, Shop, name};

/// What can be seen of a Sandbox; its name is that of the Sandbox, or of the fork's Service for the endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Seen {
    /// The operator says which Services its fork has: routers can send somebody there.
    Routed,
    /// The operator says that it is ready.
    Ready,
    /// The pod of its fork is made.
    PodMade,
    /// The pod of its fork is ready.
    PodReady,
    /// The Service of its fork has endpoints.
    Endpoints,
}

/// How long anything may take.
const PATIENCE: Duration = Duration::from_mins(2);

type Notes = HashMap<(Seen, String), Instant>;

/// Everything that was seen.
#[derive(Clone)]
pub(crate) struct Diary {
    notes: Arc<Mutex<Notes>>,
    told: watch::Sender<()>,
}

impl Diary {
    /// Looks until the runtime ends.
    pub(crate) fn start(shop: &Shop) -> Self {
        let diary = Self { notes: Arc::default(), told: watch::Sender::new(()) };
        diary.follow(shop, "Sandbox", of_sandbox);
        diary.follow(shop, "Pod", of_pod);
        diary.follow(shop, "EndpointSlice", of_slice);
        diary
    }

    fn follow(&self, shop: &Shop, kind: &str, read: fn(&Value) -> Vec<(Seen, String)>) {
        let (diary, api) = (self.clone(), shop.api(kind));
        tokio::spawn(async move {
            let events = watcher(api, watcher::Config::default()).default_backoff().applied_objects();
            let mut events = std::pin::pin!(events);
            while let Some(event) = events.next().await {
                // A watch that broke is begun anew by the watcher.
                let Ok(object) = event else { continue };
                let now = Instant::now();
                let seen = read(&serde_json::to_value(object).unwrap_or_default());
                let mut notes = diary.notes.lock().unwrap_or_else(PoisonError::into_inner);
                for one in seen {
                    notes.entry(one).or_insert(now);
                }
                drop(notes);
                diary.told.send_replace(());
            }
        });
    }

    /// When it was seen, as soon as it is.
    pub(crate) async fn when(&self, seen: Seen, name: &str) -> anyhow::Result<Instant> {
        let (key, mut told) = ((seen, name.to_owned()), self.told.subscribe());
        let waited = async {
            loop {
                if let Some(at) = self.notes.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
                    return anyhow::Ok(*at);
                }
                told.changed().await?;
            }
        };
        tokio::time::timeout(PATIENCE, waited).await.with_context(|| format!("{name} is not {seen:?}"))?
    }

    /// How many of something were seen.
    pub(crate) fn count(&self, seen: Seen) -> usize {
        let notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        notes.keys().filter(|(it, _)| *it == seen).count()
    }
}

fn of_sandbox(object: &Value) -> Vec<(Seen, String)> {
    let status = &object["status"];
    let is_routed = status["forks"][0]["services"].as_array().is_some_and(|it| !it.is_empty());
    let routed = is_routed.then_some(Seen::Routed);
    let ready = (status["phase"] == "Ready").then_some(Seen::Ready);
    routed.into_iter().chain(ready).map(|it| (it, name(object).to_owned())).collect()
}

fn of_pod(object: &Value) -> Vec<(Seen, String)> {
    let Some(sandbox) = object["metadata"]["labels"][format!("{GROUP}/sandbox")].as_str() else {
        return Vec::new();
    };
    let conditions = object["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_ready = conditions.iter().any(|it| it["type"] == "Ready" && it["status"] == "True");
    let ready = is_ready.then_some(Seen::PodReady);
    [Some(Seen::PodMade), ready].into_iter().flatten().map(|it| (it, sandbox.to_owned())).collect()
}

fn of_slice(object: &Value) -> Vec<(Seen, String)> {
    let endpoints = object["endpoints"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_ready = endpoints.iter().any(|it| it["conditions"]["ready"] == true);
    let service = object["metadata"]["labels"]["kubernetes.io/service-name"].as_str();
    service.filter(|_| is_ready).map(|it| (Seen::Endpoints, it.to_owned())).into_iter().collect()
}
