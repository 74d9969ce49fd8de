//! H9: an operator with the permissions of `deploy/namespaced` does its work, and reaches nothing of other namespaces.

use std::collections::BTreeSet;

use capt_engine::aws::Cloud;
use embedded_kube::request::User;
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Secret};
use kube::{
    Api,
    api::{ListParams, PostParams},
};
use serde_json::json;

use super::assert_forbidden;
use crate::{
    deploy::overlays::rendered_overlay,
    operator::{
        harness::OperatorHarness,
        in_process_operator::{InProcessOperator, OperatorOptions},
        workspaces::apply_another_workspace,
    },
    rbac::{AccessRequest, collect_grants, compare},
};

const AGENT: &str = "operator-of-team-a";
const HOME: &str = "capt-team-a";

fn user() -> User {
    let groups = ["system:serviceaccounts", "system:serviceaccounts:capt-team-a", "system:authenticated"];
    User {
        name: "system:serviceaccount:capt-team-a:capt".to_owned(),
        groups: groups.map(str::to_owned).into(),
        ..User::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn h9_an_operator_of_one_namespace_needs_no_rights_elsewhere() {
    let mut stage = OperatorHarness::idle(Cloud::Local { endpoint: "http://127.0.0.1:9".to_owned() }).await;
    for namespace in ["team-a", "team-b"] {
        let meta = json!({"name": namespace});
        stage.apply_value(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})).await;
    }
    let manifests = rendered_overlay("namespaced");
    let kinds = ["Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"];
    for object in manifests.iter().filter(|it| kinds.iter().any(|kind| it["kind"] == *kind)) {
        stage.apply_value(object.clone()).await;
    }
    stage.namespace = "team-a";
    stage.settings.namespace = Some("team-a".to_owned());
    stage.settings.sandboxes = false;
    stage.settings.leader_election = Some(HOME.to_owned());
    let client = stage.kube.client_with_agent(user(), AGENT);
    let options = OperatorOptions::default();
    let operator =
        InProcessOperator::start_with(options, client, &stage.data_dir(), &stage.cloud, &stage.settings)
            .await;
    apply_another_workspace(&stage, "net").await;
    operator.stop().await;

    let log = stage.kube.request_log().all();
    let ours: Vec<_> = log.iter().filter(|it| it.agent == AGENT).collect();
    let denied: Vec<_> = ours.iter().filter(|it| it.code == 403).collect();
    assert!(denied.is_empty(), "{denied:#?}");
    let asked: BTreeSet<AccessRequest> =
        ours.iter().filter_map(|it| AccessRequest::from_logged(it)).collect();
    assert!(asked.iter().any(|it| it.resource == "secrets" && it.namespace == "team-a"));
    // Its own namespace is listed by a field selector, which the log does not have. That nothing was denied is above.
    let mut refused = compare(&collect_grants(&manifests, HOME, "capt"), &asked).refused;
    refused.retain(|it| it.resource != "namespaces" || !["list", "watch"].contains(&it.verb.as_str()));
    assert_eq!(refused, BTreeSet::new());

    let client = stage.kube.client_as(user());
    let secrets = |namespace: &str| Api::<Secret>::namespaced(client.clone(), namespace);
    secrets("team-a").list(&ListParams::default()).await.unwrap();
    for elsewhere in ["team-b", "kube-system", HOME] {
        assert_forbidden(secrets(elsewhere).list(&ListParams::default()).await);
        assert_forbidden(secrets(elsewhere).create(&PostParams::default(), &Secret::default()).await);
    }
    assert_forbidden(Api::<Secret>::all(client.clone()).list(&ListParams::default()).await);
    let deployments = Api::<Deployment>::namespaced(client, "team-a");
    assert_forbidden(deployments.create(&PostParams::default(), &Deployment::default()).await);
}
