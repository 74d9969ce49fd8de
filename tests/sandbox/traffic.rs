//! Traffic through routers on a Kubernetes API. Pods are servers at their own addresses, which exist in a network namespace of
//! the test; kube-proxy is played by a client that looks into the `EndpointSlice`s.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex},
    time::Duration,
};

use capt_controllers::{
    common::{Context, Settings},
    service_takeover,
};
use capt_dataplane::router;
use capt_kube::k8s::{EventPublisher, KubeClient};
use embedded_kube::request::User;
use k8s_openapi::api::core::v1::Pod;
use kube::{ResourceExt as _, api::ListParams};
use sandbox_router::proxy;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    fake_node::next_address,
    harness::{SandboxHarness, apply},
    test_namespace::{GROUP, TestNamespace, name},
};

/// A server for every pod, at the pod's address. It answers with the pod's image.
#[derive(Clone, Default)]
pub(crate) struct PodServers {
    running: Arc<Mutex<BTreeMap<String, Vec<CancellationToken>>>>,
}

impl PodServers {
    /// What the node does with a new pod. Routers are started by those who want them.
    pub(crate) fn into_address_fn(self) -> impl Fn(&Pod) -> String + Send + Sync + 'static {
        move |pod| {
            let address = next_address();
            if !pod.labels().contains_key(&format!("{GROUP}/router")) {
                self.start(&address, pod);
            }
            address
        }
    }

    fn start(&self, address: &str, pod: &Pod) {
        let image = pod.spec.as_ref().and_then(|it| it.containers[0].image.clone()).unwrap();
        let listener = std::net::TcpListener::bind((address, 8080)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let stop = CancellationToken::new();
        self.running.lock().unwrap().entry(image.clone()).or_default().push(stop.clone());
        tokio::spawn(serve(TcpListener::from_std(listener).unwrap(), image, stop));
    }

    /// The processes with this image die.
    pub(crate) fn kill(&self, image: &str) {
        self.running.lock().unwrap().remove(image).into_iter().flatten().for_each(|it| it.cancel());
    }
}

async fn serve(listener: TcpListener, image: String, stop: CancellationToken) {
    let all = async {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(stop.clone().run_until_cancelled_owned(serve_connection(stream, image.clone())));
        }
    };
    stop.run_until_cancelled(all).await;
}

