//! The whole way: a caller, `capt router` as a process with the rights of `deploy/router`, its tunnel with TLS, `capt connect`
//! as a process, and an application on this machine.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::{Duration, Instant},
};

use embedded_kube::fault_injection::{ApiCall, Effect, Fault};
use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::{ConfigMap, ServiceAccount},
    events::v1::Event,
};
use kube::{
    Api,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
    core::GroupVersionKind,
};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::{
    capt_process::CaptProcess,
    cluster::{ConnectCluster, NAMESPACE, WORKLOAD, condition_status},
    harness::{start_app, start_app_at},
    network::{in_own_network, ports},
    test_kube::{self, TIMEOUT, TestKube},
};

pub(crate) const KEY: &str = "pr-1-key";
const ROUTER_ROLE: &str = include_str!("../../deploy/router/router-role.yaml");
/// The pod of the baseline.
pub(crate) const POD: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 1);

/// A cluster with a service, a sandbox, a local workload of it, and a router.
pub(crate) struct RouterHarness {
    pub(crate) cluster: ConnectCluster,
    pub(crate) router: CaptProcess,
    pub(crate) service: SocketAddr,
    pub(crate) tunnel: String,
    admin: SocketAddr,
}

impl RouterHarness {
    /// With an application at this port of this machine.
    pub(crate) async fn start(local: u16) -> Self {
        let cluster = ConnectCluster::start().await;
        start_app_at(SocketAddr::from((POD, 8080)), "baseline").await;
        let [service, front, admin, tunnel] = ports(0);
        grant_router_role(&cluster).await;
        create_cart_objects(&cluster, service.port(), local).await;
        let router = start_router(&cluster, "router-0", [front, admin, tunnel]);
        let whole = Self { cluster, router, service, tunnel: tunnel.to_string(), admin };
        whole.wait_for_answer(None, "200 baseline baseline").await;
        whole
    }

    /// A developer connects, by the address of the tunnel. The authority is that of the cluster.
    async fn connect(&self, user: &str, more: &[&str]) -> CaptProcess {
        self.connect_at(&self.tunnel, user, more).await
    }

    pub(crate) async fn connect_at(&self, address: &str, user: &str, more: &[&str]) -> CaptProcess {
        self.wait_for_authority().await;
        self.cluster.run_connect(user, &[&["--address", address], more].concat())
    }

