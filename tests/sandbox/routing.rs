//! Traffic through routers on the embedded Kubernetes API. Pods are servers at their own addresses, which exist in a network
//! namespace of this test; kube-proxy is played by a client that looks into the `EndpointSlice`s.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use capt::{
    controllers::{
        common::{Context, Settings},
        service,
    },
    k8s::{Events, Kube},
    sandbox::router,
};
use embedded_kube::auth;
use sandbox_router::proxy;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    account,
    clusters::{Made, in_dev},
    life::with_cart,
    network::in_own_network,
    node::Node,
    shop::{GROUP, Shop, name},
    takeover::routers,
    world::World,
};

/// A server for every pod, at the pod's address. It answers with the pod's image.
struct Pods {
    served: Mutex<BTreeMap<String, JoinHandle<()>>>,
}

impl Pods {
    fn new() -> Self {
        Self { served: Mutex::default() }
    }

    /// Starts the servers of pods that have none.
    async fn serve(&self, shop: &Shop) {
        for pod in shop.list("Pod", &format!("!{GROUP}/router")).await {
            let Some(ip) = pod["status"]["podIP"].as_str() else { continue };
            let image = pod["spec"]["containers"][0]["image"].as_str().unwrap().to_owned();
            let mut served = self.served.lock().unwrap();
            if !served.contains_key(ip) {
                let listener = std::net::TcpListener::bind((ip, 8080)).unwrap();
                listener.set_nonblocking(true).unwrap();
                let listener = TcpListener::from_std(listener).unwrap();
                served.insert(ip.to_owned(), tokio::spawn(answer(listener, image)));
            }
        }
    }
}

async fn answer(listener: TcpListener, image: String) {
    while let Ok((mut stream, _)) = listener.accept().await {
        let image = image.clone();
        tokio::spawn(async move {
            let mut buffer = [0; 4096];
            while let Ok(1..) = stream.read(&mut buffer).await {
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{image}", image.len());
                if stream.write_all(head.as_bytes()).await.is_err() {
                    return;
                }
            }
        });
    }
}

