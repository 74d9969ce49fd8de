//! P12 and P13: interrupted creations leave no resources behind, and protected resources are not deleted.

use capt_kinds::api::{CaptCluster, CaptControlPlane, WorkspaceTemplateApply, names};
use kube::{
    ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use super::{
    clusters::{apply_objects, cluster_objects},
    crash_recovery::{kill_terraforms, wait_until_state_backed_up},
    harness::{OperatorHarness, has_condition},
    local_aws::LocalAws,
    workspaces::{apply_another_workspace, is_ready},
};

/// A network by itself.
fn network_object(name: &str, cidr: &str) -> Value {
    json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "WorkspaceTemplateApply",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"module": "vpc", "region": "eu-central-1",
                 "inputs": {"name": name, "cluster_name": name, "cidr": cidr, "az_count": 2, "nat": "none"}}})
}

/// What no rule knows: it is tried again after seconds.
fn unknown_error_fault(operation: &str, nth: u32, times: u32) -> Value {
    let error = json!({"code": "SomethingStrange", "message": "nobody knows what this is"});
    json!({"operation": operation, "nth": nth, "times": times, "error": error})
}

fn has_error_in(operation: &'static str) -> impl Fn(&WorkspaceTemplateApply) -> bool {
    move |it| {
        let error = it.status.as_ref().and_then(|it| it.last_error.as_ref());
        error.is_some_and(|it| it.message.contains(operation))
    }
}

