//! The Kubernetes APIs of the clusters that exist in the local AWS: one embedded API server for each, in memory and on
//! a loopback port of its own, in the process of the local AWS.
//!
//! Callers are known by their EKS tokens, which the STS of the same local AWS checks; who is let in is what the access
//! entries of the cluster say.

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use embedded_kube::{
    auth::{Access, Accesses, Sts},
    cluster::{Builder, EmbeddedKube, Listen, StartError},
};
use local_aws::{Admitted, ClusterHost, ClusterSeed, HostError, Hosting, Work};

const MASTERS: &str = "system:masters";
const CLUSTER_ADMIN: &str = "AmazonEKSClusterAdminPolicy";

/// All clusters of one local AWS, by id.
#[derive(Debug, Default)]
pub(crate) struct EmbeddedClusters {
    running: Running,
}

type Running = Arc<Mutex<BTreeMap<String, Cluster>>>;

#[derive(Debug)]
struct Cluster {
    kube: EmbeddedKube,
    access: Accesses,
}

impl ClusterHost for EmbeddedClusters {
    fn begin(&self, seed: ClusterSeed) -> Work<Result<Hosting, HostError>> {
        let running = Arc::clone(&self.running);
        Box::pin(async move {
            let access = Accesses::from(accesses(seed.admitted));
            let sts = Sts {
                endpoint: seed.sts,
                cluster: seed.name.clone(),
                access: access.clone(),
                ..Sts::default()
            };
            let kube = start(&seed.name, &sts, seed.before.as_deref()).await?;
            let address = kube.address().ok_or("the API server does not listen")?;
            let hosting = Hosting {
                endpoint: format!("https://{address}"),
                certificate_authority_pem: kube.certificate_authority().to_owned(),
            };
            lock(&running).insert(seed.id, Cluster { kube, access });
            Ok(hosting)
        })
    }

    fn admit(&self, id: &str, admitted: Vec<Admitted>) {
        if let Some(cluster) = lock(&self.running).get(id) {
            cluster.access.set(accesses(admitted));
        }
    }

    fn end(&self, id: &str) -> Work<()> {
        let ended = lock(&self.running).remove(id);
        Box::pin(async move {
            if let Some(cluster) = ended {
                cluster.kube.stop().await;
            }
        })
    }
}

fn lock(running: &Running) -> MutexGuard<'_, BTreeMap<String, Cluster>> {
    running.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where it was before, if that port is still free.
async fn start(name: &str, sts: &Sts, before: Option<&str>) -> Result<EmbeddedKube, StartError> {
    let at = |listen| -> Builder {
        EmbeddedKube::builder().in_memory().name(name).sts(sts.clone()).listen(listen).request_log(false)
    };
    if let Some(port) = before.and_then(port) {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        match at(Listen::at(address)).start().await {
            Err(StartError::Listen { .. }) => {}
            started_or_broken => return started_or_broken,
        }
    }
    at(Listen::loopback()).start().await
}

/// Only the port is taken from a file: whatever else it says, nothing listens beyond the loopback interface.
fn port(endpoint: &str) -> Option<u16> {
    endpoint.rsplit(':').next()?.trim_end_matches('/').parse().ok().filter(|port| *port != 0)
}

fn accesses(admitted: Vec<Admitted>) -> Vec<Access> {
    admitted.into_iter().map(access).collect()
}

/// Of the access policies only the one that lets do everything has an equivalent that needs no roles.
fn access(admitted: Admitted) -> Access {
    let mut groups = admitted.groups;
    if admitted.policies.iter().any(|policy| policy.name == CLUSTER_ADMIN && policy.namespaces.is_empty()) {
        groups.push(MASTERS.to_owned());
    }
    Access { arn: admitted.principal, user: admitted.username, groups }
}

#[cfg(test)]
mod tests {
    use local_aws::Policy;

    use super::*;

    fn admitted(policy: &str, namespaces: &[&str]) -> Admitted {
        Admitted {
            principal: "arn:aws:iam::1:user/me".to_owned(),
            username: "me".to_owned(),
            groups: vec!["readers".to_owned()],
            policies: vec![Policy {
                name: policy.to_owned(),
                namespaces: namespaces.iter().map(|name| (*name).to_owned()).collect(),
            }],
        }
    }

    #[test]
    fn only_the_administrator_of_the_whole_cluster_is_a_master() {
        assert_eq!(access(admitted(CLUSTER_ADMIN, &[])).groups, ["readers", MASTERS]);
        assert_eq!(access(admitted(CLUSTER_ADMIN, &["shop"])).groups, ["readers"]);
        assert_eq!(access(admitted("AmazonEKSViewPolicy", &[])).groups, ["readers"]);
    }

    #[test]
    fn an_endpoint_that_names_no_port_is_not_tried_again() {
        assert_eq!(port("https://127.0.0.1:4711"), Some(4711));
        assert_eq!(port("https://127.0.0.1:0"), None);
        assert_eq!(port("https://X.gr7.eu-west-1.eks.amazonaws.com"), None);
    }
}
