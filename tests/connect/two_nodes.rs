//! Two nodes with a router each, behind a real API server: the kubelet's own server forwards to them.

use std::net::{Ipv4Addr, SocketAddr};

use conformance::Kubelet;
use k8s_openapi::api::authorization::v1::ResourceAttributes;
use sandbox::api::names;
use serde_json::{Value, json};

use super::{
    agent::Agent,
    cluster::{Cluster, HOME},
    network::ports,
    rig::app_at,
    server::{Server, until_allowed},
    whole::{BASELINE, KEY, POD, give_rights, make, put, router, until_answered},
};

/// Since 1.36 a kubelet declares this, and the API server hands it a WebSocket as it is. For an older one it does so too,
/// if the frames are those of ours; so one node is new, and one is old.
const DECLARED: [&[&str]; 2] = [&["ExtendWebSocketsToKubelet"], &[]];

pub(crate) struct Nodes {
    pub(crate) cluster: Cluster,
    pub(crate) all: [Node; 2],
}

/// A node with a router.
pub(crate) struct Node {
    name: String,
    address: SocketAddr,
    kubelet: Option<Kubelet>,
    /// Where its router serves the service.
    pub(crate) service: SocketAddr,
    pub(crate) router: Agent,
}

impl Nodes {
    /// With an application at this port of this machine.
    pub(crate) async fn start(local: u16) -> Self {
        let cluster = Cluster::start().await;
        app_at(SocketAddr::from((POD, 8080)), "baseline").await;
        let ports = ports(0).map(|it| it.port());
        give_rights(&cluster).await;
        make(&cluster, ports[0], local).await;
        let all = [node(&cluster, 0, ports).await, node(&cluster, 1, ports).await];
        let nodes = Self { cluster, all };
        for node in &nodes.all {
            node.until(None, BASELINE).await;
        }
        nodes
    }

    /// What docs/sandbox.md says that the way through the API server needs.
    pub(crate) async fn allow(&self, user: &str, resource: &str, verbs: &[&str]) {
        let name = format!("{user}-{}", resource.replace('/', "-"));
        let group = "rbac.authorization.k8s.io";
        let meta = json!({"name": name, "namespace": HOME});
        let version = format!("{group}/v1");
        let rules = json!([{"apiGroups": [""], "resources": [resource], "verbs": verbs}]);
        put(&self.cluster, json!({"apiVersion": version, "kind": "Role", "metadata": meta, "rules": rules}))
            .await;
        let binding = json!({
            "apiVersion": version, "kind": "RoleBinding", "metadata": meta,
            "roleRef": {"apiGroup": group, "kind": "Role", "name": name},
            "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
        });
        put(&self.cluster, binding).await;
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        for verb in verbs {
            let it = ResourceAttributes {
                namespace: Some(HOME.to_owned()),
                verb: Some((*verb).to_owned()),
                resource: Some(resource.to_owned()),
                subresource: Some(subresource.to_owned()),
                ..ResourceAttributes::default()
            };
            until_allowed(&self.cluster.client, user, &it).await;
        }
    }

    pub(crate) async fn allow_all(&self, user: &str) {
        self.allow(user, "pods", &["list"]).await;
        self.allow(user, "pods/portforward", &["create", "get"]).await;
    }

    /// The node to whose router the agent is connected, and the other one.
    pub(crate) async fn connected(&self) -> (usize, usize) {
        let status = self.cluster.until(|it| it["phase"] == "Connected").await;
        let at = usize::from(status["session"]["gateway"] == "router-1");
        (at, 1 - at)
    }

    /// Waits until the agent is connected to the router of this node.
    pub(crate) async fn until_connected_to(&self, node: usize) -> Value {
        let gateway = format!("router-{node}");
        self.cluster
            .until(|it| it["phase"] == "Connected" && it["session"]["gateway"] == gateway.as_str())
            .await
    }

    /// Kills the kubelet of a node, and all that goes through it.
    pub(crate) fn lose(&mut self, node: usize) {
        self.all[node].kubelet = None;
    }

    pub(crate) async fn restore(&mut self, node: usize) {
        let Server::Real(real) = &self.cluster.server else { unreachable!("embedded-kube has no nodes") };
        let node = &mut self.all[node];
        node.kubelet = Some(real.kubelet(&node.name, Some(node.address)).await);
    }
}

impl Node {
    pub(crate) async fn until(&self, key: Option<&str>, wanted: &str) {
        until_answered(self.service, key, wanted).await;
    }

    pub(crate) async fn until_local(&self, wanted: &str) {
        self.until(Some(KEY), wanted).await;
    }
}

async fn node(cluster: &Cluster, at: u8, [listen, front, admin, tunnel]: [u16; 4]) -> Node {
    let Server::Real(real) = &cluster.server else { unreachable!("embedded-kube has no nodes") };
    let (name, pod) = (format!("node-{at}"), format!("router-{at}"));
    let kubelet = real.kubelet(&name, None).await;
    let ip = Ipv4Addr::new(10, 9, 0, at + 1);
    // The loopback of the pod: from there a port-forward comes, and from nowhere else anything without TLS.
    let loopback = Ipv4Addr::new(127, 9, 0, at + 1);
    put(
        cluster,
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {
            "addresses": [{"type": "InternalIP", "address": kubelet.address.ip()}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet.address.port()}},
            "declaredFeatures": DECLARED[usize::from(at)],
        }}),
    )
    .await;
    put(
        cluster,
        json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": pod, "namespace": HOME, "labels": {names::ROUTER_LABEL: "router"}},
            "spec": {"nodeName": name, "serviceAccountName": "capt-router", "containers": [
                {"name": "router", "image": "capt", "ports": [{"name": "tunnel", "containerPort": tunnel}]}]},
            "status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}],
                       "conditions": [{"type": "Ready", "status": "True"}]}}),
    )
    .await;
    let at = |port| SocketAddr::from((ip, port));
    let router = router(cluster, &pod, [at(front), at(admin), SocketAddr::from((loopback, tunnel))]);
    Node { name, address: kubelet.address, kubelet: Some(kubelet), service: at(listen), router }
}
