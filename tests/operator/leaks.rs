//! P12 and P13: nothing is left of what was begun, and nothing goes that must stay.

use capt::api::{CaptCluster, CaptControlPlane, WorkspaceTemplateApply, names};
use kube::{
    ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use super::{
    cloud::LocalAws,
    clusters::{apply, objects},
    disasters::{is_kept, kill_terraforms},
    stage::{Stage, condition},
    workspaces::{another_is_made, is_ready},
};

/// A network by itself.
fn network(name: &str, cidr: &str) -> Value {
    json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "WorkspaceTemplateApply",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"module": "vpc", "region": "eu-central-1",
                 "inputs": {"name": name, "cluster_name": name, "cidr": cidr, "az_count": 2, "nat": "none"}}})
}

/// What no rule knows: it is tried again after seconds.
fn strange(operation: &str, nth: u32, times: u32) -> Value {
    let error = json!({"code": "SomethingStrange", "message": "nobody knows what this is"});
    json!({"operation": operation, "nth": nth, "times": times, "error": error})
}

fn error_at(operation: &'static str) -> impl Fn(&WorkspaceTemplateApply) -> bool {
    move |it| {
        let error = it.status.as_ref().and_then(|it| it.last_error.as_ref());
        error.is_some_and(|it| it.message.contains(operation))
    }
}

