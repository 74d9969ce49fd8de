//! Crash recovery: no duplicate work, no calls that AWS refuses, no accidental replacement of clusters.

use std::{fs, path::Path, process::Command};

use capt_engine::gateway::GatewayHandle;
use capt_kube::k8s::{KubeClient, state_store::KubeStateStore};
use serde_json::{Value, json};

use super::{
    clusters::{apply_objects, cluster_objects, wait_until_ready},
    harness::OperatorHarness,
    local_aws::LocalAws,
};

/// Kills every terraform below a data directory with its shim, and the gateway with its providers: what the end of a pod
/// does.
pub(crate) fn kill_terraforms(data: &Path) {
    if let Some(gateway) = GatewayHandle::find_running(data).unwrap() {
        kill(&gateway.process.pid.to_string());
    }
    let namespace = data.join("workspaces/default");
    for workspace in fs::read_dir(namespace).unwrap().flatten() {
        for run in fs::read_dir(workspace.path().join(".capt/runs")).into_iter().flatten().flatten() {
            let Ok(text) = fs::read(run.path().join("process.json")) else { continue };
            let processes: Value = serde_json::from_slice(&text).unwrap();
            let pid = |name: &str| processes[name]["pid"].as_i64();
            let targets =
                [pid("shim").map(|pid| pid.to_string()), pid("engine").map(|pid| format!("-{pid}"))];
            targets.into_iter().flatten().for_each(|target| kill(&target));
        }
    }
}

/// Those that have ended already are not there to be killed.
#[expect(clippy::disallowed_methods, reason = "a test kills as the end of a pod would")]
fn kill(target: &str) {
    let _gone = Command::new("kill").args(["-9", "--", target]).output().unwrap();
}

/// Waits until an EKS cluster is being made, and until everything that terraform has made before is in the state beside the
/// objects.
pub(crate) async fn wait_until_state_backed_up(stage: &OperatorHarness, aws: &LocalAws, workspace: &str) {
    let vault = KubeStateStore::new(KubeClient::new(stage.client()));
    stage
        .wait_for("terraform waits for EKS, which is making the cluster", async || {
            let calls =
                aws.calls_since(0).await.0.into_iter().skip_while(|it| it.operation != "CreateCluster");
            calls.filter(|it| it.operation == "DescribeCluster").count() > 1
        })
        .await;
    stage
        .wait_for("what was finished is kept", async || {
            let kept = vault.load(stage.namespace, workspace).await.unwrap();
            let kept = kept.and_then(|it| it.payload.state).unwrap_or_default();
            let file = stage
                .data_dir()
                .join("workspaces")
                .join(stage.namespace)
                .join(workspace)
                .join("terraform.tfstate");
            let made = state_resources(&kept);
            !made.is_empty() && made == state_resources(&fs::read(file).unwrap_or_default())
        })
        .await;
}

/// The objects of a state.
fn state_resources(state: &[u8]) -> Vec<String> {
    let state: Value = serde_json::from_slice(state).unwrap_or_default();
    let all = state["resources"].as_array().into_iter().flatten();
    let managed = all.filter(|it| it["mode"] == "managed");
    managed.map(|it| format!("{} {}", it["type"], it["name"])).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_is_killed_in_an_apply_goes_on_elsewhere_with_an_empty_disk() {
    let aws = LocalAws::start();
    aws.admin("POST", "timing", &json!({"cluster_create_ms": 15000})).await;
    let mut stage = OperatorHarness::idle(aws.cloud()).await;
    stage.start().await;
    apply_objects(&stage, &cluster_objects("demo", &json!([]))).await;
    wait_until_state_backed_up(&stage, &aws, "demo-eks-controlplane").await;
    stage.abort().await;
    kill_terraforms(&stage.data_dir());
    fs::remove_dir_all(stage.data_dir()).unwrap();
    stage.start().await;
    wait_until_ready(&stage, "demo").await;
    assert_eq!(
        aws.call_counts("CreateCluster").await,
        (1, 0),
        "it was asked for once, and nothing was refused"
    );
    let all = aws.list_resources().await;
    let count = |prefix: &str| all.iter().filter(|it| it.starts_with(prefix)).count();
    assert_eq!((count("eks/cluster/"), count("ec2/vpc/"), count("kms/key/")), (1, 1, 1), "{all:#?}");
    stage.stop().await;
}
