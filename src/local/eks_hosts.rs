//! Kubernetes APIs of the EKS clusters in the local AWS: one in-memory embedded API server per cluster, each on its own
//! loopback port, in the local AWS process.
//!
//! Requests authenticate with EKS tokens, verified by the STS of the same local AWS; the cluster's access entries decide
//! who is admitted.

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use embedded_kube::{
    auth::{AccessEntries, AccessEntry, StsConfig},
    cluster::{Builder, EmbeddedKube, ListenConfig, StartError},
};
use local_aws::{ClusterHost, ClusterPrincipal, ClusterSpec, HostError, HostFuture, HostedEndpoint};

const MASTERS: &str = "system:masters";
const CLUSTER_ADMIN: &str = "AmazonEKSClusterAdminPolicy";

/// The running clusters of one local AWS, by id.
#[derive(Debug, Default)]
pub(crate) struct EmbeddedClusters {
    running: RunningClusters,
}

type RunningClusters = Arc<Mutex<BTreeMap<String, HostedCluster>>>;

#[derive(Debug)]
struct HostedCluster {
    kube: EmbeddedKube,
    access: AccessEntries,
}

impl ClusterHost for EmbeddedClusters {
    fn start(&self, seed: ClusterSpec) -> HostFuture<Result<HostedEndpoint, HostError>> {
        let running = Arc::clone(&self.running);
        Box::pin(async move {
            let access = AccessEntries::from(to_accesses(seed.principals));
            let sts = StsConfig {
                endpoint: seed.sts_endpoint,
                cluster: seed.name.clone(),
                access_entries: access.clone(),
                ..StsConfig::default()
            };
            let kube = start(&seed.name, &sts, seed.previous_endpoint.as_deref()).await?;
            let address = kube.address().ok_or("the API server has no listen address")?;
            let hosting = HostedEndpoint {
                endpoint: format!("https://{address}"),
                certificate_authority_pem: kube.certificate_authority().to_owned(),
            };
            lock(&running).insert(seed.id, HostedCluster { kube, access });
            Ok(hosting)
        })
    }

    fn set_principals(&self, id: &str, admitted: Vec<ClusterPrincipal>) {
        if let Some(cluster) = lock(&self.running).get(id) {
            cluster.access.set(to_accesses(admitted));
        }
    }

    fn stop(&self, id: &str) -> HostFuture<()> {
        let ended = lock(&self.running).remove(id);
        Box::pin(async move {
            if let Some(cluster) = ended {
                cluster.kube.stop().await;
            }
        })
    }
}

fn lock(running: &RunningClusters) -> MutexGuard<'_, BTreeMap<String, HostedCluster>> {
    running.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts at the previous port if it is still free.
async fn start(name: &str, sts: &StsConfig, before: Option<&str>) -> Result<EmbeddedKube, StartError> {
    let at = |listen| -> Builder {
        EmbeddedKube::builder().in_memory().name(name).sts(sts.clone()).listen(listen).request_log(false)
    };
    if let Some(port) = before.and_then(parse_port) {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        match at(ListenConfig::at(address)).start().await {
            Err(StartError::Listen { .. }) => {}
            started_or_broken => return started_or_broken,
        }
    }
    at(ListenConfig::loopback()).start().await
}

/// Uses only the port of a recorded endpoint, so that nothing listens beyond the loopback interface.
fn parse_port(endpoint: &str) -> Option<u16> {
    endpoint.rsplit(':').next()?.trim_end_matches('/').parse().ok().filter(|port| *port != 0)
}

fn to_accesses(admitted: Vec<ClusterPrincipal>) -> Vec<AccessEntry> {
    admitted.into_iter().map(to_access).collect()
}

/// Only the cluster admin policy is mapped: it needs no RBAC roles.
fn to_access(admitted: ClusterPrincipal) -> AccessEntry {
    let mut groups = admitted.groups;
    if admitted.policies.iter().any(|policy| policy.name == CLUSTER_ADMIN && policy.namespaces.is_empty()) {
        groups.push(MASTERS.to_owned());
    }
    AccessEntry { arn: admitted.principal, user: admitted.username, groups }
}

#[cfg(test)]
mod tests {
    use local_aws::AttachedPolicy;

    use super::*;

    fn admitted(policy: &str, namespaces: &[&str]) -> ClusterPrincipal {
        ClusterPrincipal {
            principal: "arn:aws:iam::1:user/me".to_owned(),
            username: "me".to_owned(),
            groups: vec!["readers".to_owned()],
            policies: vec![AttachedPolicy {
                name: policy.to_owned(),
                namespaces: namespaces.iter().map(|name| (*name).to_owned()).collect(),
            }],
        }
    }

    #[test]
    fn only_the_administrator_of_the_whole_cluster_is_a_master() {
        assert_eq!(to_access(admitted(CLUSTER_ADMIN, &[])).groups, ["readers", MASTERS]);
        assert_eq!(to_access(admitted(CLUSTER_ADMIN, &["shop"])).groups, ["readers"]);
        assert_eq!(to_access(admitted("AmazonEKSViewPolicy", &[])).groups, ["readers"]);
    }

    #[test]
    fn an_endpoint_that_names_no_port_is_not_tried_again() {
        assert_eq!(parse_port("https://127.0.0.1:4711"), Some(4711));
        assert_eq!(parse_port("https://127.0.0.1:0"), None);
        assert_eq!(parse_port("https://X.gr7.eu-west-1.eks.amazonaws.com"), None);
    }
}
