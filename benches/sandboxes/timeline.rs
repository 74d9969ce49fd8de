//! Records when milestones of objects were first observed, with watches in the process of the API server.

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

use crate::test_namespace::{GROUP, TestNamespace, name};

/// What can be seen of a Sandbox; its name is that of the Sandbox, or of the fork's Service for the endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Milestone {
    /// The status lists the Services of its fork: routers can route to it.
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
const TIMEOUT: Duration = Duration::from_mins(2);

type MilestoneTimes = HashMap<(Milestone, String), Instant>;

/// Everything that was seen.
#[derive(Clone)]
pub(crate) struct Timeline {
    notes: Arc<Mutex<MilestoneTimes>>,
    changed: watch::Sender<()>,
}

impl Timeline {
    /// Looks until the runtime ends.
    pub(crate) fn start(shop: &TestNamespace) -> Self {
        let diary = Self { notes: Arc::default(), changed: watch::Sender::new(()) };
        diary.follow(shop, "Sandbox", sandbox_milestones);
        diary.follow(shop, "Pod", pod_milestones);
        diary.follow(shop, "EndpointSlice", slice_milestones);
        diary
    }

    fn follow(&self, shop: &TestNamespace, kind: &str, read: fn(&Value) -> Vec<(Milestone, String)>) {
        let (diary, api) = (self.clone(), shop.api(kind));
        tokio::spawn(async move {
            let events = watcher(api, watcher::Config::default()).default_backoff().applied_objects();
            let mut events = std::pin::pin!(events);
            while let Some(event) = events.next().await {
                // The watcher restarts a failed watch.
                let Ok(object) = event else { continue };
                let now = Instant::now();
                let seen = read(&serde_json::to_value(object).unwrap_or_default());
                let mut notes = diary.notes.lock().unwrap_or_else(PoisonError::into_inner);
                for one in seen {
                    notes.entry(one).or_insert(now);
                }
                drop(notes);
                diary.changed.send_replace(());
            }
        });
    }

    /// When it was seen, as soon as it is.
    pub(crate) async fn time_of(&self, seen: Milestone, name: &str) -> anyhow::Result<Instant> {
        let (key, mut told) = ((seen, name.to_owned()), self.changed.subscribe());
        let waited = async {
            loop {
                if let Some(at) = self.notes.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
                    return anyhow::Ok(*at);
                }
                told.changed().await?;
            }
        };
        tokio::time::timeout(TIMEOUT, waited).await.with_context(|| format!("{name} is not {seen:?}"))?
    }

    /// How many of something were seen.
    pub(crate) fn count(&self, seen: Milestone) -> usize {
        let notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        notes.keys().filter(|(it, _)| *it == seen).count()
    }
}

fn sandbox_milestones(object: &Value) -> Vec<(Milestone, String)> {
    let status = &object["status"];
    let is_routed = status["forks"][0]["services"].as_array().is_some_and(|it| !it.is_empty());
    let routed = is_routed.then_some(Milestone::Routed);
    let ready = (status["phase"] == "Ready").then_some(Milestone::Ready);
    routed.into_iter().chain(ready).map(|it| (it, name(object).to_owned())).collect()
}

fn pod_milestones(object: &Value) -> Vec<(Milestone, String)> {
    let Some(sandbox) = object["metadata"]["labels"][format!("{GROUP}/sandbox")].as_str() else {
        return Vec::new();
    };
    let conditions = object["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_ready = conditions.iter().any(|it| it["type"] == "Ready" && it["status"] == "True");
    let ready = is_ready.then_some(Milestone::PodReady);
    [Some(Milestone::PodMade), ready].into_iter().flatten().map(|it| (it, sandbox.to_owned())).collect()
}

fn slice_milestones(object: &Value) -> Vec<(Milestone, String)> {
    let endpoints = object["endpoints"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_ready = endpoints.iter().any(|it| it["conditions"]["ready"] == true);
    let service = object["metadata"]["labels"]["kubernetes.io/service-name"].as_str();
    service.filter(|_| is_ready).map(|it| (Milestone::Endpoints, it.to_owned())).into_iter().collect()
}
