//! What the model and a host of clusters say to each other. Pure: who calls the host is `hosts`.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;

use super::state::{AccessEntry, Api, AuthMode, Cluster, ClusterStatus, Issue, State};
use crate::host::{Admitted, HostError, Hosting, Policy};

const ADMIN: &str = "AmazonEKSClusterAdminPolicy";

/// Who is let into a cluster: its access entries, and where those are not the whole truth its creator.
pub(crate) fn admitted(cluster: &Cluster) -> Vec<Admitted> {
    let creator = cluster.creator.as_ref().filter(|_| cluster.auth_mode != AuthMode::Api);
    let creator = creator.filter(|arn| !cluster.access_entries.contains_key(*arn)).map(|arn| Admitted {
        principal: arn.clone(),
        username: "kubernetes-admin".to_owned(),
        groups: Vec::new(),
        policies: vec![Policy { name: ADMIN.to_owned(), namespaces: Vec::new() }],
    });
    let entries = cluster.access_entries.values().filter(|_| cluster.auth_mode != AuthMode::ConfigMap);
    creator.into_iter().chain(entries.map(of_entry)).collect()
}

fn of_entry(entry: &AccessEntry) -> Admitted {
    let policies = entry.policies.iter().map(|(arn, grant)| Policy {
        name: arn.rsplit('/').next().unwrap_or(arn).to_owned(),
        namespaces: strings(grant.scope.get("namespaces")),
    });
    Admitted {
        principal: entry.principal.clone(),
        username: entry.username.clone(),
        groups: entry.groups.clone(),
        policies: policies.collect(),
    }
}

fn strings(value: Option<&Value>) -> Vec<String> {
    let items = value.and_then(Value::as_array).into_iter().flatten();
    items.filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

/// What a host made of its order. A cluster without an API has failed, whatever it was before.
pub(crate) fn conclude(cluster: &mut Cluster, result: Result<Hosting, HostError>) {
    match result {
        Ok(hosting) => {
            cluster.api = Api::At {
                endpoint: hosting.endpoint,
                certificate_authority: STANDARD.encode(hosting.certificate_authority_pem),
            };
        }
        Err(error) => {
            cluster.api = Api::Failed;
            cluster.status = ClusterStatus::Failed;
            cluster.due = None;
            cluster.issues.push(Issue {
                code: "InternalFailure".to_owned(),
                message: format!("The Kubernetes API of the cluster did not start: {}", chain(&*error)),
                resource_ids: vec![cluster.name.clone()],
            });
        }
    }
}

fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// What was loaded from a file has no API in this process yet, and gets one only if there is a host.
pub(crate) fn reawaken(state: &mut State, hosted: bool) {
    for cluster in state.regions.values_mut().flat_map(|clusters| clusters.values_mut()) {
        let before = match std::mem::take(&mut cluster.api) {
            Api::At { endpoint, .. } => Some(endpoint),
            Api::Awaited { before } => before,
            Api::Unhosted | Api::Failed => None,
        };
        if hosted && matches!(cluster.status, ClusterStatus::Creating | ClusterStatus::Active) {
            cluster.api = Api::Awaited { before };
        }
    }
}