async fn serve_connection(mut stream: TcpStream, image: String) {
    let mut buffer = [0; 4096];
    while let Ok(1..) = stream.read(&mut buffer).await {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{image}", image.len());
        if stream.write_all(head.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// Where a Service leads, as kube-proxy sees it.
pub(crate) async fn service_endpoints(shop: &TestNamespace, service: &str) -> Vec<SocketAddr> {
    let slices = shop.list("EndpointSlice", &format!("kubernetes.io/service-name={service}")).await;
    let mut all = Vec::new();
    for slice in &slices {
        let port = slice["ports"][0]["port"].as_u64().unwrap_or_default();
        for endpoint in slice["endpoints"].as_array().into_iter().flatten() {
            if endpoint["conditions"]["ready"] != json!(false) {
                let ip: IpAddr = endpoint["addresses"][0].as_str().unwrap().parse().unwrap();
                all.push(SocketAddr::new(ip, u16::try_from(port).unwrap()));
            }
        }
    }
    all
}

/// Waits until a Service leads to these routers and to nobody else. Another controller sees to that, a moment after it was
/// taken over.
pub(crate) async fn wait_until_endpoints_are(shop: &TestNamespace, service: &str, routers: &[&Value]) {
    let mut behind: Vec<&str> = routers.iter().filter_map(|it| it["status"]["podIP"].as_str()).collect();
    behind.sort_unstable();
    shop.wait_for("the routers are behind the Service", async || {
        let mut all: Vec<String> =
            service_endpoints(shop, service).await.iter().map(|it| it.ip().to_string()).collect();
        all.sort_unstable();
        all == behind
    })
    .await;
}

/// Who answers a request to a Service, with this key.
pub(crate) async fn request_service(
    shop: &TestNamespace,
    service: &str,
    key: Option<&str>,
    turn: usize,
) -> Result<String, String> {
    let all = service_endpoints(shop, service).await;
    let to = *all.get(turn % all.len().max(1)).ok_or("the Service has no endpoint")?;
    send_request(to, &key.map(|key| format!("baggage: sd-routing-key={key}\r\n")).unwrap_or_default()).await
}

/// Who answers a request with these headers.
pub(crate) async fn send_request(to: SocketAddr, headers: &str) -> Result<String, String> {
    let words = |error: std::io::Error| format!("{to}: {error}");
    let mut stream = TcpStream::connect(to).await.map_err(words)?;
    let head = format!("GET / HTTP/1.1\r\nhost: a\r\n{headers}connection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await.map_err(words)?;
    let mut said = String::new();
    // A pod of ours keeps its connections.
    let mut buffer = [0; 4096];
    while !said.contains("\r\n\r\n") || said.ends_with("\r\n\r\n") {
        let read = stream.read(&mut buffer).await.map_err(words)?;
        if read == 0 {
            break;
        }
        said.push_str(&String::from_utf8_lossy(&buffer[..read]));
    }
    match said.split_once("\r\n\r\n") {
        Some((head, body)) if head.starts_with("HTTP/1.1 200 ") => Ok(body.to_owned()),
        _ => Err(format!("{to}: {said:?}")),
    }
}

/// A router of a pod, in this process.
pub(crate) struct InProcessRouter {
    pub(crate) stop: CancellationToken,
    pub(crate) task: JoinHandle<anyhow::Result<()>>,
}

pub(crate) fn start_router(client: kube::Client, pod: &Value) -> InProcessRouter {
    start_router_with_linger(client, pod, Duration::from_secs(2))
}

/// A router that keeps serving for this long after its stop signal.
pub(crate) fn start_router_with_linger(
    client: kube::Client,
    pod: &Value,
    linger: Duration,
) -> InProcessRouter {
    let address: IpAddr = pod["status"]["podIP"].as_str().unwrap().parse().unwrap();
    let any = |port: u16| Some(SocketAddr::new(address, port));
    let settings = router::RouterSettings {
        namespace: "shop".to_owned(),
        own_namespace_only: false,
        name: name(pod).to_owned(),
        uid: pod["metadata"]["uid"].as_str().map(str::to_owned),
        address: Some(address),
        domain: None,
        tunnel: any(8446),
        linger,
        proxy: proxy::ProxySettings {
            address,
            host_listener: any(8080),
            admin: any(8081),
            ..proxy::ProxySettings::default()
        },
    };
    let stop = CancellationToken::new();
    InProcessRouter { task: tokio::spawn(router::run(KubeClient::new(client), settings, stop.clone())), stop }
}

/// How the requests of routers are known in the log.
pub(crate) const ROUTER_AGENT: &str = "router";

/// A client as the account of `deploy/router`, once it may what it is to do.
pub(crate) async fn router_client(world: &SandboxHarness) -> kube::Client {
    let manifest = include_str!("../../deploy/router/router-role.yaml");
    for mut object in serde_saphyr::from_multiple::<Value>(manifest).unwrap() {
        // As its kustomization does.
        if !object["kind"].as_str().unwrap().starts_with("Cluster") {
            object["metadata"]["namespace"] = json!("shop");
        }
        for subject in object.get_mut("subjects").and_then(Value::as_array_mut).into_iter().flatten() {
            subject["namespace"] = json!("shop");
        }
        apply(&world.client(), object).await;
    }
    let groups = ["system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated"];
    let name = "system:serviceaccount:shop:capt-router".to_owned();
    let user = User { name, groups: groups.map(str::to_owned).into(), ..User::default() };
    let client = world.server.client_as(user, ROUTER_AGENT).await;
    let seen = TestNamespace { client: client.clone(), namespace: "shop".to_owned() };
    // A real API server learns of rules a moment later.
    seen.wait_for("the router may look", async || {
        let (services, sandboxes) = (seen.api("Service"), seen.api("Sandbox"));
        let all = ListParams::default();
        services.list(&all).await.is_ok() && sandboxes.list(&all).await.is_ok()
    })
    .await;
    client
}

/// The controller of Services, as the account of `deploy/`.
pub(crate) fn start_service_controller(world: &SandboxHarness) -> DropGuard {
    let kube = KubeClient::new(world.operator_client());
    let events = EventPublisher::new(kube.clone(), "capt/service", "test");
    let common = Context::new(kube, Settings::default(), events, "v1beta2");
    let stop = CancellationToken::new();
    tokio::spawn(service_takeover::run(
        Arc::new(service_takeover::Context::new(Arc::new(common))),
        stop.clone(),
    ));
    stop.drop_guard()
}

pub(crate) async fn set_routing(shop: &TestNamespace, service: &str, value: Value) {
    let patch = json!({"metadata": {"annotations": {(format!("{GROUP}/routing")): value}}});
    shop.merge_patch("Service", service, patch).await.unwrap();
}

/// What the kubelet says of a pod's probe; waits until the Service's endpoints know.
pub(crate) async fn set_pod_ready(shop: &TestNamespace, pod: &Value, is: bool) {
    let status = if is { "True" } else { "False" };
    shop.set_status("Pod", name(pod), json!({"conditions": [{"type": "Ready", "status": status}]})).await;
    let ip = &pod["status"]["podIP"];
    shop.wait_for("the endpoints know", async || {
        let service = shop.get("Service", "cart").await.unwrap();
        if !is_taken_over(&service) {
            return true;
        }
        let slices = shop.list("EndpointSlice", "kubernetes.io/service-name=cart").await;
        let mut endpoints = slices.iter().flat_map(|it| it["endpoints"].as_array().into_iter().flatten());
        endpoints.any(|it| &it["addresses"][0] == ip && it["conditions"]["ready"] != json!(false)) == is
    })
    .await;
}

/// What the probe of a router says.
pub(crate) async fn is_router_ready(admin: SocketAddr) -> bool {
    let Ok(mut stream) = TcpStream::connect(admin).await else { return false };
    let head = "GET /readyz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    let mut said = String::new();
    stream.write_all(head.as_bytes()).await.is_ok()
        && stream.read_to_string(&mut said).await.is_ok()
        && said.starts_with("HTTP/1.1 200 ")
}

pub(crate) fn is_taken_over(service: &Value) -> bool {
    service["spec"]["selector"].get(format!("{GROUP}/router")).is_some()
}
