//! Sandboxes in remote clusters, and F16: a fork that no Fargate profile matches is never created.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use super::{
    fake_node::FakeNode,
    harness::SandboxHarness,
    test_kube::TestKube,
    test_namespace::{
        GROUP, TestNamespace, condition, condition_message, deployment_object, fork_spec, name,
        service_object,
    },
};

/// A cluster that the operator made, as far as a Sandbox is concerned: its API, and its objects beside the Sandbox.
pub(crate) struct WorkloadCluster {
    pub(crate) server: TestKube,
    /// The namespace there.
    pub(crate) namespace: TestNamespace,
}

impl WorkloadCluster {
    /// A cluster with a service, without nodes.
    pub(crate) async fn start() -> Self {
        let server = TestKube::start_listening(&[]).await;
        let there = TestNamespace::create(server.client("hand"), "shop").await;
        there.create_object("Deployment", deployment_object("cart")).await.unwrap();
        there.create_object("Service", service_object("cart")).await.unwrap();
        Self { server, namespace: there }
    }

    /// One that is ready, with a node, and the fork of a Sandbox `pr-1` of here in it.
    pub(crate) async fn start_with_fork(here: &TestNamespace) -> (Self, FakeNode) {
        let made = Self::start().await;
        let node = FakeNode::start(made.server.client("node")).await;
        let control_plane = Self::create_control_plane(here, json!({})).await;
        made.set_ready(here, &control_plane).await;
        here.create_sandbox("pr-1", spec_in_cluster_dev(&json!({}))).await;
        here.wait_for_condition("pr-1", "ForksReady", "True", "Ready").await;
        (made, node)
    }

    /// Its control plane, with these profiles.
    pub(crate) async fn create_control_plane(here: &TestNamespace, spec: Value) -> Value {
        let mut spec = spec;
        spec["version"] = json!("1.33");
        let labels = json!({"cluster.x-k8s.io/cluster-name": "dev"});
        here.create_object(
            "CAPTControlPlane",
            json!({"metadata": {"name": "dev", "labels": labels}, "spec": spec}),
        )
        .await
        .unwrap()
    }

    /// What the control plane's controller does when the cluster is there.
    pub(crate) async fn set_ready(&self, here: &TestNamespace, control_plane: &Value) {
        Self::create_kubeconfig_secret(here, control_plane, &self.server.kubeconfig()).await;
        let status = json!({"initialization": {"controlPlaneInitialized": true}, "secretsReady": true});
        here.set_status("CAPTControlPlane", "dev", status).await;
    }

    async fn create_kubeconfig_secret(here: &TestNamespace, control_plane: &Value, text: &str) {
        let owner = json!({
            "apiVersion": "controlplane.cluster.x-k8s.io/v1beta1", "kind": "CAPTControlPlane", "name": "dev",
            "uid": control_plane["metadata"]["uid"], "controller": true,
        });
        let data = json!({"value": BASE64_STANDARD.encode(text)});
        let meta = json!({"name": "dev-kubeconfig", "ownerReferences": [owner]});
        here.create_object("Secret", json!({"metadata": meta, "data": data})).await.unwrap();
    }
}

pub(crate) fn spec_in_cluster_dev(customizations: &Value) -> Value {
    let mut spec = fork_spec("cart", customizations);
    spec["clusterRef"] = json!({"name": "dev"});
    spec
}

#[tokio::test]
async fn a_sandbox_waits_for_its_cluster_and_lives_there() {
    let mut world = SandboxHarness::start().await;
    let here = world.create_namespace().await;
    here.create_sandbox("pr-1", spec_in_cluster_dev(&json!({}))).await;
    let sandbox = here.wait_for_condition("pr-1", "BaselineResolved", "False", "ClusterNotReady").await;
    assert_eq!(sandbox["status"]["phase"], "Pending");

    let made = WorkloadCluster::start().await;
    let _node = FakeNode::start(made.server.client("node")).await;
    let control_plane = WorkloadCluster::create_control_plane(&here, json!({})).await;
    here.wait_until("Sandbox", "pr-1", "still waiting", |it| {
        condition_message(it, "BaselineResolved").contains("not initialized")
    })
    .await;
    made.set_ready(&here, &control_plane).await;
    here.wait_for_condition("pr-1", "ForksReady", "True", "Ready").await;
    assert!(here.forks("pr-1").await.is_empty(), "nothing is made in the operator's own cluster");
    let fork = made.namespace.forks("pr-1").await.remove(0);
    let likeness = made.namespace.get("Sandbox", "pr-1").await.unwrap();
    assert_eq!(fork["metadata"]["ownerReferences"][0]["uid"], likeness["metadata"]["uid"]);
    assert_eq!(made.namespace.fork_services("pr-1").await.len(), 1);

    // What happens there is heard here.
    made.namespace.merge_patch("Deployment", name(&fork), json!({"spec": {"replicas": 2}})).await.unwrap();
    made.namespace.wait_until("Deployment", name(&fork), "put right", |it| it["spec"]["replicas"] == 1).await;

    // A name that is taken there is left alone.
    made.namespace.create_fork("pr-2", "cart").await;
    here.create_sandbox("pr-2", spec_in_cluster_dev(&json!({}))).await;
    here.wait_for_condition("pr-2", "Accepted", "False", "NameTaken").await;
    here.delete("Sandbox", "pr-2").await;
    here.wait_until_deleted("Sandbox", "pr-2").await;
    assert!(made.namespace.get("Sandbox", "pr-2").await.is_some());

    // A local workload of it belongs there too; one that is made here says so.
    let spec = json!({"sandboxRef": {"name": "pr-1"}, "from": {"name": "cart"}, "mappings": [{"port": 8080, "toLocal": "localhost:1"}]});
    here.create_object("LocalWorkload", json!({"metadata": {"name": "mine"}, "spec": spec})).await.unwrap();
    here.wait_until("LocalWorkload", "mine", "refused", |it| condition(it, "Accepted").1 == "OtherCluster")
        .await;

    here.delete("Sandbox", "pr-1").await;
    here.wait_until_deleted("Sandbox", "pr-1").await;
    assert!(
        made.namespace.forks("pr-1").await.is_empty()
            && made.namespace.fork_services("pr-1").await.is_empty()
    );
    world.stop_controllers().await;
}

