//! Lifecycle until Ready: the gate, the happy path, and no writes afterwards.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use super::harness::{CONTROL_PLANE_NAME, EKS_APPLY_NAME, Harness, KIND, WTA, profile_apply_name};
use crate::{
    common::Settings,
    testing::{USER_AGENT, condition_message, condition_status},
};

fn plain() -> Value {
    json!({"version": "v1.33.0"})
}

fn pair(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

#[tokio::test]
async fn it_waits_for_its_owner_and_for_the_network_and_makes_nothing_before() {
    let world = Harness::start(Settings::default()).await;
    world.create_network("eu-central-1").await;
    world.env.create(KIND, json!({"metadata": {"name": CONTROL_PLANE_NAME}, "spec": plain()})).await;
    let found = world.wait_until(|it| condition_status(it, "Ready").1 == "WaitingForOwner").await;
    assert!(found["metadata"].get("finalizers").is_none(), "no finalizer before anything is created");
    assert_eq!(
        found["status"]["conditions"].as_array().unwrap().len(),
        15,
        "all conditions from the first reconcile on"
    );

    world.env.set_owner(KIND, CONTROL_PLANE_NAME, &world.cluster).await;
    let found = world.wait_until(|it| condition_status(it, "Ready").1 == "WaitingForVPC").await;
    assert_eq!(found["status"]["phase"], "Creating");
    assert_eq!(found["metadata"]["finalizers"], json!(["controlplane.cluster.x-k8s.io/captcontrolplane"]));
    assert_eq!(world.env.get(WTA, EKS_APPLY_NAME).await, None);

    world.mark_infrastructure_provisioned().await;
    world.env.wait_until(WTA, EKS_APPLY_NAME, |_| true).await;
}

#[tokio::test]
async fn p3_an_owner_of_another_kind_or_uid_is_none() {
    let world = Harness::start(Settings::default()).await;
    world.create_network("eu-central-1").await;
    world.mark_infrastructure_provisioned().await;
    // Objects of a topology are owned by a Secret at first.
    let shim = world.env.create("Secret", json!({"metadata": {"name": "demo-shim"}})).await;
    let owner = |api: &str, kind: &str, name: &str, uid: &Value| json!({"metadata": {"ownerReferences": [{"apiVersion": api, "kind": kind, "name": name, "uid": uid}]}});
    world.env.create(KIND, json!({"metadata": {"name": CONTROL_PLANE_NAME}, "spec": plain()})).await;
    world
        .env
        .merge(KIND, CONTROL_PLANE_NAME, owner("v1", "Secret", "demo-shim", &shim["metadata"]["uid"]))
        .await;
    let found = world.wait_until(|it| condition_status(it, "Ready").1 == "WaitingForOwner").await;
    assert!(found["metadata"].get("finalizers").is_none());
    // A Cluster of the same name with another UID: the garbage collector deletes the objects of the former one.
    let former = json!("00000000-0000-0000-0000-000000000000");
    world
        .env
        .merge(KIND, CONTROL_PLANE_NAME, owner("cluster.x-k8s.io/v1beta2", "Cluster", "demo", &former))
        .await;
    world.env.wait_until_gone(KIND, CONTROL_PLANE_NAME).await;
    assert_eq!(world.env.get(WTA, EKS_APPLY_NAME).await, None);
}

#[tokio::test]
async fn it_becomes_ready_and_says_all_that_the_contract_asks_for() {
    let world = Harness::with_control_plane(plain()).await;
    world.run_fake_workspaces();
    let found = world.wait_until_ready().await;
    let status = &found["status"];
    assert_eq!(found["spec"]["controlPlaneEndpoint"], json!({"host": "127.0.0.1", "port": 40123}));
    assert_eq!(found["spec"]["workspaceTemplateApplyName"], EKS_APPLY_NAME);
    assert_eq!(status["initialization"]["controlPlaneInitialized"], true);
    assert_eq!(
        (&status["ready"], &status["initialized"], &status["secretsReady"]),
        (&json!(true), &json!(true), &json!(true))
    );
    assert_eq!(
        (&status["version"], &status["versions"]),
        (&json!("v1.33.0"), &json!([{"version": "v1.33.0"}]))
    );
    assert_eq!(status["externalManagedControlPlane"], true);
    assert_eq!(status["observedGeneration"], found["metadata"]["generation"]);
    assert_eq!(status["workspaceStatus"]["atProvider"]["outputs"]["cluster_name"], "demo");
    assert_eq!(status["workspaceTemplateStatus"]["ready"], true);
    for type_ in [
        "Ready",
        "Available",
        "Initialized",
        "EKSClusterReady",
        "KubeconfigReady",
        "AddonsReady",
        "FargateProfilesReady",
    ] {
        assert_eq!(
            condition_status(&found, type_).0,
            "True",
            "{type_}: {}",
            condition_message(&found, type_)
        );
    }
    for type_ in [
        "Creating",
        "Failed",
        "RollingOut",
        "Paused",
        "Deleting",
        "FargateProfileFailed",
        "FargateProfileCreating",
    ] {
        assert_eq!(condition_status(&found, type_).0, "False", "{type_}");
    }
}

#[tokio::test]
async fn p18_its_secrets_are_there_as_cluster_api_wants_them() {
    let world = Harness::with_control_plane(plain()).await;
    world.run_fake_workspaces();
    let found = world.wait_until_ready().await;
    for (name, key) in
        [("demo-kubeconfig", "value"), ("demo-user-kubeconfig", "value"), ("demo-ca", "tls.crt")]
    {
        let secret = world.env.get("Secret", name).await.unwrap();
        assert_eq!(secret["type"], "cluster.x-k8s.io/secret", "{name}");
        assert_eq!(secret["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"], "demo", "{name}");
        assert_eq!(secret["metadata"]["ownerReferences"][0]["uid"], found["metadata"]["uid"], "{name}");
        assert!(secret["data"][key].is_string() && secret["data"].get("tls.key").is_none(), "{name}");
    }
    let secret = world.env.get("Secret", "demo-kubeconfig").await.unwrap();
    let text = BASE64_STANDARD.decode(secret["data"]["value"].as_str().unwrap()).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("https://127.0.0.1:40123") && text.contains("token-demo-"), "{text}");
}

