//! The proxy with a real tunnel: requests with a key reach the developer's machine; fallbacks apply while it is disconnected.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Frame;
use hyper_util::rt::{TokioExecutor, TokioIo};
use sandbox_router::{
    proxy::Proxy,
    table::{Backend, DisconnectedPolicy, FallThrough, LocalTarget, ResponseCondition, Target},
    tunnel::{TunnelTimeouts, gateway::SessionPhase},
};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::{Message, client::IntoClientRequest as _};

use super::{
    app::{App, websocket_echo},
    cuttable_link::CuttableLink,
    harness::{Pod, Reserved, ask, cart, get, key, proxy_with, table},
    rig::{PORT, Rig, Running, quick},
};

/// A proxy whose key `k1` leads through a tunnel.
struct ProxiedFixture {
    rig: Rig,
    port: Reserved,
    fork: Pod,
    _baseline: Pod,
    proxy: Proxy,
}

impl ProxiedFixture {
    async fn new(change: impl FnOnce(LocalTarget, &Pod) -> LocalTarget) -> Self {
        let rig = Rig::with(TunnelTimeouts { session_wait: Duration::from_millis(500), ..quick() }).await;
        let (baseline, fork) = (Pod::start("baseline").await, Pod::start("fork").await);
        let (proxy, port) = (proxy_with(Arc::new(Arc::clone(&rig.gateway))), Reserved::new());
        let mut route = cart(port.port, &[baseline.address]);
        let target = change(LocalTarget::new("shop", "cart-local", PORT), &fork);
        route.set_override(key("k1"), Target::Local(Arc::new(target)));
        let applied = proxy.apply(table([route])).await;
        assert!(applied.failed.is_empty(), "{applied:?}");
        Self { rig, port, fork, _baseline: baseline, proxy }
    }

    /// A figure of the router.
    async fn figure(&self, name: &str) -> Option<f64> {
        let (_, _, text) = ask(self.proxy.admin().unwrap(), get("/metrics", &[])).await;
        let line = text.lines().find(|it| it.split([' ', '{']).next() == Some(name))?;
        line.rsplit(' ').next()?.parse().ok()
    }

    /// Status, what answered, and the pod or the error.
    async fn ask(&self, path: &str) -> (u16, String, String) {
        let keyed = get(path, &[("baggage", "sd-routing-key=k1")]);
        let (status, headers, _) = ask(self.port.address(), keyed).await;
        let word = |name: &str| headers.get(name).map_or("", |it| it.to_str().unwrap()).to_owned();
        let error = word("x-sandbox-error");
        (status.as_u16(), word("x-sandbox-route"), if error.is_empty() { word("x-pod") } else { error })
    }
}

