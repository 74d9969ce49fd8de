//! What must not happen, whatever does: work done twice, calls that AWS refuses, clusters replaced by accident.

use std::{fs, path::Path, process::Command, time::Duration};

use capt::api::{CaptCluster, WorkspaceTemplateApply};
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::{
    cloud::{LONG, LocalAws},
    clusters::{apply, change, objects, profile, ready},
    stage::{Stage, condition},
};

/// Kills every terraform below a data directory, with its provider and its shim: what the end of a pod does.
#[expect(clippy::disallowed_methods, reason = "a test kills as the end of a pod would")]
fn kill_terraforms(data: &Path) {
    let namespace = data.join("workspaces/default");
    for workspace in fs::read_dir(namespace).unwrap().flatten() {
        for run in fs::read_dir(workspace.path().join(".capt/runs")).into_iter().flatten().flatten() {
            let Ok(text) = fs::read(run.path().join("process.json")) else { continue };
            let processes: Value = serde_json::from_slice(&text).unwrap();
            let pid = |name: &str| processes[name]["pid"].as_i64();
            let targets =
                [pid("shim").map(|pid| pid.to_string()), pid("engine").map(|pid| format!("-{pid}"))];
            for target in targets.into_iter().flatten() {
                // Those that have ended already are not there to be killed.
                let _gone = Command::new("kill").args(["-9", "--", &target]).output().unwrap();
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_is_killed_in_an_apply_goes_on_elsewhere_with_an_empty_disk() {
    let aws = LocalAws::start();
    aws.admin("POST", "timing", &json!({"cluster_create_ms": 15000})).await;
    let mut stage = Stage::idle(aws.cloud()).await;
    stage.start().await;
    apply(&stage, &objects("demo", &json!([]))).await;
    stage
        .eventually(LONG, "EKS is making the cluster", async || {
            aws.inventory().await.iter().any(|it| it == "eks/cluster/demo")
        })
        .await;
    // What was finished before is copied within a moment; the creation itself takes much longer.
    tokio::time::sleep(Duration::from_secs(2)).await;
    stage.abort().await;
    kill_terraforms(&stage.data());
    fs::remove_dir_all(stage.data()).unwrap();
    stage.start().await;
    ready(&stage, "demo").await;
    assert_eq!(aws.calls("CreateCluster").await, (1, 0), "it was asked for once, and nothing was refused");
    let all = aws.inventory().await;
    let count = |prefix: &str| all.iter().filter(|it| it.starts_with(prefix)).count();
    assert_eq!((count("eks/cluster/"), count("ec2/vpc/"), count("kms/key/")), (1, 1, 1), "{all:#?}");
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn p5_p13_profiles_take_turns_and_what_is_protected_is_not_replaced() {
    let aws = LocalAws::start();
    let mut stage = Stage::idle(aws.cloud()).await;
    stage.start().await;
    let many: Vec<Value> = (1..=5).map(|n| profile(&format!("p{n}"), &format!("n{n}"))).collect();
    apply(&stage, &objects("demo", &json!(many))).await;
    ready(&stage, "demo").await;
    let (made, refused) = aws.calls("CreateFargateProfile").await;
    assert_eq!((made, refused), (6, 0), "five, and the cluster's own");

    // P13: another range would replace the network.
    let networks = stage.api::<CaptCluster>("default");
    let range = |cidr: &str| Patch::Merge(json!({"spec": {"vpcConfig": {"cidr": cidr}}}));
    networks.patch("demo", &PatchParams::default(), &range("10.99.0.0/16")).await.unwrap();
    let is_blocked = |it: &WorkspaceTemplateApply| {
        let status = it.status.clone().unwrap_or_default();
        condition(&status.conditions, "DestructiveChangeBlocked", "True")
            && condition(&status.conditions, "Ready", "True")
    };
    let blocked = stage.until("demo-vpc", LONG, "blocked", is_blocked).await;
    let hash = blocked.status.unwrap().plan.unwrap().hash;
    assert!(!hash.is_empty());
    networks.patch("demo", &PatchParams::default(), &range("10.30.0.0/16")).await.unwrap();
    let is_well = |it: &WorkspaceTemplateApply| {
        let status = it.status.clone().unwrap_or_default();
        condition(&status.conditions, "DestructiveChangeBlocked", "False")
            && condition(&status.conditions, "Synced", "True")
    };
    stage.until("demo-vpc", LONG, "well again", is_well).await;

    // All profiles go at once, one after the other.
    change(&stage, "demo", json!({ "additionalFargateProfiles": [] })).await;
    stage
        .eventually(LONG, "only the cluster's own profile is left", async || aws.profiles().await.len() == 1)
        .await;
    let (gone, refused) = aws.calls("DeleteFargateProfile").await;
    assert_eq!((gone, refused), (5, 0));
    let kind = capt::controllers::common::cluster::resource("v1beta2");
    let clusters = kube::Api::<kube::api::DynamicObject>::namespaced_with(stage.client(), "default", &kind);
    clusters.delete("demo", &DeleteParams::background()).await.unwrap();
    stage.stop().await;
}