#[tokio::test]
async fn the_latch_waits_for_the_api_server_and_never_opens_again() {
    let world = Harness::with_control_plane(plain()).await;
    *world.backend.api.lock().unwrap() = Err("connection refused".to_owned());
    world.run_fake_workspaces();
    let found = world.wait_until(|it| condition_status(it, "Initialized").1 == "APIServerNotReachable").await;
    assert!(condition_message(&found, "Initialized").contains("connection refused"));
    assert!(found["status"]["initialization"].get("controlPlaneInitialized").is_none());
    assert_eq!(condition_status(&found, "Available").0, "False");
    let host = world.wait_until(|it| it["spec"]["controlPlaneEndpoint"]["port"] == 40123).await;
    assert!(host["status"]["initialization"].is_null(), "the endpoint is there before the latch");

    *world.backend.api.lock().unwrap() = Ok(());
    world.wait_until_ready().await;
    *world.backend.api.lock().unwrap() = Err("gone".to_owned());
    world.backend.eks.with_state(|eks| eks.clusters.clear());
    let found =
        world.wait_until(|it| condition_status(it, "EKSClusterReady") == pair("False", "EKSNotFound")).await;
    assert_eq!(found["status"]["initialization"]["controlPlaneInitialized"], true);
    assert_eq!(condition_status(&found, "Available"), pair("False", "EKSNotFound"));
}

