//! P8: samples the Fargate profiles in EKS while they change, to prove that pods are always covered.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use capt_engine::aws::Cloud;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A profile at one instant: name, status, and the namespaces of its selectors.
type Profile = (String, String, BTreeSet<String>);

/// Samples all profiles of a cluster from EKS until stopped.
pub(crate) struct CoverageRecorder {
    stop: CancellationToken,
    task: JoinHandle<()>,
    samples: Arc<Mutex<CoverageSamples>>,
}

impl CoverageRecorder {
    pub(crate) async fn start(cloud: &Cloud, cluster: &str) -> Self {
        let client = aws_sdk_eks::Client::new(&cloud.sdk_config(Some("eu-central-1")).await);
        let (stop, cluster) = (CancellationToken::new(), cluster.to_owned());
        let (over, seen) = (stop.clone(), Arc::new(Mutex::new(CoverageSamples::default())));
        let notes = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            while !over.is_cancelled() {
                let instant = sample_profiles(&client, &cluster).await;
                notes.lock().unwrap().0.push(instant);
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
        Self { stop, task, samples: seen }
    }

    /// What was seen so far.
    pub(crate) fn samples(&self) -> CoverageSamples {
        self.samples.lock().unwrap().clone()
    }

    /// All instants.
    pub(crate) async fn finish(self) -> CoverageSamples {
        self.stop.cancel();
        self.task.await.unwrap();
        self.samples.lock().unwrap().clone()
    }
}

async fn sample_profiles(client: &aws_sdk_eks::Client, cluster: &str) -> Vec<Profile> {
    let listed = client.list_fargate_profiles().cluster_name(cluster).send().await.unwrap();
    let mut all = Vec::new();
    for name in listed.fargate_profile_names() {
        let asked = client.describe_fargate_profile().cluster_name(cluster).fargate_profile_name(name);
        // One that went after it was listed is not there.
        let Ok(found) = asked.send().await else { continue };
        let Some(profile) = found.fargate_profile() else { continue };
        let namespaces = profile.selectors().iter().filter_map(|it| it.namespace()).map(str::to_owned);
        let status = profile.status().map(|it| it.as_str().to_owned()).unwrap_or_default();
        all.push((name.clone(), status, namespaces.collect()));
    }
    all
}

/// What was seen.
#[derive(Clone, Default)]
pub(crate) struct CoverageSamples(Vec<Vec<Profile>>);

impl CoverageSamples {
    /// Proves that an ACTIVE profile took the pods of a namespace at each instant.
    pub(crate) fn assert_covered(&self, namespace: &str) {
        assert!(!self.0.is_empty(), "no observation was made");
        for instant in &self.0 {
            let covers = |it: &&Profile| it.1 == "ACTIVE" && it.2.contains(namespace);
            assert!(instant.iter().any(|it| covers(&it)), "nobody took the pods of {namespace}: {instant:?}");
        }
    }

    /// How many instants there were.
    pub(crate) fn sample_count(&self) -> usize {
        self.0.len()
    }

    /// Whether there was an instant with profiles in these states: name's beginning, status.
    pub(crate) fn had_sample_with(&self, wanted: &[(&str, &str)]) -> bool {
        let is = |instant: &Vec<Profile>, (name, status): (&str, &str)| {
            instant.iter().any(|it| it.0.starts_with(name) && it.1 == status)
        };
        self.0.iter().any(|instant| wanted.iter().all(|it| is(instant, *it)))
    }
}