    /// Where the router says whose certificates to trust, as soon as it does.
    async fn wait_for_authority(&self) -> Api<ConfigMap> {
        let maps: Api<ConfigMap> = Api::namespaced(self.cluster.client.clone(), NAMESPACE);
        let begun = Instant::now();
        while maps.get_opt("capt-tunnel-authority").await.unwrap().is_none() {
            assert!(begun.elapsed() < TIMEOUT, "the router publishes no authority");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        maps
    }

    /// The code, who answered, and the body or the word for what went wrong.
    async fn request(&self, key: Option<&str>) -> String {
        request(self.service, key).await
    }

    pub(crate) async fn wait_for_answer(&self, key: Option<&str>, wanted: &str) {
        wait_for_answer_from(self.service, key, wanted).await;
    }

    async fn wait_for_event(&self, reason: &str) {
        let events: Api<Event> = Api::namespaced(self.cluster.client.clone(), NAMESPACE);
        let begun = Instant::now();
        loop {
            let all = events.list(&ListParams::default()).await.unwrap();
            let is_it = |it: &Event| {
                let regarding = it.regarding.as_ref().and_then(|it| it.name.as_deref());
                it.reason.as_deref() == Some(reason) && regarding == Some(WORKLOAD)
            };
            if all.iter().any(is_it) {
                return;
            }
            let told: Vec<_> = all.iter().map(|it| (&it.reason, &it.note)).collect();
            assert!(begun.elapsed() < TIMEOUT, "no event {reason}, but {told:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn patch_workload_spec(&self, spec: &Value) {
        let patch = Patch::Merge(json!({"spec": spec}));
        self.cluster.api().patch(WORKLOAD, &PatchParams::default(), &patch).await.unwrap();
    }
}

/// A router at one address, with a listener of each kind.
pub(crate) fn start_router(
    cluster: &ConnectCluster,
    name: &str,
    [front, admin, tunnel]: [SocketAddr; 3],
) -> CaptProcess {
    let kubeconfig = cluster.write_kubeconfig("router");
    let address = front.ip().to_string();
    let [front, admin, tunnel] = [front, admin, tunnel].map(|it| it.to_string());
    let args = [
        &["router", "--kubeconfig", &kubeconfig, "-n", NAMESPACE, "--name", name, "--workers", "1"][..],
        &["--pod-address", &address, "--address", &address, "--front", &front],
        &["--admin", &admin, "--tunnel", &tunnel, "--log", "info,kube=warn"],
    ];
    CaptProcess::start(&args.concat(), cluster.home_dir())
}

/// The code, who answered, and the body or the word for what went wrong.
pub(crate) async fn request(to: SocketAddr, key: Option<&str>) -> String {
    let key = key.map(|key| format!("baggage: sd-routing-key={key}\r\n")).unwrap_or_default();
    let lines = format!("GET / HTTP/1.1\r\nhost: cart\r\n{key}connection: close\r\n\r\n");
    let said = exchange_raw(to, &lines).await;
    let Some((head, body)) = said.split_once("\r\n\r\n") else { return said };
    let header = |name: &str| head.lines().find_map(|it| it.strip_prefix(&format!("{name}: ")));
    let code = head.split(' ').nth(1).unwrap_or_default();
    let word = header("x-sandbox-error").unwrap_or(body);
    format!("{code} {} {word}", header("x-sandbox-route").unwrap_or("nobody"))
}

/// Sends raw lines and returns the response until the connection is closed.
async fn exchange_raw(to: SocketAddr, lines: &str) -> String {
    let Ok(mut stream) = TcpStream::connect(to).await else { return "nobody listens".to_owned() };
    let mut said = Vec::new();
    let asked = async {
        stream.write_all(lines.as_bytes()).await?;
        stream.read_to_end(&mut said).await
    };
    match tokio::time::timeout(TIMEOUT, asked).await {
        Ok(Ok(_)) => String::from_utf8_lossy(&said).into_owned(),
        other => format!("{other:?}"),
    }
}

/// Waits until this is the answer.
pub(crate) async fn wait_for_answer_from(to: SocketAddr, key: Option<&str>, wanted: &str) {
    let begun = Instant::now();
    loop {
        let last = request(to, key).await;
        if last == wanted {
            return;
        }
        assert!(begun.elapsed() < TIMEOUT, "not {wanted:?} but {last:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

pub(crate) async fn create_object(cluster: &ConnectCluster, mut object: Value) {
    let (api_version, kind) = (object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap());
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    let status = object.as_object_mut().unwrap().remove("status");
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    let name = object.metadata.name.clone().unwrap();
    let all: Api<DynamicObject> = match &object.metadata.namespace {
        Some(namespace) => Api::namespaced_with(cluster.client.clone(), namespace, &resource),
        None => Api::all_with(cluster.client.clone(), &resource),
    };
    all.create(&PostParams::default(), &object).await.unwrap();
    if let Some(status) = status {
        let patch = Patch::Merge(json!({"status": status}));
        all.patch_status(&name, &PatchParams::default(), &patch).await.unwrap();
    }
}

/// What `kubectl apply -k deploy/router` gives, and no more.
pub(crate) async fn grant_router_role(cluster: &ConnectCluster) {
    for mut object in serde_saphyr::from_multiple::<Value>(ROUTER_ROLE).unwrap() {
        if !object["kind"].as_str().unwrap().starts_with("Cluster") {
            object["metadata"]["namespace"] = json!(NAMESPACE);
        }
        for subject in object.get_mut("subjects").and_then(Value::as_array_mut).into_iter().flatten() {
            subject["namespace"] = json!(NAMESPACE);
        }
        create_object(cluster, object).await;
    }
}

/// The service, its pod, the sandbox and the local workload, as the controllers would leave them.
pub(crate) async fn create_cart_objects(cluster: &ConnectCluster, listen: u16, local: u16) {
    let group = "sandbox.capt.x-k8s.io";
    let listen = json!({"80": listen}).to_string();
    let meta = |name: &str| json!({"name": name, "namespace": NAMESPACE});
    let mut service = meta("cart");
    service["annotations"] = json!({(format!("{group}/listen")): listen});
    create_object(
        cluster,
        json!({"apiVersion": "v1", "kind": "Service", "metadata": service,
               "spec": {"ports": [{"name": "http", "port": 80, "targetPort": 8080}]}}),
    )
    .await;
    let mut slice = meta("cart-1");
    slice["labels"] = json!({"kubernetes.io/service-name": "cart"});
    create_object(
        cluster,
        json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": slice,
               "addressType": "IPv4", "ports": [{"name": "http", "port": 8080}],
               "endpoints": [{"addresses": [POD.to_string()], "conditions": {"ready": true}}]}),
    )
    .await;
    let version = format!("{group}/v1alpha1");
    create_object(
        cluster,
        json!({"apiVersion": version, "kind": "Sandbox", "metadata": meta("pr-1"),
               "spec": {"routingKey": KEY,
                        "virtual": [{"name": "v", "workload": {"kind": "Deployment", "name": "checkout"}}]},
               "status": {"routingKey": KEY}}),
    )
    .await;
    create_object(
        cluster,
        json!({"apiVersion": version, "kind": "LocalWorkload", "metadata": meta(WORKLOAD),
               "spec": {"sandboxRef": {"name": "pr-1"}, "from": {"kind": "Deployment", "name": "cart"},
                        "mappings": [{"port": 8080, "toLocal": format!("localhost:{local}")}],
                        "disconnectGracePeriod": "1s"},
               "status": {"services": [{"service": "cart", "ports": [{"port": 80, "targetPort": 8080}]}]}}),
    )
    .await;
}

pub(crate) const LOCAL: &str = "200 local/shop/cart-local mine";
pub(crate) const DISCONNECTED: &str = "503 local/shop/cart-local disconnected";
pub(crate) const BASELINE: &str = "200 baseline baseline";

#[tokio::test(flavor = "multi_thread")]
async fn a_key_leads_through_a_router_to_this_machine_and_the_policy_decides_when_it_is_gone() {
    if !in_own_network(
        "connect::end_to_end::a_key_leads_through_a_router_to_this_machine_and_the_policy_decides_when_it_is_gone",
    ) {
        return;
    }
    let whole = RouterHarness::start(start_app("mine").await.port()).await;
    whole.wait_for_answer(Some(KEY), DISCONNECTED).await;
    let mut ann = whole.connect("ann", &[]).await;
    ann.wait_for_output("connected as ann").await;
    whole.wait_for_answer(Some(KEY), LOCAL).await;
    assert_eq!(whole.request(None).await, BASELINE);
    assert_eq!(whole.request(Some("nobodys")).await, BASELINE);
    let status = whole.cluster.wait_for_status(|it| condition_status(it, "LocalReachable") == "True").await;
    assert_eq!(status["session"]["gatewayAddress"], "127.0.0.1");
    assert_eq!(status["services"][0]["service"], "cart", "the router leaves alone what is the controller's");
    whole.wait_for_event("TunnelConnected").await;
    let figures =
        exchange_raw(whole.admin, "GET /metrics HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await;
    assert!(figures.lines().any(|it| it == "tunnel_connected 1"), "{figures}");

    ann.signal(Signal::SIGKILL);
    whole.wait_for_answer(Some(KEY), DISCONNECTED).await;
    assert_eq!(whole.request(None).await, BASELINE);
    whole.wait_for_event("TunnelLost").await;
    whole.patch_workload_spec(&json!({"disconnectPolicy": "Baseline"})).await;
    whole.wait_for_answer(Some(KEY), BASELINE).await;
    let mut again = whole.connect("ann", &[]).await;
    whole.wait_for_answer(Some(KEY), LOCAL).await;
    again.signal(Signal::SIGTERM);
    assert_eq!(again.wait_for_exit().await, Some(0), "{}", again.output());
    whole.wait_for_answer(Some(KEY), BASELINE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f14_who_may_not_is_refused_and_who_is_connected_stays_unless_somebody_insists() {
    if !in_own_network(
        "connect::end_to_end::f14_who_may_not_is_refused_and_who_is_connected_stays_unless_somebody_insists",
    ) {
        return;
    }
    let whole = RouterHarness::start(start_app("mine").await.port()).await;
    let mut ann = whole.connect("ann", &[]).await;
    whole.wait_for_answer(Some(KEY), LOCAL).await;

    let mut bob = whole.connect("bob", &[]).await;
    assert_eq!(bob.wait_for_exit().await, Some(1));
    assert!(bob.output().contains("bob may not connect"), "{}", bob.output());
    let file = whole.cluster.write_file("token", "made up\n");
    let mut nobody = whole.connect("zoe", &["--token-file", &file]).await;
    assert_eq!(nobody.wait_for_exit().await, Some(1));
    assert!(nobody.output().contains("the token is not valid"), "{}", nobody.output());
    let file = whole.cluster.write_file("token", &expired_token(&whole.cluster).await);
    let mut robot = whole.connect("zoe", &["--token-file", &file]).await;
    assert_eq!(robot.wait_for_exit().await, Some(1));
    assert!(robot.output().contains("the token is not valid"), "{}", robot.output());

    let mut zoe = whole.connect("zoe", &[]).await;
    assert_eq!(zoe.wait_for_exit().await, Some(1));
    assert!(zoe.output().contains("ann is connected; --takeover takes it from them"), "{}", zoe.output());
    let knock = format!(
        "GET /tunnel/v1/{NAMESPACE}/{WORKLOAD} HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: capt-tunnel/1\r\n\
         authorization: Bearer token-of-zoe\r\ncapt-tunnel-session: x\r\n\r\n"
    );
    let answer = exchange_raw(whole.tunnel.parse().unwrap(), &knock).await;
    assert!(answer.starts_with("HTTP/1.1 409 "), "{answer}");
    assert_eq!(whole.request(Some(KEY)).await, LOCAL, "the session was not disturbed");

    let other = start_app("zoe's").await;
    let map = format!("8080={}", other.port());
    let _zoe = whole.connect("zoe", &["--takeover", "--map", &map]).await;
    whole.wait_for_answer(Some(KEY), "200 local/shop/cart-local zoe's").await;
    assert_eq!(ann.wait_for_exit().await, Some(1));
    assert!(ann.output().contains("zoe took it over"), "{}", ann.output());
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_do_not_wait_for_an_api_server_that_is_slow_to_write() {
    if test_kube::is_real() {
        // The router is a separate process, so only the server can delay it.
        return eprintln!("notice: a real API server is not slow on request, so this was NOT tested");
    }
    if !in_own_network("connect::end_to_end::tables_do_not_wait_for_an_api_server_that_is_slow_to_write") {
        return;
    }
    let whole = RouterHarness::start(start_app("mine").await.port()).await;
    let TestKube::Embedded(server) = &whole.cluster.server else { unreachable!("it is not real") };
    let faults = server.faults();
    whole.wait_for_answer(Some(KEY), DISCONNECTED).await;
    // Longer than anybody waits here: a router gives up such a write after a while, says so, and tries again.
    let slow = Effect::Delay(Duration::from_hours(1));
    let lease = |it: &ApiCall| it.is_write() && it.targets("leases.coordination.k8s.io");
    let fault = faults.add(Fault::new(lease, slow));
    let given_up = || whole.router.output().matches("the Lease of this router cannot be written").count();
    // The first change makes the router write its Lease.
    let leading = json!([{"service": "cart", "ports": [{"port": 80, "targetPort": 8080}]}]);
    let turns = [(json!([]), BASELINE), (leading, DISCONNECTED)];
    let mut quick = 0;
    for (services, answer) in turns.iter().cycle().take(8) {
        let (waits, before) = (faults.trigger_count(fault) > 0, given_up());
        let patch = Patch::Merge(json!({"status": {"services": services}}));
        whole.cluster.api().patch_status(WORKLOAD, &PatchParams::default(), &patch).await.unwrap();
        whole.wait_for_answer(Some(KEY), answer).await;
        // A busy machine may need for a change as long as a write takes to be given up: that one proves nothing.
        quick += usize::from(waits && given_up() == before);
        if quick == 2 {
            return;
        }
    }
    panic!("tables came only after a write of a Lease was given up");
}

/// A token that was good, and is no longer: its account is gone.
async fn expired_token(cluster: &ConnectCluster) -> String {
    let accounts: Api<ServiceAccount> = Api::namespaced(cluster.client.clone(), NAMESPACE);
    let account = serde_json::from_value(json!({"metadata": {"name": "robot"}})).unwrap();
    accounts.create(&PostParams::default(), &account).await.unwrap();
    let asked = TokenRequest { spec: TokenRequestSpec::default(), ..TokenRequest::default() };
    let made = accounts.create_token_request("robot", &PostParams::default(), &asked).await.unwrap();
    accounts.delete("robot", &DeleteParams::default()).await.unwrap();
    made.status.unwrap().token
}

#[tokio::test(flavor = "multi_thread")]
async fn a_router_with_another_certificate_is_refused_with_one_clear_message() {
    if !in_own_network(
        "connect::end_to_end::a_router_with_another_certificate_is_refused_with_one_clear_message",
    ) {
        return;
    }
    let whole = RouterHarness::start(start_app("mine").await.port()).await;
    let maps = whole.wait_for_authority().await;
    // As if another server answered at the address: the trusted CA did not sign its certificate.
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let other = params.self_signed(&key).unwrap().pem();
    let patch = Patch::Merge(json!({"data": {"ca.crt": other}}));
    maps.patch("capt-tunnel-authority", &PatchParams::default(), &patch).await.unwrap();
    let mut agent = whole.connect("ann", &[]).await;
    assert_eq!(agent.wait_for_exit().await, Some(1));
    let words = format!(
        "{} is not trusted: its certificate is not issued for tunnel.shop.sandbox.capt.x-k8s.io by the authority in the \
         ConfigMap shop/capt-tunnel-authority (UnknownIssuer)",
        whole.tunnel
    );
    assert_eq!(agent.output().matches(&words).count(), 1, "{}", agent.output());
    assert!(whole.cluster.api().get(WORKLOAD).await.unwrap().status.unwrap().session.is_none());
    maps.delete("capt-tunnel-authority", &DeleteParams::default()).await.unwrap();
    let mut lost = whole.cluster.run_connect("ann", &["--address", &whole.tunnel]);
    assert_eq!(lost.wait_for_exit().await, Some(1));
    assert!(lost.output().contains("have not published a CA"), "{}", lost.output());
}
