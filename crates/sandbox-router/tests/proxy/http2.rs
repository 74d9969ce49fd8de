//! HTTP/2 without TLS.

use std::sync::LazyLock;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{
    net::TcpStream,
    sync::{Barrier, Notify},
};

use super::harness::{
    PATIENCE, Pod, Reserved, ShopFixture, cart, curl, eventually, get, http2, proxy, table, whole,
};

const KEY: (&str, &str) = ("baggage", "sd-routing-key=k1");

fn h2_get(path: &str, headers: &[(&'static str, &str)]) -> http::Request<Full<Bytes>> {
    get(&format!("http://cart.shop{path}"), headers)
}

#[tokio::test(flavor = "multi_thread")]
async fn f11_curl_with_prior_knowledge_reaches_baseline_and_fork() {
    let shop = ShopFixture::open().await;
    let url = shop.url("/a");
    let plain = curl(&["--http2-prior-knowledge", "-D-", &url]).await;
    assert!(plain.starts_with("HTTP/2 200"), "{plain}");
    assert!(plain.contains("x-sandbox-route: baseline") && plain.contains("\"HTTP/2.0\""), "{plain}");
    let keyed = curl(&["--http2-prior-knowledge", "-D-", "-H", "baggage: sd-routing-key=k1", &url]).await;
    assert!(keyed.contains("x-sandbox-route: fork/shop/pr-1"), "{keyed}");
    assert_eq!((shop.baseline.seen(), shop.fork.seen()), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn f11_one_connection_has_many_requests_at_once_each_with_its_own_route() {
    let shop = ShopFixture::open().await;
    let sender = http2(shop.port.address()).await;
    let asked = (0..100).map(|at| {
        let mut sender = sender.clone();
        async move {
            let headers = if at % 2 == 0 { &[KEY][..] } else { &[] };
            let response = sender.send_request(h2_get("/slow?50", headers)).await.unwrap();
            (at, whole(response).await)
        }
    });
    for (at, (status, headers, body)) in futures::future::join_all(asked).await {
        let pod = if at % 2 == 0 { "fork" } else { "baseline" };
        assert_eq!((status.as_u16(), body.as_str(), headers["x-pod"].to_str().unwrap()), (200, pod, pod));
    }
    let used = shop.fork.connections.load(std::sync::atomic::Ordering::SeqCst);
    assert!(used <= 2, "{used} connections for requests that fit on one");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_body_goes_both_ways() {
    let shop = ShopFixture::open().await;
    let body = Bytes::from((0..5_000_000_u32).map(|at| (at % 251) as u8).collect::<Vec<_>>());
    let mut request = h2_get("/echo", &[KEY]);
    *request.method_mut() = http::Method::POST;
    let request = request.map(|_| Full::new(body.clone()));
    let response = http2(shop.port.address()).await.send_request(request).await.unwrap();
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), body);
}

/// A pod that answers with what a test likes.
async fn scripted<F, Fut>(answer: F) -> std::net::SocketAddr
where
    F: Fn(http::Request<h2::RecvStream>, h2::server::SendResponse<Bytes>) -> Fut
        + Copy
        + Send
        + Sync
        + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut connection = h2::server::handshake(stream).await.unwrap();
                while let Some(Ok((request, respond))) = connection.accept().await {
                    tokio::spawn(answer(request, respond));
                }
            });
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread")]
async fn f11_a_reset_of_the_pod_reaches_the_caller_with_its_reason() {
    static READ: Notify = Notify::const_new();
    let pod = scripted(|request, mut respond| async move {
        if request.uri().path() == "/at-once" {
            return respond.send_reset(h2::Reason::ENHANCE_YOUR_CALM);
        }
        let mut body = respond.send_response(http::Response::new(()), false).unwrap();
        body.send_data(Bytes::from_static(b"some"), false).unwrap();
        READ.notified().await;
        body.send_reset(h2::Reason::REFUSED_STREAM);
    })
    .await;
    let (proxy, port) = (proxy(), Reserved::new());
    proxy.apply(table([cart(port.port, &[pod])])).await;
    let mut sender = http2(port.address()).await;
    let reason = |error: &hyper::Error| {
        let source = std::error::Error::source(error).unwrap().downcast_ref::<h2::Error>().unwrap();
        source.reason().unwrap()
    };
    let error = sender.send_request(h2_get("/at-once", &[])).await.unwrap_err();
    assert_eq!(reason(&error), h2::Reason::ENHANCE_YOUR_CALM);
    let response = sender.send_request(h2_get("/later", &[])).await.unwrap();
    READ.notify_one();
    let error = response.into_body().collect().await.unwrap_err();
    assert_eq!(reason(&error), h2::Reason::REFUSED_STREAM);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_a_pod_gives_up_is_not_taken_for_complete() {
    static READ: Notify = Notify::const_new();
    let pod = scripted(|_, mut respond| async move {
        let mut body = respond.send_response(http::Response::new(()), false).unwrap();
        body.send_data(Bytes::from_static(b"some"), false).unwrap();
        READ.notified().await;
        body.send_reset(h2::Reason::CANCEL);
    })
    .await;
    let (proxy, port) = (proxy(), Reserved::new());
    proxy.apply(table([cart(port.port, &[pod])])).await;
    let (mut sender, connection) =
        h2::client::handshake(TcpStream::connect(port.address()).await.unwrap()).await.unwrap();
    tokio::spawn(connection);
    let (answer, _) = sender.send_request(h2_get("/", &[]).map(|_| ()), true).unwrap();
    let mut body = answer.await.unwrap().into_body();
    assert_eq!(body.data().await.unwrap().unwrap(), "some");
    READ.notify_one();
    let end = body.data().await.unwrap().unwrap_err();
    assert_eq!(end.reason(), Some(h2::Reason::CANCEL));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_answers_early_still_gets_the_whole_request() {
    static READ: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let pod = scripted(|request, mut respond| async move {
        respond.send_response(http::Response::new(()), true).unwrap();
        let mut body = request.into_body();
        while let Some(Ok(data)) = body.data().await {
            body.flow_control().release_capacity(data.len()).unwrap();
            READ.fetch_add(data.len(), std::sync::atomic::Ordering::SeqCst);
        }
    })
    .await;
    let (proxy, port) = (proxy(), Reserved::new());
    proxy.apply(table([cart(port.port, &[pod])])).await;
    let (mut sender, connection) =
        h2::client::handshake(TcpStream::connect(port.address()).await.unwrap()).await.unwrap();
    tokio::spawn(connection);
    let (answer, mut body) = sender.send_request(h2_get("/", &[]).map(|_| ()), false).unwrap();
    assert!(answer.await.unwrap().into_body().is_end_stream());
    body.send_data(Bytes::from_static(b"first"), false).unwrap();
    let read = || READ.load(std::sync::atomic::Ordering::SeqCst);
    eventually("the pod has read the first part", || async { read() == 5 }).await;
    body.send_data(Bytes::from_static(b"last"), true).unwrap();
    eventually("the pod has read everything", || async { read() == 9 }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_do_not_queue_before_a_pod_that_takes_one_on_each_connection() {
    static BOTH: LazyLock<Barrier> = LazyLock::new(|| Barrier::new(2));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let pod = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut builder = h2::server::Builder::new();
                builder.max_concurrent_streams(1);
                let mut connection = builder.handshake::<_, Bytes>(stream).await.unwrap();
                while let Some(Ok((request, mut respond))) = connection.accept().await {
                    tokio::spawn(async move {
                        if request.uri().path() == "/both" {
                            BOTH.wait().await;
                        }
                        respond.send_response(http::Response::new(()), true).unwrap();
                    });
                }
            });
        }
    });
    let (proxy, port) = (proxy(), Reserved::new());
    proxy.apply(table([cart(port.port, &[pod])])).await;
    let mut sender = http2(port.address()).await;
    // What a pod takes is known from its first answer on.
    assert_eq!(sender.send_request(h2_get("/", &[])).await.unwrap().status().as_u16(), 200);
    let mut other = sender.clone();
    let both = async {
        tokio::join!(sender.send_request(h2_get("/both", &[])), other.send_request(h2_get("/both", &[])))
    };
    let (one, two) = tokio::time::timeout(PATIENCE, both).await.unwrap();
    assert_eq!((one.unwrap().status().as_u16(), two.unwrap().status().as_u16()), (200, 200));
}