#[tokio::test]
async fn once_it_is_ready_nothing_is_written_any_more() {
    let spec = json!({"version": "1.33", "additionalFargateProfiles": [{"name": "apps", "selectors": [{"namespace": "apps"}]}]});
    let world = Harness::with_control_plane(spec).await;
    world.run_fake_workspaces();
    world.wait_until_ready().await;
    // The first reconciles may still belong to the creation.
    for attempt in 1.. {
        world.env.wait_until_idle().await;
        let before = world.env.get(KIND, CONTROL_PLANE_NAME).await.unwrap();
        world.env.server.request_log().clear();
        for _ in 0..3 {
            // A resync: the Cluster is touched, and EKS is queried.
            world.env.trigger_by_cluster("demo").await;
        }
        world.wait_for_eks_polls().await;
        let after = world.env.get(KIND, CONTROL_PLANE_NAME).await.unwrap();
        let writes = world.env.server.request_log().writes_by(USER_AGENT);
        let is_same = after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"];
        if is_same && writes.is_empty() {
            break;
        }
        assert!(attempt < 5, "reconciles of an unchanged object write: {writes:#?}");
    }
}

#[tokio::test]
async fn what_a_user_adds_to_a_workspace_stays_and_what_is_changed_is_put_right() {
    let world = Harness::with_control_plane(plain()).await;
    world.run_fake_workspaces();
    world.wait_until_ready().await;
    let mine =
        json!({"metadata": {"annotations": {"team": "blue"}}, "spec": {"retainWorkspaceOnDelete": true}});
    world.env.merge(WTA, EKS_APPLY_NAME, mine).await;
    world.env.wait_until_idle().await;
    world.env.server.request_log().clear();
    world.wait_for_eks_polls().await;
    let writes = world.env.server.request_log().matching(|it| {
        it.is_write() && it.resource == "workspacetemplateapplies" && it.agent.starts_with(USER_AGENT)
    });
    assert!(writes.is_empty(), "{writes:?}");
    let found = world.env.get(WTA, EKS_APPLY_NAME).await.unwrap();
    assert_eq!(
        (&found["spec"]["retainWorkspaceOnDelete"], &found["metadata"]["annotations"]["team"]),
        (&json!(true), &json!("blue"))
    );

    world.env.merge(WTA, EKS_APPLY_NAME, json!({"spec": {"inputs": {"kubernetes_version": "1.31"}}})).await;
    world
        .env
        .wait_until(WTA, EKS_APPLY_NAME, |it| it["spec"]["inputs"]["kubernetes_version"] == "1.33")
        .await;
}

#[tokio::test]
async fn it_never_writes_a_cluster() {
    let world = Harness::with_control_plane(plain()).await;
    world.run_fake_workspaces();
    world.wait_until_ready().await;
    let writes = world
        .env
        .server
        .request_log()
        .matching(|it| it.is_write() && it.resource == "clusters" && it.agent.starts_with(USER_AGENT));
    assert!(writes.is_empty(), "{writes:?}");
}

#[tokio::test]
async fn a_pause_stops_everything_but_the_condition() {
    let world = Harness::with_control_plane(plain()).await;
    world.run_fake_workspaces();
    world.wait_until_ready().await;
    world.env.merge("Cluster", "demo", json!({"spec": {"paused": true}})).await;
    world.wait_until(|it| condition_status(it, "Paused").0 == "True").await;
    world.env.merge(KIND, CONTROL_PLANE_NAME, json!({"spec": {"version": "v1.34.0"}})).await;
    world.env.trigger_by_cluster("demo").await;
    let apply = world.env.get(WTA, EKS_APPLY_NAME).await.unwrap();
    assert_eq!(apply["spec"]["inputs"]["kubernetes_version"], "1.33");
    world.env.merge("Cluster", "demo", json!({"spec": {"paused": false}})).await;
    world
        .env
        .wait_until(WTA, EKS_APPLY_NAME, |it| it["spec"]["inputs"]["kubernetes_version"] == "1.34")
        .await;
    world.wait_until(|it| condition_status(it, "Paused").0 == "False").await;
}

