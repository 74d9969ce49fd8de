//! The objects of our kinds, kept current for as long as somebody looks.

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
    client::{api, brief, explain, kinds},
    tree::{Node, forest},
};

/// How long the first look may take.
const PATIENCE: Duration = Duration::from_mins(1);

/// Objects that are watched until this is dropped.
pub(super) struct Watched {
    stores: Vec<Store<DynamicObject>>,
    trouble: Trouble,
    flags: String,
    /// They end with us.
    tasks: JoinSet<()>,
}

/// Since when something is wrong, and what.
type Trouble = Arc<Mutex<Option<(Instant, String)>>>;

impl Watched {
    /// Watches one namespace, or all; `flags` make a command find the same API. Returns when everything was seen once.
    pub(super) async fn start(
        client: &Client,
        namespace: Option<&str>,
        flags: String,
    ) -> anyhow::Result<Self> {
        let mut watched =
            Self { stores: Vec::new(), flags, trouble: Trouble::default(), tasks: JoinSet::new() };
        for kind in kinds(client).await? {
            // A watch repeats what fails for ever; what is forbidden is better said at once.
            let once = ListParams::default().limit(1);
            api(client, &kind, namespace).list_metadata(&once).await.map_err(|error| explain(&error))?;
            watched.add(client, &kind, namespace);
        }
        for store in &watched.stores {
            let ready = tokio::time::timeout(PATIENCE, store.wait_until_ready()).await;
            if !matches!(ready, Ok(Ok(()))) {
                return Err(anyhow!(
                    "the Kubernetes API does not list what it holds; run the same command again"
                ));
            }
        }
        Ok(watched)
    }

    fn add(&mut self, client: &Client, kind: &ApiResource, namespace: Option<&str>) {
        let writer = Writer::new(kind.clone());
        self.stores.push(writer.as_reader());
        let types = TypeMeta { api_version: kind.api_version.clone(), kind: kind.kind.clone() };
        let stream = watcher(api(client, kind, namespace), watcher::Config::default())
            .default_backoff()
            .modify(move |object| {
                object.types.get_or_insert_with(|| types.clone());
            })
            .reflect(writer);
        let trouble = Arc::clone(&self.trouble);
        self.tasks.spawn(async move {
            let mut stream = std::pin::pin!(stream);
            while let Some(event) = stream.next().await {
                let mut trouble = trouble.lock().unwrap_or_else(PoisonError::into_inner);
                *trouble = match event {
                    Ok(_) => None,
                    Err(error) => {
                        let since = trouble.as_ref().map_or_else(Instant::now, |(since, _)| *since);
                        Some((since, brief(&error)))
                    }
                };
            }
        });
    }

    /// Everything that exists.
    pub(super) fn trees(&self) -> Vec<Node> {
        let objects: Vec<Arc<DynamicObject>> = self.stores.iter().flat_map(Store::state).collect();
        forest(&objects, &self.flags)
    }

    /// What has kept us from seeing anything new for so long.
    pub(super) fn blind_for(&self, patience: Duration) -> Option<String> {
        let trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        trouble.as_ref().filter(|(since, _)| since.elapsed() >= patience).map(|(_, what)| what.clone())
    }
}
