//! Keeps a host in step with the model: after every look at the state it is told what began, what is gone, and who is
//! let in. Only differences to what it was told before are passed on, so looking often costs nothing.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use tokio::task::JoinSet;

use crate::{
    clock,
    eks::{
        hosted::admitted,
        state::{Api, Cluster, ClusterStatus, State},
    },
    host::{Admitted, ClusterHost, ClusterSeed, HostError, Hosting},
    service::Eks,
};

/// A host that takes longer has failed.
const BEGIN: Duration = Duration::from_mins(1);
/// How long the end of everything may take.
const END: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct Hosts {
    host: Arc<dyn ClusterHost>,
    sts: String,
    told: Mutex<BTreeMap<String, Told>>,
    /// Beginnings and ends on their way.
    work: Mutex<JoinSet<()>>,
    /// Waiting for clusters to be gone that nobody may look at again.
    alarms: Mutex<JoinSet<()>>,
}

/// What the host knows of a cluster.
#[derive(Debug, Default)]
struct Told {
    admitted: Vec<Admitted>,
    leaves: bool,
}

impl Hosts {
    pub(crate) fn new(host: Arc<dyn ClusterHost>, sts: String) -> Self {
        Self { host, sts, told: Mutex::default(), work: Mutex::default(), alarms: Mutex::default() }
    }

    /// Tells the host what is new. The caller holds the model's lock, so nothing here waits.
    pub(crate) fn follow(&self, eks: &Arc<Eks>, state: &State) {
        let mut told = lock(&self.told);
        let mut gone: Vec<String> = told.keys().cloned().collect();
        for (region, clusters) in &state.regions {
            for cluster in clusters.values() {
                gone.retain(|id| *id != cluster.id);
                match told.get_mut(&cluster.id) {
                    Some(known) => self.update(eks, known, cluster),
                    None if matches!(cluster.api, Api::Awaited { .. }) => {
                        let seed = self.seed(region, cluster);
                        told.insert(
                            cluster.id.clone(),
                            Told { admitted: seed.admitted.clone(), leaves: false },
                        );
                        self.spawn(begin(Arc::clone(eks), Arc::clone(&self.host), seed));
                    }
                    None => {}
                }
            }
        }
        for id in gone {
            told.remove(&id);
            self.spawn(self.host.end(&id));
        }
    }

    fn update(&self, eks: &Arc<Eks>, known: &mut Told, cluster: &Cluster) {
        let now = admitted(cluster);
        if now != known.admitted {
            self.host.admit(&cluster.id, now.clone());
            known.admitted = now;
        }
        if cluster.status == ClusterStatus::Deleting && !known.leaves {
            known.leaves = true;
            spawn(&self.alarms, look_at(Arc::clone(eks), cluster.due));
        }
    }

    fn seed(&self, region: &str, cluster: &Cluster) -> ClusterSeed {
        let before = match &cluster.api {
            Api::Awaited { before } => before.clone(),
            _ => None,
        };
        ClusterSeed {
            id: cluster.id.clone(),
            name: cluster.name.clone(),
            arn: cluster.arn.clone(),
            region: region.to_owned(),
            version: cluster.version.clone(),
            sts: self.sts.clone(),
            before,
            admitted: admitted(cluster),
        }
    }

    /// The cluster began; what changed meanwhile passed it by.
    fn remind(&self, id: &str) {
        if let Some(known) = lock(&self.told).get(id) {
            self.host.admit(id, known.admitted.clone());
        }
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        spawn(&self.work, task);
    }

    /// Waits for every beginning and end that is on its way.
    pub(crate) async fn rest(&self) {
        let mut work = std::mem::take(&mut *lock(&self.work));
        while work.join_next().await.is_some() {}
    }

    /// Ends all of them.
    pub(crate) async fn end(&self) {
        lock(&self.alarms).abort_all();
        let all = async {
            self.rest().await;
            let told = std::mem::take(&mut *lock(&self.told));
            for id in told.keys() {
                self.spawn(self.host.end(id));
            }
            self.rest().await;
        };
        if tokio::time::timeout(END, all).await.is_err() {
            tracing::warn!("the host of clusters did not end in time");
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

async fn begin(eks: Arc<Eks>, host: Arc<dyn ClusterHost>, seed: ClusterSeed) {
    let (region, name, id) = (seed.region.clone(), seed.name.clone(), seed.id.clone());
    // In a task of its own, so that a host that panics is one that failed; in a set, so that it ends with us.
    let mut beginning = JoinSet::new();
    beginning.spawn(tokio::time::timeout(BEGIN, host.begin(seed)));
    let result: Result<Hosting, HostError> = match beginning.join_next().await {
        Some(Ok(Ok(result))) => result,
        Some(Err(panic)) => Err(panic.into()),
        Some(Ok(Err(_))) | None => Err(format!("nothing happened within {} seconds", BEGIN.as_secs()).into()),
    };
    if let Err(error) = &result {
        tracing::error!(error = &**error as &dyn std::error::Error, cluster = name, "hosting a cluster");
    }
    match eks.hosted((&region, &name, &id), result) {
        Some(hosts) => hosts.remind(&id),
        // Deleted before it was there.
        None => host.end(&id).await,
    }
}

/// Looks at the model once its time has come.
async fn look_at(eks: Arc<Eks>, due: Option<Timestamp>) {
    let left = due.map(|due| clock::now().duration_until(due)).unwrap_or_default();
    let left = Duration::try_from(left).unwrap_or_default();
    tokio::time::sleep(left + Duration::from_millis(1)).await;
    eks.with_state(|_| ());
}
