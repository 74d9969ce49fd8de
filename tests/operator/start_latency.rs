//! P3 and P27: nothing starts before a Cluster owns the object, and then it starts because of that and not because time has
//! passed. A terraform that only notes that it was called is enough for that. How long it takes is for `make bench`.

use std::{fs, time::Duration};

use capt::operator::StandaloneMode;
use capt_engine::aws::Cloud;
use capt_kinds::api::{CaptCluster, CaptControlPlane, WorkspaceTemplateApply};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{
    Api, ResourceExt,
    api::{DynamicObject, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use super::{
    harness::{OperatorHarness, has_condition},
    recording_terraform::RecordingTerraform,
};

/// Shorter than the interval after which the operator looks at everything again, so that a lost event is not made up for.
const BEFORE_RESYNC: Duration = Duration::from_mins(5);

/// A stage on which Cluster API's part is the test's.
async fn harness_with_recording_terraform(terraform: &RecordingTerraform) -> OperatorHarness {
    let mut stage = OperatorHarness::idle(Cloud::Local { endpoint: "http://127.0.0.1:9".to_owned() }).await;
    stage.engine = Some(terraform.path());
    // No provider is needed.
    stage.gateway_bypass = true;
    stage.settings.standalone = StandaloneMode::Off;
    stage.start().await;
    stage
}

fn clusters_api(stage: &OperatorHarness) -> Api<DynamicObject> {
    let kind = capt_controllers::common::cluster::cluster_resource("v1beta2");
    Api::namespaced_with(stage.client(), "default", &kind)
}

async fn create_cluster(stage: &OperatorHarness, name: &str) -> DynamicObject {
    let reference = |group: &str, kind: &str| json!({"apiGroup": group, "kind": kind, "name": name});
    stage
        .apply_value(json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"infrastructureRef": reference("infrastructure.cluster.x-k8s.io", "CAPTCluster"),
                     "controlPlaneRef": reference("controlplane.cluster.x-k8s.io", "CAPTControlPlane")}}))
        .await
}

async fn create_network(stage: &OperatorHarness, name: &str) {
    stage
        .apply_value(json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "CAPTCluster",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"region": "eu-central-1", "vpcConfig": {"cidr": "10.0.0.0/16"}}}))
        .await;
}

fn owner_reference(api: &str, kind: &str, name: &str, uid: &str) -> Value {
    json!({"metadata": {"ownerReferences": [{"apiVersion": api, "kind": kind, "name": name, "uid": uid}],
        "labels": {"cluster.x-k8s.io/cluster-name": name}}})
}