#[tokio::test]
async fn only_objects_of_the_filter_are_touched() {
    let world =
        Harness::start(Settings { watch_filter: Some("blue".to_owned()), ..Settings::default() }).await;
    world.create_network("eu-central-1").await;
    world.mark_infrastructure_provisioned().await;
    world.env.create(KIND, json!({"metadata": {"name": CONTROL_PLANE_NAME}, "spec": plain()})).await;
    world.env.set_owner(KIND, CONTROL_PLANE_NAME, &world.cluster).await;
    world.env.wait_until_idle().await;
    assert!(world.env.get(KIND, CONTROL_PLANE_NAME).await.unwrap().get("status").is_none());
    world
        .env
        .merge(
            KIND,
            CONTROL_PLANE_NAME,
            json!({"metadata": {"labels": {"cluster.x-k8s.io/watch-filter": "blue"}}}),
        )
        .await;
    let apply = world.env.wait_until(WTA, EKS_APPLY_NAME, |_| true).await;
    assert_eq!(apply["metadata"]["labels"]["cluster.x-k8s.io/watch-filter"], "blue");
}

#[tokio::test]
async fn an_invalid_spec_is_told_and_loses_nothing() {
    let spec = json!({"version": "1.33", "additionalFargateProfiles": [{"name": "apps", "selectors": [{"namespace": "apps"}]}]});
    let world = Harness::with_control_plane(spec).await;
    world.run_fake_workspaces();
    world.wait_until_ready().await;
    world.env.merge("CAPTCluster", "demo-captcluster", json!({"spec": {"region": "us-east-1"}})).await;
    let found = world.wait_until(|it| condition_status(it, "Failed").0 == "True").await;
    assert_eq!(found["status"]["phase"], "Failed");
    assert_eq!(found["status"]["failureReason"], "InvalidSpec");
    assert!(
        condition_message(&found, "Ready").contains("was created in eu-central-1"),
        "{}",
        condition_message(&found, "Ready")
    );
    assert_eq!(
        (condition_status(&found, "Available").0.as_str(), &found["status"]["ready"]),
        ("True", &json!(true))
    );
    assert!(world.env.get(WTA, &profile_apply_name("apps")).await.is_some());

    world.env.merge("CAPTCluster", "demo-captcluster", json!({"spec": {"region": "eu-central-1"}})).await;
    let found = world.wait_until_ready().await;
    assert!(found["status"].get("failureReason").is_none());
}

#[tokio::test]
async fn upstreams_workspace_is_taken_over_and_the_accounts_role_is_kept() {
    let world = Harness::start(Settings::default()).await;
    world.create_network("eu-central-1").await;
    let spec = json!({"version": "v1.33.0", "controlPlaneEndpoint": {"host": "", "port": 0}});
    let object =
        world.env.create(KIND, json!({"metadata": {"name": CONTROL_PLANE_NAME}, "spec": spec})).await;
    let owner = json!([{"apiVersion": "controlplane.cluster.x-k8s.io/v1beta1", "kind": "CAPTControlPlane", "name": CONTROL_PLANE_NAME,
        "uid": object["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true}]);
    let old = |name: &str| {
        json!({"metadata": {"name": name, "ownerReferences": owner}, "spec": {"templateRef": {"name": "eks"},
        "variables": {"cluster_name": "demo", "kubernetes_version": "v1.33.0"}}})
    };
    world.env.create(WTA, old(EKS_APPLY_NAME)).await;
    let spot = format!("{CONTROL_PLANE_NAME}-spot-role-create");
    world.env.create(WTA, old(&spot)).await;
    world
        .env
        .merge(KIND, CONTROL_PLANE_NAME, json!({"spec": {"workspaceTemplateRef": {"name": "eks"}}}))
        .await;
    world.env.set_owner(KIND, CONTROL_PLANE_NAME, &world.cluster).await;
    world.mark_infrastructure_provisioned().await;
    let taken = world
        .env
        .wait_until(WTA, EKS_APPLY_NAME, |it| {
            it["metadata"]["annotations"]["capt.x-k8s.io/eks-cluster"] == "demo"
        })
        .await;
    assert_eq!(taken["spec"]["variables"]["kubernetes_version"], "1.33");
    assert_eq!(
        taken["spec"]["writeConnectionSecretToRef"]["name"],
        format!("{CONTROL_PLANE_NAME}-eks-connection")
    );
    world.env.wait_until(WTA, &spot, |it| it["spec"]["retainWorkspaceOnDelete"] == true).await;
    world.wait_until(|it| it["spec"]["workspaceTemplateApplyName"] == EKS_APPLY_NAME).await;
}
