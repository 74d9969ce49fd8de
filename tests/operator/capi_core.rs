//! P1 and P5: a fake Cluster API core drives a cluster with ten profiles from creation to deletion.

use std::{fs, path::Path, time::Duration};

use capt::operator::StandaloneMode;
use capt_kinds::api::{CaptCluster, CaptControlPlane};
use embedded_kube::auth;
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, DynamicObject, Patch, PatchParams},
};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::{
    clusters::{patch_control_plane_spec, wait_until_ready},
    harness::OperatorHarness,
    local_aws::LocalAws,
    profiles::record_true_conditions,
};

const FINALIZER: &str = "cluster.cluster.x-k8s.io";

/// What the core does, as far as a provider sees it: owner references, labels, latches, the endpoint, the order of a deletion.
struct FakeCapiCore {
    name: String,
    clusters: Api<DynamicObject>,
    networks: Api<CaptCluster>,
    control_planes: Api<CaptControlPlane>,
}

impl FakeCapiCore {
    fn new(client: &Client, name: &str) -> Self {
        let kind = capt_controllers::common::cluster::cluster_resource("v1beta2");
        Self {
            name: name.to_owned(),
            clusters: Api::namespaced_with(client.clone(), "default", &kind),
            networks: Api::namespaced(client.clone(), "default"),
            control_planes: Api::namespaced(client.clone(), "default"),
        }
    }

    fn spawn(self) -> JoinHandle<()> {
        tokio::spawn(async move {
            while let Some(cluster) = self.clusters.get_opt(&self.name).await.unwrap() {
                if cluster.metadata.deletion_timestamp.is_some() {
                    self.deprovision().await;
                } else {
                    self.provision(&cluster).await;
                }
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        })
    }

    async fn provision(&self, cluster: &DynamicObject) {
        let owner = json!([{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": self.name,
            "uid": cluster.uid(), "controller": true, "blockOwnerDeletion": true}]);
        let labels = json!({"cluster.x-k8s.io/cluster-name": self.name});
        let own = Patch::Merge(json!({"metadata": {"ownerReferences": owner, "labels": labels}}));
        let (params, name) = (PatchParams::default(), &self.name);
        if cluster.finalizers().is_empty() {
            let hold = Patch::Merge(json!({"metadata": {"finalizers": [FINALIZER]}}));
            self.clusters.patch(name, &params, &hold).await.unwrap();
            self.networks.patch(name, &params, &own).await.unwrap();
            self.control_planes.patch(name, &params, &own).await.unwrap();
        }
        let network = self.networks.get(name).await.unwrap();
        let plane = self.control_planes.get(name).await.unwrap();
        let complete = network.status.and_then(|it| it.initialization?.provisioned);
        let answers = plane.status.clone().and_then(|it| it.initialization?.control_plane_initialized);
        if complete.is_some() {
            let latches = json!({"infrastructureProvisioned": complete, "controlPlaneInitialized": answers});
            let status = Patch::Merge(json!({"status": {"initialization": latches}}));
            self.clusters.patch_status(name, &params, &status).await.unwrap();
        }
        if let Some(endpoint) = plane.spec.control_plane_endpoint.filter(|it| !it.host.is_empty()) {
            let mirror = Patch::Merge(json!({"spec": {"controlPlaneEndpoint": endpoint}}));
            self.clusters.patch(name, &params, &mirror).await.unwrap();
        }
    }

    /// The control plane first, then the network, then the Cluster itself.
    async fn deprovision(&self) {
        let delete = DeleteParams::background();
        if self.control_planes.get_opt(&self.name).await.unwrap().is_some() {
            drop(self.control_planes.delete(&self.name, &delete).await);
        } else if self.networks.get_opt(&self.name).await.unwrap().is_some() {
            drop(self.networks.delete(&self.name, &delete).await);
        } else {
            let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
            self.clusters.patch(&self.name, &PatchParams::default(), &free).await.unwrap();
        }
    }
}

pub(crate) fn example_manifest(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(name)).unwrap()
}

/// What was ever written to a Cluster by the operator.
fn cluster_writes(stage: &OperatorHarness) -> Vec<String> {
    let log = stage.kube.request_log();
    let ours = log.writes_by("capt-operator");
    assert!(!ours.is_empty(), "the operator is not in the log under this name");
    ours.iter().filter(|it| it.resource == "clusters").map(|it| format!("{it:?}")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn p1_p5_core_drives_ten_profiles_up_and_down_without_a_refused_call_or_a_write_to_its_cluster() {
    let aws = LocalAws::start();
    let empty = aws.list_resources().await;
    let mut stage = OperatorHarness::idle(aws.cloud()).await;
    stage.settings.standalone = StandaloneMode::Off;
    stage.start().await;
    stage.apply(&example_manifest("many-profiles.yaml")).await;
    let mut core = FakeCapiCore::new(&stage.kube.client_with_agent(auth::admin(), "core"), "many").spawn();
    let failed = record_true_conditions(&stage, "many", &["FargateProfileFailed", "Failed"]);
    // Eight of the example, this one, and the cluster's own: as many as EKS allows.
    let mut all: Vec<Value> = {
        let object = stage.api::<CaptControlPlane>("default").get("many").await.unwrap();
        object.spec.additional_fargate_profiles.iter().map(|it| json!(it)).collect()
    };
    all.push(json!({"name": "web", "selectors": [{"namespace": "web"}]}));
    patch_control_plane_spec(&stage, "many", json!({ "additionalFargateProfiles": all })).await;
    let made = tokio::select! {
        made = wait_until_ready(&stage, "many") => made,
        ended = &mut core => panic!("the core ended: {ended:?}"),
    };
    assert_eq!(made.status.unwrap().initialization.unwrap().control_plane_initialized, Some(true));
    assert_eq!(aws.call_counts("CreateFargateProfile").await, (10, 0), "each once, and none refused");
    assert_eq!(cluster_writes(&stage), [""; 0]);

    patch_control_plane_spec(&stage, "many", json!({ "additionalFargateProfiles": [] })).await;
    let alone = async || aws.fargate_profiles().await.len() == 1;
    stage.wait_for("only the cluster's own profile is left", alone).await;
    wait_until_ready(&stage, "many").await;
    assert_eq!(aws.call_counts("DeleteFargateProfile").await, (9, 0), "each once, and none refused");
    assert_eq!(failed.finish().await, [""; 0]);

    let kind = capt_controllers::common::cluster::cluster_resource("v1beta2");
    let clusters: Api<DynamicObject> = Api::namespaced_with(stage.client(), "default", &kind);
    clusters.delete("many", &DeleteParams::background()).await.unwrap();
    stage.wait_for("the Cluster is gone", async || clusters.get_opt("many").await.unwrap().is_none()).await;
    core.await.unwrap();
    assert_eq!(cluster_writes(&stage), [""; 0]);
    assert_eq!(aws.list_resources().await, empty, "nothing is left");
    stage.stop().await;
}
