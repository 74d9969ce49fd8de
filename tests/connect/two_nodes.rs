//! Two nodes with a router each, behind a real API server: the kubelet's own server forwards to them.

use std::net::{Ipv4Addr, SocketAddr};

use capt_kinds::sandbox::names;
use conformance::Kubelet;
use k8s_openapi::api::authorization::v1::ResourceAttributes;
use serde_json::{Value, json};

use super::{
    capt_process::CaptProcess,
    cluster::{ConnectCluster, NAMESPACE},
    end_to_end::{
        BASELINE, KEY, POD, create_cart_objects, create_object, grant_router_role, start_router,
        wait_for_answer_from,
    },
    harness::start_app_at,
    network::ports,
    test_kube::{TestKube, wait_until_allowed},
};

/// Since 1.36 a kubelet declares this, and the API server hands it a WebSocket as it is. For an older one it does so too,
/// if the frames are those of ours; so one node is new, and one is old.
const DECLARED_FEATURES: [&[&str]; 2] = [&["ExtendWebSocketsToKubelet"], &[]];

pub(crate) struct TwoNodes {
    pub(crate) cluster: ConnectCluster,
    pub(crate) nodes: [RouterNode; 2],
}

/// A node with a router.
pub(crate) struct RouterNode {
    name: String,
    address: SocketAddr,
    kubelet: Option<Kubelet>,
    /// Where its router serves the service.
    pub(crate) service: SocketAddr,
    pub(crate) router: CaptProcess,
}

impl TwoNodes {
    /// With an application at this port of this machine.
    pub(crate) async fn start(local: u16) -> Self {
        let cluster = ConnectCluster::start().await;
        start_app_at(SocketAddr::from((POD, 8080)), "baseline").await;
        let ports = ports(0).map(|it| it.port());
        grant_router_role(&cluster).await;
        create_cart_objects(&cluster, ports[0], local).await;
        let all = [start_node(&cluster, 0, ports).await, start_node(&cluster, 1, ports).await];
        let nodes = Self { cluster, nodes: all };
        for node in &nodes.nodes {
            node.wait_for_answer(None, BASELINE).await;
        }
        nodes
    }

    /// What docs/sandbox.md says that the way through the API server needs.
    pub(crate) async fn allow(&self, user: &str, resource: &str, verbs: &[&str]) {
        let name = format!("{user}-{}", resource.replace('/', "-"));
        let group = "rbac.authorization.k8s.io";
        let meta = json!({"name": name, "namespace": NAMESPACE});
        let version = format!("{group}/v1");
        let rules = json!([{"apiGroups": [""], "resources": [resource], "verbs": verbs}]);
        create_object(
            &self.cluster,
            json!({"apiVersion": version, "kind": "Role", "metadata": meta, "rules": rules}),
        )
        .await;
        let binding = json!({
            "apiVersion": version, "kind": "RoleBinding", "metadata": meta,
            "roleRef": {"apiGroup": group, "kind": "Role", "name": name},
            "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
        });
        create_object(&self.cluster, binding).await;
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        for verb in verbs {
            let it = ResourceAttributes {
                namespace: Some(NAMESPACE.to_owned()),
                verb: Some((*verb).to_owned()),
                resource: Some(resource.to_owned()),
                subresource: Some(subresource.to_owned()),
                ..ResourceAttributes::default()
            };
            wait_until_allowed(&self.cluster.client, user, &it).await;
        }
    }

    pub(crate) async fn allow_all(&self, user: &str) {
        self.allow(user, "pods", &["list"]).await;
        self.allow(user, "pods/portforward", &["create", "get"]).await;
    }

    /// The node to whose router the agent is connected, and the other one.
    pub(crate) async fn connected_node(&self) -> (usize, usize) {
        let status = self.cluster.wait_for_status(|it| it["phase"] == "Connected").await;
        let at = usize::from(status["session"]["gateway"] == "router-1");
        (at, 1 - at)
    }

    /// Waits until the agent is connected to the router of this node.
    pub(crate) async fn wait_for_session_on(&self, node: usize) -> Value {
        let gateway = format!("router-{node}");
        self.cluster
            .wait_for_status(|it| it["phase"] == "Connected" && it["session"]["gateway"] == gateway.as_str())
            .await
    }

    /// Kills the kubelet of a node, and all that goes through it.
    pub(crate) fn kill_kubelet(&mut self, node: usize) {
        self.nodes[node].kubelet = None;
    }

    pub(crate) async fn restart_kubelet(&mut self, node: usize) {
        let TestKube::Real(real) = &self.cluster.server else { unreachable!("embedded-kube has no nodes") };
        let node = &mut self.nodes[node];
        node.kubelet = Some(real.start_kubelet(&node.name, Some(node.address)).await);
    }
}

impl RouterNode {
    pub(crate) async fn wait_for_answer(&self, key: Option<&str>, wanted: &str) {
        wait_for_answer_from(self.service, key, wanted).await;
    }

    pub(crate) async fn wait_for_local_answer(&self, wanted: &str) {
        self.wait_for_answer(Some(KEY), wanted).await;
    }
}

async fn start_node(
    cluster: &ConnectCluster,
    at: u8,
    [listen, front, admin, tunnel]: [u16; 4],
) -> RouterNode {
    let TestKube::Real(real) = &cluster.server else { unreachable!("embedded-kube has no nodes") };
    let (name, pod) = (format!("node-{at}"), format!("router-{at}"));
    let kubelet = real.start_kubelet(&name, None).await;
    let ip = Ipv4Addr::new(10, 9, 0, at + 1);
    // The loopback of the pod: from there a port-forward comes, and from nowhere else anything without TLS.
    let loopback = Ipv4Addr::new(127, 9, 0, at + 1);
    create_object(
        cluster,
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {
            "addresses": [{"type": "InternalIP", "address": kubelet.address.ip()}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet.address.port()}},
            "declaredFeatures": DECLARED_FEATURES[usize::from(at)],
        }}),
    )
    .await;
    create_object(
        cluster,
        json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": pod, "namespace": NAMESPACE, "labels": {names::ROUTER_LABEL: "router"}},
            "spec": {"nodeName": name, "serviceAccountName": "capt-router", "containers": [
                {"name": "router", "image": "capt", "ports": [{"name": "tunnel", "containerPort": tunnel}]}]},
            "status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}],
                       "conditions": [{"type": "Ready", "status": "True"}]}}),
    )
    .await;
    let at = |port| SocketAddr::from((ip, port));
    let router = start_router(cluster, &pod, [at(front), at(admin), SocketAddr::from((loopback, tunnel))]);
    RouterNode { name, address: kubelet.address, kubelet: Some(kubelet), service: at(listen), router }
}
