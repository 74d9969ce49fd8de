//! P3 and P27: nothing starts before a Cluster owns the object, and then it starts because of that and not because time has
//! passed. A terraform that only notes that it was called is enough for that. How long it takes is for `make bench`.

use std::{fs, time::Duration};

use capt::{
    api::{CaptCluster, CaptControlPlane, WorkspaceTemplateApply},
    aws::Cloud,
    operator::Standalone,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{
    Api, ResourceExt,
    api::{DynamicObject, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use super::{
    engine::Scripted,
    stage::{Stage, condition},
};

/// Shorter than the interval after which the operator looks at everything again, so that a lost event is not made up for.
const BEFORE_RESYNC: Duration = Duration::from_mins(5);

/// A stage on which Cluster API's part is the test's.
async fn stage(terraform: &Scripted) -> Stage {
    let mut stage = Stage::idle(Cloud::Local { endpoint: "http://127.0.0.1:9".to_owned() }).await;
    stage.engine = Some(terraform.path());
    // No provider is needed.
    stage.plain = true;
    stage.settings.standalone = Standalone::Off;
    stage.start().await;
    stage
}

fn clusters(stage: &Stage) -> Api<DynamicObject> {
    let kind = capt::controllers::common::cluster::resource("v1beta2");
    Api::namespaced_with(stage.client(), "default", &kind)
}

async fn cluster(stage: &Stage, name: &str) -> DynamicObject {
    let reference = |group: &str, kind: &str| json!({"apiGroup": group, "kind": kind, "name": name});
    stage
        .apply_value(json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"infrastructureRef": reference("infrastructure.cluster.x-k8s.io", "CAPTCluster"),
                     "controlPlaneRef": reference("controlplane.cluster.x-k8s.io", "CAPTControlPlane")}}))
        .await
}

async fn network(stage: &Stage, name: &str) {
    stage
        .apply_value(json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "CAPTCluster",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"region": "eu-central-1", "vpcConfig": {"cidr": "10.0.0.0/16"}}}))
        .await;
}

fn owner(api: &str, kind: &str, name: &str, uid: &str) -> Value {
    json!({"metadata": {"ownerReferences": [{"apiVersion": api, "kind": kind, "name": name, "uid": uid}],
        "labels": {"cluster.x-k8s.io/cluster-name": name}}})
}

async fn merge<K>(stage: &Stage, name: &str, patch: Value)
where
    K: kube::Resource<Scope = kube::core::NamespaceResourceScope> + Clone + std::fmt::Debug,
    K: serde::de::DeserializeOwned,
    K::DynamicType: Default,
{
    stage.api::<K>("default").patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

/// Does what Cluster API does to an object of a Cluster.
async fn own<K>(stage: &Stage, cluster: &DynamicObject)
where
    K: kube::Resource<Scope = kube::core::NamespaceResourceScope> + Clone + std::fmt::Debug,
    K: serde::de::DeserializeOwned,
    K::DynamicType: Default,
{
    let name = cluster.name_any();
    let patch = owner("cluster.x-k8s.io/v1beta2", "Cluster", &name, &cluster.uid().unwrap());
    merge::<K>(stage, &name, patch).await;
}

/// How often terraform was started in a workspace.
fn starts(terraform: &Scripted, workspace: &str) -> usize {
    terraform.diary().iter().filter(|it| it.workspace == workspace).count()
}

/// Whether the operator has seen the object as it is now, and waits for an owner. One that the garbage collector deletes is
/// waited for by nobody.
fn was_refused(object: &CaptCluster) -> bool {
    let conditions = object.status.clone().unwrap_or_default().conditions;
    let waits = |it: &Condition| it.type_ == "Ready" && it.reason == "WaitingForOwner";
    let current = |it: &Condition| it.observed_generation == object.metadata.generation;
    object.metadata.deletion_timestamp.is_some() || conditions.iter().any(|it| waits(it) && current(it))
}

#[tokio::test(flavor = "multi_thread")]
async fn p3_no_terraform_starts_before_a_cluster_owns_the_object() {
    let terraform = Scripted::failing();
    let mut stage = stage(&terraform).await;
    let real = cluster(&stage, "demo").await;
    network(&stage, "demo").await;
    stage
        .apply_value(
            json!({"apiVersion": "controlplane.cluster.x-k8s.io/v1beta1", "kind": "CAPTControlPlane",
            "metadata": {"name": "demo", "namespace": "default"}, "spec": {"version": "v1.32.0"}}),
        )
        .await;
    // The garbage collector takes what an owner left that never was; the finalizer keeps it in sight.
    let hold = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    merge::<CaptCluster>(&stage, "demo", hold).await;
    let shim = stage
        .apply_value(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "demo", "namespace": "default"}}))
        .await;
    let plane = stage.api::<CaptControlPlane>("default").get("demo").await.unwrap();
    let uid = plane.uid().unwrap();
    let strangers = [
        owner("v1", "Secret", "demo", &shim.uid().unwrap()),
        owner("controlplane.cluster.x-k8s.io/v1beta1", "CAPTControlPlane", "demo", &uid),
        owner("cluster.x-k8s.io/v1beta2", "Cluster", "demo", "11111111-2222-3333-4444-555555555555"),
    ];
    for (cidr, mut stranger) in strangers.into_iter().enumerate() {
        // Another generation with each, so that the condition tells which one it is about.
        stranger["spec"] = json!({"vpcConfig": {"cidr": format!("10.{}.0.0/16", cidr + 1)}});
        merge::<CaptCluster>(&stage, "demo", stranger).await;
        stage.until("demo", "looked at", was_refused).await;
        assert_eq!(terraform.diary(), [], "with a stranger as its owner");
        let made = stage.api::<WorkspaceTemplateApply>("default").list(&ListParams::default()).await.unwrap();
        assert!(made.items.is_empty(), "{made:#?}");
    }
    // The last one made the collector delete it; a new one gets the right owner.
    merge::<CaptCluster>(&stage, "demo", json!({"metadata": {"finalizers": null}})).await;
    stage.until_gone::<CaptCluster>("demo").await;
    network(&stage, "demo").await;
    own::<CaptCluster>(&stage, &real).await;
    stage.eventually("terraform starts", async || starts(&terraform, "demo-vpc") > 0).await;
    stage.stop().await;
}

