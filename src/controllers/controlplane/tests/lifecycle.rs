//! From an object to a cluster that is Ready: the gate, the happy path, quiet afterwards.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use super::world::{CP, EKS, KIND, WTA, World, apply_of};
use crate::controllers::{
    common::Settings,
    rig::{AGENT, message, said},
};

fn plain() -> Value {
    json!({"version": "v1.33.0"})
}

fn pair(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

#[tokio::test]
async fn it_waits_for_its_owner_and_for_the_network_and_makes_nothing_before() {
    let world = World::start(Settings::default()).await;
    world.network("eu-central-1").await;
    world.rig.make(KIND, json!({"metadata": {"name": CP}, "spec": plain()})).await;
    let found = world.until(|it| said(it, "Ready").1 == "WaitingForOwner").await;
    assert!(found["metadata"].get("finalizers").is_none(), "nothing is held that nothing was made for");
    assert_eq!(
        found["status"]["conditions"].as_array().unwrap().len(),
        15,
        "all of them from the first look on"
    );

    world.rig.own(KIND, CP, &world.cluster).await;
    let found = world.until(|it| said(it, "Ready").1 == "WaitingForVPC").await;
    assert_eq!(found["status"]["phase"], "Creating");
    assert_eq!(found["metadata"]["finalizers"], json!(["controlplane.cluster.x-k8s.io/captcontrolplane"]));
    assert_eq!(world.rig.get(WTA, EKS).await, None);

    world.provisioned().await;
    world.rig.until(WTA, EKS, |_| true).await;
}

#[tokio::test]
async fn p3_an_owner_of_another_kind_or_uid_is_none() {
    let world = World::start(Settings::default()).await;
    world.network("eu-central-1").await;
    world.provisioned().await;
    // What a topology makes belongs to a Secret at first.
    let shim = world.rig.make("Secret", json!({"metadata": {"name": "demo-shim"}})).await;
    let owner = |api: &str, kind: &str, name: &str, uid: &Value| json!({"metadata": {"ownerReferences": [{"apiVersion": api, "kind": kind, "name": name, "uid": uid}]}});
    world.rig.make(KIND, json!({"metadata": {"name": CP}, "spec": plain()})).await;
    world.rig.merge(KIND, CP, owner("v1", "Secret", "demo-shim", &shim["metadata"]["uid"])).await;
    let found = world.until(|it| said(it, "Ready").1 == "WaitingForOwner").await;
    assert!(found["metadata"].get("finalizers").is_none());
    // A Cluster of the same name that is another one: the collector takes what belonged to the former.
    let former = json!("00000000-0000-0000-0000-000000000000");
    world.rig.merge(KIND, CP, owner("cluster.x-k8s.io/v1beta2", "Cluster", "demo", &former)).await;
    world.rig.until_gone(KIND, CP).await;
    assert_eq!(world.rig.get(WTA, EKS).await, None);
}

#[tokio::test]
async fn it_becomes_ready_and_says_all_that_the_contract_asks_for() {
    let world = World::with(plain()).await;
    world.work();
    let found = world.until_ready().await;
    let status = &found["status"];
    assert_eq!(found["spec"]["controlPlaneEndpoint"], json!({"host": "127.0.0.1", "port": 40123}));
    assert_eq!(found["spec"]["workspaceTemplateApplyName"], EKS);
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
        assert_eq!(said(&found, type_).0, "True", "{type_}: {}", message(&found, type_));
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
        assert_eq!(said(&found, type_).0, "False", "{type_}");
    }
}

#[tokio::test]
async fn p18_its_secrets_are_there_as_cluster_api_wants_them() {
    let world = World::with(plain()).await;
    world.work();
    let found = world.until_ready().await;
    for (name, key) in
        [("demo-kubeconfig", "value"), ("demo-user-kubeconfig", "value"), ("demo-ca", "tls.crt")]
    {
        let secret = world.rig.get("Secret", name).await.unwrap();
        assert_eq!(secret["type"], "cluster.x-k8s.io/secret", "{name}");
        assert_eq!(secret["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"], "demo", "{name}");
        assert_eq!(secret["metadata"]["ownerReferences"][0]["uid"], found["metadata"]["uid"], "{name}");
        assert!(secret["data"][key].is_string() && secret["data"].get("tls.key").is_none(), "{name}");
    }
    let secret = world.rig.get("Secret", "demo-kubeconfig").await.unwrap();
    let text = BASE64_STANDARD.decode(secret["data"]["value"].as_str().unwrap()).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("https://127.0.0.1:40123") && text.contains("token-demo-"), "{text}");
}