/// Breaks the apply of a network at one call, and deletes it as it is.
async fn check_interrupted_apply(
    stage: &OperatorHarness,
    aws: &LocalAws,
    empty: &[String],
    (operation, nth): (&'static str, u32),
) {
    let name = format!("at-{}", operation.to_lowercase());
    aws.admin("POST", "faults", &unknown_error_fault(operation, nth, 0)).await;
    stage.apply_value(network_object(&name, "10.70.0.0/16")).await;
    let broken: WorkspaceTemplateApply = stage.wait_until(&name, "broken off", has_error_in(operation)).await;
    assert_eq!(
        broken.status.as_ref().unwrap().last_error.as_ref().unwrap().code.as_deref(),
        Some("SomethingStrange")
    );
    let api = stage.api::<WorkspaceTemplateApply>("default");
    api.delete(&name, &DeleteParams::default()).await.unwrap();
    aws.admin("DELETE", "faults", &Value::Null).await;
    stage.wait_until_deleted::<WorkspaceTemplateApply>(&name).await;
    assert_eq!(aws.list_resources().await, empty, "after {operation} {nth}");
}

#[tokio::test(flavor = "multi_thread")]
async fn p12_a_network_that_was_broken_off_anywhere_leaves_nothing() {
    let aws = LocalAws::start();
    let empty = aws.list_resources().await;
    let mut stage = OperatorHarness::idle(aws.cloud()).await;
    stage.start().await;
    for point in [("CreateVpc", 1), ("ModifyVpcAttribute", 1), ("CreateSubnet", 3)] {
        check_interrupted_apply(&stage, &aws, &empty, point).await;
    }
    // A destroy that is broken off holds the object, and is tried again by itself.
    stage.apply_value(network_object("stays", "10.71.0.0/16")).await;
    stage.wait_until("stays", "ready", is_ready).await;
    aws.admin("POST", "faults", &unknown_error_fault("DeleteSubnet", 1, 0)).await;
    stage.api::<WorkspaceTemplateApply>("default").delete("stays", &DeleteParams::default()).await.unwrap();
    let held: WorkspaceTemplateApply =
        stage.wait_until("stays", "broken off", has_error_in("DeleteSubnet")).await;
    assert!(held.finalizers().iter().any(|it| it == names::APPLY_FINALIZER));
    assert!(
        aws.list_resources().await.iter().any(|it| it.starts_with("ec2/subnet/")),
        "there is something to hold it for"
    );
    aws.admin("DELETE", "faults", &Value::Null).await;
    stage.wait_until_deleted::<WorkspaceTemplateApply>("stays").await;
    assert_eq!(aws.list_resources().await, empty, "nothing is left");
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn p12_a_cluster_that_was_broken_off_leaves_nothing_although_an_answer_was_lost() {
    let aws = LocalAws::start();
    let empty = aws.list_resources().await;
    let mut stage = OperatorHarness::idle(aws.cloud()).await;
    stage.start().await;
    // EKS creates the cluster but the response is lost; later the addons cannot be created.
    aws.admin("POST", "faults", &json!({"operation": "CreateCluster", "drop_after_work": true})).await;
    aws.admin("POST", "faults", &unknown_error_fault("CreateAddon", 1, 0)).await;
    apply_objects(&stage, &cluster_objects("demo", &json!([]))).await;
    let broken = has_error_in("CreateAddon");
    stage.wait_until("demo-eks-controlplane-apply", "broken off", broken).await;
    let api = stage.api::<CaptControlPlane>("default");
    api.delete("demo", &DeleteParams::default()).await.unwrap();
    stage.api::<CaptCluster>("default").delete("demo", &DeleteParams::default()).await.unwrap();
    stage.wait_until_deleted::<CaptControlPlane>("demo").await;
    stage.wait_until_deleted::<CaptCluster>("demo").await;
    assert_eq!(aws.list_resources().await, empty, "nothing is left");
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn p12_a_cluster_whose_pod_died_in_the_making_leaves_nothing_when_it_is_deleted_then() {
    let aws = LocalAws::start();
    let empty = aws.list_resources().await;
    aws.admin("POST", "timing", &json!({"cluster_create_ms": 10000})).await;
    let mut stage = OperatorHarness::idle(aws.cloud()).await;
    stage.start().await;
    apply_objects(&stage, &cluster_objects("demo", &json!([]))).await;
    wait_until_state_backed_up(&stage, &aws, "demo-eks-controlplane").await;
    stage.abort().await;
    kill_terraforms(&stage.data_dir());
    std::fs::remove_dir_all(stage.data_dir()).unwrap();
    stage.api::<CaptControlPlane>("default").delete("demo", &DeleteParams::default()).await.unwrap();
    stage.api::<CaptCluster>("default").delete("demo", &DeleteParams::default()).await.unwrap();
    stage.start().await;
    stage.wait_until_deleted::<CaptControlPlane>("demo").await;
    stage.wait_until_deleted::<CaptCluster>("demo").await;
    assert_eq!(aws.list_resources().await, empty, "nothing is left");
    stage.stop().await;
}

/// Asks for another range of addresses, which would replace the network.
async fn change_cidr(stage: &OperatorHarness, cidr: &str) -> String {
    let api = stage.api::<WorkspaceTemplateApply>("default");
    let before = stage.workspace("net").await.status.unwrap().run.unwrap().id;
    let edit = Patch::Merge(json!({"spec": {"inputs": {"cidr": cidr}}}));
    api.patch("net", &PatchParams::default(), &edit).await.unwrap();
    let is_blocked = |it: &WorkspaceTemplateApply| {
        let status = it.status.clone().unwrap_or_default();
        let run = status.run.filter(|it| it.finished_at.is_some());
        has_condition(&status.conditions, "DestructiveChangeBlocked", "True")
            && has_condition(&status.conditions, "Ready", "True")
            && run.is_some_and(|it| it.id != before)
    };
    let blocked = stage.wait_until("net", "blocked", is_blocked).await;
    blocked.status.unwrap().plan.unwrap().hash
}

async fn approve(stage: &OperatorHarness, hash: &str) {
    let api = stage.api::<WorkspaceTemplateApply>("default");
    let annotations = json!({names::APPROVE_PLAN_ANNOTATION: hash, names::APPROVED_BY_ANNOTATION: "alice"});
    let approval = json!({"metadata": {"annotations": annotations}});
    api.patch("net", &PatchParams::default(), &Patch::Merge(approval)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn p13_a_network_is_replaced_only_by_the_plan_that_was_approved_and_once() {
    let aws = LocalAws::start();
    let mut stage = OperatorHarness::idle(aws.cloud()).await;
    stage.start().await;
    stage.apply_value(network_object("net", "10.80.0.0/16")).await;
    let made: WorkspaceTemplateApply = stage.wait_until("net", "ready", is_ready).await;
    let first = made.status.unwrap().outputs["vpc_id"].clone();
    let hash = change_cidr(&stage, "10.81.0.0/16").await;
    // An approval of another plan counts for nothing, and neither does one with a part of the hash.
    approve(&stage, &"0123456789abcdef".repeat(4)).await;
    approve(&stage, &hash[..12]).await;
    let is_told = |it: &WorkspaceTemplateApply| {
        let conditions = it.status.iter().flat_map(|it| &it.conditions);
        conditions.into_iter().any(|it| it.message.contains("only a part of the plan hash"))
    };
    stage.wait_until("net", "told that the approval is incomplete", is_told).await;
    let run = |it: WorkspaceTemplateApply| it.status.unwrap().run.unwrap().id;
    let blocked = run(stage.workspace("net").await);
    apply_another_workspace(&stage, "other").await;
    assert_eq!(run(stage.workspace("net").await), blocked, "nothing was begun");
    assert_eq!(aws.count_calls("DeleteVpc").await, 0);
    approve(&stage, &hash).await;
    let is_other = |it: &WorkspaceTemplateApply| {
        is_ready(it) && it.status.as_ref().is_some_and(|it| it.outputs["vpc_id"] != first)
    };
    let replaced: WorkspaceTemplateApply = stage.wait_until("net", "replaced", is_other).await;
    let status = replaced.status.unwrap();
    assert!(has_condition(&status.conditions, "DestructiveChangeBlocked", "False"));
    assert_eq!(status.history[0].approved_by.as_deref(), Some("alice"));
    // The approval is still written there, and counts for nothing any more.
    let next = change_cidr(&stage, "10.80.0.0/16").await;
    assert_ne!(next, hash);
    assert_eq!(aws.count_calls("DeleteVpc").await, 1);
    stage.stop().await;
}
