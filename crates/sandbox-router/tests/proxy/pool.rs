//! Connections to pods that die, and pods that vanish.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    sync::watch,
};

use super::harness::{
    Pod, Reserved, ShopFixture, ask, cart, eventually, fork, get, http1, key, proxy, table, whole,
};

/// A pod that closes its connections on request, as Node does after five seconds.
struct Closing {
    address: SocketAddr,
    served: Arc<AtomicUsize>,
    /// How often it was told.
    told: watch::Sender<usize>,
    /// How many it has closed.
    closed: Arc<AtomicUsize>,
}

impl Closing {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (served, closed) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let told = watch::Sender::new(0);
        let (count, gone, orders) = (Arc::clone(&served), Arc::clone(&closed), told.subscribe());
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (count, gone, mut orders) = (Arc::clone(&count), Arc::clone(&gone), orders.clone());
                orders.mark_unchanged();
                tokio::spawn(async move {
                    let mut buffer = [0; 4096];
                    loop {
                        let read = tokio::select! {
                            read = stream.read(&mut buffer) => read.unwrap_or_default(),
                            _ = orders.changed() => 0,
                        };
                        if read == 0 {
                            break;
                        }
                        assert!(buffer[..read].ends_with(b"\r\n\r\n"));
                        count.fetch_add(1, Ordering::SeqCst);
                        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
                    }
                    drop(stream);
                    gone.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
        Self { address, served, told, closed }
    }

    /// Closes the connection that there is.
    async fn close(&self) {
        let before = self.closed.load(Ordering::SeqCst);
        self.told.send_modify(|times| *times += 1);
        let closed = || async { self.closed.load(Ordering::SeqCst) > before };
        eventually("the pod has closed its connection", closed).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_pods_closed_cost_no_request() {
    let pod = Closing::start().await;
    let (proxy, port) = (proxy(), Reserved::new());
    proxy.apply(table([cart(port.port, &[pod.address])])).await;
    let mut sender = http1(port.address()).await;
    for at in 0..120 {
        sender.ready().await.unwrap();
        let (status, _, body) = whole(sender.send_request(get("/", &[])).await.unwrap()).await;
        assert_eq!((status.as_u16(), body.as_str()), (200, "ok"), "request {at}");
        // Some of them before the router can have noticed it, some after it.
        if at % 3 > 0 {
            pod.close().await;
        }
        if at % 3 > 1 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    assert_eq!(pod.served.load(Ordering::SeqCst), 120);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_a_pod_has_read_is_never_sent_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let pod = listener.local_addr().unwrap();
    let heard = Arc::<AtomicUsize>::default();
    let count = Arc::clone(&heard);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut buffer = [0; 4096];
            assert!(stream.read(&mut buffer).await.unwrap() > 0);
            count.fetch_add(1, Ordering::SeqCst);
        }
    });
    let (proxy, port) = (proxy(), Reserved::new());
    proxy.apply(table([cart(port.port, &[pod])])).await;
    let (status, headers, body) = ask(port.address(), get("/order", &[])).await;
    assert_eq!((status.as_u16(), headers["x-sandbox-error"].to_str().unwrap()), (502, "upstream"), "{body}");
    assert_eq!(heard.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_takes_no_connection_is_passed_over() {
    let dead = Reserved::new();
    let pod = Pod::start("baseline").await;
    let (proxy, port) = (proxy(), Reserved::new());
    proxy.apply(table([cart(port.port, &[dead.address(), pod.address])])).await;
    for _ in 0..20 {
        assert_eq!(ask(port.address(), get("/", &[])).await.0.as_u16(), 200);
    }
    assert_eq!(pod.seen(), 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_answers_is_said_with_a_word() {
    let dead = Reserved::new();
    let (proxy, port) = (proxy(), Reserved::new());
    proxy.apply(table([cart(port.port, &[])])).await;
    let (status, headers, _) = ask(port.address(), get("/", &[])).await;
    assert_eq!((status.as_u16(), &headers["x-sandbox-error"]), (503, &"no-endpoints".parse().unwrap()));
    proxy.apply(table([cart(port.port, &[dead.address()])])).await;
    let (status, headers, _) = ask(port.address(), get("/", &[])).await;
    assert_eq!((status.as_u16(), &headers["x-sandbox-error"]), (503, &"unreachable".parse().unwrap()));
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_to_a_route_that_vanished_are_dropped() {
    let shop = ShopFixture::open().await;
    let keyed = [("baggage", "sd-routing-key=k1")];
    assert_eq!(ask(shop.port.address(), get("/", &keyed)).await.1["x-pod"], "fork");
    let replacement = Pod::start("second").await;
    let mut route = cart(shop.port.port, &[shop.baseline.address]);
    route.set_override(key("k1"), fork("pr-1", replacement.address));
    shop.proxy.apply(table([route])).await;
    assert_eq!(ask(shop.port.address(), get("/", &keyed)).await.1["x-pod"], "second");
    shop.proxy.apply(table([cart(shop.port.port, &[shop.baseline.address])])).await;
    assert_eq!(ask(shop.port.address(), get("/", &keyed)).await.1["x-pod"], "baseline");
    let admin = shop.proxy.admin().unwrap();
    eventually("no connection to the forks is left", || async move {
        let metrics = ask(admin, get("/metrics", &[])).await.2;
        metrics.lines().any(|line| line == "router_pool_idle 1" || line == "router_pool_idle 0")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_are_closed_before_pods_close_them() {
    let shop = ShopFixture::open().await;
    let begin = std::time::Instant::now();
    ask(shop.port.address(), get("/", &[])).await;
    let admin = shop.proxy.admin().unwrap();
    let idle = || async move {
        let metrics = ask(admin, get("/metrics", &[])).await.2;
        let line = metrics.lines().find(|line| line.starts_with("router_pool_idle ")).unwrap().to_owned();
        line.rsplit(' ').next().unwrap().parse::<usize>().unwrap()
    };
    eventually("the idle connection is closed", || async { idle().await == 0 }).await;
    // Not at once either: it is there to be used.
    assert!(begin.elapsed() > Duration::from_secs(1), "{:?}", begin.elapsed());
}
