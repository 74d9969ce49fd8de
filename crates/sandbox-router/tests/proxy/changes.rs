//! F3: tables and routers change under load, and no request of the baseline fails.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use sandbox_router::proxy::Proxy;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
};

use super::harness::{
    Pod, Reserved, ShopFixture, ask, cart, fork, get, http1, http2, key, loopback, proxy, settings, table,
    whole,
};

/// How long there is load. `SOAK_SECONDS` makes it longer.
fn duration() -> Duration {
    let seconds = std::env::var("SOAK_SECONDS").map_or(5, |seconds| seconds.parse::<u64>().unwrap().max(5));
    Duration::from_secs(seconds)
}

#[derive(Default)]
struct Load {
    stop: AtomicBool,
    asked: AtomicUsize,
    failures: Mutex<Vec<String>>,
}

impl Load {
    /// Whether there is to be more load: until the time is over, and longer where a busy machine has done too little.
    fn goes_on(&self, end: Instant, least: usize) -> bool {
        let (now, asked) = (Instant::now(), self.asked.load(Ordering::SeqCst));
        now < end || asked < least && now < end + Duration::from_mins(5)
    }

    fn failed(&self, what: impl Into<String>) {
        self.failures.lock().unwrap().push(what.into());
    }
}

/// Callers without a key: some keep their connections, some open one for each request, some speak HTTP/2.
fn load(on: &Arc<Load>, to: SocketAddr, callers: usize) -> Vec<tokio::task::JoinHandle<()>> {
    let start = |at: usize| {
        let on = Arc::clone(on);
        tokio::spawn(async move {
            while !on.stop.load(Ordering::SeqCst) {
                match at % 3 {
                    0 => keeping(&on, to).await,
                    1 => one(&on, &ask(to, get("/status?200", &[])).await),
                    _ => sharing(&on, to).await,
                }
            }
        })
    };
    (0..callers).map(start).collect()
}

fn one(on: &Load, answer: &(http::StatusCode, http::HeaderMap, String)) {
    on.asked.fetch_add(1, Ordering::SeqCst);
    if answer.0 != 200 || answer.2 != "baseline" {
        on.failed(format!("{answer:?}"));
    }
}

/// Until the other side says that it closes.
async fn keeping(on: &Load, to: SocketAddr) {
    let mut sender = http1(to).await;
    while !on.stop.load(Ordering::SeqCst) {
        if sender.ready().await.is_err() {
            return;
        }
        match sender.send_request(get("/status?200", &[])).await {
            Ok(response) => one(on, &whole(response).await),
            // Closed while it was idle: nothing was sent, and any client would ask again.
            Err(error) if error.is_canceled() => return,
            Err(error) => return on.failed(format!("keeping: {error:?}")),
        }
    }
}

async fn sharing(on: &Load, to: SocketAddr) {
    let mut sender = http2(to).await;
    while !on.stop.load(Ordering::SeqCst) {
        if sender.ready().await.is_err() {
            return;
        }
        match sender.send_request(get("http://cart.shop/status?200", &[])).await {
            Ok(response) => one(on, &whole(response).await),
            Err(error) if error.is_canceled() || is_goodbye(&error) => return,
            Err(error) => return on.failed(format!("sharing: {error:?}")),
        }
    }
}

/// A stream that a server says it has not seen may be asked for again.
fn is_goodbye(error: &hyper::Error) -> bool {
    let source = std::error::Error::source(error).and_then(|it| it.downcast_ref::<h2::Error>());
    source.is_some_and(|it| {
        it.is_go_away() && it.is_remote() || it.reason() == Some(h2::Reason::REFUSED_STREAM)
    })
}

async fn finish(on: &Load, callers: Vec<tokio::task::JoinHandle<()>>, least: usize) {
    on.stop.store(true, Ordering::SeqCst);
    for caller in callers {
        caller.await.unwrap();
    }
    let (asked, failures) = (on.asked.load(Ordering::SeqCst), on.failures.lock().unwrap());
    assert!(failures.is_empty(), "{} of {asked} failed, the first: {}", failures.len(), failures[0]);
    assert!(asked >= least, "only {asked} requests");
}

