//! Runs that outlived the process that started them.
//!
//! Their workspaces follow them when they are next worked on. Until then nobody else may change the same EKS cluster,
//! so their turns are taken before anything else begins.

use std::{sync::Arc, time::Duration};

use terraform_driver::{run::Run, workspace::files::FileError};

use super::Inner;
use crate::work::all;

const LOOK: Duration = Duration::from_millis(500);

/// Takes the turns of all runs that still go on; how many there are.
pub(super) fn adopt(inner: &Arc<Inner>) -> Result<usize, FileError> {
    let mut found = 0;
    for (key, record) in all(&inner.site.data)? {
        let place = record.place(&inner.site.data, &key);
        if Run::find_alive(&place)?.is_none() {
            continue;
        }
        found += 1;
        let region = record.region.clone().unwrap_or_default();
        let Some(cluster) = record.eks_cluster.as_ref().map(|name| format!("{region}/{name}")) else {
            continue;
        };
        // A second one of the same cluster waits for the first, which is all that counts.
        let Some(turn) = inner.turns.take_now(&cluster) else { continue };
        inner.tasks.spawn(async move {
            while matches!(Run::find_alive(&place), Ok(Some(_))) {
                tokio::time::sleep(LOOK).await;
            }
            drop(turn);
        });
    }
    Ok(found)
}
