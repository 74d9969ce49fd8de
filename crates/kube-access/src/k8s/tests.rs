//! Against a real API server in this process.

mod calls;
mod client;
mod events;
mod leader;
mod objects;
mod secrets;
mod status;

use std::time::Duration;

use embedded_kube::{auth, cluster::EmbeddedKube};
use k8s_openapi::{
    api::core::v1::{ConfigMap, Namespace},
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;

use super::KubeClient;

/// How our requests are known in the log.
pub(super) const AGENT: &str = "capt/test";

/// How long something may take on a busy machine.
pub(super) const PATIENCE: Duration = Duration::from_mins(2);

/// A cluster, and our way to it.
pub(super) struct World {
    pub(super) server: EmbeddedKube,
    pub(super) kube: KubeClient,
}

impl World {
    pub(super) async fn start() -> Self {
        let server = EmbeddedKube::builder().in_memory().start().await.unwrap();
        // A busy machine is not what is tested.
        let kube = KubeClient::new(server.client_with_agent(auth::admin(), AGENT)).with_deadline(PATIENCE);
        let world = Self { server, kube };
        world.make::<Namespace>(serde_json::json!({"metadata": {"name": "shop"}})).await;
        world
    }

    /// Makes an object from JSON.
    pub(super) async fn make<K>(&self, object: serde_json::Value) -> K
    where
        K: Resource + serde::Serialize + DeserializeOwned,
        K::DynamicType: Default,
    {
        let object: K = serde_json::from_value(object).unwrap();
        self.kube.create(&object).await.unwrap()
    }

    /// An object that owns others.
    pub(super) async fn owner(&self, name: &str) -> (ConfigMap, OwnerReference) {
        let owner: ConfigMap = self.make(config(name)).await;
        let reference = OwnerReference {
            api_version: "v1".to_owned(),
            kind: "ConfigMap".to_owned(),
            name: owner.name_any(),
            uid: owner.uid().unwrap(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        };
        (owner, reference)
    }

    /// How many writes we sent since this was asked last.
    pub(super) fn writes(&self) -> usize {
        let count = self.server.request_log().writes_by(AGENT).len();
        self.server.request_log().clear();
        count
    }

    /// Waits until something holds.
    pub(super) async fn until<T, F>(&self, mut look: impl FnMut() -> F) -> T
    where
        F: Future<Output = Option<T>>,
    {
        let seen = tokio::time::timeout(PATIENCE, async {
            loop {
                if let Some(seen) = look().await {
                    return seen;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        seen.await.unwrap_or_else(|_| {
            let all = self.server.request_log().all();
            panic!("it did not happen; the last requests: {:#?}", &all[all.len().saturating_sub(40)..])
        })
    }
}

pub(super) fn config(name: &str) -> serde_json::Value {
    serde_json::json!({"metadata": {"name": name, "namespace": "shop"}, "data": {"a": "1"}})
}
