//! Local workloads, with a tunnel that is none: it dials a port of this machine.

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
    body::Body,
    locals::{Duplex, LocalAnswer, LocalError, Locals},
    proxy::{Limits, Proxy, Settings},
    table::{Backend, Before, Gateway, Local, Otherwise, Target, Unavailable, When},
};
use tokio::{net::TcpStream, sync::Notify};

use super::support::{Pod, Reserved, ask, cart, get, key, settings, table};

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
struct Direct(Mutex<State>, Notify);

impl Direct {
    fn new(state: State) -> Arc<Self> {
        Arc::new(Self(Mutex::new(state), Notify::new()))
    }
}

impl Locals for Direct {
    fn send(
        &self,
        to: &Local,
        request: Request<Body>,
    ) -> BoxFuture<'static, Result<LocalAnswer, LocalError>> {
        assert_eq!((to.namespace(), to.workload(), to.port()), ("shop", "cart-local", 8080));
        let state = *self.0.lock().unwrap();
        self.1.notify_one();
        Box::pin(async move {
            let address = match state {
                State::Moved => return Err(LocalError::Moved(Some(Box::new(request)))),
                State::Connected(address) => address,
                State::Disconnected => return Err(LocalError::Disconnected(Some(Box::new(request)))),
                State::Reconnecting => return Err(LocalError::Waiting),
                State::NothingListens => {
                    return Err(LocalError::Unreachable(io::ErrorKind::ConnectionRefused.into()));
                }
            };
            let stream = TcpStream::connect(address).await.map_err(LocalError::Unreachable)?;
            let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
            let (mut sender, connection) = handshake.map_err(|error| LocalError::Broken(error.into()))?;
            tokio::spawn(connection);
            let answer =
                sender.send_request(request).await.map_err(|error| LocalError::Broken(error.into()))?;
            Ok(answer.map(|body| body.map_err(Into::into).boxed_unsync()))
        })
    }

    fn connect(&self, _: &Local) -> BoxFuture<'static, Result<Box<dyn Duplex>, LocalError>> {
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

struct Desk {
    proxy: Proxy,
    port: Reserved,
    baseline: Pod,
    fork: Pod,
    local: Pod,
    tunnel: Arc<Direct>,
}

/// Requests wait for as long as a busy machine may take.
async fn desk(change: impl FnOnce(Local, &Pod) -> Local) -> Desk {
    desk_that_waits(Duration::from_mins(1), change).await
}

async fn desk_that_waits(moving: Duration, change: impl FnOnce(Local, &Pod) -> Local) -> Desk {
    let (baseline, fork) = (Pod::start("baseline").await, Pod::start("fork").await);
    let local = Pod::start("local").await;
    let tunnel = Direct::new(State::Connected(local.address));
    let settings = Settings { limits: Limits { moving, ..settings().limits }, ..settings() };
    let proxy = Proxy::start(settings, Arc::clone(&tunnel) as Arc<dyn Locals>).unwrap();
    let port = Reserved::new();
    let mut route = cart(port.port, &[baseline.address]);
    let target = change(Local::new("shop", "cart-local", 8080), &fork);
    route.set(key("k1"), Target::Local(Arc::new(target)));
    proxy.apply(table([route])).await;
    Desk { proxy, port, baseline, fork, local, tunnel }
}

/// It stands before a fork.
fn before(local: Local, fork: &Pod) -> Local {
    local.before(Before::Fork(Backend::fork("shop", "pr-1", [fork.address])))
}

impl Desk {
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
    let baseline = desk(|local, _| local.otherwise(Otherwise::Baseline)).await;
    let fork = desk(|local, fork| before(local, fork).otherwise(Otherwise::Before)).await;
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
    let desk = desk(|local, _| local.otherwise(Otherwise::Baseline)).await;
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
    let desk =
        desk(|local, fork| before(local, fork).when(When::ExceptStatus(vec![StatusCode::NOT_FOUND]))).await;
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
    let not_found = || When::ExceptStatus(vec![StatusCode::NOT_FOUND]);
    let fails = desk(|local, fork| before(local, fork).when(not_found())).await;
    assert_eq!(fails.ask("/status?404").await, said(404, "fork/shop/pr-1", "fork"));
    let unready = || Before::Unavailable(Arc::new(Unavailable::unready("shop", "pr-1", "no pod is ready")));
    let waits =
        desk(|local, _| local.before(unready()).when(not_found()).otherwise(Otherwise::Baseline)).await;
    assert_eq!(waits.ask("/status?404").await, said(503, "fork/shop/pr-1", "unready"));
    let stands = desk(|local, _| local.before(unready()).otherwise(Otherwise::Before)).await;
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
    let takes = desk(|local, _| local.when(When::Header(name.clone(), value))).await;
    assert_eq!(takes.ask("/").await, said(200, "local/shop/cart-local", "local"));
    let leaves = desk(|local, _| local.when(When::Header(name, HeaderValue::from_static("true")))).await;
    assert_eq!(leaves.ask("/").await, said(200, "baseline", "baseline"));
    assert_eq!((leaves.local.seen(), leaves.baseline.seen()), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn another_router_that_has_the_session_is_asked() {
    // The loopback interface has as many addresses as one likes: each router has its own.
    let desk = desk(|local, _| local).await;
    let other = Proxy::start(
        Settings { name: "router-1".to_owned(), address: [127, 0, 0, 2].into(), front: None, ..settings() },
        Direct::new(State::Disconnected),
    )
    .unwrap();
    let gateway = Gateway { name: "router".to_owned(), address: [127, 0, 0, 1].into() };
    let local = || Local::new("shop", "cart-local", 8080).behind(gateway.clone());
    for proxy in [&desk.proxy, &other] {
        let mut route = cart(desk.port.port, &[desk.baseline.address]);
        route.set(key("k1"), Target::Local(Arc::new(local())));
        assert!(proxy.apply(table([route])).await.failed.is_empty());
    }
    let at_other = SocketAddr::from(([127, 0, 0, 2], desk.port.port));
    let (status, headers, body) = ask(at_other, get("/", &[("baggage", "sd-routing-key=k1")])).await;
    assert_eq!((status.as_u16(), &headers["x-pod"]), (200, &"local".parse().unwrap()), "{body}");
    assert_eq!(headers["x-sandbox-route"], "local/shop/cart-local");
}

/// A table in which the session is at a router.
fn session_at(desk: &Desk, name: &str, address: [u8; 4]) -> sandbox_router::table::Table {
    let gateway = Gateway { name: name.to_owned(), address: address.into() };
    let mut route = cart(desk.port.port, &[desk.baseline.address]);
    route.set(key("k1"), Target::Local(Arc::new(Local::new("shop", "cart-local", 8080).behind(gateway))));
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
    let desk = desk(|local, _| local.otherwise(Otherwise::Baseline)).await;
    *desk.tunnel.0.lock().unwrap() = State::Moved;
    assert_eq!(desk.ask("/").await, said(200, "baseline", "baseline"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_was_meant_for_another_router_is_answered_by_nobody_here() {
    let desk = desk(|local, _| local.otherwise(Otherwise::Baseline)).await;
    let keyed = get("/", &[("baggage", "sd-routing-key=k1"), ("x-sandbox-hop", "router-9")]);
    let (status, headers, _) = ask(desk.port.address(), keyed).await;
    assert_eq!((status.as_u16(), &headers["x-sandbox-error"]), (503, &"reconnecting".parse().unwrap()));
    assert_eq!((desk.local.seen(), desk.baseline.seen()), (0, 0));
}