#[tokio::test(flavor = "multi_thread")]
async fn f3_tables_are_swapped_under_load_and_nothing_fails() {
    let shop = ShopFixture::open().await;
    let on = Arc::<Load>::default();
    let callers = load(&on, shop.port.address(), 6);
    let end = Instant::now() + duration();
    let (mut swaps, mut sandboxes) = (0_u32, 0);
    while on.goes_on(end, 500) || swaps <= 50 {
        swaps += 1;
        sandboxes = (sandboxes + 7) % 200;
        let mut route = cart(shop.port.port, &[shop.baseline.address]);
        for at in 0..sandboxes {
            route.set_override(key(&format!("k{at}")), fork(&format!("pr-{at}"), shop.fork.address));
        }
        assert!(shop.proxy.apply(table([route])).await.failed.is_empty());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    finish(&on, callers, 500).await;
}

/// Routes that are gone are served for so long.
async fn lingering(linger: Duration) -> ShopFixture {
    let settings = sandbox_router::proxy::ProxySettings { linger, ..settings() };
    ShopFixture::with(
        Proxy::start(settings, Arc::new(sandbox_router::local_transport::NoLocalTransport)).unwrap(),
    )
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn f3_a_route_that_is_gone_is_served_until_callers_know() {
    let shop = lingering(Duration::from_hours(1)).await;
    let mut kept = http1(shop.port.address()).await;
    assert_eq!(kept.send_request(get("/", &[])).await.unwrap().status(), 200);
    shop.proxy.apply(table([])).await;
    // Who is connected is answered, and told to connect again; who connects is answered too.
    kept.ready().await.unwrap();
    let (status, headers, _) = whole(kept.send_request(get("/", &[])).await.unwrap()).await;
    assert_eq!((status.as_u16(), headers["connection"].to_str().unwrap()), (200, "close"));
    assert_eq!(ask(shop.port.address(), get("/", &[])).await.0.as_u16(), 200);
    // And not for ever.
    let shop = lingering(Duration::from_millis(100)).await;
    shop.proxy.apply(table([])).await;
    super::harness::eventually("the listener is closed", || async {
        TcpStream::connect(shop.port.address()).await.is_err()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_gets_another_service_never_mixes_the_two() {
    let shop = ShopFixture::open().await;
    let mut kept = http1(shop.port.address()).await;
    assert_eq!(whole(kept.send_request(get("/", &[])).await.unwrap()).await.1["x-pod"], "baseline");
    let other = Pod::start("other").await;
    let route = sandbox_router::table::Route::new(
        sandbox_router::table::ServicePort::new("shop", "other", 80),
        sandbox_router::table::Backend::baseline([other.address]),
    );
    shop.proxy.apply(table([route.with_listener(shop.port.port)])).await;
    kept.ready().await.unwrap();
    assert_eq!(whole(kept.send_request(get("/", &[])).await.unwrap()).await.1["x-pod"], "baseline");
    assert_eq!(ask(shop.port.address(), get("/", &[])).await.1["x-pod"], "other");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_changes_hands_all_the_time_loses_no_caller() {
    let shop = ShopFixture::open().await;
    let (other, to) = (Pod::start("other").await, shop.port.address());
    let over = Arc::<AtomicBool>::default();
    let seen = Arc::clone(&over);
    let callers = tokio::spawn(async move {
        let mut asked = 0;
        while !seen.load(Ordering::SeqCst) {
            let pod = ask(to, get("/", &[])).await.1["x-pod"].clone();
            assert!(pod == "baseline" || pod == "other", "{pod:?}");
            asked += 1;
        }
        asked
    });
    for at in 0..100 {
        let (name, pod) = if at % 2 == 0 { ("other", &other) } else { ("baseline", &shop.baseline) };
        let route = sandbox_router::table::Route::new(
            sandbox_router::table::ServicePort::new("shop", name, 80),
            sandbox_router::table::Backend::baseline([pod.address]),
        );
        shop.proxy.apply(table([route.with_listener(shop.port.port)])).await;
        assert_eq!(ask(to, get("/", &[])).await.1["x-pod"], name);
    }
    over.store(true, Ordering::SeqCst);
    assert!(callers.await.unwrap() > 0);
}

/// Two routers behind a balancer that sends new connections to those that are ready, as a Service does.
struct Balancer {
    address: SocketAddr,
    routers: Arc<Mutex<Vec<SocketAddr>>>,
    /// Connections that go to a router and are not there yet.
    under_way: Arc<AtomicUsize>,
}

impl Balancer {
    async fn start() -> Self {
        let listener = TcpListener::bind(loopback()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let routers = Arc::<Mutex<Vec<SocketAddr>>>::default();
        let under_way = Arc::<AtomicUsize>::default();
        let (known, going) = (Arc::clone(&routers), Arc::clone(&under_way));
        tokio::spawn(async move {
            let mut turn = 0;
            while let Ok((mut stream, _)) = listener.accept().await {
                turn += 1;
                let to = {
                    let all = known.lock().unwrap();
                    going.fetch_add(1, Ordering::SeqCst);
                    all[turn % all.len()]
                };
                let going = Arc::clone(&going);
                tokio::spawn(async move {
                    let mut router =
                        TcpStream::connect(to).await.expect("a router that is ready takes connections");
                    going.fetch_sub(1, Ordering::SeqCst);
                    router.set_nodelay(true).unwrap();
                    stream.set_nodelay(true).unwrap();
                    let _ = copy_bidirectional(&mut stream, &mut router).await;
                });
            }
        });
        Self { address, routers, under_way }
    }

    /// From now on no caller is sent anywhere else.
    async fn send_to(&self, routers: Vec<SocketAddr>) {
        *self.routers.lock().unwrap() = routers;
        let none = || async { self.under_way.load(Ordering::SeqCst) == 0 };
        super::harness::eventually("no request is in flight to a router", none).await;
    }
}

async fn router(pod: SocketAddr) -> (Proxy, Reserved) {
    let (proxy, port) = (proxy(), Reserved::new());
    assert!(proxy.apply(table([cart(port.port, &[pod])])).await.failed.is_empty());
    (proxy, port)
}

#[tokio::test(flavor = "multi_thread")]
async fn f3_routers_are_restarted_under_load_and_nothing_fails() {
    let pod = Pod::start("baseline").await;
    let balancer = Balancer::start().await;
    let mut routers = vec![router(pod.address).await, router(pod.address).await];
    let ready = |routers: &[(Proxy, Reserved)]| routers.iter().map(|it| it.1.address()).collect::<Vec<_>>();
    *balancer.routers.lock().unwrap() = ready(&routers);
    let on = Arc::<Load>::default();
    let callers = load(&on, balancer.address, 6);
    let end = Instant::now() + duration();
    let mut restarts = 0;
    while on.goes_on(end, 300) || restarts < 3 {
        let (old, port) = routers.remove(0);
        // It says that it is not ready; who balances learns of it; then it stops.
        old.retire();
        let readiness = ask(old.admin().unwrap(), get("/readyz", &[])).await;
        assert_eq!(readiness.0.as_u16(), 503);
        balancer.send_to(ready(&routers)).await;
        old.stop().await;
        drop(port);
        routers.push(router(pod.address).await);
        balancer.send_to(ready(&routers)).await;
        restarts += 1;
        // So that there is load on both for a while.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    finish(&on, callers, 300).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_lets_requests_end() {
    let shop = ShopFixture::open().await;
    let to = shop.port.address();
    let slow = tokio::spawn(async move { ask(to, get("/slow?1500", &[])).await });
    let mut idle = http1(to).await;
    assert_eq!(idle.send_request(get("/", &[])).await.unwrap().status(), 200);
    super::harness::eventually("the slow one is under way", || async { shop.baseline.seen() == 2 }).await;
    shop.proxy.stop().await;
    assert_eq!(slow.await.unwrap().2, "baseline");
    assert!(TcpStream::connect(to).await.is_err(), "nobody listens any more");
}
