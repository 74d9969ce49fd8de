//! Local workloads, with a tunnel that is none: it dials a port of this machine.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use futures::future::BoxFuture;
use http::{HeaderName, HeaderValue, Request, StatusCode};
use http_body_util::BodyExt;
use hyper_util::rt::TokioIo;
use sandbox_router::{
    body::Body,
    locals::{Duplex, LocalAnswer, LocalError, Locals},
    table::{Backend, Gateway, Local, Otherwise, Target, When},
};
use tokio::net::TcpStream;

use super::support::{Pod, Reserved, ask, cart, get, key, proxy_with, settings, table};

/// What the tunnel does next.
#[derive(Clone, Copy)]
enum State {
    Connected(SocketAddr),
    Disconnected,
    Reconnecting,
    NothingListens,
}

struct Direct(Mutex<State>);

impl Direct {
    fn new(state: State) -> Arc<Self> {
        Arc::new(Self(Mutex::new(state)))
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
        Box::pin(async move {
            let address = match state {
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
    proxy: sandbox_router::proxy::Proxy,
    port: Reserved,
    baseline: Pod,
    fork: Pod,
    local: Pod,
    tunnel: Arc<Direct>,
}

async fn desk(change: impl FnOnce(Local, &Pod) -> Local) -> Desk {
    let (baseline, fork) = (Pod::start("baseline").await, Pod::start("fork").await);
    let local = Pod::start("local").await;
    let tunnel = Direct::new(State::Connected(local.address));
    let (proxy, port) = (proxy_with(Arc::clone(&tunnel) as Arc<dyn Locals>), Reserved::new());
    let mut route = cart(port.port, &[baseline.address]);
    let target = change(Local::new("shop", "cart-local", 8080), &fork);
    route.set(key("k1"), Target::Local(Arc::new(target)));
    proxy.apply(table([route])).await;
    Desk { proxy, port, baseline, fork, local, tunnel }
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
    let fork =
        desk(|local, fork| local.otherwise(Otherwise::Fork(Backend::fork("shop", "pr-1", [fork.address]))))
            .await;
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
    let desk = desk(|local, fork| {
        let fork = Otherwise::Fork(Backend::fork("shop", "pr-1", [fork.address]));
        local.when(When::ExceptStatus(vec![StatusCode::NOT_FOUND])).otherwise(fork)
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
    let other = sandbox_router::proxy::Proxy::start(
        sandbox_router::proxy::Settings {
            name: "router-1".to_owned(),
            address: [127, 0, 0, 2].into(),
            front: None,
            ..settings()
        },
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
