//! P3, P15: what is not worked on.

use super::*;

/// Waits long enough for anything that would happen, and proves that no workspace was made.
async fn nothing_happens(rig: &Rig) {
    rig.settle().await;
    assert_eq!(rig.get(WTA, VPC).await, None);
}

#[tokio::test]
async fn p3_nothing_is_made_before_a_cluster_owns_the_network() {
    let rig = Rig::start().await;
    rig.run_captcluster();
    let cluster = rig.cluster("demo").await;
    network(&rig, plain()).await;
    let told = rig.until("CAPTCluster", NET, |it| said(it, "Ready").1 == "WaitingForOwner").await;
    assert_eq!(told["metadata"].get("finalizers"), None);
    // They exist: the garbage collector would take the object otherwise.
    let shim = rig.make("Secret", json!({"metadata": {"name": "demo-shim"}})).await;
    let other =
        rig.make("CAPTControlPlane", json!({"metadata": {"name": "cp"}, "spec": {"version": "1.33"}})).await;
    for owner in [shim, other] {
        let owner = json!({"apiVersion": owner["apiVersion"], "kind": owner["kind"],
            "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]});
        rig.merge("CAPTCluster", NET, json!({"metadata": {"ownerReferences": [owner]}})).await;
        nothing_happens(&rig).await;
    }
    rig.own("CAPTCluster", NET, &cluster).await;
    rig.until(WTA, VPC, |_| true).await;
}

#[tokio::test]
async fn p3_a_cluster_of_the_same_name_with_another_uid_is_not_the_owner() {
    let rig = Rig::start().await;
    let mut cluster = rig.cluster("demo").await;
    cluster["metadata"]["uid"] = json!("11111111-2222-3333-4444-555555555555");
    let mut net = json!({"metadata": {"name": NET, "finalizers": ["example.com/hold"]}, "spec": plain()});
    net["metadata"]["ownerReferences"] = json!([{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "name": "demo", "uid": cluster["metadata"]["uid"]}]);
    rig.make("CAPTCluster", net).await;
    rig.run_captcluster();
    // The garbage collector deletes what an absent owner left; the finalizer keeps it in sight.
    rig.until("CAPTCluster", NET, |it| it["metadata"].get("deletionTimestamp").is_some()).await;
    nothing_happens(&rig).await;
}

#[tokio::test]
async fn what_somebody_else_manages_is_not_even_given_a_status() {
    for place in ["annotations", "labels"] {
        let rig = Rig::start().await;
        rig.run_captcluster();
        let cluster = rig.cluster("demo").await;
        let mut net = json!({"metadata": {"name": NET}, "spec": plain()});
        net["metadata"][place] = json!({names::MANAGED_BY_ANNOTATION: "somebody"});
        rig.make("CAPTCluster", net).await;
        rig.own("CAPTCluster", NET, &cluster).await;
        nothing_happens(&rig).await;
        let net = rig.get("CAPTCluster", NET).await.unwrap();
        assert_eq!((net.get("status"), net["metadata"].get("finalizers")), (None, None), "{place}");
    }
}

#[tokio::test]
async fn p15_a_paused_network_gets_one_condition_and_goes_on_within_seconds() {
    let rig = Rig::start().await;
    rig.run_captcluster();
    let cluster = rig.cluster("demo").await;
    rig.merge("Cluster", "demo", json!({"spec": {"paused": true}})).await;
    network(&rig, plain()).await;
    rig.own("CAPTCluster", NET, &cluster).await;
    let paused = rig.until("CAPTCluster", NET, |it| said(it, "Paused").0 == "True").await;
    nothing_happens(&rig).await;
    assert_eq!(paused["metadata"].get("finalizers"), None);
    // Only a watch event triggers the reconcile: no timer fires while the rig waits.
    rig.merge("Cluster", "demo", json!({"spec": {"paused": false}})).await;
    rig.until(WTA, VPC, |_| true).await;
    rig.until("CAPTCluster", NET, |it| said(it, "Paused") == pair("False", "NotPaused")).await;
}

#[tokio::test]
async fn p15_a_paused_network_is_not_deleted() {
    let rig = Rig::start().await;
    rig.run_captcluster();
    complete(&rig, plain()).await;
    rig.merge("CAPTCluster", NET, json!({"metadata": {"annotations": {names::PAUSED_ANNOTATION: ""}}})).await;
    rig.until("CAPTCluster", NET, |it| said(it, "Paused").0 == "True").await;
    rig.delete("CAPTCluster", NET).await;
    rig.settle().await;
    assert!(rig.get(WTA, VPC).await.is_some_and(|it| it["metadata"].get("deletionTimestamp").is_none()));
    rig.merge("CAPTCluster", NET, json!({"metadata": {"annotations": {names::PAUSED_ANNOTATION: null}}}))
        .await;
    rig.until_gone("CAPTCluster", NET).await;
}

#[tokio::test]
async fn only_objects_with_the_wanted_label_are_looked_after() {
    let rig =
        Rig::start_with(Settings { watch_filter: Some("blue".to_owned()), ..Settings::default() }).await;
    rig.run_captcluster();
    owned(&rig, plain()).await;
    nothing_happens(&rig).await;
    assert_eq!(rig.get("CAPTCluster", NET).await.unwrap().get("status"), None);
    rig.merge("CAPTCluster", NET, json!({"metadata": {"labels": {names::WATCH_FILTER_LABEL: "blue"}}})).await;
    rig.until(WTA, VPC, |_| true).await;
}

#[tokio::test]
async fn only_the_wanted_namespace_is_looked_after() {
    let rig =
        Rig::start_with(Settings { namespace: Some("elsewhere".to_owned()), ..Settings::default() }).await;
    rig.run_captcluster();
    owned(&rig, plain()).await;
    nothing_happens(&rig).await;
    assert_eq!(rig.get("CAPTCluster", NET).await.unwrap().get("status"), None);
}
