//! Default objects and deletion of namespaces.

use serde_json::json;

use super::harness::{TestCluster, condition};

#[tokio::test]
async fn a_namespace_has_an_account_and_a_bundle_and_gets_them_back() {
    let cluster = TestCluster::start().await;
    cluster.namespace("a").await;
    for path in
        ["/api/v1/namespaces/a/serviceaccounts/default", "/api/v1/namespaces/a/configmaps/kube-root-ca.crt"]
    {
        cluster.until(path, async || cluster.get(path).await).await;
        cluster.delete(path, "Background").await;
        cluster.until(path, async || cluster.get(path).await).await;
    }
    let bundle = cluster.get("/api/v1/namespaces/default/configmaps/kube-root-ca.crt").await.unwrap();
    assert!(bundle["data"]["ca.crt"].as_str().unwrap().starts_with("-----BEGIN CERTIFICATE-----"));
    cluster
        .merge(
            "/api/v1/namespaces/default/configmaps/kube-root-ca.crt",
            json!({"data": {"ca.crt": "forged"}}),
        )
        .await;
    cluster
        .until("the right bundle", async || {
            let now = cluster.get("/api/v1/namespaces/default/configmaps/kube-root-ca.crt").await.unwrap();
            (now["data"] == bundle["data"]).then_some(())
        })
        .await;
}

#[tokio::test]
async fn a_namespace_goes_with_everything_in_it() {
    let cluster = TestCluster::start().await;
    cluster.namespace("a").await;
    cluster.config_map("a", "x", &[]).await;
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    cluster.create("/api/v1/namespaces/a/pods", pod).await;
    cluster.delete("/api/v1/namespaces/a", "Background").await;
    cluster.until_gone("/api/v1/namespaces/a").await;
    cluster.namespace("a").await;
    assert!(cluster.get("/api/v1/namespaces/a/configmaps/x").await.is_none());
    assert!(cluster.get("/api/v1/namespaces/a/pods/p").await.is_none());
}

#[tokio::test]
async fn a_namespace_that_cannot_go_says_why_and_takes_nothing_new() {
    let cluster = TestCluster::start().await;
    cluster.namespace("a").await;
    cluster.config_map("a", "x", &[]).await;
    let path = "/api/v1/namespaces/a/configmaps/x";
    cluster.merge(path, json!({"metadata": {"finalizers": ["example.org/hold"]}})).await;
    cluster.delete("/api/v1/namespaces/a", "Background").await;
    let stuck = cluster
        .until("the conditions", async || {
            let namespace = cluster.get("/api/v1/namespaces/a").await.unwrap();
            condition(&namespace, "NamespaceFinalizersRemaining").is_some().then_some(namespace.clone())
        })
        .await;
    assert_eq!(stuck["status"]["phase"], "Terminating");
    let told = |kind: &str| {
        let condition = condition(&stuck, kind).unwrap();
        (condition["status"].as_str().unwrap(), condition["message"].as_str().unwrap())
    };
    assert_eq!(told("NamespaceDeletionDiscoveryFailure"), ("False", "All resources successfully discovered"));
    assert_eq!(
        told("NamespaceContentRemaining"),
        ("True", "Some resources are remaining: configmaps. has 1 resource instances")
    );
    assert_eq!(
        told("NamespaceFinalizersRemaining"),
        (
            "True",
            "Some content in the namespace has finalizers remaining: example.org/hold in 1 resource instances"
        )
    );
    let refused = cluster
        .try_create(
            "/api/v1/namespaces/a/configmaps",
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "y"}}),
        )
        .await;
    let text = "configmaps \"y\" is forbidden: unable to create new content in namespace a because it is being terminated";
    assert_eq!(refused.unwrap_err(), (403, text.to_owned()));
    cluster.merge(path, json!({"metadata": {"finalizers": null}})).await;
    cluster.until_gone("/api/v1/namespaces/a").await;
}

#[tokio::test]
async fn a_role_is_made_of_the_roles_it_selects() {
    let cluster = TestCluster::start().await;
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let may = |verb: &str| json!({"apiGroups": [""], "resources": ["pods"], "verbs": [verb]});
    let role = |name: &str, verb: &str| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": name, "labels": {"to": "whole"}}, "rules": [may(verb)],
        })
    };
    cluster.create(roles, role("part-1", "get")).await;
    let whole = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "whole"},
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"to": "whole"}}]}, "rules": [],
    });
    cluster.create(roles, whole).await;
    let rules_are = async |wished: serde_json::Value| {
        let path = format!("{roles}/whole");
        cluster
            .until("the rules", async || (cluster.get(&path).await.unwrap()["rules"] == wished).then_some(()))
            .await;
    };
    rules_are(json!([may("get")])).await;
    cluster.create(roles, role("part-2", "list")).await;
    rules_are(json!([may("get"), may("list")])).await;
    cluster.delete(&format!("{roles}/part-1"), "Background").await;
    rules_are(json!([may("list")])).await;
}
