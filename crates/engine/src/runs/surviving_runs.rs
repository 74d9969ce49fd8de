//! Runs that survived the process that started them.
//!
//! A surviving run is resumed by the next run of its workspace. Until it finishes, no other run may change the same EKS
//! cluster, so the cluster locks are taken before any run starts.

use std::{sync::Arc, time::Duration};

use terraform_driver::{run::RunHandle, workspace::files::FileError};

use super::{Inner, cluster_lock::ClusterName};
use crate::pipeline::list_workspaces;

const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Locks the clusters of all surviving runs. Returns the number of these runs.
pub(super) fn lock_clusters(inner: &Arc<Inner>) -> Result<usize, FileError> {
    let mut found = 0;
    for (key, record) in list_workspaces(&inner.data_dir.path)? {
        let place = record.workspace_dir(&inner.data_dir.path, &key);
        if RunHandle::find_alive(&place)?.is_none() {
            continue;
        }
        found += 1;
        let Some(cluster) = record.eks_cluster.as_ref() else { continue };
        let cluster = ClusterName::new(&key, record.region.as_deref(), cluster);
        // Another surviving run already holds the lock of this cluster; one holder is enough.
        let Some(lock) = inner.cluster_locks.try_lock(&cluster) else { continue };
        inner.tasks.spawn(async move {
            while matches!(RunHandle::find_alive(&place), Ok(Some(_))) {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
            drop(lock);
        });
    }
    Ok(found)
}
