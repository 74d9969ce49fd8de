//! Sandboxes in clusters that this operator made, and F16: a fork that no Fargate profile takes is never made.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use super::{
    node::Node,
    server::Server,
    shop::{GROUP, Shop, deployment, forking, message, name, said, service},
    world::World,
};

/// A cluster that the operator made, as far as a Sandbox is concerned: its API, and its objects beside the Sandbox.
pub(crate) struct Made {
    pub(crate) server: Server,
    /// The namespace there.
    pub(crate) there: Shop,
}

impl Made {
    /// A cluster with a service, without nodes.
    pub(crate) async fn start() -> Self {
        let server = Server::listening(&[]).await;
        let there = Shop::open(server.client("hand"), "shop").await;
        there.make("Deployment", deployment("cart")).await.unwrap();
        there.make("Service", service("cart")).await.unwrap();
        Self { server, there }
    }

    /// One that is ready, with a node, and the fork of a Sandbox `pr-1` of here in it.
    pub(crate) async fn with_a_fork(here: &Shop) -> (Self, Node) {
        let made = Self::start().await;
        let node = Node::start(made.server.client("node")).await;
        let control_plane = Self::control_plane(here, json!({})).await;
        made.ready(here, &control_plane).await;
        here.sandbox("pr-1", in_dev(&json!({}))).await;
        here.until_said("pr-1", "ForksReady", "True", "Ready").await;
        (made, node)
    }

    /// Its control plane, with these profiles.
    pub(crate) async fn control_plane(here: &Shop, spec: Value) -> Value {
        let mut spec = spec;
        spec["version"] = json!("1.33");
        let labels = json!({"cluster.x-k8s.io/cluster-name": "dev"});
        here.make("CAPTControlPlane", json!({"metadata": {"name": "dev", "labels": labels}, "spec": spec}))
            .await
            .unwrap()
    }

    /// What the control plane's controller does when the cluster is there.
    pub(crate) async fn ready(&self, here: &Shop, control_plane: &Value) {
        Self::kubeconfig(here, control_plane, &self.server.kubeconfig()).await;
        let status = json!({"initialization": {"controlPlaneInitialized": true}, "secretsReady": true});
        here.set_status("CAPTControlPlane", "dev", status).await;
    }

    async fn kubeconfig(here: &Shop, control_plane: &Value, text: &str) {
        let owner = json!({
            "apiVersion": "controlplane.cluster.x-k8s.io/v1beta1", "kind": "CAPTControlPlane", "name": "dev",
            "uid": control_plane["metadata"]["uid"], "controller": true,
        });
        let data = json!({"value": BASE64_STANDARD.encode(text)});
        let meta = json!({"name": "dev-kubeconfig", "ownerReferences": [owner]});
        here.make("Secret", json!({"metadata": meta, "data": data})).await.unwrap();
    }
}

pub(crate) fn in_dev(customizations: &Value) -> Value {
    let mut spec = forking("cart", customizations);
    spec["clusterRef"] = json!({"name": "dev"});
    spec
}

#[tokio::test]
async fn a_sandbox_waits_for_its_cluster_and_lives_there() {
    let mut world = World::start().await;
    let here = world.shop().await;
    here.sandbox("pr-1", in_dev(&json!({}))).await;
    let sandbox = here.until_said("pr-1", "BaselineResolved", "False", "ClusterNotReady").await;
    assert_eq!(sandbox["status"]["phase"], "Pending");

    let made = Made::start().await;
    let _node = Node::start(made.server.client("node")).await;
    let control_plane = Made::control_plane(&here, json!({})).await;
    here.until("Sandbox", "pr-1", "still waiting", |it| {
        message(it, "BaselineResolved").contains("not initialized")
    })
    .await;
    made.ready(&here, &control_plane).await;
    here.until_said("pr-1", "ForksReady", "True", "Ready").await;
    assert!(here.forks("pr-1").await.is_empty(), "nothing is made in the operator's own cluster");
    let fork = made.there.forks("pr-1").await.remove(0);
    let likeness = made.there.get("Sandbox", "pr-1").await.unwrap();
    assert_eq!(fork["metadata"]["ownerReferences"][0]["uid"], likeness["metadata"]["uid"]);
    assert_eq!(made.there.fork_services("pr-1").await.len(), 1);

    // What happens there is heard here.
    made.there.merge("Deployment", name(&fork), json!({"spec": {"replicas": 2}})).await.unwrap();
    made.there.until("Deployment", name(&fork), "put right", |it| it["spec"]["replicas"] == 1).await;

    // A name that is taken there is left alone.
    made.there.fork("pr-2", "cart").await;
    here.sandbox("pr-2", in_dev(&json!({}))).await;
    here.until_said("pr-2", "Accepted", "False", "NameTaken").await;
    here.delete("Sandbox", "pr-2").await;
    here.until_gone("Sandbox", "pr-2").await;
    assert!(made.there.get("Sandbox", "pr-2").await.is_some());

    // A local workload of it belongs there too; one that is made here says so.
    let spec = json!({"sandboxRef": {"name": "pr-1"}, "from": {"name": "cart"}, "mappings": [{"port": 8080, "toLocal": "localhost:1"}]});
    here.make("LocalWorkload", json!({"metadata": {"name": "mine"}, "spec": spec})).await.unwrap();
    here.until("LocalWorkload", "mine", "refused", |it| said(it, "Accepted").1 == "OtherCluster").await;

    here.delete("Sandbox", "pr-1").await;
    here.until_gone("Sandbox", "pr-1").await;
    assert!(made.there.forks("pr-1").await.is_empty() && made.there.fork_services("pr-1").await.is_empty());
    world.end().await;
}

