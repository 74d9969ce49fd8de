//! Cluster hosts: started and stopped clusters, principals and endpoints.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "what goes wrong here fails a test"
)]

use std::sync::{Arc, Mutex};

use crate::common::{Client, config, start_with, until};
use local_aws::{
    ClusterHost, ClusterPrincipal, ClusterSpec, Config, HostError, HostFuture, HostedEndpoint, LocalAws,
    Timing,
};
use serde_json::{Value, json};

/// Records its calls. The result of `start` depends on the cluster's name.
#[derive(Debug, Default)]
struct RecordingHost {
    begun: Mutex<Vec<ClusterSpec>>,
    admitted: Mutex<Vec<(String, Vec<ClusterPrincipal>)>>,
    ended: Mutex<Vec<String>>,
    gate: Arc<tokio::sync::Notify>,
}

impl ClusterHost for RecordingHost {
    fn start(&self, cluster: ClusterSpec) -> HostFuture<Result<HostedEndpoint, HostError>> {
        let gate = Arc::clone(&self.gate);
        self.begun.lock().unwrap().push(cluster.clone());
        Box::pin(async move {
            match cluster.name.as_str() {
                "broken" => return Err("no port is free".into()),
                "mad" => panic!("lost its mind"),
                "slow" => gate.notified().await,
                _ => {}
            }
            Ok(HostedEndpoint {
                endpoint: cluster
                    .previous_endpoint
                    .unwrap_or_else(|| format!("https://127.0.0.1/{}", cluster.id)),
                certificate_authority_pem: "PEM".to_owned(),
            })
        })
    }

    fn set_principals(&self, id: &str, admitted: Vec<ClusterPrincipal>) {
        self.admitted.lock().unwrap().push((id.to_owned(), admitted));
    }

    fn stop(&self, id: &str) -> HostFuture<()> {
        self.ended.lock().unwrap().push(id.to_owned());
        Box::pin(std::future::ready(()))
    }
}

async fn start(config: Config) -> (Arc<RecordingHost>, LocalAws, Client) {
    let diary = Arc::new(RecordingHost::default());
    let host: Arc<dyn ClusterHost> = Arc::<RecordingHost>::clone(&diary);
    let (aws, client) = start_with(Config { host: Some(host), ..config }).await;
    (diary, aws, client)
}

async fn describe(client: &Client, name: &str) -> Value {
    client.eks_ok("GET", &format!("/clusters/{name}"), Value::Null).await["cluster"].clone()
}

/// The cluster, when it is no longer CREATING.
async fn settled(client: &Client, name: &str) -> Value {
    until("a cluster that is not CREATING", async || {
        let cluster = describe(client, name).await;
        if cluster["status"] == "CREATING" { Err(cluster.to_string()) } else { Ok(cluster) }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_is_where_its_host_says_until_it_is_gone() {
    let timing = Timing { cluster_delete_ms: 50, ..Timing::instant() };
    let (diary, aws, client) = start(Config { timing, ..config() }).await;
    let ground = client.ground().await;
    client.eks_ok("POST", "/clusters", ground.cluster("shop")).await;
    let cluster = settled(&client, "shop").await;
    let seed = diary.begun.lock().unwrap()[0].clone();
    assert_eq!(
        (seed.name.as_str(), seed.sts_endpoint.clone(), seed.previous_endpoint),
        ("shop", aws.endpoint(), None)
    );
    assert_eq!(seed.principals.len(), 1, "the creator");
    assert_eq!(cluster["status"], "ACTIVE");
    assert_eq!(cluster["endpoint"], format!("https://127.0.0.1/{}", seed.id));
    assert_eq!(cluster["certificateAuthority"]["data"], "UEVN");

    let entry = json!({ "principalArn": ground.role, "kubernetesGroups": ["readers"] });
    client.eks_ok("POST", "/clusters/shop/access-entries", entry).await;
    let (id, admitted) = diary.admitted.lock().unwrap().last().unwrap().clone();
    assert_eq!((id.as_str(), admitted.len()), (seed.id.as_str(), 2));

    client.eks_ok("DELETE", "/clusters/shop", Value::Null).await;
    // The host stops the cluster without a further request.
    let ended =
        async || Some(diary.ended.lock().unwrap().clone()).filter(|it| !it.is_empty()).ok_or(String::new());
    assert_eq!(until("the end of the cluster", ended).await, [seed.id]);
    aws.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_is_being_deleted_is_still_hosted() {
    let timing = Timing { cluster_delete_ms: 3_600_000, ..Timing::instant() };
    let (diary, aws, client) = start(Config { timing, ..config() }).await;
    let ground = client.ground().await;
    client.eks_ok("POST", "/clusters", ground.cluster("shop")).await;
    settled(&client, "shop").await;
    client.eks_ok("DELETE", "/clusters/shop", Value::Null).await;
    assert_eq!(describe(&client, "shop").await["status"], "DELETING");
    assert!(diary.ended.lock().unwrap().is_empty());
    aws.shutdown().await;
    assert_eq!(diary.ended.lock().unwrap().len(), 1, "it ends with the process, not in an hour");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_cannot_begin_makes_the_cluster_fail() {
    let (_, aws, client) = start(config()).await;
    let ground = client.ground().await;
    for (name, why) in [("broken", "no port is free"), ("mad", "panicked")] {
        client.eks_ok("POST", "/clusters", ground.cluster(name)).await;
        let cluster = settled(&client, name).await;
        assert_eq!(cluster["status"], "FAILED");
        assert!(cluster["health"].to_string().contains(why), "{cluster}");
        client.eks_ok("DELETE", &format!("/clusters/{name}"), Value::Null).await;
    }
    aws.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_host_keeps_its_cluster_creating_and_nobody_else_waiting() {
    let (diary, aws, client) = start(config()).await;
    let ground = client.ground().await;
    client.eks_ok("POST", "/clusters", ground.cluster("slow")).await;
    client.eks_ok("POST", "/clusters", ground.cluster("quick")).await;
    assert_eq!(settled(&client, "quick").await["status"], "ACTIVE");
    assert_eq!(describe(&client, "slow").await["status"], "CREATING");
    diary.gate.notify_one();
    assert_eq!(settled(&client, "slow").await["status"], "ACTIVE");
    aws.shutdown().await;
    assert_eq!(diary.ended.lock().unwrap().len(), 2, "both end with the process");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_was_persisted_begins_again_where_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let persisted = || Config { persist: Some(dir.path().join("eks.json")), ..config() };
    let (_, aws, client) = start(persisted()).await;
    let ground = client.ground().await;
    client.eks_ok("POST", "/clusters", ground.cluster("shop")).await;
    let before = settled(&client, "shop").await;
    aws.shutdown().await;

    let (diary, aws, client) = start(persisted()).await;
    let seed = diary.begun.lock().unwrap()[0].clone();
    assert_eq!(seed.previous_endpoint.as_deref(), before["endpoint"].as_str());
    let again = describe(&client, "shop").await;
    assert_eq!((&again["status"], &again["endpoint"]), (&json!("ACTIVE"), &before["endpoint"]));
    aws.shutdown().await;
}