#[tokio::test]
async fn f16_a_fork_that_no_profile_takes_is_never_made_until_one_does() {
    let world = SandboxHarness::start().await;
    let here = world.create_namespace().await;
    let made = WorkloadCluster::start().await;
    // The baseline is taken by the label that its Service selects too, so that a fork cannot keep it.
    let profile = json!({"name": "apps", "selectors": [{"namespace": "shop", "labels": {"app": "cart"}}]});
    let control_plane =
        WorkloadCluster::create_control_plane(&here, json!({"additionalFargateProfiles": [profile]})).await;
    made.set_ready(&here, &control_plane).await;
    here.create_sandbox("pr-1", spec_in_cluster_dev(&json!({}))).await;
    let sandbox = here.wait_for_condition("pr-1", "ComputeReady", "False", "NoFargateProfile").await;
    assert!(
        condition_message(&sandbox, "ComputeReady").contains("sandbox.capt.x-k8s.io/fork"),
        "the selector is named"
    );
    assert_eq!(sandbox["status"]["phase"], "Pending");
    assert!(
        made.namespace.forks("pr-1").await.is_empty()
            && made.namespace.fork_services("pr-1").await.is_empty()
    );

    here.merge_patch("CAPTControlPlane", "dev", json!({"spec": {"sandboxes": {"enabled": true}}}))
        .await
        .unwrap();
    here.wait_for_condition("pr-1", "ComputeReady", "True", "FargateProfile").await;
    assert_eq!(made.namespace.forks("pr-1").await.len(), 1);
    // What Fargate would refuse is refused here.
    let patch = "spec: {template: {spec: {containers: [{name: app, securityContext: {privileged: true}}]}}}";
    here.create_sandbox("pr-2", spec_in_cluster_dev(&json!({"patch": {"value": patch}}))).await;
    let sandbox = here.wait_for_condition("pr-2", "Accepted", "False", "NotSupportedOnFargate").await;
    assert!(condition_message(&sandbox, "Accepted").contains("privileged"));
    assert!(made.namespace.forks("pr-2").await.is_empty());
}

#[tokio::test]
async fn f16_twenty_live_sandboxes_leave_a_cluster_that_goes() {
    let world = SandboxHarness::start().await;
    let here = world.create_namespace().await;
    let made = WorkloadCluster::start().await;
    let control_plane =
        WorkloadCluster::create_control_plane(&here, json!({"sandboxes": {"enabled": true}})).await;
    made.set_ready(&here, &control_plane).await;
    // As its own controller does: it stays until everything of it is gone.
    let held = json!({"metadata": {"finalizers": ["test.capt.x-k8s.io/held"]}});
    here.merge_patch("CAPTControlPlane", "dev", held).await.unwrap();
    for index in 0..20 {
        here.create_sandbox(&format!("pr-{index}"), spec_in_cluster_dev(&json!({}))).await;
    }
    for index in 0..20 {
        here.wait_for_condition(&format!("pr-{index}"), "ComputeReady", "True", "FargateProfile").await;
    }
    assert_eq!(made.namespace.list("Deployment", &format!("{GROUP}/fork")).await.len(), 20);
    here.delete("CAPTControlPlane", "dev").await;
    for index in 0..20 {
        here.delete("Sandbox", &format!("pr-{index}")).await;
    }
    for index in 0..20 {
        here.wait_until_deleted("Sandbox", &format!("pr-{index}")).await;
    }
    for kind in ["Deployment", "Service"] {
        assert!(made.namespace.list(kind, &format!("{GROUP}/fork")).await.is_empty(), "{kind}");
    }
    assert!(made.namespace.get("Deployment", "cart").await.is_some());
}

