//! Garbage collection by owner references.

use serde_json::json;

use super::harness::{TestCluster, map, owner};

#[tokio::test]
async fn dependents_go_after_their_owner_down_to_the_last_one() {
    let cluster = TestCluster::start().await;
    let top = cluster.config_map("default", "top", &[]).await;
    let middle = cluster.config_map("default", "middle", &[owner("top", &top, true)]).await;
    cluster.config_map("default", "leaf", &[owner("middle", &middle, false)]).await;
    cluster.config_map("default", "bystander", &[]).await;
    cluster.delete(&map("top"), "Background").await;
    cluster.until_gone(&map("middle")).await;
    cluster.until_gone(&map("leaf")).await;
    assert!(cluster.get(&map("bystander")).await.is_some());
}

#[tokio::test]
async fn a_foreground_owner_stays_until_the_dependents_that_block_it_are_gone() {
    let cluster = TestCluster::start().await;
    let top = cluster.config_map("default", "top", &[]).await;
    cluster.config_map("default", "held", &[owner("top", &top, true)]).await;
    cluster.merge(&map("held"), json!({"metadata": {"finalizers": ["example.org/hold"]}})).await;
    cluster.delete(&map("top"), "Foreground").await;
    cluster
        .until("the deletion of the dependent", async || {
            let held = cluster.get(&map("held")).await.unwrap();
            held["metadata"].get("deletionTimestamp").map(drop)
        })
        .await;
    cluster.wait_for_gc().await;
    let top = cluster.get(&map("top")).await.unwrap();
    assert_eq!(top["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    cluster.merge(&map("held"), json!({"metadata": {"finalizers": null}})).await;
    cluster.until_gone(&map("top")).await;
    assert!(cluster.get(&map("held")).await.is_none());
}

#[tokio::test]
async fn a_foreground_deletion_goes_through_all_levels() {
    let cluster = TestCluster::start().await;
    let top = cluster.config_map("default", "top", &[]).await;
    let middle = cluster.config_map("default", "middle", &[owner("top", &top, true)]).await;
    cluster.config_map("default", "leaf", &[owner("middle", &middle, true)]).await;
    cluster.delete(&map("top"), "Foreground").await;
    cluster.until_gone(&map("top")).await;
    assert!(cluster.get(&map("middle")).await.is_none());
    assert!(cluster.get(&map("leaf")).await.is_none());
}

#[tokio::test]
async fn orphaned_dependents_stay_and_forget_their_owner() {
    let cluster = TestCluster::start().await;
    let top = cluster.config_map("default", "top", &[]).await;
    let other = cluster.config_map("default", "other", &[]).await;
    cluster.config_map("default", "child", &[owner("top", &top, true), owner("other", &other, false)]).await;
    cluster.delete(&map("top"), "Orphan").await;
    cluster.until_gone(&map("top")).await;
    let child = cluster.get(&map("child")).await.unwrap();
    assert_eq!(child["metadata"]["ownerReferences"], json!([owner("other", &other, false)]));
}

#[tokio::test]
async fn one_living_owner_is_enough_and_the_reference_to_the_other_goes() {
    let cluster = TestCluster::start().await;
    let one = cluster.config_map("default", "one", &[]).await;
    let two = cluster.config_map("default", "two", &[]).await;
    cluster.config_map("default", "child", &[owner("one", &one, true), owner("two", &two, true)]).await;
    cluster.delete(&map("one"), "Background").await;
    cluster
        .until("the end of the reference", async || {
            let child = cluster.get(&map("child")).await.expect("the child stays");
            (child["metadata"]["ownerReferences"] == json!([owner("two", &two, true)])).then_some(())
        })
        .await;
    cluster.delete(&map("two"), "Background").await;
    cluster.until_gone(&map("child")).await;
}

#[tokio::test]
async fn an_owner_that_never_was_dooms_its_dependents() {
    let cluster = TestCluster::start().await;
    cluster.config_map("default", "namesake", &[]).await;
    cluster.config_map("default", "child", &[owner("ghost", "no-such-uid", false)]).await;
    cluster.config_map("default", "fooled", &[owner("namesake", "another-uid", false)]).await;
    cluster.until_gone(&map("child")).await;
    cluster.until_gone(&map("fooled")).await;
    assert!(cluster.get(&map("namesake")).await.is_some());
}

#[tokio::test]
async fn an_owner_in_another_namespace_does_not_count_and_is_reported() {
    let cluster = TestCluster::start().await;
    cluster.namespace("elsewhere").await;
    let uid = cluster.config_map("elsewhere", "top", &[]).await;
    cluster.config_map("default", "child", &[owner("top", &uid, false)]).await;
    cluster.until_gone(&map("child")).await;
    let event = cluster
        .until("the event", async || {
            let events = cluster.items("/api/v1/namespaces/default/events").await;
            events.into_iter().find(|event| event["reason"] == "OwnerRefInvalidNamespace")
        })
        .await;
    assert_eq!(event["type"], "Warning");
    assert_eq!(
        event["message"],
        format!(
            "ownerRef [v1/ConfigMap, namespace: default, name: top, uid: {uid}] does not exist in namespace \"default\""
        )
    );
}

#[tokio::test]
async fn a_cluster_scoped_object_is_not_deleted_for_a_namespaced_owner() {
    let cluster = TestCluster::start().await;
    let object = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "ownerReferences": [owner("ghost", "no-such-uid", false)]},
    });
    cluster.create("/api/v1/nodes", object).await;
    cluster.wait_for_gc().await;
    assert!(cluster.get("/api/v1/nodes/n").await.is_some());
}