/// Who answers a request to a Service; the way there is looked up as kube-proxy does.
async fn ask(shop: &Shop, service: &str, key: Option<&str>, turn: usize) -> Result<String, String> {
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
    let to = *all.get(turn % all.len().max(1)).ok_or("the Service has no endpoint")?;
    let words = |error: std::io::Error| format!("{to}: {error}");
    let mut stream = TcpStream::connect(to).await.map_err(words)?;
    let key = key.map(|key| format!("baggage: sd-routing-key={key}\r\n")).unwrap_or_default();
    let head = format!("GET / HTTP/1.1\r\nhost: {service}\r\n{key}connection: close\r\n\r\n");
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

/// Callers without a key.
struct Load {
    over: Arc<AtomicBool>,
    asked: Arc<AtomicUsize>,
    failures: Arc<Mutex<Vec<String>>>,
    callers: Vec<JoinHandle<()>>,
}

impl Load {
    fn start(shop: &Shop) -> Self {
        let (over, asked, failures) = (Arc::default(), Arc::default(), Arc::default());
        let mut load = Self { over, asked, failures, callers: Vec::new() };
        for at in 0..2 {
            let (shop, over) = (shop.clone(), Arc::clone(&load.over));
            let (asked, failures) = (Arc::clone(&load.asked), Arc::clone(&load.failures));
            load.callers.push(tokio::spawn(async move {
                let mut turn = at;
                while !over.load(Ordering::SeqCst) {
                    turn += 1;
                    asked.fetch_add(1, Ordering::SeqCst);
                    match ask(&shop, "cart", None, turn).await {
                        Ok(said) if said == "repo/cart:v1" => {}
                        other => failures.lock().unwrap().push(format!("{other:?}")),
                    }
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }));
        }
        load
    }

    async fn end(self) {
        self.over.store(true, Ordering::SeqCst);
        for caller in self.callers {
            caller.await.unwrap();
        }
        let (asked, failures) = (self.asked.load(Ordering::SeqCst), self.failures.lock().unwrap());
        assert!(failures.is_empty(), "{} of {asked} failed, the first: {}", failures.len(), failures[0]);
        assert!(asked > 100, "only {asked} requests");
    }
}

/// A router of a pod, in this process.
struct Router {
    stop: CancellationToken,
    task: JoinHandle<anyhow::Result<()>>,
}

fn router(client: kube::Client, pod: &Value) -> Router {
    let address: IpAddr = pod["status"]["podIP"].as_str().unwrap().parse().unwrap();
    let any = |port: u16| Some(SocketAddr::new(address, port));
    let settings = router::Settings {
        namespace: "shop".to_owned(),
        name: name(pod).to_owned(),
        uid: pod["metadata"]["uid"].as_str().map(str::to_owned),
        address: Some(address),
        domain: None,
        tunnel: any(8446),
        linger: Duration::from_secs(2),
        proxy: proxy::Settings { address, front: any(8080), admin: any(8081), ..proxy::Settings::default() },
    };
    let stop = CancellationToken::new();
    Router { task: tokio::spawn(router::run(Kube::new(client), settings, stop.clone())), stop }
}

fn as_router(world: &World) -> kube::Client {
    world.kube.client_of(auth::admin(), "router")
}

/// The controller of Services, as the account of `deploy/`.
fn services(world: &World) -> DropGuard {
    let kube = Kube::new(world.kube.client_of(account::user(), account::AGENT));
    let events = Events::new(kube.clone(), "capt/service", "test");
    let common = Context::new(kube, Settings::default(), events, "v1beta2");
    let stop = CancellationToken::new();
    tokio::spawn(service::run(Arc::new(service::Context::new(Arc::new(common))), stop.clone()));
    stop.drop_guard()
}

async fn enable(shop: &Shop, value: Value) {
    let patch = json!({"metadata": {"annotations": {(format!("{GROUP}/routing")): value}}});
    shop.merge("Service", "cart", patch).await.unwrap();
}

/// What the kubelet says of a pod's probe; waits until the Service's endpoints know.
async fn set_ready(shop: &Shop, pod: &Value, is: bool) {
    let status = if is { "True" } else { "False" };
    shop.set_status("Pod", name(pod), json!({"conditions": [{"type": "Ready", "status": status}]})).await;
    let ip = &pod["status"]["podIP"];
    shop.eventually("the endpoints know", async || {
        let service = shop.get("Service", "cart").await.unwrap();
        if !is_taken(&service) {
            return true;
        }
        let slices = shop.list("EndpointSlice", "kubernetes.io/service-name=cart").await;
        let mut endpoints = slices.iter().flat_map(|it| it["endpoints"].as_array().into_iter().flatten());
        endpoints.any(|it| &it["addresses"][0] == ip && it["conditions"]["ready"] != json!(false)) == is
    })
    .await;
}

/// What the probe of a router says.
async fn is_ready(admin: SocketAddr) -> bool {
    let Ok(mut stream) = TcpStream::connect(admin).await else { return false };
    let head = "GET /readyz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    let mut said = String::new();
    stream.write_all(head.as_bytes()).await.is_ok()
        && stream.read_to_string(&mut said).await.is_ok()
        && said.starts_with("HTTP/1.1 200 ")
}

fn is_taken(service: &Value) -> bool {
    service["spec"]["selector"].get(format!("{GROUP}/router")).is_some()
}

#[tokio::test(flavor = "multi_thread")]
async fn f3_f4_routing_is_enabled_used_and_disabled_under_load_and_nothing_fails() {
    if !in_own_network("routing::f3_f4_routing_is_enabled_used_and_disabled_under_load_and_nothing_fails") {
        return;
    }
    let world = World::start().await;
    let _services = services(&world);
    let (shop, pods) = (with_cart(&world).await, Pods::new());
    pods.serve(&shop).await;
    let before = shop.get("Service", "cart").await.unwrap();
    let mut running = Vec::new();
    for pod in routers(&shop, 2).await {
        running.push((pod.clone(), router(as_router(&world), &pod)));
    }
    let load = Load::start(&shop);
    enable(&shop, json!("enabled")).await;
    shop.until("Service", "cart", "taken over", is_taken).await;

    // A fork gets the requests with its key and no others.
    let sandbox = shop.fork("pr-1", "cart").await;
    assert!(sandbox.is_object());
    let sandbox = shop.until_said("pr-1", "ForksReady", "True", "Ready").await;
    pods.serve(&shop).await;
    let key = sandbox["status"]["routingKey"].as_str().unwrap().to_owned();
    shop.eventually("both routers lead to the fork", async || {
        let answers = [ask(&shop, "cart", Some(&key), 0).await, ask(&shop, "cart", Some(&key), 1).await];
        answers.iter().all(|it| it.as_deref() == Ok("repo/cart:pr-1"))
    })
    .await;
    assert_eq!(ask(&shop, "cart", Some("nobodys"), 0).await.as_deref(), Ok("repo/cart:v1"));

    // A router is started anew, as a rolling update does: not ready, gone from the endpoints, stopped, started, ready.
    let (pod, old) = running.remove(0);
    set_ready(&shop, &pod, false).await;
    old.stop.cancel();
    old.task.await.unwrap().unwrap();
    let new = router(as_router(&world), &pod);
    let admin = SocketAddr::new(pod["status"]["podIP"].as_str().unwrap().parse().unwrap(), 8081);
    shop.eventually("the new router is ready", async || is_ready(admin).await).await;
    set_ready(&shop, &pod, true).await;
    running.push((pod, new));

    shop.delete("Sandbox", "pr-1").await;
    shop.until_gone("Sandbox", "pr-1").await;
    shop.eventually("the key is nobody's any more", async || {
        ask(&shop, "cart", Some(&key), 0).await.as_deref() == Ok("repo/cart:v1")
    })
    .await;
    enable(&shop, Value::Null).await;
    let back = shop.until("Service", "cart", "given back", |it| !is_taken(it)).await;
    assert_eq!(back["spec"].to_string(), before["spec"].to_string());
    tokio::time::sleep(Duration::from_secs(1)).await;
    load.end().await;
    for (_, router) in running {
        router.stop.cancel();
        router.task.await.unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_router_the_baseline_gets_its_traffic_back_until_there_is_one() {
    if !in_own_network("routing::without_a_router_the_baseline_gets_its_traffic_back_until_there_is_one") {
        return;
    }
    let world = World::start().await;
    let _services = services(&world);
    let (shop, pods) = (with_cart(&world).await, Pods::new());
    pods.serve(&shop).await;
    let pod = routers(&shop, 1).await.remove(0);
    let running = router(as_router(&world), &pod);
    enable(&shop, json!("enabled")).await;
    shop.until("Service", "cart", "taken over", is_taken).await;
    assert_eq!(ask(&shop, "cart", None, 0).await.as_deref(), Ok("repo/cart:v1"));
    // It dies, and its pod is not ready.
    running.task.abort();
    set_ready(&shop, &pod, false).await;
    shop.until("Service", "cart", "given back", |it| !is_taken(it)).await;
    shop.until_told("cart", "RouterBypassed").await;
    shop.eventually("the baseline answers", async || {
        ask(&shop, "cart", None, 0).await.as_deref() == Ok("repo/cart:v1")
    })
    .await;
    let again = router(as_router(&world), &pod);
    set_ready(&shop, &pod, true).await;
    shop.until("Service", "cart", "taken over again", is_taken).await;
    shop.eventually("the router answers", async || {
        ask(&shop, "cart", None, 0).await.as_deref() == Ok("repo/cart:v1")
    })
    .await;
    again.stop.cancel();
    again.task.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_may_be_routed_only_while_a_sandbox_stands_in_for_it() {
    if !in_own_network("routing::a_service_may_be_routed_only_while_a_sandbox_stands_in_for_it") {
        return;
    }
    let mut world = World::start().await;
    let _services = services(&world);
    let shop = with_cart(&world).await;
    let before = shop.get("Service", "cart").await.unwrap();
    let pod = routers(&shop, 1).await.remove(0);
    let running = router(as_router(&world), &pod);
    enable(&shop, json!("while-active")).await;
    world.settle().await;
    assert!(!is_taken(&shop.get("Service", "cart").await.unwrap()), "nobody needs it yet");
    shop.fork("pr-1", "cart").await;
    shop.until_phase("pr-1", "Ready").await;
    assert!(is_taken(&shop.get("Service", "cart").await.unwrap()));
    shop.delete("Sandbox", "pr-1").await;
    shop.until_gone("Sandbox", "pr-1").await;
    let back = shop.until("Service", "cart", "given back", |it| !is_taken(it)).await;
    assert_eq!(back["spec"].to_string(), before["spec"].to_string());
    running.stop.cancel();
    running.task.await.unwrap().unwrap();
    world.end().await;
}

#[tokio::test]
async fn f3_f4_a_service_is_taken_over_and_given_back() {
    let world = World::start().await;
    let _services = services(&world);
    crate::takeover::taken_over_and_given_back(&with_cart(&world).await).await;
}

#[tokio::test]
async fn a_service_that_somebody_takes_back_is_left_alone_after_three_attempts() {
    let world = World::start().await;
    let _services = services(&world);
    crate::takeover::taken_back_by_somebody(&with_cart(&world).await).await;
}

/// Kinds, controllers and routes are brought to the cluster by the operator; routers are the cluster's own.
#[tokio::test(flavor = "multi_thread")]
async fn f13_a_sandbox_in_another_cluster_is_ready_when_requests_reach_it_there() {
    if !in_own_network("routing::f13_a_sandbox_in_another_cluster_is_ready_when_requests_reach_it_there") {
        return;
    }
    let mut world = World::start().await;
    let (here, made, pods) = (world.shop().await, Made::start().await, Pods::new());
    let there = made.there.clone();
    let _node = Node::start(made.kube.client()).await;
    made.ready(&here, &Made::control_plane(&here, json!({})).await).await;
    here.sandbox("pr-1", in_dev(&json!({"images": [{"image": "repo/cart:pr-1"}]}))).await;
    here.until_said("pr-1", "RoutesProgrammed", "False", "NoRouters").await;
    pods.serve(&there).await;
    let pod = routers(&there, 1).await.remove(0);
    let running = router(made.kube.client(), &pod);
    enable(&there, json!("enabled")).await;
    let sandbox = here.until_phase("pr-1", "Ready").await;
    pods.serve(&there).await;
    let key = sandbox["status"]["routingKey"].as_str().unwrap().to_owned();
    assert_eq!(ask(&there, "cart", Some(&key), 0).await.as_deref(), Ok("repo/cart:pr-1"));
    assert_eq!(ask(&there, "cart", None, 0).await.as_deref(), Ok("repo/cart:v1"));

    // What is changed here is changed there, and what breaks there is told here.
    here.merge("Sandbox", "pr-1", json!({"metadata": {"labels": {"feature": "x"}}})).await.unwrap();
    there.until("Sandbox", "pr-1", "labelled", |it| it["metadata"]["labels"]["feature"] == "x").await;
    there.delete("Deployment", "cart").await;
    here.until_said("pr-1", "BaselineResolved", "False", "BaselineDeleted").await;
    assert_eq!(here.until_phase("pr-1", "Degraded").await["status"]["routingKey"], key.as_str());

    here.delete("Sandbox", "pr-1").await;
    here.until_gone("Sandbox", "pr-1").await;
    assert!(there.get("Sandbox", "pr-1").await.is_none() && there.forks("pr-1").await.is_empty());
    running.stop.cancel();
    running.task.await.unwrap().unwrap();
    world.end().await;
}