#[tokio::test]
async fn f16_a_fork_that_no_profile_takes_is_never_made_until_one_does() {
    let world = World::start().await;
    let here = world.shop().await;
    let made = Made::start().await;
    // The baseline is taken by the label that its Service selects too, so that a fork cannot keep it.
    let profile = json!({"name": "apps", "selectors": [{"namespace": "shop", "labels": {"app": "cart"}}]});
    let control_plane = Made::control_plane(&here, json!({"additionalFargateProfiles": [profile]})).await;
    made.ready(&here, &control_plane).await;
    here.sandbox("pr-1", in_dev(&json!({}))).await;
    let sandbox = here.until_said("pr-1", "ComputeReady", "False", "NoFargateProfile").await;
    assert!(
        message(&sandbox, "ComputeReady").contains("sandbox.capt.x-k8s.io/fork"),
        "the selector is named"
    );
    assert_eq!(sandbox["status"]["phase"], "Pending");
    assert!(made.there.forks("pr-1").await.is_empty() && made.there.fork_services("pr-1").await.is_empty());

    here.merge("CAPTControlPlane", "dev", json!({"spec": {"sandboxes": {"enabled": true}}})).await.unwrap();
    here.until_said("pr-1", "ComputeReady", "True", "FargateProfile").await;
    assert_eq!(made.there.forks("pr-1").await.len(), 1);
    // What Fargate would refuse is refused here.
    let patch = "spec: {template: {spec: {containers: [{name: app, securityContext: {privileged: true}}]}}}";
    here.sandbox("pr-2", in_dev(&json!({"patch": {"value": patch}}))).await;
    let sandbox = here.until_said("pr-2", "Accepted", "False", "NotSupportedOnFargate").await;
    assert!(message(&sandbox, "Accepted").contains("privileged"));
    assert!(made.there.forks("pr-2").await.is_empty());
}

#[tokio::test]
async fn f16_twenty_live_sandboxes_leave_a_cluster_that_goes() {
    let world = World::start().await;
    let here = world.shop().await;
    let made = Made::start().await;
    let control_plane = Made::control_plane(&here, json!({"sandboxes": {"enabled": true}})).await;
    made.ready(&here, &control_plane).await;
    // As its own controller does: it stays until everything of it is gone.
    let held = json!({"metadata": {"finalizers": ["test.capt.x-k8s.io/held"]}});
    here.merge("CAPTControlPlane", "dev", held).await.unwrap();
    for index in 0..20 {
        here.sandbox(&format!("pr-{index}"), in_dev(&json!({}))).await;
    }
    for index in 0..20 {
        here.until_said(&format!("pr-{index}"), "ComputeReady", "True", "FargateProfile").await;
    }
    assert_eq!(made.there.list("Deployment", &format!("{GROUP}/fork")).await.len(), 20);
    here.delete("CAPTControlPlane", "dev").await;
    for index in 0..20 {
        here.delete("Sandbox", &format!("pr-{index}")).await;
    }
    for index in 0..20 {
        here.until_gone("Sandbox", &format!("pr-{index}")).await;
    }
    for kind in ["Deployment", "Service"] {
        assert!(made.there.list(kind, &format!("{GROUP}/fork")).await.is_empty(), "{kind}");
    }
    assert!(made.there.get("Deployment", "cart").await.is_some());
}