/// Does something, and waits until terraform is started in a workspace once more.
async fn until_start(stage: &Stage, terraform: &Scripted, workspace: &str, act: impl Future<Output = ()>) {
    let before = starts(terraform, workspace);
    act.await;
    let is_started = async || starts(terraform, workspace) > before;
    let what = format!("terraform starts in {workspace}");
    let started = tokio::time::timeout(BEFORE_RESYNC, stage.eventually(&what, is_started)).await;
    assert!(started.is_ok(), "only a resync would start it, so an event was lost: {what}");
}

async fn owner_set(stage: &Stage, terraform: &Scripted, name: &str) {
    let owner = cluster(stage, name).await;
    network(stage, name).await;
    let waits = |it: &CaptCluster| {
        let conditions = it.status.clone().unwrap_or_default().conditions;
        conditions.iter().any(|it| it.type_ == "Ready" && it.reason == "WaitingForOwner")
    };
    stage.until(name, "waiting for its owner", waits).await;
    until_start(stage, terraform, &format!("{name}-vpc"), own::<CaptCluster>(stage, &owner)).await;
}

async fn unpaused(stage: &Stage, terraform: &Scripted, name: &str) {
    let pause = async |paused: bool| {
        let patch = Patch::Merge(json!({"spec": {"paused": paused}}));
        clusters(stage).patch(name, &PatchParams::default(), &patch).await.unwrap();
    };
    pause(true).await;
    let paused =
        |it: &CaptCluster| condition(&it.status.clone().unwrap_or_default().conditions, "Paused", "True");
    stage.until(name, "paused", paused).await;
    merge::<CaptCluster>(stage, name, json!({"spec": {"vpcConfig": {"availabilityZoneCount": 2}}})).await;
    until_start(stage, terraform, &format!("{name}-vpc"), pause(false)).await;
}

/// A control plane of which everything is there that its profiles wait for.
async fn control_plane(stage: &Stage, terraform: &Scripted) {
    let owner = clusters(stage).get("c1").await.unwrap();
    stage
        .apply_value(
            json!({"apiVersion": "controlplane.cluster.x-k8s.io/v1beta1", "kind": "CAPTControlPlane",
            "metadata": {"name": "c1", "namespace": "default"},
            "spec": {"version": "v1.32.0", "additionalFargateProfiles": [
                {"name": "apps", "selectors": [{"namespace": "apps"}]}]}}),
        )
        .await;
    own::<CaptControlPlane>(stage, &owner).await;
    let provisioned =
        Patch::Merge(json!({"status": {"initialization": {"infrastructureProvisioned": true}}}));
    clusters(stage).patch_status("c1", &PatchParams::default(), &provisioned).await.unwrap();
    stage
        .eventually("the profile has a workspace", async || {
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
    stage.eventually("its first run", async || starts(terraform, "c1-apps-fargate") > 0).await;
}

/// What terraform reads in a workspace.
fn rendered(stage: &Stage, workspace: &str) -> String {
    let files = fs::read_dir(stage.data().join("workspaces/default").join(workspace)).unwrap().flatten();
    files.filter_map(|it| fs::read_to_string(it.path()).ok()).collect()
}

async fn profile_edited(stage: &Stage, terraform: &Scripted, round: usize) {
    let profiles = json!([{"name": "apps", "selectors": [{"namespace": format!("apps-{round}")}]}]);
    let edit =
        merge::<CaptControlPlane>(stage, "c1", json!({"spec": {"additionalFargateProfiles": profiles}}));
    until_start(stage, terraform, "c1-apps-fargate", edit).await;
    // A terraform that failed is tried again, too; this is about the one with what was asked for.
    let is_rendered = async || rendered(stage, "c1-apps-fargate").contains(&format!("\"apps-{round}\""));
    stage.eventually("it is started with the edit", is_rendered).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn p27_terraform_starts_with_what_it_was_waiting_for() {
    const ROUNDS: usize = 34;
    let terraform = Scripted::failing();
    let mut stage = stage(&terraform).await;
    for round in 1..=ROUNDS {
        let name = format!("c{round}");
        owner_set(&stage, &terraform, &name).await;
        unpaused(&stage, &terraform, &name).await;
    }
    control_plane(&stage, &terraform).await;
    for round in 1..=ROUNDS {
        profile_edited(&stage, &terraform, round).await;
    }
    stage.stop().await;
}