#[tokio::test]
async fn f16_sandboxes_of_a_cluster_that_is_gone_go_at_once() {
    let world = SandboxHarness::start().await;
    let here = world.create_namespace().await;
    let made = WorkloadCluster::start().await;
    let control_plane =
        WorkloadCluster::create_control_plane(&here, json!({"sandboxes": {"enabled": true}})).await;
    made.set_ready(&here, &control_plane).await;
    for index in 0..20 {
        here.create_sandbox(&format!("pr-{index}"), spec_in_cluster_dev(&json!({}))).await;
    }
    for index in 0..20 {
        here.wait_for_condition(&format!("pr-{index}"), "ComputeReady", "True", "FargateProfile").await;
    }
    // The cluster goes without a word, and its objects with it.
    made.server.stop().await;
    here.delete("CAPTControlPlane", "dev").await;
    for index in 0..20 {
        here.delete("Sandbox", &format!("pr-{index}")).await;
    }
    for index in 0..20 {
        here.wait_until_deleted("Sandbox", &format!("pr-{index}")).await;
    }
}

#[tokio::test]
async fn a_kubeconfig_that_would_run_a_program_is_not_used() {
    let world = SandboxHarness::start().await;
    let here = world.create_namespace().await;
    let control_plane = WorkloadCluster::create_control_plane(&here, json!({})).await;
    let text = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "x",
        "clusters": [{"name": "x", "cluster": {"server": "https://127.0.0.1:9"}}],
        "users": [{"name": "x", "user": {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "touch"}}}],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
    });
    WorkloadCluster::create_kubeconfig_secret(&here, &control_plane, &text.to_string()).await;
    let status = json!({"initialization": {"controlPlaneInitialized": true}, "secretsReady": true});
    here.set_status("CAPTControlPlane", "dev", status).await;
    here.create_sandbox("pr-1", spec_in_cluster_dev(&json!({}))).await;
    let sandbox = here.wait_for_condition("pr-1", "BaselineResolved", "False", "ClusterNotReady").await;
    assert!(
        condition_message(&sandbox, "BaselineResolved").contains("refers to a program"),
        "{}",
        condition_message(&sandbox, "BaselineResolved")
    );
}

/// The controllers' clock in a world in which ten minutes are over as soon as they begin.
fn late_clock() -> jiff::Timestamp {
    terraform_driver::clock::now().saturating_add(jiff::SignedDuration::from_mins(11)).unwrap()
}

#[tokio::test]
async fn a_cluster_that_nobody_reaches_is_told_and_holds_no_sandbox_for_ever() {
    let mut world = SandboxHarness::idle().await;
    world.clock = late_clock;
    world.start_controllers();
    let here = world.create_namespace().await;
    let control_plane = WorkloadCluster::create_control_plane(&here, json!({})).await;
    // A closed port.
    let text = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "x",
        "clusters": [{"name": "x", "cluster": {"server": "https://127.0.0.1:9"}}],
        "users": [{"name": "x", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
    });
    WorkloadCluster::create_kubeconfig_secret(&here, &control_plane, &text.to_string()).await;
    let status = json!({"initialization": {"controlPlaneInitialized": true}, "secretsReady": true});
    here.set_status("CAPTControlPlane", "dev", status).await;
    here.create_sandbox("pr-1", spec_in_cluster_dev(&json!({}))).await;
    let sandbox = here.wait_for_condition("pr-1", "BaselineResolved", "False", "ClusterNotReady").await;
    let text = condition_message(&sandbox, "BaselineResolved");
    assert!(text.contains("cannot be reached"), "{text}");
    assert_eq!(sandbox["status"]["phase"], "Pending");
    here.delete("Sandbox", "pr-1").await;
    here.wait_until_deleted("Sandbox", "pr-1").await;
    let told = here.wait_for_event("pr-1", "CleanedUp").await;
    assert!(told["note"].as_str().unwrap().contains("may remain in the workload cluster"), "{told}");
    world.stop_controllers().await;
}

#[tokio::test]
async fn a_cluster_that_is_lost_later_is_told_too() {
    let world = SandboxHarness::start().await;
    let here = world.create_namespace().await;
    let (made, _node) = WorkloadCluster::start_with_fork(&here).await;
    made.server.stop().await;
    here.merge_patch("Sandbox", "pr-1", json!({"metadata": {"labels": {"looked": "at"}}})).await.unwrap();
    let sandbox = here.wait_for_condition("pr-1", "BaselineResolved", "False", "ClusterNotReady").await;
    assert_eq!(condition(&sandbox, "Ready").0, "False");
}