#[tokio::test]
async fn the_latch_waits_for_the_api_server_and_never_opens_again() {
    let world = World::with(plain()).await;
    *world.cloud.api.lock().unwrap() = Err("connection refused".to_owned());
    world.work();
    let found = world.until(|it| said(it, "Initialized").1 == "APIServerNotReachable").await;
    assert!(message(&found, "Initialized").contains("connection refused"));
    assert!(found["status"]["initialization"].get("controlPlaneInitialized").is_none());
    assert_eq!(said(&found, "Available").0, "False");
    let host = world.until(|it| it["spec"]["controlPlaneEndpoint"]["port"] == 40123).await;
    assert!(host["status"]["initialization"].is_null(), "the endpoint is there before the latch");

    *world.cloud.api.lock().unwrap() = Ok(());
    world.until_ready().await;
    *world.cloud.api.lock().unwrap() = Err("gone".to_owned());
    world.cloud.eks.with(|eks| eks.clusters.clear());
    let found = world.until(|it| said(it, "EKSClusterReady") == pair("False", "EKSNotFound")).await;
    assert_eq!(found["status"]["initialization"]["controlPlaneInitialized"], true);
    assert_eq!(said(&found, "Available"), pair("False", "EKSNotFound"));
}

#[tokio::test]
async fn once_it_is_ready_nothing_is_written_any_more() {
    let spec = json!({"version": "1.33", "additionalFargateProfiles": [{"name": "apps", "selectors": [{"namespace": "apps"}]}]});
    let world = World::with(spec).await;
    world.work();
    world.until_ready().await;
    // The first looks may belong to its making.
    for attempt in 1.. {
        world.rig.settle().await;
        let before = world.rig.get(KIND, CP).await.unwrap();
        world.rig.server.requests().clear();
        for _ in 0..3 {
            // A resync: the Cluster is touched, and EKS is asked.
            world.rig.look_by_cluster("demo").await;
        }
        world.looks().await;
        let after = world.rig.get(KIND, CP).await.unwrap();
        let writes = world.rig.server.requests().writes_by(AGENT);
        let is_same = after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"];
        if is_same && writes.is_empty() {
            break;
        }
        assert!(attempt < 5, "looks lead to writes: {writes:#?}");
    }
}

#[tokio::test]
async fn what_a_user_adds_to_a_workspace_stays_and_what_is_changed_is_put_right() {
    let world = World::with(plain()).await;
    world.work();
    world.until_ready().await;
    let mine =
        json!({"metadata": {"annotations": {"team": "blue"}}, "spec": {"retainWorkspaceOnDelete": true}});
    world.rig.merge(WTA, EKS, mine).await;
    world.rig.settle().await;
    world.rig.server.requests().clear();
    world.looks().await;
    let writes = world.rig.server.requests().matching(|it| {
        it.is_write() && it.resource == "workspacetemplateapplies" && it.agent.starts_with(AGENT)
    });
    assert!(writes.is_empty(), "{writes:?}");
    let found = world.rig.get(WTA, EKS).await.unwrap();
    assert_eq!(
        (&found["spec"]["retainWorkspaceOnDelete"], &found["metadata"]["annotations"]["team"]),
        (&json!(true), &json!("blue"))
    );

    world.rig.merge(WTA, EKS, json!({"spec": {"inputs": {"kubernetes_version": "1.31"}}})).await;
    world.rig.until(WTA, EKS, |it| it["spec"]["inputs"]["kubernetes_version"] == "1.33").await;
}

#[tokio::test]
async fn it_never_writes_a_cluster() {
    let world = World::with(plain()).await;
    world.work();
    world.until_ready().await;
    let writes = world
        .rig
        .server
        .requests()
        .matching(|it| it.is_write() && it.resource == "clusters" && it.agent.starts_with(AGENT));
    assert!(writes.is_empty(), "{writes:?}");
}

