//! Whole clusters: Cluster, `CAPTCluster` and `CAPTControlPlane` in, a VPC, an EKS cluster and Fargate profiles out.

use std::{collections::BTreeMap, fs, path::PathBuf};

use capt_kinds::api::{CaptCluster, CaptControlPlane, Phase, WorkspaceTemplateApply};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use super::{
    capi_core::example_manifest,
    crash_recovery::kill_terraforms,
    harness::{OperatorHarness, has_condition},
    local_aws::{Call, LocalAws},
    profile_coverage::CoverageRecorder,
    recording_terraform::RecordingTerraform,
};

pub(crate) fn cluster_objects(name: &str, profiles: &Value) -> Value {
    json!([
        {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
         "metadata": {"name": name, "namespace": "default"},
         "spec": {
            "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "CAPTCluster", "name": name},
            "controlPlaneRef": {"apiGroup": "controlplane.cluster.x-k8s.io", "kind": "CAPTControlPlane", "name": name}}},
        {"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "CAPTCluster",
         "metadata": {"name": name, "namespace": "default"},
         "spec": {"region": "eu-central-1",
                  "vpcConfig": {"cidr": "10.30.0.0/16", "availabilityZoneCount": 2, "natGateways": "None"}}},
        {"apiVersion": "controlplane.cluster.x-k8s.io/v1beta1", "kind": "CAPTControlPlane",
         "metadata": {"name": name, "namespace": "default"},
         "spec": {"version": "v1.32.0", "additionalFargateProfiles": profiles}},
    ])
}

pub(crate) fn fargate_profile(name: &str, namespace: &str) -> Value {
    json!({"name": name, "selectors": [{"namespace": namespace}]})
}

pub(crate) async fn apply_objects(stage: &OperatorHarness, objects: &Value) {
    for object in objects.as_array().unwrap() {
        let mut object = object.clone();
        object["metadata"]["namespace"] = json!(stage.namespace);
        stage.apply_value(object).await;
    }
}

fn is_ready(object: &CaptControlPlane) -> bool {
    let status = object.status.clone().unwrap_or_default();
    let current = status.observed_generation == object.metadata.generation;
    current && has_condition(&status.conditions, "Ready", "True") && status.phase == Some(Phase::Ready)
}

fn all_profiles_ready(object: &CaptControlPlane) -> bool {
    let status = object.status.clone().unwrap_or_default();
    let wanted = object.spec.additional_fargate_profiles.len();
    let named = |name: &str| object.spec.additional_fargate_profiles.iter().any(|it| it.name == name);
    let ready = status.fargate_profile_statuses.iter().filter(|it| it.ready && named(&it.name)).count();
    is_ready(object) && ready == wanted && status.fargate_profile_statuses.iter().all(|it| named(&it.name))
}

pub(crate) async fn patch_control_plane_spec(stage: &OperatorHarness, name: &str, spec: Value) {
    let api = stage.api::<CaptControlPlane>(stage.namespace);
    api.patch(name, &PatchParams::default(), &Patch::Merge(json!({ "spec": spec }))).await.unwrap();
}

pub(crate) async fn wait_until_ready(stage: &OperatorHarness, name: &str) -> CaptControlPlane {
    stage.wait_until(name, "ready with all its profiles", all_profiles_ready).await
}

/// A Kubernetes client with the kubeconfig that was handed out.
async fn client_from_kubeconfig_secret(stage: &OperatorHarness, cluster: &str) -> kube::Client {
    let secret = stage.api::<Secret>("default").get(&format!("{cluster}-kubeconfig")).await.unwrap();
    assert_eq!(secret.type_.as_deref(), Some("cluster.x-k8s.io/secret"));
    assert_eq!(secret.labels()["cluster.x-k8s.io/cluster-name"], cluster);
    let text = String::from_utf8(secret.data.unwrap()["value"].0.clone()).unwrap();
    assert!(!text.contains("exec:"), "no command is needed to use it");
    let config = kube::config::Kubeconfig::from_yaml(&text).unwrap();
    let config = kube::Config::from_custom_kubeconfig(config, &kube::config::KubeConfigOptions::default())
        .await
        .unwrap();
    kube::Client::try_from(config).unwrap()
}

