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
    end_to_end::{BASELINE, KEY, LOCAL, request},
    harness::start_app,
    network::in_own_network,
    test_kube::{self, TIMEOUT},
    two_nodes::TwoNodes,
};

const MIB: usize = 1024 * 1024;

/// Whether a test goes on here: on a real API server, in a network of its own.
#[expect(clippy::print_stderr, reason = "what is left out is told")]
fn runs_on_real_kube(test: &str) -> bool {
    if !test_kube::is_real() {
        eprintln!(
            "notice: embedded-kube has no kubelets, so pods/portforward was NOT tested (CAPT_TEST_KUBE=real has them)"
        );
        return false;
    }
    in_own_network(&format!("connect::kubelet::{test}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_forward_ports_is_told_once_what_to_ask_for() {
    if !runs_on_real_kube("who_may_not_forward_ports_is_told_once_what_to_ask_for") {
        return;
    }
    let nodes = TwoNodes::start(start_app("mine").await.port()).await;
    let refused = async |says: &str| {
        let mut ann = nodes.cluster.run_connect("ann", &[]);
        assert_eq!(ann.wait_for_exit().await, Some(1), "{}", ann.output());
        println!("{}", ann.output());
        let words = ["`list` on `pods`", "`create` and `get` on `pods/portforward`", "namespace shop", says];
        let told = ann.output().lines().filter(|line| words.iter().all(|it| line.contains(it))).count();
        assert_eq!((told, ann.output().matches("forbidden").count()), (1, 1), "{}", ann.output());
    };
    refused("User \"ann\" cannot list resource \"pods\"").await;
    nodes.allow("ann", "pods", &["list"]).await;
    refused("User \"ann\" cannot get resource \"pods/portforward\"").await;
    // As it was enough before Kubernetes 1.35.
    nodes.allow("ann", "pods/portforward", &["get"]).await;
    refused("is forbidden)").await;
    nodes.allow_all("zoe").await;
    let mut zoe = nodes.cluster.run_connect("zoe", &[]);
    zoe.wait_for_output("connected as zoe").await;
    zoe.signal(Signal::SIGTERM);
    assert_eq!(zoe.wait_for_exit().await, Some(0), "{}", zoe.output());
    println!("with both: {}", zoe.output());
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_of_any_size_go_both_ways_unchanged() {
    if !runs_on_real_kube("bodies_of_any_size_go_both_ways_unchanged") {
        return;
    }
    let nodes = TwoNodes::start(start_echo_server().await.port()).await;
    nodes.allow_all("ann").await;
    let mut ann = nodes.cluster.run_connect("ann", &[]);
    ann.wait_for_output("connected as ann").await;
    let (at, other) = nodes.connected_node().await;
    for router in [at, other] {
        let service = nodes.nodes[router].service;
        for size in [0, 1, MIB, 30 * MIB] {
            println!("{size} bytes both ways took {:?}", echo_round_trip(service, size).await);
        }
        // Packets that wait for each other wait for 40 ms: that long a kernel keeps an acknowledgement. A figure, and for
        // people: a busy machine takes longer.
        println!("small ones take {:?}", small_request_latency(service).await);
        // Both directions are saturated and do not block each other.
        let since = Instant::now();
        let all = (0..8).map(|_| tokio::spawn(echo_round_trip(service, 8 * MIB)));
        futures::future::try_join_all(all).await.unwrap();
        println!("8 times 8 MiB both ways at once took {:?}", since.elapsed());
    }
    assert_eq!(request(nodes.nodes[at].service, None).await, BASELINE);
    assert_eq!(ann.output().matches("connected as ann").count(), 1, "{}", ann.output());
    println!("ann says {}", ann.output());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_forward_and_a_dead_router_lead_to_the_other_one() {
    if !runs_on_real_kube("a_broken_forward_and_a_dead_router_lead_to_the_other_one") {
        return;
    }
    let mut nodes = TwoNodes::start(start_app("mine").await.port()).await;
    for user in ["ann", "zoe", "bob"] {
        nodes.allow_all(user).await;
    }
    let mut ann = nodes.cluster.run_connect("ann", &[]);
    ann.wait_for_output("connected as ann").await;
    let (at, other) = nodes.connected_node().await;
    for node in &nodes.nodes {
        node.wait_for_local_answer(LOCAL).await;
    }
    let since = Instant::now();
    nodes.kill_kubelet(at);
    nodes.wait_for_session_on(other).await;
    nodes.nodes[other].wait_for_local_answer(LOCAL).await;
    println!("without the kubelet: at the other router after {:?}", since.elapsed());

    nodes.restart_kubelet(at).await;
    let since = Instant::now();
    nodes.nodes[other].router.signal(Signal::SIGKILL);
    nodes.wait_for_session_on(at).await;
    nodes.nodes[at].wait_for_local_answer(LOCAL).await;
    println!("without the router: at the other one after {:?}", since.elapsed());
    nodes.nodes[at].router.signal(Signal::SIGKILL);
    let mut zoe = nodes.cluster.run_connect("zoe", &[]);
    zoe.wait_for_output("nothing listens on port").await;
    nodes.kill_kubelet(at);
    nodes.kill_kubelet(other);
    let mut bob = nodes.cluster.run_connect("bob", &[]);
    bob.wait_for_output("error dialing backend").await;
    println!("ann says {}zoe says {}bob says {}", ann.output(), zoe.output(), bob.output());
}

/// An echo server that streams the request body back.
async fn start_echo_server() -> SocketAddr {
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
async fn echo_round_trip(service: SocketAddr, size: usize) -> Duration {
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
    let back = tokio::time::timeout(TIMEOUT, asked).await.expect("it is stuck");
    assert!(back == body, "{} of {size} bytes came back, and not the same", back.len());
    since.elapsed()
}

/// How long three of four small requests take at most, in the calmest of a few moments: this machine may be busy.
async fn small_request_latency(service: SocketAddr) -> Duration {
    let mut calmest = Duration::MAX;
    for _ in 0..5 {
        let mut took = Vec::new();
        for _ in 0..20 {
            took.push(echo_round_trip(service, 1).await);
        }
        took.sort_unstable();
        calmest = calmest.min(took[15]);
    }
    calmest
}
