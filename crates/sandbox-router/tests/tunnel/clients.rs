//! Real clients whose requests end on a developer's machine: curl, and gRPC with its four kinds of calls.

use std::sync::Arc;

use sandbox_router::{
    proxy::Proxy,
    table::{LocalTarget, Target},
};

use super::{
    grpc_calls::{GrpcCalls, channel, pod},
    harness::{Pod, Reserved, cart, curl, http1, key, proxy_with, table},
    rig::{PORT, Rig, Running},
};

const KEY: &str = "baggage: sd-routing-key=k1";

/// A router whose key `k1` leads to an agent.
struct ClientsFixture {
    port: Reserved,
    baseline: Pod,
    _proxy: Proxy,
    _rig: Rig,
    _agent: Running,
}

impl ClientsFixture {
    async fn with(mapping: String) -> Self {
        let (rig, baseline, port) = (Rig::start().await, Pod::start("baseline").await, Reserved::new());
        let proxy = proxy_with(Arc::new(Arc::clone(&rig.gateway)));
        let mut route = cart(port.port, &[baseline.address]);
        route.set_override(key("k1"), Target::Local(Arc::new(LocalTarget::new("shop", "cart-local", PORT))));
        let applied = proxy.apply(table([route])).await;
        assert!(applied.failed.is_empty(), "{applied:?}");
        let agent = rig.ann(&[mapping]).await;
        Self { port, baseline, _proxy: proxy, _rig: rig, _agent: agent }
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port.port)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn f11_bodies_of_every_framing_reach_the_machine_unchanged() {
    let mine = Pod::start("mine").await;
    let desk = ClientsFixture::with(format!("{PORT}={}", mine.address)).await;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("body");
    let body = (0..3_000_000_u32).map(|at| b'a' + (at % 23) as u8).collect::<Vec<_>>();
    std::fs::write(&file, &body).unwrap();
    let (data, url) = (format!("@{}", file.display()), desk.url("/echo"));
    // curl sends `expect: 100-continue` for a body of this size, and waits for the word.
    for framing in [&["-H", "transfer-encoding: chunked"][..], &[], &["--http2-prior-knowledge"]] {
        let arguments = [framing, &["-H", KEY, "--data-binary", &data, &url]].concat();
        assert_eq!(curl(&arguments).await.as_bytes(), body, "{framing:?}");
    }
    assert_eq!((mine.seen(), desk.baseline.seen()), (3, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn f11_one_connection_carries_requests_to_the_machine_and_to_the_baseline() {
    let mine = Pod::start("mine").await;
    let desk = ClientsFixture::with(format!("{PORT}={}", mine.address)).await;
    let mut connection = http1(desk.port.address()).await;
    for (baggage, pod) in [("sd-routing-key=k1", "mine"), ("a=b", "baseline"), ("sd-routing-key=k1", "mine")]
    {
        connection.ready().await.unwrap();
        let request = super::harness::get("/", &[("baggage", baggage)]);
        let (_, headers, _) = super::harness::whole(connection.send_request(request).await.unwrap()).await;
        assert_eq!(headers["x-pod"], pod);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn f11_all_kinds_of_grpc_calls_reach_the_machine() {
    let (mine, ended) = pod("mine").await;
    let desk = ClientsFixture::with(format!("{PORT}={mine}/grpc")).await;
    let channel = channel(desk.port.port).await;
    let calls = GrpcCalls { channel, baggage: "sd-routing-key=k1", name: "mine", ended };
    let answer = calls.unary("hi").await.unwrap();
    assert_eq!(answer.get_ref(), "mine hi");
    assert_eq!(answer.metadata().get("x-sandbox-route").unwrap(), "local/shop/cart-local");
    calls.stream().await;
    calls.fail().await;
    calls.give_up().await;
    assert_eq!(desk.baseline.seen(), 0);
}