#[tokio::test(flavor = "multi_thread")]
async fn f11_a_caller_that_gives_up_cancels_the_request_at_the_pod() {
    static CANCELLED: std::sync::Mutex<Vec<h2::Reason>> = std::sync::Mutex::new(Vec::new());
    let pod = scripted(|_, mut respond| async move {
        let mut body = respond.send_response(http::Response::new(()), false).unwrap();
        let reason = futures::future::poll_fn(|cx| body.poll_reset(cx)).await.unwrap();
        CANCELLED.lock().unwrap().push(reason);
    })
    .await;
    let (proxy, port) = (proxy(), Reserved::new());
    proxy.apply(table([cart(port.port, &[pod])])).await;
    let response = http2(port.address()).await.send_request(h2_get("/", &[])).await.unwrap();
    drop(response);
    eventually("the pod learns of it", || async { !CANCELLED.lock().unwrap().is_empty() }).await;
    assert_eq!(*CANCELLED.lock().unwrap(), [h2::Reason::CANCEL]);
}

#[tokio::test(flavor = "multi_thread")]
async fn f11_trailers_go_both_ways() {
    let pod = scripted(|request, mut respond| async move {
        let mut body = request.into_body();
        while let Some(data) = body.data().await {
            let length = data.unwrap().len();
            body.flow_control().release_capacity(length).unwrap();
        }
        let trailers = body.trailers().await.unwrap().unwrap();
        let mut send = respond.send_response(http::Response::new(()), false).unwrap();
        send.send_trailers(trailers).unwrap();
    })
    .await;
    let (proxy, port) = (proxy(), Reserved::new());
    proxy.apply(table([cart(port.port, &[pod])])).await;
    let stream = TcpStream::connect(port.address()).await.unwrap();
    let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (mut sender, connection) = handshake.await.unwrap();
    tokio::spawn(connection);
    let mut trailers = http::HeaderMap::new();
    trailers.insert("x-sum", "42".parse().unwrap());
    let frames = [Frame::data(Bytes::from_static(b"data")), Frame::trailers(trailers.clone())];
    let body = StreamBody::new(futures::stream::iter(frames.map(Ok::<_, std::convert::Infallible>)));
    let request = http::Request::post("http://cart.shop/").body(body).unwrap();
    let answer = sender.send_request(request).await.unwrap().into_body().collect().await.unwrap();
    assert_eq!(answer.trailers(), Some(&trailers));
}

