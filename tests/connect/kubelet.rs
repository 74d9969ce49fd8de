//! Nothing but a kubeconfig: `capt connect`, a real kube-apiserver, the kubelet's own server, and `capt router`.

use std::{
    convert::Infallible,
    net::SocketAddr,
    time::{Duration, Instant},
};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use nix::sys::signal::Signal;
use tokio::net::{TcpListener, TcpStream};

use super::{
    network::in_own_network,
    nodes::Nodes,
    rig::app,
    server::{self, PATIENCE},
    whole::{BASELINE, KEY, LOCAL, ask},
};

const MIB: usize = 1024 * 1024;

/// Whether a test goes on here: on a real API server, in a network of its own.
#[expect(clippy::print_stderr, reason = "what is left out is told")]
fn goes_on(test: &str) -> bool {
    if !server::is_real() {
        eprintln!(
            "notice: embedded-kube has no kubelets, so pods/portforward was NOT tested (CAPT_TEST_KUBE=real has them)"
        );
        return false;
    }
    in_own_network(&format!("connect::kubelet::{test}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_forward_ports_is_told_once_what_to_ask_for() {
    if !goes_on("who_may_not_forward_ports_is_told_once_what_to_ask_for") {
        return;
    }
    let nodes = Nodes::start(app("mine").await.port()).await;
    let refused = async |says: &str| {
        let mut ann = nodes.cluster.run_connect("ann", &[]);
        assert_eq!(ann.ends().await, Some(1), "{}", ann.said());
        println!("{}", ann.said());
        let words = ["`list` on `pods`", "`create` and `get` on `pods/portforward`", "namespace shop", says];
        let told = ann.said().lines().filter(|line| words.iter().all(|it| line.contains(it))).count();
        assert_eq!((told, ann.said().matches("forbidden").count()), (1, 1), "{}", ann.said());
    };
    refused("User \"ann\" cannot list resource \"pods\"").await;
    nodes.allow("ann", "pods", &["list"]).await;
    refused("User \"ann\" cannot get resource \"pods/portforward\"").await;
    // As it was enough before Kubernetes 1.35.
    nodes.allow("ann", "pods/portforward", &["get"]).await;
    refused("is forbidden)").await;
    nodes.allow_all("zoe").await;
    let mut zoe = nodes.cluster.run_connect("zoe", &[]);
    zoe.says("connected as zoe").await;
    zoe.signal(Signal::SIGTERM);
    assert_eq!(zoe.ends().await, Some(0), "{}", zoe.said());
    println!("with both: {}", zoe.said());
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_of_any_size_go_both_ways_unchanged() {
    if !goes_on("bodies_of_any_size_go_both_ways_unchanged") {
        return;
    }
    let nodes = Nodes::start(echo().await.port()).await;
    nodes.allow_all("ann").await;
    let mut ann = nodes.cluster.run_connect("ann", &[]);
    ann.says("connected as ann").await;
    let (at, other) = nodes.connected().await;
    for router in [at, other] {
        let service = nodes.all[router].service;
        for size in [0, 1, MIB, 30 * MIB] {
            println!("{size} bytes both ways took {:?}", there_and_back(service, size).await);
        }
        // Packets that wait for each other wait for 40 ms: that long a kernel keeps an acknowledgement. A figure, and for
        // people: a busy machine takes longer.
        println!("small ones take {:?}", small(service).await);
        // Both ways are full at once, and nobody waits for anybody.
        let since = Instant::now();
        let all = (0..8).map(|_| tokio::spawn(there_and_back(service, 8 * MIB)));
        futures::future::try_join_all(all).await.unwrap();
        println!("8 times 8 MiB both ways at once took {:?}", since.elapsed());
    }
    assert_eq!(ask(nodes.all[at].service, None).await, BASELINE);
    assert_eq!(ann.said().matches("connected as ann").count(), 1, "{}", ann.said());
    println!("ann says {}", ann.said());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_forward_and_a_dead_router_lead_to_the_other_one() {
    if !goes_on("a_broken_forward_and_a_dead_router_lead_to_the_other_one") {
        return;
    }
    let mut nodes = Nodes::start(app("mine").await.port()).await;
    for user in ["ann", "zoe", "bob"] {
        nodes.allow_all(user).await;
    }
    let mut ann = nodes.cluster.run_connect("ann", &[]);
    ann.says("connected as ann").await;
    let (at, other) = nodes.connected().await;
    for node in &nodes.all {
        node.until_local(LOCAL).await;
    }
    let since = Instant::now();
    nodes.lose(at);
    nodes.until_connected_to(other).await;
    nodes.all[other].until_local(LOCAL).await;
    println!("without the kubelet: at the other router after {:?}", since.elapsed());

    nodes.restore(at).await;
    let since = Instant::now();
    nodes.all[other].router.signal(Signal::SIGKILL);
    nodes.until_connected_to(at).await;
    nodes.all[at].until_local(LOCAL).await;
    println!("without the router: at the other one after {:?}", since.elapsed());
    nodes.all[at].router.signal(Signal::SIGKILL);
    let mut zoe = nodes.cluster.run_connect("zoe", &[]);
    zoe.says("nothing listens at port").await;
    nodes.lose(at);
    nodes.lose(other);
    let mut bob = nodes.cluster.run_connect("bob", &[]);
    bob.says("error dialing backend").await;
    println!("ann says {}zoe says {}bob says {}", ann.said(), zoe.said(), bob.said());
}

/// An application that answers with what it is told, while it is told.
async fn echo() -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            socket.set_nodelay(true).unwrap();
            let answer = service_fn(|request: http::Request<Incoming>| async move {
                Ok::<_, Infallible>(http::Response::new(request.into_body()))
            });
            tokio::spawn(
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(socket), answer),
            );
        }
    });
    address
}

/// Sends a body with the key, and compares what comes back.
async fn there_and_back(service: SocketAddr, size: usize) -> Duration {
    let mut body = vec![0; size];
    fastrand::fill(&mut body);
    let body = Bytes::from(body);
    let socket = TcpStream::connect(service).await.unwrap();
    socket.set_nodelay(true).unwrap();
    let (mut send, connection) = hyper::client::conn::http1::handshake(TokioIo::new(socket)).await.unwrap();
    tokio::spawn(connection);
    let key = format!("sd-routing-key={KEY}");
    let request = http::Request::post("/").header("host", "cart").header("baggage", key);
    let request = request.body(Full::new(body.clone())).unwrap();
    let since = Instant::now();
    let asked = async {
        let answer = send.send_request(request).await.unwrap();
        assert_eq!(answer.headers()["x-sandbox-route"], "local/shop/cart-local", "{answer:?}");
        answer.into_body().collect().await.unwrap().to_bytes()
    };
    let back = tokio::time::timeout(PATIENCE, asked).await.expect("it is stuck");
    assert!(back == body, "{} of {size} bytes came back, and not the same", back.len());
    since.elapsed()
}

/// How long three of four small requests take at most, in the calmest of a few moments: this machine may be busy.
async fn small(service: SocketAddr) -> Duration {
    let mut calmest = Duration::MAX;
    for _ in 0..5 {
        let mut took = Vec::new();
        for _ in 0..20 {
            took.push(there_and_back(service, 1).await);
        }
        took.sort_unstable();
        calmest = calmest.min(took[15]);
    }
    calmest
}
