//! Keeps the cluster host in sync with the EKS model: after every access to the state it starts new clusters, stops
//! deleted ones and updates principals. Only differences are sent, so frequent calls are cheap.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use tokio::task::JoinSet;

use crate::{
    clock,
    cluster_host::{ClusterHost, ClusterPrincipal, ClusterSpec, HostError, HostedEndpoint},
    eks::{
        cluster_host_state::cluster_principals,
        state::{Cluster, ClusterApi, ClusterStatus, EksState},
    },
    eks_service::EksService,
};

/// A start that takes longer has failed.
const START_TIMEOUT: Duration = Duration::from_mins(1);
/// Limit for stopping all clusters.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct ClusterHostSync {
    host: Arc<dyn ClusterHost>,
    sts_endpoint: String,
    synced: Mutex<BTreeMap<String, SyncedCluster>>,
    /// Starts and stops in progress.
    tasks: Mutex<JoinSet<()>>,
    /// Timers that complete the deletion of clusters without further requests.
    deletion_timers: Mutex<JoinSet<()>>,
}

/// What the host was last told about a cluster.
#[derive(Debug, Default)]
struct SyncedCluster {
    principals: Vec<ClusterPrincipal>,
    is_deleting: bool,
}

impl ClusterHostSync {
    pub(crate) fn new(host: Arc<dyn ClusterHost>, sts_endpoint: String) -> Self {
        Self {
            host,
            sts_endpoint,
            synced: Mutex::default(),
            tasks: Mutex::default(),
            deletion_timers: Mutex::default(),
        }
    }

    /// Sends changes to the host. The caller holds the model's lock, so this must not block.
    pub(crate) fn sync(&self, eks: &Arc<EksService>, state: &EksState) {
        let mut told = lock(&self.synced);
        let mut gone: Vec<String> = told.keys().cloned().collect();
        for (region, clusters) in &state.regions {
            for cluster in clusters.values() {
                gone.retain(|id| *id != cluster.id);
                match told.get_mut(&cluster.id) {
                    Some(known) => self.sync_cluster(eks, known, cluster),
                    None if matches!(cluster.api, ClusterApi::Awaited { .. }) => {
                        let seed = self.cluster_spec(region, cluster);
                        told.insert(
                            cluster.id.clone(),
                            SyncedCluster { principals: seed.principals.clone(), is_deleting: false },
                        );
                        self.spawn(start_cluster(Arc::clone(eks), Arc::clone(&self.host), seed));
                    }
                    None => {}
                }
            }
        }
        for id in gone {
            told.remove(&id);
            self.spawn(self.host.stop(&id));
        }
    }

    fn sync_cluster(&self, eks: &Arc<EksService>, known: &mut SyncedCluster, cluster: &Cluster) {
        let now = cluster_principals(cluster);
        if now != known.principals {
            self.host.set_principals(&cluster.id, now.clone());
            known.principals = now;
        }
        if cluster.status == ClusterStatus::Deleting && !known.is_deleting {
            known.is_deleting = true;
            spawn(&self.deletion_timers, refresh_at(Arc::clone(eks), cluster.due));
        }
    }

    fn cluster_spec(&self, region: &str, cluster: &Cluster) -> ClusterSpec {
        let before = match &cluster.api {
            ClusterApi::Awaited { before } => before.clone(),
            _ => None,
        };
        ClusterSpec {
            id: cluster.id.clone(),
            name: cluster.name.clone(),
            arn: cluster.arn.clone(),
            region: region.to_owned(),
            version: cluster.version.clone(),
            sts_endpoint: self.sts_endpoint.clone(),
            previous_endpoint: before,
            principals: cluster_principals(cluster),
        }
    }

    /// Repeats the principals after a start: changes made while the cluster was starting were not delivered.
    fn resend_principals(&self, id: &str) {
        if let Some(known) = lock(&self.synced).get(id) {
            self.host.set_principals(id, known.principals.clone());
        }
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        spawn(&self.tasks, task);
    }

    /// Waits for all starts and stops in progress.
    pub(crate) async fn wait_for_tasks(&self) {
        let mut work = std::mem::take(&mut *lock(&self.tasks));
        while work.join_next().await.is_some() {}
    }

    /// Stops all clusters.
    pub(crate) async fn stop_all(&self) {
        lock(&self.deletion_timers).abort_all();
        let all = async {
            self.wait_for_tasks().await;
            let told = std::mem::take(&mut *lock(&self.synced));
            for id in told.keys() {
                self.spawn(self.host.stop(id));
            }
            self.wait_for_tasks().await;
        };
        if tokio::time::timeout(STOP_TIMEOUT, all).await.is_err() {
            tracing::warn!("cluster host did not stop in time");
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn spawn(set: &Mutex<JoinSet<()>>, task: impl Future<Output = ()> + Send + 'static) {
    let mut set = lock(set);
    while set.try_join_next().is_some() {}
    set.spawn(task);
}

async fn start_cluster(eks: Arc<EksService>, host: Arc<dyn ClusterHost>, seed: ClusterSpec) {
    let (region, name, id) = (seed.region.clone(), seed.name.clone(), seed.id.clone());
    // A separate task, so that a panic of the host counts as failure; in a set, so that it is aborted with us.
    let mut beginning = JoinSet::new();
    beginning.spawn(tokio::time::timeout(START_TIMEOUT, host.start(seed)));
    let result: Result<HostedEndpoint, HostError> = match beginning.join_next().await {
        Some(Ok(Ok(result))) => result,
        Some(Err(panic)) => Err(panic.into()),
        Some(Ok(Err(_))) | None => {
            Err(format!("no result within {} seconds", START_TIMEOUT.as_secs()).into())
        }
    };
    if let Err(error) = &result {
        tracing::error!(
            error = &**error as &dyn std::error::Error,
            cluster = name,
            "cluster host failed to start the API"
        );
    }
    match eks.complete_hosting((&region, &name, &id), result) {
        Some(hosts) => hosts.resend_principals(&id),
        // Deleted before the start completed.
        None => host.stop(&id).await,
    }
}

/// Advances the model when a deletion is due.
async fn refresh_at(eks: Arc<EksService>, due: Option<Timestamp>) {
    let left = due.map(|due| clock::now().duration_until(due)).unwrap_or_default();
    let left = Duration::try_from(left).unwrap_or_default();
    tokio::time::sleep(left + Duration::from_millis(1)).await;
    eks.with_state(|_| ());
}
