//! Per-cluster mutex: EKS allows one change of a cluster at a time and rejects a second one, and the AWS provider does
//! not retry.
//!
//! The provider's own mutex covers one provider process, and workspaces may have different ones. This lock therefore covers all
//! workspaces of a cluster. It is fair: first come, first served.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::{Mutex as Fair, OwnedMutexGuard};

/// Guard of a cluster lock; dropping it releases the lock.
pub(super) type ClusterLockGuard = OwnedMutexGuard<()>;

/// The locks of all clusters.
#[derive(Debug, Clone, Default)]
pub(super) struct ClusterLocks {
    clusters: Arc<Mutex<BTreeMap<String, Arc<Fair<()>>>>>,
}

impl ClusterLocks {
    /// Waits for the lock. `cluster` is `region/name`.
    pub(super) async fn lock(&self, cluster: &str) -> ClusterLockGuard {
        self.mutex_for(cluster).lock_owned().await
    }

    /// Takes the lock if it is free.
    pub(super) fn try_lock(&self, cluster: &str) -> Option<ClusterLockGuard> {
        self.mutex_for(cluster).try_lock_owned().ok()
    }

    fn mutex_for(&self, cluster: &str) -> Arc<Fair<()>> {
        let mut clusters = self.clusters.lock().unwrap_or_else(PoisonError::into_inner);
        // A mutex without holder or waiter is referenced by this map only and can be dropped.
        clusters.retain(|name, lock| Arc::strong_count(lock) > 1 || name == cluster);
        Arc::clone(clusters.entry(cluster.to_owned()).or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_cluster_has_one_turn_and_another_cluster_another() {
        let locks = ClusterLocks::default();
        let lock = locks.lock("eu-central-1/demo").await;
        assert!(locks.try_lock("eu-central-1/demo").is_none());
        assert!(locks.try_lock("us-east-1/demo").is_some());
        drop(lock);
        assert!(locks.try_lock("eu-central-1/demo").is_some());
    }

    #[tokio::test]
    async fn a_lock_that_is_waited_for_is_not_forgotten() {
        let locks = ClusterLocks::default();
        let lock = locks.lock("a").await;
        let waiting = tokio::spawn({
            let locks = locks.clone();
            async move { locks.lock("a").await }
        });
        tokio::task::yield_now().await;
        drop(lock);
        let _other = locks.lock("b").await;
        let _got = waiting.await.unwrap();
        assert!(locks.try_lock("a").is_none());
    }
}