/// Breaks the apply of a network at one call, and deletes it as it is.
async fn broken_off(stage: &Stage, aws: &LocalAws, empty: &[String], (operation, nth): (&'static str, u32)) {
    let name = format!("at-{}", operation.to_lowercase());
    aws.admin("POST", "faults", &strange(operation, nth, 0)).await;
    stage.apply_value(network(&name, "10.70.0.0/16")).await;
    let broken: WorkspaceTemplateApply = stage.until(&name, "broken off", error_at(operation)).await;
    assert_eq!(
        broken.status.as_ref().unwrap().last_error.as_ref().unwrap().code.as_deref(),
        Some("SomethingStrange")
    );
    let api = stage.api::<WorkspaceTemplateApply>("default");
    api.delete(&name, &DeleteParams::default()).await.unwrap();
    aws.admin("DELETE", "faults", &Value::Null).await;
    stage.until_gone::<WorkspaceTemplateApply>(&name).await;
    assert_eq!(aws.inventory().await, empty, "after {operation} {nth}");
}

#[tokio::test(flavor = "multi_thread")]
async fn p12_a_network_that_was_broken_off_anywhere_leaves_nothing() {
    let aws = LocalAws::start();
    let empty = aws.inventory().await;
    let mut stage = Stage::idle(aws.cloud()).await;
    stage.start().await;
    for point in [("CreateVpc", 1), ("ModifyVpcAttribute", 1), ("CreateSubnet", 3)] {
        broken_off(&stage, &aws, &empty, point).await;
    }
    // A destroy that is broken off holds the object, and is tried again by itself.
    stage.apply_value(network("stays", "10.71.0.0/16")).await;
    stage.until("stays", "ready", is_ready).await;
    aws.admin("POST", "faults", &strange("DeleteSubnet", 1, 0)).await;
    stage.api::<WorkspaceTemplateApply>("default").delete("stays", &DeleteParams::default()).await.unwrap();
    let held: WorkspaceTemplateApply = stage.until("stays", "broken off", error_at("DeleteSubnet")).await;
    assert!(held.finalizers().iter().any(|it| it == names::APPLY_FINALIZER));
    assert!(
        aws.inventory().await.iter().any(|it| it.starts_with("ec2/subnet/")),
        "there is something to hold it for"
    );
    aws.admin("DELETE", "faults", &Value::Null).await;
    stage.until_gone::<WorkspaceTemplateApply>("stays").await;
    assert_eq!(aws.inventory().await, empty, "nothing is left");
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn p12_a_cluster_that_was_broken_off_leaves_nothing_although_an_answer_was_lost() {
    let aws = LocalAws::start();
    let empty = aws.inventory().await;
    let mut stage = Stage::idle(aws.cloud()).await;
    stage.start().await;
    // EKS makes the cluster, and nobody hears of it; later the addons cannot be made.
    aws.admin("POST", "faults", &json!({"operation": "CreateCluster", "drop_after_work": true})).await;
    aws.admin("POST", "faults", &strange("CreateAddon", 1, 0)).await;
    apply(&stage, &objects("demo", &json!([]))).await;
    let broken = error_at("CreateAddon");
    stage.until("demo-eks-controlplane-apply", "broken off", broken).await;
    let api = stage.api::<CaptControlPlane>("default");
    api.delete("demo", &DeleteParams::default()).await.unwrap();
    stage.api::<CaptCluster>("default").delete("demo", &DeleteParams::default()).await.unwrap();
    stage.until_gone::<CaptControlPlane>("demo").await;
    stage.until_gone::<CaptCluster>("demo").await;
    assert_eq!(aws.inventory().await, empty, "nothing is left");
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn p12_a_cluster_whose_pod_died_in_the_making_leaves_nothing_when_it_is_deleted_then() {
    let aws = LocalAws::start();
    let empty = aws.inventory().await;
    aws.admin("POST", "timing", &json!({"cluster_create_ms": 10000})).await;
    let mut stage = Stage::idle(aws.cloud()).await;
    stage.start().await;
    apply(&stage, &objects("demo", &json!([]))).await;
    is_kept(&stage, &aws, "demo-eks-controlplane").await;
    stage.abort().await;
    kill_terraforms(&stage.data());
    std::fs::remove_dir_all(stage.data()).unwrap();
    stage.api::<CaptControlPlane>("default").delete("demo", &DeleteParams::default()).await.unwrap();
    stage.api::<CaptCluster>("default").delete("demo", &DeleteParams::default()).await.unwrap();
    stage.start().await;
    stage.until_gone::<CaptControlPlane>("demo").await;
    stage.until_gone::<CaptCluster>("demo").await;
    assert_eq!(aws.inventory().await, empty, "nothing is left");
    stage.stop().await;
}

/// Asks for another range of addresses, which would replace the network.
async fn other_range(stage: &Stage, cidr: &str) -> String {
    let api = stage.api::<WorkspaceTemplateApply>("default");
    let before = stage.workspace("net").await.status.unwrap().run.unwrap().id;
    let edit = Patch::Merge(json!({"spec": {"inputs": {"cidr": cidr}}}));
    api.patch("net", &PatchParams::default(), &edit).await.unwrap();
    let is_blocked = |it: &WorkspaceTemplateApply| {
        let status = it.status.clone().unwrap_or_default();
        let run = status.run.filter(|it| it.finished_at.is_some());
        condition(&status.conditions, "DestructiveChangeBlocked", "True")
            && condition(&status.conditions, "Ready", "True")
            && run.is_some_and(|it| it.id != before)
    };
    let blocked = stage.until("net", "blocked", is_blocked).await;
    blocked.status.unwrap().plan.unwrap().hash
}

async fn approve(stage: &Stage, hash: &str) {
    let api = stage.api::<WorkspaceTemplateApply>("default");
    let approval = json!({"metadata": {"annotations": {names::APPROVE_PLAN_ANNOTATION: hash}}});
    api.patch("net", &PatchParams::default(), &Patch::Merge(approval)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn p13_a_network_is_replaced_only_by_the_plan_that_was_approved_and_once() {
    let aws = LocalAws::start();
    let mut stage = Stage::idle(aws.cloud()).await;
    stage.start().await;
    stage.apply_value(network("net", "10.80.0.0/16")).await;
    let made: WorkspaceTemplateApply = stage.until("net", "ready", is_ready).await;
    let first = made.status.unwrap().outputs["vpc_id"].clone();
    let hash = other_range(&stage, "10.81.0.0/16").await;
    // An approval of another plan counts for nothing.
    approve(&stage, "0123456789ab").await;
    let run = |it: WorkspaceTemplateApply| it.status.unwrap().run.unwrap().id;
    let blocked = run(stage.workspace("net").await);
    another_is_made(&stage, "other").await;
    assert_eq!(run(stage.workspace("net").await), blocked, "nothing was begun");
    assert_eq!(aws.calls_of("DeleteVpc").await, 0);
    approve(&stage, &hash).await;
    let is_other = |it: &WorkspaceTemplateApply| {
        is_ready(it) && it.status.as_ref().is_some_and(|it| it.outputs["vpc_id"] != first)
    };
    let replaced: WorkspaceTemplateApply = stage.until("net", "replaced", is_other).await;
    assert!(condition(&replaced.status.unwrap().conditions, "DestructiveChangeBlocked", "False"));
    // The approval is still written there, and counts for nothing any more.
    let next = other_range(&stage, "10.80.0.0/16").await;
    assert_ne!(next, hash);
    assert_eq!(aws.calls_of("DeleteVpc").await, 1);
    stage.stop().await;
}
