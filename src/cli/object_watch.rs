//! Watches of capt's kinds, held in reflector stores.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::anyhow;
use futures::StreamExt as _;
use kube::{
    Client,
    api::{ApiResource, DynamicObject, ListParams},
    core::TypeMeta,
    runtime::{
        WatchStreamExt as _,
        reflector::{Store, store::Writer},
        watcher,
    },
};
use tokio::{task::JoinSet, time::Instant};

use super::{
    kube_api::{describe_api_error, discover_kinds, dynamic_api, root_cause},
    tree::{TreeNode, build_forest},
};

/// How long the initial lists may take.
const SYNC_TIMEOUT: Duration = Duration::from_mins(1);

/// Watches all kinds until it is dropped.
pub(super) struct ObjectWatch {
    stores: Vec<Store<DynamicObject>>,
    failure: SharedFailure,
    flags: String,
    /// Aborted on drop.
    tasks: JoinSet<()>,
}

/// Since when the watches fail, and the last error.
type SharedFailure = Arc<Mutex<Option<(Instant, String)>>>;

impl ObjectWatch {
    /// Watches one namespace, or all; returns once every kind was listed. `flags` are appended to the commands shown to users.
    pub(super) async fn start(
        client: &Client,
        namespace: Option<&str>,
        flags: String,
    ) -> anyhow::Result<Self> {
        let mut watched =
            Self { stores: Vec::new(), flags, failure: SharedFailure::default(), tasks: JoinSet::new() };
        for kind in discover_kinds(client).await? {
            // A watch retries for ever; a forbidden list should fail at once.
            let once = ListParams::default().limit(1);
            dynamic_api(client, &kind, namespace)
                .list_metadata(&once)
                .await
                .map_err(|error| describe_api_error(&error))?;
            watched.watch_kind(client, &kind, namespace);
        }
        for store in &watched.stores {
            let ready = tokio::time::timeout(SYNC_TIMEOUT, store.wait_until_ready()).await;
            if !matches!(ready, Ok(Ok(()))) {
                return Err(anyhow!(
                    "the Kubernetes API did not list the objects in time; run the same command again"
                ));
            }
        }
        Ok(watched)
    }

    fn watch_kind(&mut self, client: &Client, kind: &ApiResource, namespace: Option<&str>) {
        let writer = Writer::new(kind.clone());
        self.stores.push(writer.as_reader());
        let types = TypeMeta { api_version: kind.api_version.clone(), kind: kind.kind.clone() };
        let stream = watcher(dynamic_api(client, kind, namespace), watcher::Config::default())
            .default_backoff()
            .modify(move |object| {
                object.types.get_or_insert_with(|| types.clone());
            })
            .reflect(writer);
        let trouble = Arc::clone(&self.failure);
        self.tasks.spawn(async move {
            let mut stream = std::pin::pin!(stream);
            while let Some(event) = stream.next().await {
                let mut trouble = trouble.lock().unwrap_or_else(PoisonError::into_inner);
                *trouble = match event {
                    Ok(_) => None,
                    Err(error) => {
                        let since = trouble.as_ref().map_or_else(Instant::now, |(since, _)| *since);
                        Some((since, root_cause(&error)))
                    }
                };
            }
        });
    }

    /// The current object trees.
    pub(super) fn trees(&self) -> Vec<TreeNode> {
        let objects: Vec<Arc<DynamicObject>> = self.stores.iter().flat_map(Store::state).collect();
        build_forest(&objects, &self.flags)
    }

    /// The error of watches that have failed for at least this long.
    pub(super) fn failing_for(&self, patience: Duration) -> Option<String> {
        let trouble = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        trouble.as_ref().filter(|(since, _)| since.elapsed() >= patience).map(|(_, what)| what.clone())
    }
}
