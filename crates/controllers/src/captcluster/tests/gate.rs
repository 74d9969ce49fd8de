//! P3, P15: objects that must not be reconciled.

use super::*;

/// Waits long enough for anything that would happen, and proves that no workspace was made.
async fn assert_nothing_happens(rig: &TestEnv) {
    rig.wait_until_idle().await;
    assert_eq!(rig.get(WTA, VPC).await, None);
}

#[tokio::test]
async fn p3_nothing_is_made_before_a_cluster_owns_the_network() {
    let rig = TestEnv::start().await;
    rig.run_captcluster();
    let cluster = rig.create_cluster("demo").await;
    create_network(&rig, minimal_spec()).await;
    let told =
        rig.wait_until("CAPTCluster", NET, |it| condition_status(it, "Ready").1 == "WaitingForOwner").await;
    assert_eq!(told["metadata"].get("finalizers"), None);
    // They exist: the garbage collector would take the object otherwise.
    let shim = rig.create("Secret", json!({"metadata": {"name": "demo-shim"}})).await;
    let other = rig
        .create("CAPTControlPlane", json!({"metadata": {"name": "cp"}, "spec": {"version": "1.33"}}))
        .await;
    for owner in [shim, other] {
        let owner = json!({"apiVersion": owner["apiVersion"], "kind": owner["kind"],
            "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]});
        rig.merge("CAPTCluster", NET, json!({"metadata": {"ownerReferences": [owner]}})).await;
        assert_nothing_happens(&rig).await;
    }
    rig.set_owner("CAPTCluster", NET, &cluster).await;
    rig.wait_until(WTA, VPC, |_| true).await;
}

#[tokio::test]
async fn p3_a_cluster_of_the_same_name_with_another_uid_is_not_the_owner() {
    let rig = TestEnv::start().await;
    let mut cluster = rig.create_cluster("demo").await;
    cluster["metadata"]["uid"] = json!("11111111-2222-3333-4444-555555555555");
    let mut net =
        json!({"metadata": {"name": NET, "finalizers": ["example.com/hold"]}, "spec": minimal_spec()});
    net["metadata"]["ownerReferences"] = json!([{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "name": "demo", "uid": cluster["metadata"]["uid"]}]);
    rig.create("CAPTCluster", net).await;
    rig.run_captcluster();
    // The garbage collector deletes what an absent owner left; the finalizer keeps it in sight.
    rig.wait_until("CAPTCluster", NET, |it| it["metadata"].get("deletionTimestamp").is_some()).await;
    assert_nothing_happens(&rig).await;
}

#[tokio::test]
async fn what_somebody_else_manages_is_not_even_given_a_status() {
    for place in ["annotations", "labels"] {
        let rig = TestEnv::start().await;
        rig.run_captcluster();
        let cluster = rig.create_cluster("demo").await;
        let mut net = json!({"metadata": {"name": NET}, "spec": minimal_spec()});
        net["metadata"][place] = json!({names::MANAGED_BY_ANNOTATION: "somebody"});
        rig.create("CAPTCluster", net).await;
        rig.set_owner("CAPTCluster", NET, &cluster).await;
        assert_nothing_happens(&rig).await;
        let net = rig.get("CAPTCluster", NET).await.unwrap();
        assert_eq!((net.get("status"), net["metadata"].get("finalizers")), (None, None), "{place}");
    }
}

#[tokio::test]
async fn p15_a_paused_network_gets_one_condition_and_goes_on_within_seconds() {
    let rig = TestEnv::start().await;
    rig.run_captcluster();
    let cluster = rig.create_cluster("demo").await;
    rig.merge("Cluster", "demo", json!({"spec": {"paused": true}})).await;
    create_network(&rig, minimal_spec()).await;
    rig.set_owner("CAPTCluster", NET, &cluster).await;
    let paused = rig.wait_until("CAPTCluster", NET, |it| condition_status(it, "Paused").0 == "True").await;
    assert_nothing_happens(&rig).await;
    assert_eq!(paused["metadata"].get("finalizers"), None);
    // Only a watch event triggers the reconcile: no timer fires while the rig waits.
    rig.merge("Cluster", "demo", json!({"spec": {"paused": false}})).await;
    rig.wait_until(WTA, VPC, |_| true).await;
    rig.wait_until("CAPTCluster", NET, |it| condition_status(it, "Paused") == pair("False", "NotPaused"))
        .await;
}

#[tokio::test]
async fn p15_a_paused_network_is_not_deleted() {
    let rig = TestEnv::start().await;
    rig.run_captcluster();
    create_ready_network(&rig, minimal_spec()).await;
    rig.merge("CAPTCluster", NET, json!({"metadata": {"annotations": {names::PAUSED_ANNOTATION: ""}}})).await;
    rig.wait_until("CAPTCluster", NET, |it| condition_status(it, "Paused").0 == "True").await;
    rig.delete("CAPTCluster", NET).await;
    rig.wait_until_idle().await;
    assert!(rig.get(WTA, VPC).await.is_some_and(|it| it["metadata"].get("deletionTimestamp").is_none()));
    rig.merge("CAPTCluster", NET, json!({"metadata": {"annotations": {names::PAUSED_ANNOTATION: null}}}))
        .await;
    rig.wait_until_gone("CAPTCluster", NET).await;
}

#[tokio::test]
async fn only_objects_with_the_wanted_label_are_looked_after() {
    let rig =
        TestEnv::start_with(Settings { watch_filter: Some("blue".to_owned()), ..Settings::default() }).await;
    rig.run_captcluster();
    create_owned_network(&rig, minimal_spec()).await;
    assert_nothing_happens(&rig).await;
    assert_eq!(rig.get("CAPTCluster", NET).await.unwrap().get("status"), None);
    rig.merge("CAPTCluster", NET, json!({"metadata": {"labels": {names::WATCH_FILTER_LABEL: "blue"}}})).await;
    rig.wait_until(WTA, VPC, |_| true).await;
}

#[tokio::test]
async fn only_the_wanted_namespace_is_looked_after() {
    let rig =
        TestEnv::start_with(Settings { namespace: Some("elsewhere".to_owned()), ..Settings::default() })
            .await;
    rig.run_captcluster();
    create_owned_network(&rig, minimal_spec()).await;
    assert_nothing_happens(&rig).await;
    assert_eq!(rig.get("CAPTCluster", NET).await.unwrap().get("status"), None);
}
