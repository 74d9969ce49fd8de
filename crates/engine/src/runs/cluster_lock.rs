//! Per-cluster mutex: EKS allows one change of a cluster at a time and rejects a second one, and the AWS provider does
//! not retry.
//!
//! The provider's own mutex covers one provider process, and workspaces may have different ones. This lock therefore covers all
//! workspaces of a cluster. It is fair: first come, first served.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use capt_model::workspaces::WorkspaceKey;
use tokio::sync::{Mutex as Fair, OwnedMutexGuard};

/// Guard of a cluster lock; dropping it releases the lock.
pub(super) type ClusterLockGuard = OwnedMutexGuard<()>;

/// What a cluster is called by the workspaces that change it.
///
/// Anybody can claim to change a cluster of any name. The namespace is therefore part of the name: a tenant who claims the cluster of
/// another one, and never ends, does not stop the other one. A cluster is changed by the workspaces of one control plane, which are in
/// one namespace. Names are unique per region only.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ClusterName {
    namespace: String,
    region: String,
    name: String,
}

impl ClusterName {
    /// The cluster that a workspace says it changes.
    pub(super) fn new(workspace: &WorkspaceKey, region: Option<&str>, name: &str) -> Self {
        let (region, name) = (region.unwrap_or_default().to_owned(), name.to_owned());
        Self { namespace: workspace.namespace.clone(), region, name }
    }
}

/// The locks of all clusters.
#[derive(Debug, Clone, Default)]
pub(super) struct ClusterLocks {
    clusters: Arc<Mutex<BTreeMap<ClusterName, Arc<Fair<()>>>>>,
}

impl ClusterLocks {
    /// Waits for the lock.
    pub(super) async fn lock(&self, cluster: &ClusterName) -> ClusterLockGuard {
        self.mutex_for(cluster).lock_owned().await
    }

    /// Takes the lock if it is free.
    pub(super) fn try_lock(&self, cluster: &ClusterName) -> Option<ClusterLockGuard> {
        self.mutex_for(cluster).try_lock_owned().ok()
    }

    fn mutex_for(&self, cluster: &ClusterName) -> Arc<Fair<()>> {
        let mut clusters = self.clusters.lock().unwrap_or_else(PoisonError::into_inner);
        // A mutex without holder or waiter is referenced by this map only and can be dropped.
        clusters.retain(|name, lock| Arc::strong_count(lock) > 1 || name == cluster);
        Arc::clone(clusters.entry(cluster.clone()).or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(namespace: &str, region: &str) -> ClusterName {
        ClusterName::new(&WorkspaceKey::new(namespace, "demo"), Some(region), "demo")
    }

    #[tokio::test]
    async fn h6_the_turn_of_a_cluster_cannot_be_taken_from_another_namespace() {
        let locks = ClusterLocks::default();
        let _for_ever = locks.lock(&cluster("hostile", "eu-central-1")).await;
        assert!(locks.try_lock(&cluster("team", "eu-central-1")).is_some());
    }

    #[tokio::test]
    async fn one_cluster_has_one_turn_and_another_cluster_another() {
        let locks = ClusterLocks::default();
        let lock = locks.lock(&cluster("team", "eu-central-1")).await;
        assert!(locks.try_lock(&cluster("team", "eu-central-1")).is_none());
        assert!(locks.try_lock(&cluster("team", "us-east-1")).is_some());
        drop(lock);
        assert!(locks.try_lock(&cluster("team", "eu-central-1")).is_some());
    }

    #[tokio::test]
    async fn a_lock_that_is_waited_for_is_not_forgotten() {
        let locks = ClusterLocks::default();
        let lock = locks.lock(&cluster("team", "a")).await;
        let waiting = tokio::spawn({
            let locks = locks.clone();
            async move { locks.lock(&cluster("team", "a")).await }
        });
        tokio::task::yield_now().await;
        drop(lock);
        let _other = locks.lock(&cluster("team", "b")).await;
        let _got = waiting.await.unwrap();
        assert!(locks.try_lock(&cluster("team", "a")).is_none());
    }
}
