//! Local workloads with a fake transport that dials a port of this machine.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::future::BoxFuture;
use http::{HeaderName, HeaderValue, Request, StatusCode};
use http_body_util::BodyExt;
use hyper_util::rt::TokioIo;
use sandbox_router::{
    local_transport::{Duplex, LocalError, LocalResponse, LocalTransport},
    proxy::{Proxy, ProxyLimits, ProxySettings},
    request_body::RequestBody,
    table::{
        Backend, DisconnectedPolicy, FallThrough, LocalTarget, ResponseCondition, SessionGateway, Target,
        UnavailableTarget,
    },
};
use tokio::{net::TcpStream, sync::Notify};

use super::harness::{Pod, Reserved, ask, cart, get, key, settings, table};

/// What the tunnel does next.
#[derive(Clone, Copy)]
enum State {
    Connected(SocketAddr),
    Disconnected,
    Reconnecting,
    NothingListens,
    Moved,
}

/// What it does, and that it was asked.
struct FakeTransport(Mutex<State>, Notify);

impl FakeTransport {
    fn new(state: State) -> Arc<Self> {
        Arc::new(Self(Mutex::new(state), Notify::new()))
    }
}

impl LocalTransport for FakeTransport {
    fn send(
        &self,
        to: &LocalTarget,
        request: Request<RequestBody>,
    ) -> BoxFuture<'static, Result<LocalResponse, LocalError>> {
        assert_eq!((to.namespace(), to.workload(), to.port()), ("shop", "cart-local", 8080));
        let state = *self.0.lock().unwrap();
        self.1.notify_one();
        Box::pin(async move {
            let address = match state {
                State::Moved => return Err(LocalError::Moved(Some(Box::new(request)))),
                State::Connected(address) => address,
                State::Disconnected => return Err(LocalError::Disconnected(Some(Box::new(request)))),
                State::Reconnecting => return Err(LocalError::Reconnecting),
                State::NothingListens => {
                    return Err(LocalError::Unreachable(io::ErrorKind::ConnectionRefused.into()));
                }
            };
            let stream = TcpStream::connect(address).await.map_err(LocalError::Unreachable)?;
            let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
            let (mut sender, connection) =
                handshake.map_err(|error| LocalError::Interrupted(error.into()))?;
            tokio::spawn(connection);
            let answer =
                sender.send_request(request).await.map_err(|error| LocalError::Interrupted(error.into()))?;
            Ok(answer.map(|body| body.map_err(Into::into).boxed_unsync()))
        })
    }

    fn connect(&self, _: &LocalTarget) -> BoxFuture<'static, Result<Box<dyn Duplex>, LocalError>> {
        let state = *self.0.lock().unwrap();
        Box::pin(async move {
            match state {
                State::Connected(address) => {
                    let stream = TcpStream::connect(address).await.map_err(LocalError::Unreachable)?;
                    Ok(Box::new(stream) as Box<dyn Duplex>)
                }
                _ => Err(LocalError::Disconnected(None)),
            }
        })
    }
}

struct LocalFixture {
    proxy: Proxy,
    port: Reserved,
    baseline: Pod,
    fork: Pod,
    local: Pod,
    tunnel: Arc<FakeTransport>,
}

/// Requests wait for as long as a busy machine may take.
async fn desk(change: impl FnOnce(LocalTarget, &Pod) -> LocalTarget) -> LocalFixture {
    desk_that_waits(Duration::from_mins(1), change).await
}

async fn desk_that_waits(
    moving: Duration,
    change: impl FnOnce(LocalTarget, &Pod) -> LocalTarget,
) -> LocalFixture {
    let (baseline, fork) = (Pod::start("baseline").await, Pod::start("fork").await);
    let local = Pod::start("local").await;
    let tunnel = FakeTransport::new(State::Connected(local.address));
    let settings = ProxySettings {
        limits: ProxyLimits { session_move_timeout: moving, ..settings().limits },
        ..settings()
    };
    let proxy = Proxy::start(settings, Arc::clone(&tunnel) as Arc<dyn LocalTransport>).unwrap();
    let port = Reserved::new();
    let mut route = cart(port.port, &[baseline.address]);
    let target = change(LocalTarget::new("shop", "cart-local", 8080), &fork);
    route.set_override(key("k1"), Target::Local(Arc::new(target)));
    proxy.apply(table([route])).await;
    LocalFixture { proxy, port, baseline, fork, local, tunnel }
}

/// It stands before a fork.
fn before(local: LocalTarget, fork: &Pod) -> LocalTarget {
    local.with_fall_through(FallThrough::Fork(Backend::fork("shop", "pr-1", [fork.address])))
}

