//! The way to a router through the API server: no address of the cluster has to be reachable from outside.

use std::{future::Future, io, pin::Pin};

use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, ResourceExt as _, api::ListParams};
use sandbox::api::names;
use sandbox_router::tunnel::{BoxIo, PORT, agent::Dial};

/// The name of the container port where agents knock.
const PORT_NAME: &str = "tunnel";

/// Dials a router of a namespace through `pods/portforward`; another one every time, if there are several.
#[derive(Clone)]
pub struct PortForward {
    client: Client,
    namespace: String,
}

impl PortForward {
    /// The routers of this namespace.
    pub fn new(client: Client, namespace: &str) -> Self {
        Self { client, namespace: namespace.to_owned() }
    }

    async fn open(&self) -> io::Result<BoxIo> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let all =
            pods.list(&ListParams::default().labels(names::ROUTER_LABEL)).await.map_err(io::Error::other)?;
        let ready: Vec<&Pod> = all.iter().filter(|it| is_ready(it)).collect();
        let Some(pod) = ready.get(fastrand::usize(..ready.len().max(1))) else {
            let why = format!("no router is ready in the namespace {}", self.namespace);
            return Err(io::Error::new(io::ErrorKind::NotFound, why));
        };
        let port = port(pod);
        let mut forward = pods.portforward(&pod.name_any(), &[port]).await.map_err(io::Error::other)?;
        let stream =
            forward.take_stream(port).ok_or_else(|| io::Error::other("the port-forward has no stream"))?;
        // The forwarder goes on by itself, and ends with the stream.
        Ok(Box::new(stream))
    }
}

impl Dial for PortForward {
    fn dial(&self) -> Pin<Box<dyn Future<Output = io::Result<BoxIo>> + Send + '_>> {
        Box::pin(self.open())
    }

    fn name(&self) -> String {
        format!("a router of {}", self.namespace)
    }
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|it| it.conditions.as_ref());
    let is_ready =
        conditions.is_some_and(|all| all.iter().any(|it| it.type_ == "Ready" && it.status == "True"));
    is_ready && pod.metadata.deletion_timestamp.is_none()
}

/// Where the router listens for agents.
fn port(pod: &Pod) -> u16 {
    let containers = pod.spec.iter().flat_map(|it| &it.containers);
    let mut ports = containers.flat_map(|it| it.ports.iter().flatten());
    let named = ports.find(|it| it.name.as_deref() == Some(PORT_NAME));
    named.and_then(|it| u16::try_from(it.container_port).ok()).unwrap_or(PORT)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(ready: &str, ports: &serde_json::Value) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": "router-0"},
            "spec": {"containers": [{"name": "router", "ports": ports}]},
            "status": {"conditions": [{"type": "Ready", "status": ready}]},
        }))
        .unwrap()
    }

    #[test]
    fn the_port_of_a_router_is_known_by_its_name() {
        let ports = json!([{"name": "http", "containerPort": 80}, {"name": "tunnel", "containerPort": 9000}]);
        assert_eq!(port(&pod("True", &ports)), 9000);
        assert_eq!(port(&pod("True", &json!([]))), PORT);
    }

    #[test]
    fn a_router_that_is_not_ready_or_is_going_is_not_dialled() {
        assert!(is_ready(&pod("True", &json!([]))));
        assert!(!is_ready(&pod("False", &json!([]))));
        let mut going = pod("True", &json!([]));
        going.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
            "2026-11-17T05:00:00Z".parse().unwrap(),
        ));
        assert!(!is_ready(&going));
    }
}