#[tokio::test]
async fn f16_sandboxes_of_a_cluster_that_is_gone_go_at_once() {
    let world = World::start().await;
    let here = world.shop().await;
    let made = Made::start().await;
    let control_plane = Made::control_plane(&here, json!({"sandboxes": {"enabled": true}})).await;
    made.ready(&here, &control_plane).await;
    for index in 0..20 {
        here.sandbox(&format!("pr-{index}"), in_dev(&json!({}))).await;
    }
    for index in 0..20 {
        here.until_said(&format!("pr-{index}"), "ComputeReady", "True", "FargateProfile").await;
    }
    // The cluster goes without a word, and its objects with it.
    made.server.stop().await;
    here.delete("CAPTControlPlane", "dev").await;
    for index in 0..20 {
        here.delete("Sandbox", &format!("pr-{index}")).await;
    }
    for index in 0..20 {
        here.until_gone("Sandbox", &format!("pr-{index}")).await;
    }
}

#[tokio::test]
async fn a_kubeconfig_that_would_run_a_program_is_not_used() {
    let world = World::start().await;
    let here = world.shop().await;
    let control_plane = Made::control_plane(&here, json!({})).await;
    let text = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "x",
        "clusters": [{"name": "x", "cluster": {"server": "https://127.0.0.1:9"}}],
        "users": [{"name": "x", "user": {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "touch"}}}],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
    });
    Made::kubeconfig(&here, &control_plane, &text.to_string()).await;
    let status = json!({"initialization": {"controlPlaneInitialized": true}, "secretsReady": true});
    here.set_status("CAPTControlPlane", "dev", status).await;
    here.sandbox("pr-1", in_dev(&json!({}))).await;
    let sandbox = here.until_said("pr-1", "BaselineResolved", "False", "ClusterNotReady").await;
    assert!(
        message(&sandbox, "BaselineResolved").contains("names a program"),
        "{}",
        message(&sandbox, "BaselineResolved")
    );
}

/// The controllers' clock in a world in which ten minutes are over as soon as they begin.
fn late() -> jiff::Timestamp {
    terraform_driver::clock::now().saturating_add(jiff::SignedDuration::from_mins(11)).unwrap()
}

#[tokio::test]
async fn a_cluster_that_nobody_reaches_is_told_and_holds_no_sandbox_for_ever() {
    let mut world = World::idle().await;
    world.clock = late;
    world.begin();
    let here = world.shop().await;
    let control_plane = Made::control_plane(&here, json!({})).await;
    // Nobody listens there.
    let text = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "x",
        "clusters": [{"name": "x", "cluster": {"server": "https://127.0.0.1:9"}}],
        "users": [{"name": "x", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
    });
    Made::kubeconfig(&here, &control_plane, &text.to_string()).await;
    let status = json!({"initialization": {"controlPlaneInitialized": true}, "secretsReady": true});
    here.set_status("CAPTControlPlane", "dev", status).await;
    here.sandbox("pr-1", in_dev(&json!({}))).await;
    let sandbox = here.until_said("pr-1", "BaselineResolved", "False", "ClusterNotReady").await;
    let text = message(&sandbox, "BaselineResolved");
    assert!(text.contains("cannot be reached"), "{text}");
    assert_eq!(sandbox["status"]["phase"], "Pending");
    here.delete("Sandbox", "pr-1").await;
    here.until_gone("Sandbox", "pr-1").await;
    let told = here.until_told("pr-1", "CleanedUp").await;
    assert!(told["note"].as_str().unwrap().contains("may still be in its cluster"), "{told}");
    world.end().await;
}

#[tokio::test]
async fn a_cluster_that_is_lost_later_is_told_too() {
    let world = World::start().await;
    let here = world.shop().await;
    let (made, _node) = Made::with_a_fork(&here).await;
    made.server.stop().await;
    here.merge("Sandbox", "pr-1", json!({"metadata": {"labels": {"looked": "at"}}})).await.unwrap();
    let sandbox = here.until_said("pr-1", "BaselineResolved", "False", "ClusterNotReady").await;
    assert_eq!(said(&sandbox, "Ready").0, "False");
}