impl LocalFixture {
    async fn ask(&self, path: &str) -> (u16, String, String) {
        let (status, headers, body) =
            ask(self.port.address(), get(path, &[("baggage", "sd-routing-key=k1")])).await;
        let word = |name: &str| headers.get(name).map_or("", |value| value.to_str().unwrap()).to_owned();
        let _ = body;
        let said = if word("x-sandbox-error").is_empty() { word("x-pod") } else { word("x-sandbox-error") };
        (status.as_u16(), word("x-sandbox-route"), said)
    }
}

fn said(status: u16, route: &str, pod: &str) -> (u16, String, String) {
    (status, route.to_owned(), pod.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_leads_to_the_local_process() {
    let desk = desk(|local, _| local).await;
    assert_eq!(desk.ask("/").await, said(200, "local/shop/cart-local", "local"));
    assert_eq!(ask(desk.port.address(), get("/", &[])).await.1["x-pod"], "baseline");
    assert_eq!((desk.local.seen(), desk.baseline.seen()), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_disconnected_fails_unless_somebody_stands_in() {
    let fails = desk(|local, _| local).await;
    let baseline = desk(|local, _| local.with_disconnected_policy(DisconnectedPolicy::Baseline)).await;
    let fork =
        desk(|local, fork| before(local, fork).with_disconnected_policy(DisconnectedPolicy::Before)).await;
    for desk in [&fails, &baseline, &fork] {
        *desk.tunnel.0.lock().unwrap() = State::Disconnected;
    }
    assert_eq!(fails.ask("/").await, said(503, "local/shop/cart-local", "disconnected"));
    assert_eq!(baseline.ask("/").await, said(200, "baseline", "baseline"));
    assert_eq!(fork.ask("/").await, said(200, "fork/shop/pr-1", "fork"));
    assert_eq!(fork.fork.seen(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn while_it_reconnects_callers_are_told_to_come_again() {
    let desk = desk(|local, _| local.with_disconnected_policy(DisconnectedPolicy::Baseline)).await;
    *desk.tunnel.0.lock().unwrap() = State::Reconnecting;
    let keyed = get("/", &[("baggage", "sd-routing-key=k1")]);
    let (status, headers, _) = ask(desk.port.address(), keyed).await;
    assert_eq!((status.as_u16(), &headers["x-sandbox-error"]), (503, &"reconnecting".parse().unwrap()));
    assert!(headers.contains_key("retry-after"));
    *desk.tunnel.0.lock().unwrap() = State::NothingListens;
    assert_eq!(desk.ask("/").await, said(502, "local/shop/cart-local", "local-unreachable"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_with_an_excepted_status_falls_through_with_its_body() {
    let desk = desk(|local, fork| {
        before(local, fork).with_condition(ResponseCondition::ExceptStatus(vec![StatusCode::NOT_FOUND]))
    })
    .await;
    assert_eq!(desk.ask("/status?200").await, said(200, "local/shop/cart-local", "local"));
    assert_eq!(desk.ask("/status?404").await, said(404, "fork/shop/pr-1", "fork"));
    let mut post = get("/status?404", &[("baggage", "sd-routing-key=k1")]);
    *post.body_mut() = http_body_util::Full::from("a body");
    assert_eq!(ask(desk.port.address(), post).await.1["x-pod"], "fork");
    let mut long = get("/status?404", &[("baggage", "sd-routing-key=k1")]);
    *long.body_mut() = http_body_util::Full::from("a".repeat(2 << 20));
    let (status, headers, _) = ask(desk.port.address(), long).await;
    assert_eq!((status.as_u16(), &headers["x-sandbox-error"]), (413, &"override-body".parse().unwrap()));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_falls_through_and_who_is_disconnected_are_two_questions() {
    let not_found = || ResponseCondition::ExceptStatus(vec![StatusCode::NOT_FOUND]);
    let fails = desk(|local, fork| before(local, fork).with_condition(not_found())).await;
    assert_eq!(fails.ask("/status?404").await, said(404, "fork/shop/pr-1", "fork"));
    let unready =
        || FallThrough::Unavailable(Arc::new(UnavailableTarget::unready("shop", "pr-1", "no pod is ready")));
    let waits = desk(|local, _| {
        local
            .with_fall_through(unready())
            .with_condition(not_found())
            .with_disconnected_policy(DisconnectedPolicy::Baseline)
    })
    .await;
    assert_eq!(waits.ask("/status?404").await, said(503, "fork/shop/pr-1", "unready"));
    let stands = desk(|local, _| {
        local.with_fall_through(unready()).with_disconnected_policy(DisconnectedPolicy::Before)
    })
    .await;
    for desk in [&fails, &waits, &stands] {
        *desk.tunnel.0.lock().unwrap() = State::Disconnected;
    }
    assert_eq!(fails.ask("/").await, said(503, "local/shop/cart-local", "disconnected"));
    assert_eq!(waits.ask("/").await, said(200, "baseline", "baseline"));
    assert_eq!(stands.ask("/").await, said(503, "fork/shop/pr-1", "unready"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_without_the_header_falls_through_to_the_baseline() {
    let (name, value) = (HeaderName::from_static("x-pod"), HeaderValue::from_static("local"));
    let takes = desk(|local, _| local.with_condition(ResponseCondition::Header(name.clone(), value))).await;
    assert_eq!(takes.ask("/").await, said(200, "local/shop/cart-local", "local"));
    let leaves = desk(|local, _| {
        local.with_condition(ResponseCondition::Header(name, HeaderValue::from_static("true")))
    })
    .await;
    assert_eq!(leaves.ask("/").await, said(200, "baseline", "baseline"));
    assert_eq!((leaves.local.seen(), leaves.baseline.seen()), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn another_router_that_has_the_session_is_asked() {
    // The loopback interface has as many addresses as one likes: each router has its own.
    let desk = desk(|local, _| local).await;
    let other = Proxy::start(
        ProxySettings {
            name: "router-1".to_owned(),
            address: [127, 0, 0, 2].into(),
            host_listener: None,
            ..settings()
        },
        FakeTransport::new(State::Disconnected),
    )
    .unwrap();
    let gateway = SessionGateway { name: "router".to_owned(), address: [127, 0, 0, 1].into() };
    let local = || LocalTarget::new("shop", "cart-local", 8080).with_gateway(gateway.clone());
    for proxy in [&desk.proxy, &other] {
        let mut route = cart(desk.port.port, &[desk.baseline.address]);
        route.set_override(key("k1"), Target::Local(Arc::new(local())));
        assert!(proxy.apply(table([route])).await.failed.is_empty());
    }
    let at_other = SocketAddr::from(([127, 0, 0, 2], desk.port.port));
    let (status, headers, body) = ask(at_other, get("/", &[("baggage", "sd-routing-key=k1")])).await;
    assert_eq!((status.as_u16(), &headers["x-pod"]), (200, &"local".parse().unwrap()), "{body}");
    assert_eq!(headers["x-sandbox-route"], "local/shop/cart-local");
}

/// A table in which the session is at a router.
fn session_at(desk: &LocalFixture, name: &str, address: [u8; 4]) -> sandbox_router::table::RouteTable {
    let gateway = SessionGateway { name: name.to_owned(), address: address.into() };
    let mut route = cart(desk.port.port, &[desk.baseline.address]);
    route.set_override(
        key("k1"),
        Target::Local(Arc::new(LocalTarget::new("shop", "cart-local", 8080).with_gateway(gateway))),
    );
    table([route])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_router_that_is_gone_is_waited_for_like_an_agent_and_not_for_ever() {
    let desk = desk_that_waits(Duration::from_millis(300), |local, _| local).await;
    desk.proxy.apply(session_at(&desk, "router-9", [127, 0, 0, 9])).await;
    let keyed = get("/", &[("baggage", "sd-routing-key=k1")]);
    let (status, headers, _) = ask(desk.port.address(), keyed).await;
    assert_eq!((status.as_u16(), &headers["x-sandbox-error"]), (503, &"reconnecting".parse().unwrap()));
    assert!(headers.contains_key("retry-after"));
    assert_eq!((desk.local.seen(), desk.baseline.seen()), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_finds_the_session_gone_waits_for_the_table_that_says_where_it_is() {
    let desk = desk(|local, _| local).await;
    *desk.tunnel.0.lock().unwrap() = State::Moved;
    desk.proxy.apply(session_at(&desk, "router", [127, 0, 0, 1])).await;
    let arrives = async {
        desk.tunnel.1.notified().await;
        *desk.tunnel.0.lock().unwrap() = State::Connected(desk.local.address);
        desk.proxy.apply(session_at(&desk, "router", [127, 0, 0, 1])).await;
    };
    let (answer, ()) = tokio::join!(desk.ask("/"), arrives);
    assert_eq!(answer, said(200, "local/shop/cart-local", "local"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_left_and_is_nowhere_is_disconnected() {
    let desk = desk(|local, _| local.with_disconnected_policy(DisconnectedPolicy::Baseline)).await;
    *desk.tunnel.0.lock().unwrap() = State::Moved;
    assert_eq!(desk.ask("/").await, said(200, "baseline", "baseline"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_was_meant_for_another_router_is_answered_by_nobody_here() {
    let desk = desk(|local, _| local.with_disconnected_policy(DisconnectedPolicy::Baseline)).await;
    let keyed = get("/", &[("baggage", "sd-routing-key=k1"), ("x-sandbox-hop", "router-9")]);
    let (status, headers, _) = ask(desk.port.address(), keyed).await;
    assert_eq!((status.as_u16(), &headers["x-sandbox-error"]), (503, &"reconnecting".parse().unwrap()));
    assert_eq!((desk.local.seen(), desk.baseline.seen()), (0, 0));
}
