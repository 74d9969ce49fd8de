//! The examples and upstream-style manifests become Ready on the local AWS and are deleted again.
//!
//! `quickstart.yaml` lives its whole life in `clusters`, `many-profiles.yaml` in `core`. Of upstream's shapes some cannot run
//! anywhere here: `fetched` needs a module from a network, `eks-kubeconfig-template` a cluster under a fixed name,
//! `cluster-v1beta1` a Cluster API that serves that version, `existing-vpc` the id of somebody's VPC, and `stored` and
//! `without-spec` are there to be admitted only. `demo-cluster` and `demo-with-helm` differ from `demo-cluster6` in fields
//! that the templates do not read.

use std::{collections::BTreeSet, fs, path::Path};

use capt_kinds::api::{CaptCluster, CaptControlPlane, WorkspaceTemplateApply};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, DynamicObject, ListParams},
};
use serde_json::json;

use super::{
    capi_core::example_manifest, clusters::wait_until_ready, harness::OperatorHarness, local_aws::LocalAws,
    workspaces::is_ready,
};

fn read_fixture(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/upstream").join(name))
        .unwrap()
}

/// Deletes all Clusters, and every workspace that belongs to none; waits until only `stay` is left.
async fn delete_all_but(stage: &OperatorHarness, stay: &[&str]) {
    let kind = capt_controllers::common::cluster::cluster_resource("v1beta2");
    let clusters: Api<DynamicObject> = Api::namespaced_with(stage.client(), "default", &kind);
    for cluster in clusters.list(&ListParams::default()).await.unwrap() {
        clusters.delete(&cluster.name_any(), &DeleteParams::background()).await.unwrap();
    }
    let gone = async || clusters.list(&ListParams::default()).await.unwrap().items.is_empty();
    stage.wait_for("all Clusters are gone", gone).await;
    let workspaces = stage.api::<WorkspaceTemplateApply>("default");
    for it in workspaces.list(&ListParams::default()).await.unwrap() {
        if it.owner_references().is_empty() && !stay.contains(&it.name_any().as_str()) {
            workspaces.delete(&it.name_any(), &DeleteParams::default()).await.unwrap();
        }
    }
    let left = async || {
        let all = workspaces.list(&ListParams::default()).await.unwrap();
        all.items.iter().map(ResourceExt::name_any).collect::<BTreeSet<_>>()
    };
    let stay: BTreeSet<String> = stay.iter().map(|&it| it.to_owned()).collect();
    stage.wait_for("all workspaces are gone", async || left().await == stay).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_examples_become_ready_side_by_side_and_leave_nothing() {
    let aws = LocalAws::start();
    let empty = aws.list_resources().await;
    let mut stage = OperatorHarness::idle(aws.cloud()).await;
    stage.start().await;
    stage.apply(&example_manifest("network.yaml")).await;
    stage.apply(&example_manifest("templates.yaml")).await;
    stage.apply(&example_manifest("two-clusters.yaml")).await;
    stage.apply(&example_manifest("template-driven.yaml")).await;
    let network: WorkspaceTemplateApply = stage.wait_until("shared-network", "ready", is_ready).await;
    let vpc = network.status.unwrap().outputs["vpc_id"].as_str().unwrap().to_owned();
    // What the first lines of the example tell a reader to do.
    stage.apply(&example_manifest("existing-vpc.yaml").replace("vpc-0123456789abcdef0", &vpc)).await;
    for name in ["blue", "green", "templated", "existing"] {
        wait_until_ready(&stage, name).await;
    }
    let service: WorkspaceTemplateApply = stage.wait_until("service-apply", "ready", is_ready).await;
    assert_eq!(
        service.status.unwrap().outputs["greeting"],
        "service of demo in net-demo with a \"quoted\" value and ${not.a.template}"
    );
    let there = aws.list_resources().await;
    let count = |prefix: &str| there.iter().filter(|it| it.starts_with(prefix)).count();
    assert_eq!(
        (count("eks/cluster/"), count("ec2/vpc/")),
        (4, 4),
        "the network that exists has two uses: {there:#?}"
    );
    // The same name of a profile in two clusters is two profiles.
    assert!(
        there.iter().any(|it| it.ends_with("blue/apps")) && there.iter().any(|it| it.ends_with("green/apps"))
    );
    delete_all_but(&stage, &[]).await;
    assert_eq!(aws.list_resources().await, empty, "nothing is left");
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn upstreams_shapes_become_ready_and_leave_only_what_they_retain() {
    let aws = LocalAws::start();
    let empty: BTreeSet<String> = aws.list_resources().await.into_iter().collect();
    let mut stage = OperatorHarness::idle(aws.cloud()).await;
    stage.start().await;
    // In place of Crossplane's ProviderConfig of this name.
    stage
        .apply_value(json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "CAPTIdentity",
            "metadata": {"name": "aws-provider-config"},
            "spec": {"source": "Default", "allowedNamespaces": {"list": ["default"]}}}))
        .await;
    for file in ["vpc-template", "eks-controlplane-template", "spot-role-templates", "spot-role-applies"] {
        stage.apply(&read_fixture(&format!("{file}.yaml"))).await;
    }
    stage.apply(&read_fixture("demo-cluster6.yaml")).await;
    stage.apply(&read_fixture("vpc-retained.yaml")).await;
    for name in ["demo-cluster6", "vpc-retained"] {
        let made: CaptControlPlane = wait_until_ready(&stage, name).await;
        let outputs = made.status.unwrap().workspace_status.unwrap().at_provider.unwrap()["outputs"].clone();
        assert_eq!(outputs["karpenter"]["discovery_tag"]["value"], name, "typed, as add-ons read it");
    }
    stage.wait_until("test-spot-role-create", "ready", is_ready).await;
    let kept = stage
        .api::<CaptCluster>("default")
        .get("vpc-retained")
        .await
        .unwrap()
        .status
        .unwrap()
        .vpc_id
        .unwrap();
    delete_all_but(&stage, &["vpc-retained-vpc"]).await;
    let left: BTreeSet<String> = aws.list_resources().await.into_iter().collect();
    let left: Vec<&String> = left.difference(&empty).collect();
    assert!(
        !left.is_empty()
            && left.iter().all(|it| it.starts_with("ec2/") || it.starts_with("iam/role/AWSServiceRole")),
        "{left:#?}"
    );
    let vpcs = aws.admin("GET", "inventory", &serde_json::Value::Null).await;
    let vpcs: Vec<&str> = vpcs["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|it| it["type"] == "vpc")
        .filter_map(|it| it["id"].as_str())
        .collect();
    assert_eq!(vpcs, [kept], "the network that was to stay, and no other");
    stage.stop().await;
}
