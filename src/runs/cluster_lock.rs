//! One change at a time for each EKS cluster: EKS refuses a second one, and the provider does not try again.
//!
//! Terraform's own lock is inside of one provider process, and we run one process for each workspace. So the turn is
//! taken here, across all workspaces of a cluster, first come, first served.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::{Mutex as Fair, OwnedMutexGuard};

/// The turn on one cluster; dropping it passes it on.
pub(super) type Turn = OwnedMutexGuard<()>;

/// The turns of all clusters.
#[derive(Debug, Clone, Default)]
pub(super) struct Turns {
    clusters: Arc<Mutex<BTreeMap<String, Arc<Fair<()>>>>>,
}

impl Turns {
    /// Waits for the turn. `cluster` names the cluster and its region.
    pub(super) async fn take(&self, cluster: &str) -> Turn {
        self.of(cluster).lock_owned().await
    }

    /// Takes the turn if nobody has it.
    pub(super) fn take_now(&self, cluster: &str) -> Option<Turn> {
        self.of(cluster).try_lock_owned().ok()
    }

    fn of(&self, cluster: &str) -> Arc<Fair<()>> {
        let mut clusters = self.clusters.lock().unwrap_or_else(PoisonError::into_inner);
        // A lock that nobody holds or waits for is held by this map alone.
        clusters.retain(|name, lock| Arc::strong_count(lock) > 1 || name == cluster);
        Arc::clone(clusters.entry(cluster.to_owned()).or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_cluster_has_one_turn_and_another_cluster_another() {
        let turns = Turns::default();
        let turn = turns.take("eu-central-1/demo").await;
        assert!(turns.take_now("eu-central-1/demo").is_none());
        assert!(turns.take_now("us-east-1/demo").is_some());
        drop(turn);
        assert!(turns.take_now("eu-central-1/demo").is_some());
    }

    #[tokio::test]
    async fn a_lock_that_is_waited_for_is_not_forgotten() {
        let turns = Turns::default();
        let turn = turns.take("a").await;
        let waiting = tokio::spawn({
            let turns = turns.clone();
            async move { turns.take("a").await }
        });
        tokio::task::yield_now().await;
        drop(turn);
        let _other = turns.take("b").await;
        let _got = waiting.await.unwrap();
        assert!(turns.take_now("a").is_none());
    }
}