#[tokio::test]
async fn a_pause_stops_everything_but_the_condition() {
    let world = World::with(plain()).await;
    world.work();
    world.until_ready().await;
    world.rig.merge("Cluster", "demo", json!({"spec": {"paused": true}})).await;
    world.until(|it| said(it, "Paused").0 == "True").await;
    world.rig.merge(KIND, CP, json!({"spec": {"version": "v1.34.0"}})).await;
    world.rig.look_by_cluster("demo").await;
    let apply = world.rig.get(WTA, EKS).await.unwrap();
    assert_eq!(apply["spec"]["inputs"]["kubernetes_version"], "1.33");
    world.rig.merge("Cluster", "demo", json!({"spec": {"paused": false}})).await;
    world.rig.until(WTA, EKS, |it| it["spec"]["inputs"]["kubernetes_version"] == "1.34").await;
    world.until(|it| said(it, "Paused").0 == "False").await;
}

#[tokio::test]
async fn only_objects_of_the_filter_are_touched() {
    let world = World::start(Settings { watch_filter: Some("blue".to_owned()), ..Settings::default() }).await;
    world.network("eu-central-1").await;
    world.provisioned().await;
    world.rig.make(KIND, json!({"metadata": {"name": CP}, "spec": plain()})).await;
    world.rig.own(KIND, CP, &world.cluster).await;
    world.rig.settle().await;
    assert!(world.rig.get(KIND, CP).await.unwrap().get("status").is_none());
    world
        .rig
        .merge(KIND, CP, json!({"metadata": {"labels": {"cluster.x-k8s.io/watch-filter": "blue"}}}))
        .await;
    let apply = world.rig.until(WTA, EKS, |_| true).await;
    assert_eq!(apply["metadata"]["labels"]["cluster.x-k8s.io/watch-filter"], "blue");
}

#[tokio::test]
async fn an_invalid_spec_is_told_and_loses_nothing() {
    let spec = json!({"version": "1.33", "additionalFargateProfiles": [{"name": "apps", "selectors": [{"namespace": "apps"}]}]});
    let world = World::with(spec).await;
    world.work();
    world.until_ready().await;
    world.rig.merge("CAPTCluster", "demo-captcluster", json!({"spec": {"region": "us-east-1"}})).await;
    let found = world.until(|it| said(it, "Failed").0 == "True").await;
    assert_eq!(found["status"]["phase"], "Failed");
    assert_eq!(found["status"]["failureReason"], "InvalidSpec");
    assert!(message(&found, "Ready").contains("was made in eu-central-1"), "{}", message(&found, "Ready"));
    assert_eq!((said(&found, "Available").0.as_str(), &found["status"]["ready"]), ("True", &json!(true)));
    assert!(world.rig.get(WTA, &apply_of("apps")).await.is_some());

    world.rig.merge("CAPTCluster", "demo-captcluster", json!({"spec": {"region": "eu-central-1"}})).await;
    let found = world.until_ready().await;
    assert!(found["status"].get("failureReason").is_none());
}

#[tokio::test]
async fn upstreams_workspace_is_taken_over_and_the_accounts_role_is_kept() {
    let world = World::start(Settings::default()).await;
    world.network("eu-central-1").await;
    let spec = json!({"version": "v1.33.0", "controlPlaneEndpoint": {"host": "", "port": 0}});
    let object = world.rig.make(KIND, json!({"metadata": {"name": CP}, "spec": spec})).await;
    let owner = json!([{"apiVersion": "controlplane.cluster.x-k8s.io/v1beta1", "kind": "CAPTControlPlane", "name": CP,
        "uid": object["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true}]);
    let old = |name: &str| {
        json!({"metadata": {"name": name, "ownerReferences": owner}, "spec": {"templateRef": {"name": "eks"},
        "variables": {"cluster_name": "demo", "kubernetes_version": "v1.33.0"}}})
    };
    world.rig.make(WTA, old(EKS)).await;
    let spot = format!("{CP}-spot-role-create");
    world.rig.make(WTA, old(&spot)).await;
    world.rig.merge(KIND, CP, json!({"spec": {"workspaceTemplateRef": {"name": "eks"}}})).await;
    world.rig.own(KIND, CP, &world.cluster).await;
    world.provisioned().await;
    let taken = world
        .rig
        .until(WTA, EKS, |it| it["metadata"]["annotations"]["capt.x-k8s.io/eks-cluster"] == "demo")
        .await;
    assert_eq!(taken["spec"]["variables"]["kubernetes_version"], "1.33");
    assert_eq!(taken["spec"]["writeConnectionSecretToRef"]["name"], format!("{CP}-eks-connection"));
    world.rig.until(WTA, &spot, |it| it["spec"]["retainWorkspaceOnDelete"] == true).await;
    world.until(|it| it["spec"]["workspaceTemplateApplyName"] == EKS).await;
}
