//! State exchanged between the EKS model and a cluster host. Pure: `cluster_host_sync` calls the host.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use capt_util::error_chain::format_error_chain;
use serde_json::Value;

use super::state::{AccessEntry, AuthMode, Cluster, ClusterApi, ClusterStatus, EksState, HealthIssue};
use crate::cluster_host::{AttachedPolicy, ClusterPrincipal, HostError, HostedEndpoint};

const CLUSTER_ADMIN_POLICY: &str = "AmazonEKSClusterAdminPolicy";

/// The principals with access to a cluster: its access entries and, unless the mode is `API`, its creator.
pub(crate) fn cluster_principals(cluster: &Cluster) -> Vec<ClusterPrincipal> {
    let creator = cluster.creator.as_ref().filter(|_| cluster.auth_mode != AuthMode::Api);
    let creator =
        creator.filter(|arn| !cluster.access_entries.contains_key(*arn)).map(|arn| ClusterPrincipal {
            principal: arn.clone(),
            username: "kubernetes-admin".to_owned(),
            groups: Vec::new(),
            policies: vec![AttachedPolicy { name: CLUSTER_ADMIN_POLICY.to_owned(), namespaces: Vec::new() }],
        });
    let entries = cluster.access_entries.values().filter(|_| cluster.auth_mode != AuthMode::ConfigMap);
    creator.into_iter().chain(entries.map(principal_from_entry)).collect()
}

fn principal_from_entry(entry: &AccessEntry) -> ClusterPrincipal {
    let policies = entry.policies.iter().map(|(arn, grant)| AttachedPolicy {
        name: arn.rsplit('/').next().unwrap_or(arn).to_owned(),
        namespaces: string_list(grant.scope.get("namespaces")),
    });
    ClusterPrincipal {
        principal: entry.principal.clone(),
        username: entry.username.clone(),
        groups: entry.groups.clone(),
        policies: policies.collect(),
    }
}

fn string_list(value: Option<&Value>) -> Vec<String> {
    let items = value.and_then(Value::as_array).into_iter().flatten();
    items.filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

/// Records the result of starting a cluster's API. A cluster without an API is FAILED.
pub(crate) fn apply_host_result(cluster: &mut Cluster, result: Result<HostedEndpoint, HostError>) {
    match result {
        Ok(hosting) => {
            cluster.api = ClusterApi::At {
                endpoint: hosting.endpoint,
                certificate_authority: STANDARD.encode(hosting.certificate_authority_pem),
            };
        }
        Err(error) => {
            cluster.api = ClusterApi::Failed;
            cluster.status = ClusterStatus::Failed;
            cluster.due = None;
            cluster.issues.push(HealthIssue {
                code: "InternalFailure".to_owned(),
                message: format!(
                    "The Kubernetes API of the cluster did not start: {}",
                    format_error_chain(&*error)
                ),
                resource_ids: vec![cluster.name.clone()],
            });
        }
    }
}

/// Clusters loaded from a file have no API in this process yet; they get one only if there is a host.
pub(crate) fn reset_hosting(state: &mut EksState, hosted: bool) {
    for cluster in state.regions.values_mut().flat_map(|clusters| clusters.values_mut()) {
        let before = match std::mem::take(&mut cluster.api) {
            ClusterApi::At { endpoint, .. } => Some(endpoint),
            ClusterApi::Awaited { before } => before,
            ClusterApi::Unhosted | ClusterApi::Failed => None,
        };
        if hosted && matches!(cluster.status, ClusterStatus::Creating | ClusterStatus::Active) {
            cluster.api = ClusterApi::Awaited { before };
        }
    }
}