fn said(status: u16, route: &str, who: &str) -> (u16, String, String) {
    (status, route.to_owned(), who.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn f11_a_request_with_the_key_reaches_the_machine_and_others_do_not() {
    let (desk, local) = (ProxiedFixture::new(|local, _| local).await, Pod::start("mine").await);
    let _agent = desk.rig.ann(&[format!("{PORT}={}", local.address)]).await;
    assert_eq!(desk.ask("/").await, said(200, "local/shop/cart-local", "mine"));
    let without = ask(desk.port.address(), get("/", &[])).await;
    assert_eq!(without.1["x-pod"], "baseline");
    let mut post = get("/echo", &[("baggage", "sd-routing-key=k1")]);
    *post.body_mut() = Full::from("e".repeat(300_000));
    assert_eq!(ask(desk.port.address(), post).await.2.len(), 300_000);
    assert_eq!(local.seen(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_router_counts_who_is_connected_and_who_came_back() {
    let (desk, local) = (ProxiedFixture::new(|local, _| local).await, Pod::start("mine").await);
    let figures = async || {
        (
            desk.figure("tunnel_connected").await.unwrap(),
            desk.figure("tunnel_reconnects_total").await.unwrap(),
        )
    };
    assert_eq!(figures().await, (0.0, 0.0));
    assert_eq!(desk.figure("tunnel_rtt_seconds").await, None);
    let mappings = [format!("{PORT}={}", local.address)];
    let cable = CuttableLink::to(desk.rig.address).await;
    let mut agent = Running::start(desk.rig.config("ann-1", &mappings), "ann", cable.address);
    let view = desk.rig.until(|it| it.rtt.is_some()).await;
    assert_eq!(figures().await, (1.0, 0.0));
    assert!(desk.figure("tunnel_rtt_seconds").await.unwrap() > 0.0, "{view:?}");
    cable.hang_up();
    desk.rig.until(|it| it.epoch > view.epoch && it.phase == SessionPhase::Connected).await;
    assert_eq!(figures().await, (1.0, 1.0));
    agent.stop.cancel();
    (&mut agent.task).await.unwrap().unwrap();
    desk.rig.until(|it| it.phase == SessionPhase::Disconnected).await;
    assert_eq!(figures().await, (0.0, 1.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_gone_for_good_fails_unless_somebody_stands_in() {
    let fails = ProxiedFixture::new(|local, _| local).await;
    let baseline =
        ProxiedFixture::new(|local, _| local.with_disconnected_policy(DisconnectedPolicy::Baseline)).await;
    let fork = ProxiedFixture::new(|local, fork| {
        let fork = FallThrough::Fork(Backend::fork("shop", "pr-1", [fork.address]));
        local.with_fall_through(fork).with_disconnected_policy(DisconnectedPolicy::Before)
    })
    .await;
    for desk in [&fails, &baseline, &fork] {
        let local = Pod::start("mine").await;
        let agent = desk.rig.ann(&[format!("{PORT}={}", local.address)]).await;
        assert_eq!(desk.ask("/").await.2, "mine");
        agent.stop.cancel();
        desk.rig.until(|it| it.phase == SessionPhase::Disconnected).await;
    }
    assert_eq!(fails.ask("/").await, said(503, "local/shop/cart-local", "disconnected"));
    assert_eq!(baseline.ask("/").await, said(200, "baseline", "baseline"));
    assert_eq!(fork.ask("/").await, said(200, "fork/shop/pr-1", "fork"));
    assert_eq!(fork.fork.seen(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_expected_back_is_not_replaced_by_the_baseline() {
    let desk =
        ProxiedFixture::new(|local, _| local.with_disconnected_policy(DisconnectedPolicy::Baseline)).await;
    let local = Pod::start("mine").await;
    let agent = desk.rig.ann(&[format!("{PORT}={}", local.address)]).await;
    drop(agent);
    desk.rig.until(|it| it.phase == SessionPhase::Reconnecting).await;
    let (status, headers, _) = ask(desk.port.address(), get("/", &[("baggage", "sd-routing-key=k1")])).await;
    assert_eq!(
        (status, headers["x-sandbox-error"].as_bytes()),
        (StatusCode::SERVICE_UNAVAILABLE, &b"reconnecting"[..])
    );
    assert!(headers.contains_key("retry-after"));
    let mappings = [format!("{PORT}={}", local.address)];
    let _back = Running::start(desk.rig.config("ann-1", &mappings), "ann", desk.rig.address);
    desk.rig.until_connected().await;
    assert_eq!(desk.ask("/").await.2, "mine");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_machine_does_not_want_falls_through() {
    let desk = ProxiedFixture::new(|local, fork| {
        let fork = FallThrough::Fork(Backend::fork("shop", "pr-1", [fork.address]));
        local
            .with_condition(ResponseCondition::ExceptStatus(vec![StatusCode::NOT_FOUND]))
            .with_fall_through(fork)
    })
    .await;
    let local = Pod::start("mine").await;
    let _agent = desk.rig.ann(&[format!("{PORT}={}", local.address)]).await;
    assert_eq!(desk.ask("/status?200").await, said(200, "local/shop/cart-local", "mine"));
    assert_eq!(desk.ask("/status?404").await, said(404, "fork/shop/pr-1", "fork"));

    let header = ("x-pod".parse().unwrap(), "somebody else".parse().unwrap());
    let desk =
        ProxiedFixture::new(|local, _| local.with_condition(ResponseCondition::Header(header.0, header.1)))
            .await;
    let _agent = desk.rig.ann(&[format!("{PORT}={}", local.address)]).await;
    assert_eq!(desk.ask("/").await, said(200, "baseline", "baseline"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_whose_application_is_down_is_not_replaced_silently() {
    let desk =
        ProxiedFixture::new(|local, _| local.with_disconnected_policy(DisconnectedPolicy::Baseline)).await;
    let _agent = desk.rig.ann(&[format!("{PORT}=localhost:1")]).await;
    assert_eq!(desk.ask("/").await, said(502, "local/shop/cart-local", "local-unreachable"));
}

#[tokio::test(flavor = "multi_thread")]
async fn f11_grpc_goes_through_both_with_its_trailers() {
    let (desk, app) = (ProxiedFixture::new(|local, _| local).await, App::start("mine").await);
    let _agent = desk.rig.ann(&[format!("{PORT}={}/grpc", app.to_local())]).await;
    let stream = TcpStream::connect(desk.port.address()).await.unwrap();
    let (mut send, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let trailers: HeaderMap = [("grpc-status".parse().unwrap(), "0".parse().unwrap())].into_iter().collect();
    let frames = [Frame::data(Bytes::from_static(b"a message")), Frame::trailers(trailers.clone())];
    let request = Request::post("http://cart.shop/echo")
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("baggage", "sd-routing-key=k1")
        .body(StreamBody::new(futures::stream::iter(frames.map(Ok::<_, std::io::Error>))))
        .unwrap();
    let answer = send.send_request(request).await.unwrap();
    assert_eq!(answer.headers()["x-sandbox-route"], "local/shop/cart-local");
    let body = answer.into_body().collect().await.unwrap();
    assert_eq!(body.trailers(), Some(&trailers));
    assert_eq!(body.to_bytes(), "a message");
}

/// `WEBSOCKET_SECONDS=600` is how long the property asks for; there are a million messages then.
#[expect(clippy::disallowed_methods, reason = "how long is the caller's choice")]
fn websocket_seconds() -> u64 {
    std::env::var("WEBSOCKET_SECONDS").map_or(1, |it| it.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn f11_a_websocket_goes_through_both() {
    let desk = ProxiedFixture::new(|local, _| local).await;
    let address = websocket_echo().await;
    let _agent = desk.rig.ann(&[format!("{PORT}={address}")]).await;
    let mut request = "ws://cart.shop/feed".into_client_request().unwrap();
    request.headers_mut().insert("baggage", "sd-routing-key=k1".parse().unwrap());
    let stream = TcpStream::connect(desk.port.address()).await.unwrap();
    let (mut socket, answer) = tokio_tungstenite::client_async(request, stream).await.unwrap();
    assert_eq!(answer.status(), StatusCode::SWITCHING_PROTOCOLS);
    let (end, mut count) = (Instant::now() + Duration::from_secs(websocket_seconds()), 0);
    while Instant::now() < end || count < websocket_seconds() * 1_667 {
        // In lots: the messages of one are under way together.
        for number in count..count + 500 {
            socket.feed(Message::text(number.to_string())).await.unwrap();
        }
        socket.flush().await.unwrap();
        for number in count..count + 500 {
            assert_eq!(socket.next().await.unwrap().unwrap(), Message::text(number.to_string()));
        }
        count += 500;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(desk.rig.gateway.reconnects(), 0);
}