#[tokio::test]
async fn a_cluster_scoped_owner_has_dependents_everywhere() {
    let cluster = TestCluster::start().await;
    cluster.namespace("elsewhere").await;
    let node = cluster
        .create("/api/v1/nodes", json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}))
        .await;
    let owner = [json!({"apiVersion": "v1", "kind": "Node", "name": "n", "uid": node["metadata"]["uid"]})];
    cluster.config_map("default", "a", &owner).await;
    cluster.config_map("elsewhere", "b", &owner).await;
    cluster.wait_for_gc().await;
    assert!(cluster.get(&map("a")).await.is_some());
    cluster.delete("/api/v1/nodes/n", "Background").await;
    cluster.until_gone(&map("a")).await;
    cluster.until_gone("/api/v1/namespaces/elsewhere/configmaps/b").await;
}

#[tokio::test]
async fn the_collector_names_the_uid_of_what_it_deletes_and_itself() {
    let cluster = TestCluster::start().await;
    let top = cluster.config_map("default", "top", &[]).await;
    cluster.config_map("default", "child", &[owner("top", &top, true)]).await;
    cluster.delete(&map("top"), "Background").await;
    cluster.until_gone(&map("child")).await;
    let deletes = cluster
        .kube
        .request_log()
        .matching(|call| call.verb == Some(embedded_kube::request::Verb::Delete) && call.name == "child");
    assert_eq!(deletes.len(), 1);
    assert_eq!(deletes[0].user, "system:serviceaccount:kube-system:generic-garbage-collector");
}

async fn widgets(cluster: &TestCluster) {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.org"},
        "spec": {
            "group": "example.org", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    });
    cluster.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await;
    cluster
        .until("the widgets", async || cluster.get("/apis/example.org/v1/namespaces/default/widgets").await)
        .await;
}

#[tokio::test]
async fn custom_resources_own_and_are_owned_like_all_others() {
    let cluster = TestCluster::start().await;
    widgets(&cluster).await;
    let path = "/apis/example.org/v1/namespaces/default/widgets";
    let make = async |name: &str, owners: &[serde_json::Value]| {
        let widget = json!({
            "apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": name, "ownerReferences": owners},
        });
        cluster.create(path, widget).await["metadata"]["uid"].as_str().unwrap().to_owned()
    };
    let refer = |name: &str, uid: &str| json!({"apiVersion": "example.org/v1", "kind": "Widget", "name": name, "uid": uid, "blockOwnerDeletion": true});
    let one = make("one", &[]).await;
    let two = make("two", &[]).await;
    make("child", &[refer("one", &one), refer("two", &two)]).await;
    let map = cluster.config_map("default", "map", &[refer("two", &two)]).await;
    make("leaf", &[owner("map", &map, true)]).await;
    cluster.delete(&format!("{path}/one"), "Orphan").await;
    cluster.until_gone(&format!("{path}/one")).await;
    let child = cluster.get(&format!("{path}/child")).await.unwrap();
    assert_eq!(child["metadata"]["ownerReferences"], json!([refer("two", &two)]));
    cluster.delete(&format!("{path}/two"), "Foreground").await;
    cluster.until_gone(&format!("{path}/two")).await;
    assert_eq!(cluster.items(path).await, Vec::<serde_json::Value>::new());
}
