//! The audit log of the operator's requests, compared with its RBAC rules.

use std::{collections::BTreeSet, sync::Arc};

use capt_kinds::api::WorkspaceTemplateApply;
use serde_json::json;

use crate::{
    case_namespace::{CaseNamespace, template},
    harness::{ACCOUNT, ContractHarness, NAMESPACE},
    rbac::{AccessRequest, collect_grants, compare},
};

/// What the other cases have no use for: an identity that namespaces are chosen for by label, and variables in a `ConfigMap`.
pub(crate) async fn an_identity_and_a_config_map_are_used(world: Arc<ContractHarness>) {
    let place = CaseNamespace::create(world, "inputs").await;
    let values = json!([{"source": "ConfigMapKey", "format": "HCL",
        "configMapKeyRef": {"namespace": "inputs", "name": "values", "key": "text"}}]);
    let module = "variable \"word\" {\n  type = string\n}\noutput \"word\" {\n  value = var.word\n}\n";
    let mut reader = template("reader", module);
    reader["spec"]["template"]["spec"]["forProvider"]["varFiles"] = values;
    let group = "infrastructure.cluster.x-k8s.io/v1beta1";
    let selector = json!({"matchLabels": {"kubernetes.io/metadata.name": "inputs"}});
    place
        .apply(&json!([
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "values"}, "data": {"text": "word = \"yes\""}},
            {"apiVersion": group, "kind": "CAPTIdentity", "metadata": {"name": "chosen"},
             "spec": {"source": "Default", "allowedNamespaces": {"selector": selector}}},
            reader,
            {"apiVersion": group, "kind": "WorkspaceTemplateApply", "metadata": {"name": "reader"},
             "spec": {"templateRef": {"name": "reader"}, "identityRef": {"name": "chosen"}}},
        ]))
        .await;
    let is_made = |it: &WorkspaceTemplateApply| {
        it.status.as_ref().is_some_and(|it| it.outputs.get("word").is_some_and(|it| it == "yes"))
    };
    place.wait_until("reader", "made", is_made).await;
    place.kubectl(&["delete", "wtapply/reader", "captidentity/chosen"], "").await.expect_success();
}

pub(crate) async fn p1_no_cluster_was_ever_written(world: Arc<ContractHarness>) {
    let requests = world.audit.requests();
    let on_clusters: Vec<&AccessRequest> =
        requests.iter().map(|(asked, _)| asked).filter(|it| it.group == "cluster.x-k8s.io").collect();
    assert!(on_clusters.iter().any(|it| it.verb == "watch"), "the log shows that Clusters are looked at");
    let writes: Vec<String> = on_clusters
        .iter()
        .filter(|it| !["get", "list", "watch"].contains(&it.verb.as_str()))
        .map(ToString::to_string)
        .collect();
    assert!(writes.is_empty(), "{writes:?}");
}

/// Every authenticated user may do this (`system:basic-user`).
fn is_granted_to_all_users(asked: &AccessRequest) -> bool {
    asked.group == "authentication.k8s.io" && asked.resource == "selfsubjectreviews"
}

pub(crate) async fn no_request_was_refused_and_every_right_was_used(world: Arc<ContractHarness>) {
    let requests = world.audit.all_requests();
    let refused: Vec<String> =
        requests.iter().filter(|(_, allowed)| !allowed).map(|(asked, _)| asked.to_string()).collect();
    assert!(refused.is_empty(), "refused: {refused:#?}");
    let asked: BTreeSet<AccessRequest> =
        requests.into_iter().map(|(asked, _)| asked).filter(|it| !is_granted_to_all_users(it)).collect();
    let compared = compare(&collect_grants(&world.manifests, NAMESPACE, ACCOUNT), &asked);
    let refused: Vec<String> = compared.refused.iter().map(ToString::to_string).collect();
    assert!(refused.is_empty(), "no rule allows {refused:#?}");
    let unused: Vec<String> = compared.unused.iter().map(ToString::to_string).collect();
    assert!(unused.is_empty(), "nobody used {unused:#?}");
}