/// The workspaces of everybody, by name, with the id of their last run.
pub(crate) async fn last_run_by_workspace(stage: &OperatorHarness) -> BTreeMap<String, String> {
    let all = stage.api::<WorkspaceTemplateApply>("default").list(&ListParams::default()).await.unwrap();
    let run = |it: &WorkspaceTemplateApply| {
        let run = it.status.clone().unwrap_or_default().run;
        run.filter(|it| it.finished_at.is_some()).map(|it| it.id).unwrap_or_default()
    };
    all.items.iter().map(|it| (it.name_any(), run(it))).collect()
}

/// Everything that terraform reads in the directories of all workspaces.
fn rendered_files(stage: &OperatorHarness) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for workspace in fs::read_dir(stage.data_dir().join("workspaces/default")).unwrap().flatten() {
        for file in fs::read_dir(workspace.path()).unwrap().flatten() {
            let name = file.file_name().into_string().unwrap();
            if [".tf", ".tf.json", ".tfvars", ".tfvars.json"].iter().any(|it| name.ends_with(it)) {
                let place = file.path().strip_prefix(stage.data_dir()).unwrap().to_owned();
                found.insert(place, fs::read(file.path()).unwrap());
            }
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn p8_p9_p10_p22_a_cluster_lives_its_whole_life() {
    let aws = LocalAws::start();
    let empty = aws.list_resources().await;
    let terraform = RecordingTerraform::real();
    let mut stage = OperatorHarness::idle(aws.cloud()).await;
    stage.engine = Some(terraform.path());
    stage.start().await;
    stage.apply(&example_manifest("quickstart.yaml")).await;
    let made = wait_until_ready(&stage, "demo").await;
    check_capi_contract(&stage, &made).await;
    p22_the_same_spec_is_rendered_alike_and_changes_nothing(&mut stage, &aws, &terraform).await;

    p8_a_rotation_leaves_no_instant_uncovered(&mut stage, &aws).await;
    p8_order_means_nothing(&stage, &aws).await;

    patch_control_plane_spec(&stage, "demo", json!({ "version": "v1.34.0" })).await;
    let upgraded = |it: &CaptControlPlane| {
        let version = it.status.clone().unwrap_or_default().version;
        is_ready(it) && version.is_some_and(|version| version.trim_start_matches('v').starts_with("1.34"))
    };
    stage.wait_until("demo", "upgraded", upgraded).await;
    p9_a_profile_that_fails_is_replaced(&stage, &aws).await;
    p10_everything_goes_in_its_order_whatever_is_deleted_first(&stage, &aws).await;
    assert_eq!(aws.list_resources().await, empty, "nothing is left");
    stage.stop().await;
}

/// What Cluster API reads, and a kubeconfig that works.
async fn check_capi_contract(stage: &OperatorHarness, made: &CaptControlPlane) {
    let network = stage.api::<CaptCluster>("default").get("demo").await.unwrap();
    let network = network.status.unwrap();
    assert_eq!(network.ready, Some(true));
    assert_eq!(network.initialization.unwrap().provisioned, Some(true));
    assert_eq!(network.failure_domains.len(), 2, "{:?}", network.failure_domains);
    let endpoint = made.spec.control_plane_endpoint.clone().unwrap();
    assert!(!endpoint.host.contains("://") && endpoint.port > 0, "{endpoint:?}");
    assert_eq!(network.endpoint.as_deref(), Some(endpoint.host.as_str()));
    let client = client_from_kubeconfig_secret(stage, "demo").await;
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(client);
    assert!(!namespaces.list(&ListParams::default()).await.unwrap().items.is_empty(), "the kubeconfig works");
}

/// With an empty disk everything is rendered and checked again.
async fn p22_the_same_spec_is_rendered_alike_and_changes_nothing(
    stage: &mut OperatorHarness,
    aws: &LocalAws,
    terraform: &RecordingTerraform,
) {
    let (before, runs, (_, seq)) =
        (rendered_files(stage), last_run_by_workspace(stage).await, aws.calls_since(0).await);
    let applies = terraform.count_starts("apply");
    assert!(runs.len() == 4 && before.len() > runs.len(), "{:?}", before.keys());
    stage.stop().await;
    fs::remove_dir_all(stage.data_dir()).unwrap();
    stage.start().await;
    stage
        .wait_for("everything was looked at again", async || {
            let now = last_run_by_workspace(stage).await;
            now.iter().all(|(name, id)| !id.is_empty() && runs.get(name) != Some(id))
        })
        .await;
    let after = rendered_files(stage);
    assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
    for (path, bytes) in &before {
        assert!(after[path] == *bytes, "{} differs", path.display());
    }
    let changes: Vec<_> = aws.calls_since(seq).await.0.into_iter().filter(Call::is_mutation).collect();
    assert!(changes.is_empty(), "AWS was changed: {changes:?}");
    assert_eq!(terraform.count_starts("apply"), applies, "there was nothing to apply");
}

fn is_jobs_profile_rotated(it: &CaptControlPlane) -> bool {
    let status = it.status.clone().unwrap_or_default();
    let jobs = status.fargate_profile_statuses.iter().find(|it| it.name == "jobs").cloned();
    all_profiles_ready(it)
        && jobs.and_then(|it| it.profile_name).is_some_and(|name| name.starts_with("jobs-"))
}

/// The profile `jobs` of the example, with one more namespace; in one order or the other.
fn profiles_with_wider_jobs(swapped: bool) -> Value {
    let labels = json!({"capt.x-k8s.io/compute": "fargate"});
    let mut selectors = vec![json!({"namespace": "jobs-*", "labels": labels}), json!({"namespace": "batch"})];
    if swapped {
        selectors.reverse();
    }
    json!({"name": "jobs", "selectors": selectors})
}

/// The operator and its terraform are killed in the middle of it.
async fn p8_a_rotation_leaves_no_instant_uncovered(stage: &mut OperatorHarness, aws: &LocalAws) {
    // It is being made until the test says that it is ACTIVE.
    aws.admin("POST", "timing", &json!({"profile_create_ms": 3_600_000})).await;
    let watch = CoverageRecorder::start(&aws.cloud(), "demo").await;
    let other = json!([fargate_profile("apps", "apps"), profiles_with_wider_jobs(false)]);
    patch_control_plane_spec(stage, "demo", json!({ "additionalFargateProfiles": other })).await;
    let both = [("jobs-", "CREATING"), ("jobs", "ACTIVE")];
    stage.wait_for("both are there at one instant", async || watch.samples().had_sample_with(&both)).await;
    stage.abort().await;
    kill_terraforms(&stage.data_dir());
    stage.start().await;
    aws.admin("POST", "timing", &json!({"profile_create_ms": 1000})).await;
    let new = aws
        .fargate_profiles()
        .await
        .into_iter()
        .find_map(|it| it.strip_prefix("demo/jobs-").map(str::to_owned));
    let made = json!({"cluster": "demo", "profile": format!("jobs-{}", new.unwrap()), "status": "ACTIVE"});
    aws.admin("POST", "eks/profile-state", &made).await;
    stage.wait_until("demo", "rotated", is_jobs_profile_rotated).await;
    let after = watch.samples().sample_count();
    stage.wait_for("the watch has looked again", async || watch.samples().sample_count() > after + 1).await;
    let seen = watch.finish().await;
    seen.assert_covered("jobs-*");
    seen.assert_covered("apps");
    let left: Vec<String> =
        aws.fargate_profiles().await.into_iter().filter(|it| it.contains("jobs")).collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

async fn p8_order_means_nothing(stage: &OperatorHarness, aws: &LocalAws) {
    let (runs, (_, seq)) = (last_run_by_workspace(stage).await, aws.calls_since(0).await);
    let other = json!([profiles_with_wider_jobs(true), fargate_profile("apps", "apps")]);
    patch_control_plane_spec(stage, "demo", json!({ "additionalFargateProfiles": other })).await;
    stage
        .wait_for("the workspace of jobs was looked at", async || {
            let now = last_run_by_workspace(stage).await;
            let name = "demo-jobs-fargate-apply";
            !now[name].is_empty() && now[name] != runs[name]
        })
        .await;
    wait_until_ready(stage, "demo").await;
    let changes: Vec<_> = aws.calls_since(seq).await.0.into_iter().filter(Call::is_mutation).collect();
    assert!(changes.is_empty(), "{changes:?}");
}

async fn p9_a_profile_that_fails_is_replaced(stage: &OperatorHarness, aws: &LocalAws) {
    let (_, seq) = aws.calls_since(0).await;
    let issue = json!([{"code": "InternalFailure", "message": "out of order", "resourceIds": []}]);
    let broken = json!({"cluster": "demo", "profile": "web", "status": "CREATE_FAILED", "issues": issue, "next": true});
    aws.admin("POST", "eks/profile-state", &broken).await;
    let three = json!([
        profiles_with_wider_jobs(true),
        fargate_profile("apps", "apps"),
        fargate_profile("web", "web")
    ]);
    patch_control_plane_spec(stage, "demo", json!({ "additionalFargateProfiles": three })).await;
    let is_told = |it: &WorkspaceTemplateApply| it.status.as_ref().is_some_and(|it| it.last_error.is_some());
    let told =
        stage.wait_until("demo-web-fargate-apply", "told of its failure", is_told).await.status.unwrap();
    let error = told.last_error.unwrap();
    assert!(error.message.contains("CREATE_FAILED") && error.retry_at.is_some(), "{error:?}");
    let is_shown = |it: &CaptControlPlane| {
        let conditions = it.status.clone().unwrap_or_default().conditions;
        let said = conditions.into_iter().find(|it| it.type_ == "FargateProfileFailed");
        said.is_some_and(|it| {
            it.message.contains("web: ") && it.message.contains("InternalFailure: out of order")
        })
    };
    stage.wait_until("demo", "told in the words of EKS", is_shown).await;
    let healed = wait_until_ready(stage, "demo").await;
    let all = healed.status.unwrap().fargate_profile_statuses;
    let web = all.into_iter().find(|it| it.name == "web").unwrap();
    assert!(web.ready && web.profile_name.as_ref().is_some_and(|it| it.starts_with("web-")), "{web:?}");
    let calls = aws.calls_since(seq).await.0;
    let count = |operation: &str| calls.iter().filter(|it| it.operation == operation).count();
    assert_eq!((count("CreateFargateProfile"), count("DeleteFargateProfile")), (2, 1), "{calls:?}");
    assert!(!aws.fargate_profiles().await.contains(&"demo/web".to_owned()), "the broken one is gone");
}

/// Deleted at once, in no order.
async fn p10_everything_goes_in_its_order_whatever_is_deleted_first(stage: &OperatorHarness, aws: &LocalAws) {
    let (_, seq) = aws.calls_since(0).await;
    delete_everything(stage).await;
    stage.wait_until_deleted::<CaptControlPlane>("demo").await;
    stage.wait_until_deleted::<CaptCluster>("demo").await;
    let workspaces = stage.api::<WorkspaceTemplateApply>("default");
    stage
        .wait_for("all workspaces are gone", async || {
            workspaces.list(&ListParams::default()).await.unwrap().items.is_empty()
        })
        .await;
    let calls = aws.calls_since(seq).await.0;
    let refused: Vec<_> = calls.iter().filter(|it| it.is_mutation() && it.status >= 400).collect();
    assert!(refused.is_empty(), "{refused:?}");
    let order: Vec<&str> = calls.iter().map(|it| it.operation.as_str()).collect();
    let places = |wanted: &str| -> Vec<usize> {
        order.iter().enumerate().filter(|(_, it)| **it == wanted).map(|(at, _)| at).collect()
    };
    let (profiles, addons) = (places("DeleteFargateProfile"), places("DeleteAddon"));
    let (cluster, vpc) = (places("DeleteCluster"), places("DeleteVpc"));
    assert_eq!((profiles.len(), cluster.len(), vpc.len()), (4, 1, 1), "{order:?}");
    // Three that were asked for, the addons, the cluster's own profile, the cluster, the network.
    assert!(profiles[2] < addons[0] && addons[addons.len() - 1] < profiles[3], "{order:?}");
    assert!(profiles[3] < cluster[0] && cluster[0] < vpc[0], "{order:?}");
}

/// Every object that we know of, the wrong ones first.
async fn delete_everything(stage: &OperatorHarness) {
    let background = DeleteParams::background();
    let workspaces = stage.api::<WorkspaceTemplateApply>("default");
    for it in workspaces.list(&ListParams::default()).await.unwrap() {
        workspaces.delete(&it.name_any(), &background).await.unwrap();
    }
    stage.api::<CaptCluster>("default").delete("demo", &DeleteParams::foreground()).await.unwrap();
    let kind = capt_controllers::common::cluster::cluster_resource("v1beta2");
    let clusters: Api<DynamicObject> = Api::namespaced_with(stage.client(), "default", &kind);
    clusters.delete("demo", &background).await.unwrap();
    stage.api::<CaptControlPlane>("default").delete("demo", &background).await.unwrap();
}