async fn merge_patch<K>(stage: &OperatorHarness, name: &str, patch: Value)
where
    K: kube::Resource<Scope = kube::core::NamespaceResourceScope> + Clone + std::fmt::Debug,
    K: serde::de::DeserializeOwned,
    K::DynamicType: Default,
{
    stage.api::<K>("default").patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

/// Does what Cluster API does to an object of a Cluster.
async fn set_owner<K>(stage: &OperatorHarness, cluster: &DynamicObject)
where
    K: kube::Resource<Scope = kube::core::NamespaceResourceScope> + Clone + std::fmt::Debug,
    K: serde::de::DeserializeOwned,
    K::DynamicType: Default,
{
    let name = cluster.name_any();
    let patch = owner_reference("cluster.x-k8s.io/v1beta2", "Cluster", &name, &cluster.uid().unwrap());
    merge_patch::<K>(stage, &name, patch).await;
}

/// How often terraform was started in a workspace.
fn count_starts(terraform: &RecordingTerraform, workspace: &str) -> usize {
    terraform.entries().iter().filter(|it| it.workspace == workspace).count()
}

/// Whether the operator has seen the object as it is now, and waits for an owner. One that the garbage collector deletes is
/// waited for by nobody.
fn has_missing_owner(object: &CaptCluster) -> bool {
    let conditions = object.status.clone().unwrap_or_default().conditions;
    let waits = |it: &Condition| it.type_ == "Ready" && it.reason == "WaitingForOwner";
    let current = |it: &Condition| it.observed_generation == object.metadata.generation;
    object.metadata.deletion_timestamp.is_some() || conditions.iter().any(|it| waits(it) && current(it))
}

#[tokio::test(flavor = "multi_thread")]
async fn p3_no_terraform_starts_before_a_cluster_owns_the_object() {
    let terraform = RecordingTerraform::failing();
    let mut stage = harness_with_recording_terraform(&terraform).await;
    let real = create_cluster(&stage, "demo").await;
    create_network(&stage, "demo").await;
    stage
        .apply_value(
            json!({"apiVersion": "controlplane.cluster.x-k8s.io/v1beta1", "kind": "CAPTControlPlane",
            "metadata": {"name": "demo", "namespace": "default"}, "spec": {"version": "v1.32.0"}}),
        )
        .await;
    // The garbage collector takes what an owner left that never was; the finalizer keeps it in sight.
    let hold = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    merge_patch::<CaptCluster>(&stage, "demo", hold).await;
    let shim = stage
        .apply_value(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "demo", "namespace": "default"}}))
        .await;
    let plane = stage.api::<CaptControlPlane>("default").get("demo").await.unwrap();
    let uid = plane.uid().unwrap();
    let strangers = [
        owner_reference("v1", "Secret", "demo", &shim.uid().unwrap()),
        owner_reference("controlplane.cluster.x-k8s.io/v1beta1", "CAPTControlPlane", "demo", &uid),
        owner_reference(
            "cluster.x-k8s.io/v1beta2",
            "Cluster",
            "demo",
            "11111111-2222-3333-4444-555555555555",
        ),
    ];
    for (cidr, mut stranger) in strangers.into_iter().enumerate() {
        // Another generation with each, so that the condition tells which one it is about.
        stranger["spec"] = json!({"vpcConfig": {"cidr": format!("10.{}.0.0/16", cidr + 1)}});
        merge_patch::<CaptCluster>(&stage, "demo", stranger).await;
        stage.wait_until("demo", "looked at", has_missing_owner).await;
        assert_eq!(terraform.entries(), [], "with a stranger as its owner");
        let made = stage.api::<WorkspaceTemplateApply>("default").list(&ListParams::default()).await.unwrap();
        assert!(made.items.is_empty(), "{made:#?}");
    }
    // The last one made the collector delete it; a new one gets the right owner.
    merge_patch::<CaptCluster>(&stage, "demo", json!({"metadata": {"finalizers": null}})).await;
    stage.wait_until_deleted::<CaptCluster>("demo").await;
    create_network(&stage, "demo").await;
    set_owner::<CaptCluster>(&stage, &real).await;
    stage.wait_for("terraform starts", async || count_starts(&terraform, "demo-vpc") > 0).await;
    stage.stop().await;
}

/// Does something, and waits until terraform is started in a workspace once more.
async fn wait_for_start_after(
    stage: &OperatorHarness,
    terraform: &RecordingTerraform,
    workspace: &str,
    act: impl Future<Output = ()>,
) {
    let before = count_starts(terraform, workspace);
    act.await;
    let is_started = async || count_starts(terraform, workspace) > before;
    let what = format!("terraform starts in {workspace}");
    let started = tokio::time::timeout(BEFORE_RESYNC, stage.wait_for(&what, is_started)).await;
    assert!(started.is_ok(), "only a resync would start it, so an event was lost: {what}");
}

async fn check_start_on_owner(stage: &OperatorHarness, terraform: &RecordingTerraform, name: &str) {
    let owner = create_cluster(stage, name).await;
    create_network(stage, name).await;
    let waits = |it: &CaptCluster| {
        let conditions = it.status.clone().unwrap_or_default().conditions;
        conditions.iter().any(|it| it.type_ == "Ready" && it.reason == "WaitingForOwner")
    };
    stage.wait_until(name, "waiting for its owner", waits).await;
    wait_for_start_after(stage, terraform, &format!("{name}-vpc"), set_owner::<CaptCluster>(stage, &owner))
        .await;
}

