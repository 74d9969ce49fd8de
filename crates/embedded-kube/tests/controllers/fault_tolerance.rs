//! The controllers with failing requests, lost watches and shutdown.

use std::time::Duration;

use embedded_kube::fault_injection::Fault;
use serde_json::json;

use super::harness::{PATIENCE, TestCluster, map, owner};

#[tokio::test]
async fn every_second_write_fails_and_the_work_is_done_all_the_same() {
    let cluster = TestCluster::start().await;
    cluster.namespace("a").await;
    let top = cluster.config_map("default", "top", &[]).await;
    for number in 0..20 {
        cluster.config_map("default", &format!("child-{number}"), &[owner("top", &top, true)]).await;
        cluster.config_map("a", &format!("map-{number}"), &[]).await;
    }
    cluster.delete(&map("top"), "Foreground").await;
    let ours = |user: &str| user.starts_with("system:serviceaccount:kube-system:");
    for nth in [1, 2, 4, 6, 7, 8, 12, 16, 20, 21] {
        cluster.kube.faults().add(Fault::fail(move |call| ours(&call.user) && call.is_write(), 500).nth(nth));
    }
    cluster.delete("/api/v1/namespaces/a", "Background").await;
    cluster.until_gone(&map("top")).await;
    cluster.until_gone("/api/v1/namespaces/a").await;
}

#[tokio::test]
async fn a_lost_history_is_made_up_for_by_a_fresh_snapshot() {
    let cluster = TestCluster::start().await;
    for round in 0..5 {
        let name = format!("top-{round}");
        let top = cluster.config_map("default", &name, &[]).await;
        cluster.config_map("default", &format!("child-{round}"), &[owner(&name, &top, true)]).await;
        cluster.kube.faults().expire_history();
        cluster.delete(&map(&name), "Background").await;
        cluster.kube.faults().expire_history();
        cluster.until_gone(&map(&format!("child-{round}"))).await;
    }
}

#[tokio::test]
async fn a_quiet_cluster_writes_nothing_and_ends() {
    let cluster = TestCluster::start().await;
    cluster
        .until("the furniture", async || {
            cluster.get("/api/v1/namespaces/kube-system/serviceaccounts/default").await
        })
        .await;
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": 2, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        },
    });
    cluster.create("/apis/apps/v1/namespaces/default/deployments", deployment).await;
    let pods = "/api/v1/namespaces/default/pods";
    cluster.until("the pods", async || (cluster.items(pods).await.len() == 2).then_some(())).await;
    // Quiescence can only be observed for a while; a controller that never stops writing has none.
    cluster
        .until("a while without calls", async || {
            cluster.kube.request_log().clear();
            tokio::time::sleep(Duration::from_millis(400)).await;
            cluster.kube.request_log().all().is_empty().then_some(())
        })
        .await;
    tokio::time::timeout(PATIENCE, cluster.kube.stop()).await.expect("it ends");
}
