//! Publishes the applied table and the listener ports of a router in its Lease.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use capt_kinds::sandbox::names;
use capt_kube::k8s::{DeletionPropagation, KubeClient};
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference},
};
use terraform_driver::clock;
use tokio::{sync::watch, time::sleep};

use super::{super::LISTENERS_ANNOTATION, RouterSettings, labels};

/// Renew interval of an unchanged Lease.
const RENEW: Duration = Duration::from_secs(10);

/// The table that the proxy uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AppliedTable {
    pub(super) revision: String,
    /// The ports on which the router listens.
    pub(super) listeners: Vec<u16>,
}

/// Publishes the applied table and the listener ports.
pub(super) struct LeasePublisher {
    kube: KubeClient,
    namespace: String,
    name: String,
    uid: Option<String>,
    /// Revision and ports published last, and when.
    last_published: Mutex<Option<(String, String, Instant)>>,
}

impl LeasePublisher {
    pub(super) fn new(kube: KubeClient, settings: &RouterSettings) -> Self {
        let RouterSettings { namespace, name, uid, .. } = settings.clone();
        Self { kube, namespace, name, uid, last_published: Mutex::new(None) }
    }

    /// Publishes every change and renews the Lease, until the sender is dropped. Applying tables does not wait for it: the API
    /// server may serve watches while its writes are slow.
    pub(super) async fn run(&self, mut in_force: watch::Receiver<Option<AppliedTable>>) {
        loop {
            let now = in_force.borrow_and_update().clone();
            if let Some(AppliedTable { revision, listeners }) = now {
                self.publish(&revision, listeners).await;
            }
            tokio::select! {
                news = in_force.changed() => if news.is_err() { return },
                () = sleep(RENEW) => {}
            }
        }
    }

    /// Publishes if changed or due for renewal. An error is retried and does not affect traffic.
    async fn publish(&self, revision: &str, mut sorted: Vec<u16>) {
        sorted.sort_unstable();
        let ports = sorted.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        if self.is_published(revision, &ports) {
            return;
        }
        match self.kube.apply(&self.build_lease(revision, &ports)).await {
            Ok(_) => {
                let mut said = self.last_published.lock().unwrap_or_else(PoisonError::into_inner);
                *said = Some((revision.to_owned(), ports, Instant::now()));
            }
            Err(error) => tracing::warn!(%error, "failed to write the router's Lease, retrying"),
        }
    }

    fn is_published(&self, revision: &str, ports: &str) -> bool {
        let said = self.last_published.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = |(before, open, at): &(String, String, Instant)| {
            before == revision && open == ports && at.elapsed() < RENEW
        };
        said.as_ref().is_some_and(is_same)
    }

    fn build_lease(&self, revision: &str, ports: &str) -> Lease {
        // Garbage collects the Lease with its pod.
        let owner = self.uid.as_ref().map(|uid| OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            name: self.name.clone(),
            uid: uid.clone(),
            ..OwnerReference::default()
        });
        let annotations = BTreeMap::from([
            (names::REVISION_ANNOTATION.to_owned(), revision.to_owned()),
            (LISTENERS_ANNOTATION.to_owned(), ports.to_owned()),
        ]);
        Lease {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                namespace: Some(self.namespace.clone()),
                labels: Some(labels()),
                annotations: Some(annotations),
                owner_references: owner.map(|owner| vec![owner]),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(self.name.clone()),
                lease_duration_seconds: Some(30),
                renew_time: Some(MicroTime(clock::now())),
                ..LeaseSpec::default()
            }),
        }
    }

    /// Deletes the Lease.
    pub(super) async fn withdraw(&self) {
        let found = self.kube.get::<Lease>(Some(&self.namespace), &self.name).await;
        let removed = match found {
            Ok(Some(lease)) => self.kube.delete(&lease, DeletionPropagation::Background).await.map(drop),
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = removed {
            tracing::warn!(%error, "failed to delete the router's Lease");
        }
    }
}
