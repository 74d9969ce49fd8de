//! What a router says of itself, in its Lease.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference},
};
use sandbox::api::names;
use terraform_driver::clock;
use tokio::{sync::watch, time::sleep};

use super::{super::LISTENERS_ANNOTATION, Settings, labels};
use crate::k8s::{Kube, Removal};

/// How often a Lease is renewed that has nothing new to say.
const RENEW: Duration = Duration::from_secs(10);

/// The table that requests go by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InForce {
    pub(super) revision: String,
    /// Where the router listens.
    pub(super) listeners: Vec<u16>,
}

/// Says which table is in force, and where the router listens.
pub(super) struct Publisher {
    kube: Kube,
    namespace: String,
    name: String,
    uid: Option<String>,
    /// What was said last, and when.
    said: Mutex<Option<(String, String, Instant)>>,
}

impl Publisher {
    pub(super) fn new(kube: Kube, settings: &Settings) -> Self {
        let Settings { namespace, name, uid, .. } = settings.clone();
        Self { kube, namespace, name, uid, said: Mutex::new(None) }
    }

    /// Says what is in force whenever that is another, and again before the Lease is old, without end. Tables do not wait
    /// for it: an API server that is slow to write may be quick to tell.
    pub(super) async fn keep(&self, mut in_force: watch::Receiver<Option<InForce>>) {
        loop {
            let now = in_force.borrow_and_update().clone();
            if let Some(InForce { revision, listeners }) = now {
                self.publish(&revision, listeners).await;
            }
            tokio::select! {
                news = in_force.changed() => if news.is_err() { return },
                () = sleep(RENEW) => {}
            }
        }
    }

    /// Says it, if it is news or was said long ago. Nobody is served worse while it cannot be said: it is tried again.
    async fn publish(&self, revision: &str, mut sorted: Vec<u16>) {
        sorted.sort_unstable();
        let ports = sorted.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        if self.is_old_news(revision, &ports) {
            return;
        }
        match self.kube.apply(&self.lease(revision, &ports)).await {
            Ok(_) => {
                let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
                *said = Some((revision.to_owned(), ports, Instant::now()));
            }
            Err(error) => tracing::warn!(%error, "the Lease of this router cannot be written"),
        }
    }

    fn is_old_news(&self, revision: &str, ports: &str) -> bool {
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = |(before, open, at): &(String, String, Instant)| {
            before == revision && open == ports && at.elapsed() < RENEW
        };
        said.as_ref().is_some_and(is_same)
    }

    fn lease(&self, revision: &str, ports: &str) -> Lease {
        // The Lease of a pod that is gone is nobody's.
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

    /// The router is gone.
    pub(super) async fn withdraw(&self) {
        let found = self.kube.get::<Lease>(Some(&self.namespace), &self.name).await;
        let removed = match found {
            Ok(Some(lease)) => self.kube.delete(&lease, Removal::Background).await.map(drop),
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = removed {
            tracing::warn!(%error, "the Lease of this router cannot be removed");
        }
    }
}