#[tokio::test(flavor = "multi_thread")]
async fn extended_connect_is_not_offered() {
    let shop = ShopFixture::open().await;
    let stream = TcpStream::connect(shop.port.address()).await.unwrap();
    let (mut sender, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    // The settings are there when the first answer is.
    let (answer, _) = sender.send_request(h2_get("/", &[]).map(|_| ()), true).unwrap();
    assert_eq!(answer.await.unwrap().status().as_u16(), 200);
    assert!(!sender.is_extended_connect_protocol_enabled());
    let connect = http::Request::connect("cart.shop:80").body(()).unwrap();
    let (answer, _) = sender.send_request(connect, true).unwrap();
    let answer = answer.await.unwrap();
    assert_eq!(
        (answer.status().as_u16(), answer.headers()["x-sandbox-error"].to_str().unwrap()),
        (501, "connect")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_was_replaced_is_connected_anew() {
    let (proxy, port, pods) = (proxy(), Reserved::new(), Reserved::new());
    let address = pods.address();
    let first = Pod::at("first", address).await;
    proxy.apply(table([cart(port.port, &[address])])).await;
    let mut sender = http2(port.address()).await;
    let answer = whole(sender.send_request(h2_get("/status?200", &[])).await.unwrap()).await;
    assert_eq!(answer.2, "first");
    drop(first);
    // The port is free again when the first one's task is gone.
    eventually("the first pod is gone", || async { std::net::TcpListener::bind(address).is_ok() }).await;
    let second = Pod::at("second", address).await;
    let sender = &sender;
    eventually("requests reach the second pod", || async move {
        let mut sender = sender.clone();
        match sender.send_request(h2_get("/status?200", &[])).await {
            Ok(answer) => whole(answer).await.2 == "second",
            Err(_) => false,
        }
    })
    .await;
    assert!(second.seen() >= 1);
}