async fn check_start_on_unpause(stage: &OperatorHarness, terraform: &RecordingTerraform, name: &str) {
    let pause = async |paused: bool| {
        let patch = Patch::Merge(json!({"spec": {"paused": paused}}));
        clusters_api(stage).patch(name, &PatchParams::default(), &patch).await.unwrap();
    };
    pause(true).await;
    let paused =
        |it: &CaptCluster| has_condition(&it.status.clone().unwrap_or_default().conditions, "Paused", "True");
    stage.wait_until(name, "paused", paused).await;
    merge_patch::<CaptCluster>(stage, name, json!({"spec": {"vpcConfig": {"availabilityZoneCount": 2}}}))
        .await;
    wait_for_start_after(stage, terraform, &format!("{name}-vpc"), pause(false)).await;
}

/// A control plane of which everything is there that its profiles wait for.
async fn create_control_plane(stage: &OperatorHarness, terraform: &RecordingTerraform) {
    let owner = clusters_api(stage).get("c1").await.unwrap();
    stage
        .apply_value(
            json!({"apiVersion": "controlplane.cluster.x-k8s.io/v1beta1", "kind": "CAPTControlPlane",
            "metadata": {"name": "c1", "namespace": "default"},
            "spec": {"version": "v1.32.0", "additionalFargateProfiles": [
                {"name": "apps", "selectors": [{"namespace": "apps"}]}]}}),
        )
        .await;
    set_owner::<CaptControlPlane>(stage, &owner).await;
    let provisioned =
        Patch::Merge(json!({"status": {"initialization": {"infrastructureProvisioned": true}}}));
    clusters_api(stage).patch_status("c1", &PatchParams::default(), &provisioned).await.unwrap();
    stage
        .wait_for("the profile has a workspace", async || {
            let api = stage.api::<WorkspaceTemplateApply>("default");
            api.get_opt("c1-apps-fargate-apply").await.unwrap().is_some()
        })
        .await;
    let profile = stage.workspace("c1-apps-fargate-apply").await;
    for secret in profile.spec.inputs_from.iter().map(|it| it.secret_ref.name.clone()) {
        let values = profile.spec.inputs_from.iter().filter(|it| it.secret_ref.name == secret);
        let data: serde_json::Map<String, Value> =
            values.map(|it| (it.key.clone(), json!("[\"subnet-1\"]"))).collect();
        stage
            .apply_value(json!({"apiVersion": "v1", "kind": "Secret",
                "metadata": {"name": secret, "namespace": "default"}, "stringData": data}))
            .await;
    }
    stage.wait_for("its first run", async || count_starts(terraform, "c1-apps-fargate") > 0).await;
}

/// What terraform reads in a workspace.
fn read_rendered(stage: &OperatorHarness, workspace: &str) -> String {
    let files = fs::read_dir(stage.data_dir().join("workspaces/default").join(workspace)).unwrap().flatten();
    files.filter_map(|it| fs::read_to_string(it.path()).ok()).collect()
}

async fn check_start_on_profile_edit(stage: &OperatorHarness, terraform: &RecordingTerraform, round: usize) {
    let profiles = json!([{"name": "apps", "selectors": [{"namespace": format!("apps-{round}")}]}]);
    let edit = merge_patch::<CaptControlPlane>(
        stage,
        "c1",
        json!({"spec": {"additionalFargateProfiles": profiles}}),
    );
    wait_for_start_after(stage, terraform, "c1-apps-fargate", edit).await;
    // A terraform that failed is tried again, too; this is about the one with what was asked for.
    let is_rendered = async || read_rendered(stage, "c1-apps-fargate").contains(&format!("\"apps-{round}\""));
    stage.wait_for("it is started with the edit", is_rendered).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn p27_terraform_starts_with_what_it_was_waiting_for() {
    const ROUNDS: usize = 34;
    let terraform = RecordingTerraform::failing();
    let mut stage = harness_with_recording_terraform(&terraform).await;
    for round in 1..=ROUNDS {
        let name = format!("c{round}");
        check_start_on_owner(&stage, &terraform, &name).await;
        check_start_on_unpause(&stage, &terraform, &name).await;
    }
    create_control_plane(&stage, &terraform).await;
    for round in 1..=ROUNDS {
        check_start_on_profile_edit(&stage, &terraform, round).await;
    }
    stage.stop().await;
}
