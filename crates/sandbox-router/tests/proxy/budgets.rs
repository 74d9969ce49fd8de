//! Callers that take more than their share: idle connections, one peer, slow readers, reset requests.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use futures::future::join_all;
use sandbox_router::{
    local_transport::NoLocalTransport,
    proxy::{Proxy, ProxyLimits, ProxySettings},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
};

use super::harness::{PATIENCE, ShopFixture, curl, eventually, get, http2, settings, whole};

async fn shop(limits: ProxyLimits) -> ShopFixture {
    let settings = ProxySettings { limits, ..settings() };
    ShopFixture::with(Proxy::start(settings, Arc::new(NoLocalTransport)).unwrap()).await
}

/// A connection whose request is not complete: it is answered when `hello` is sent.
pub(crate) async fn busy_connection(to: SocketAddr) -> TcpStream {
    busy_connection_from([127, 0, 0, 1].into(), to).await
}

async fn busy_connection_from(from: Ipv4Addr, to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::new(from.into(), 0)).unwrap();
    let mut stream = socket.connect(to).await.unwrap();
    let head = "POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\nexpect: 100-continue\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    // The router said so: the request has arrived.
    let mut said = [0; 25];
    stream.read_exact(&mut said).await.unwrap();
    stream
}

/// Completes the request of a busy connection.
async fn finish(mut stream: TcpStream) -> String {
    stream.write_all(b"hello").await.unwrap();
    let mut said = Vec::new();
    while !said.ends_with(b"hello") {
        assert_ne!(stream.read_buf(&mut said).await.unwrap(), 0, "{}", String::from_utf8_lossy(&said));
    }
    String::from_utf8(said).unwrap()
}

/// Sends a request and reads its answer; the connection stays open. False if it is closed.
async fn ask_on(stream: &mut TcpStream) -> bool {
    if stream.write_all(b"GET /status?299 HTTP/1.1\r\nhost: a\r\n\r\n").await.is_err() {
        return false;
    }
    let mut said = Vec::new();
    while !said.ends_with(b"\r\n\r\nbaseline") {
        match stream.read_buf(&mut said).await {
            Ok(1..) => {}
            _ => return false,
        }
    }
    true
}

async fn metric(shop: &ShopFixture, line: &str) -> bool {
    let metrics = curl(&[&format!("http://{}/metrics", shop.proxy.admin().unwrap())]).await;
    metrics.lines().any(|own| own == line)
}

#[tokio::test(flavor = "multi_thread")]
async fn m5_idle_connections_make_room_and_busy_ones_stay() {
    let shop = shop(ProxyLimits { max_connections: 10, ..settings().limits }).await;
    let to = shop.port.address();
    // Older than all others.
    let busy = busy_connection(to).await;
    let mut idle = Vec::new();
    for _ in 0..20 {
        let mut stream = TcpStream::connect(to).await.unwrap();
        // Waits for room, which only idle connections can make.
        let asked = tokio::time::timeout(PATIENCE, ask_on(&mut stream)).await;
        assert!(asked.expect("there is room for a new connection"), "a new connection was closed");
        idle.push(stream);
    }
    let mut first = [0; 1];
    let end = tokio::time::timeout(PATIENCE, idle[0].read(&mut first)).await;
    assert_eq!(end.expect("the oldest idle connection is closed").unwrap(), 0);
    assert!(finish(busy).await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test(flavor = "multi_thread")]
async fn m5_connections_that_never_asked_anything_make_room_too() {
    let shop = shop(ProxyLimits { max_connections: 4, ..settings().limits }).await;
    let to = shop.port.address();
    let silent = join_all((0..12).map(|_| TcpStream::connect(to))).await;
    let mut stream = TcpStream::connect(to).await.unwrap();
    let asked = tokio::time::timeout(PATIENCE, ask_on(&mut stream)).await;
    assert!(asked.expect("there is room for a connection with a request"));
    drop(silent);
}

#[tokio::test(flavor = "multi_thread")]
async fn m5_an_idle_connection_of_http2_makes_room_and_is_told() {
    let shop = shop(ProxyLimits { max_connections: 1, ..settings().limits }).await;
    let stream = TcpStream::connect(shop.port.address()).await.unwrap();
    let (sender, connection) = h2::client::handshake(stream).await.unwrap();
    let mut sender = sender.ready().await.unwrap();
    let (answer, _) = sender.send_request(get("http://cart.shop/", &[]).map(|_| ()), true).unwrap();
    let served = tokio::spawn(connection);
    assert_eq!(answer.await.unwrap().status(), 200);
    let ended = tokio::time::timeout(PATIENCE, served).await.expect("it is still connected");
    ended.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn m5_one_peer_cannot_take_the_connections_of_others() {
    let shop = shop(ProxyLimits { max_connections_per_peer: 3, ..settings().limits }).await;
    let to = shop.port.address();
    let one = Ipv4Addr::LOCALHOST;
    let held = [
        busy_connection_from(one, to).await,
        busy_connection_from(one, to).await,
        busy_connection_from(one, to).await,
    ];
    let mut fourth = TcpStream::connect(to).await.unwrap();
    assert!(!ask_on(&mut fourth).await, "a fourth connection of one peer was served");
    let other = busy_connection_from(Ipv4Addr::new(127, 0, 0, 2), to).await;
    for stream in held.into_iter().chain([other]) {
        assert!(finish(stream).await.starts_with("HTTP/1.1 200 "));
    }
    assert!(IpAddr::from(one).is_loopback());
    let refused = "router_connections_closed_total{limit=\"peer\"} 1";
    eventually("the refused connection is counted", || metric(&shop, refused)).await;
}

/// More than the socket buffers hold.
const LARGE: usize = 64 * 1024 * 1024;

async fn unread_response(fast_path: bool) {
    let limits = ProxyLimits { write_interval: Duration::from_millis(100), ..settings().limits };
    let settings = ProxySettings { limits, http1_fast_path: fast_path, ..settings() };
    let shop = ShopFixture::with(Proxy::start(settings, Arc::new(NoLocalTransport)).unwrap()).await;
    let mut stream = TcpStream::connect(shop.port.address()).await.unwrap();
    let request = format!("GET /big?{LARGE} HTTP/1.1\r\nhost: a\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let closed = "router_connections_closed_total{limit=\"read\"} 1";
    eventually("the connection of the slow reader is closed", || metric(&shop, closed)).await;
    let (mut said, mut buffer) = (0, vec![0; 1024 * 1024]);
    while let Ok(read @ 1..) = stream.read(&mut buffer).await {
        said += read;
    }
    assert!(said < LARGE, "the whole response was sent");
}

#[tokio::test(flavor = "multi_thread")]
async fn m5_a_caller_that_does_not_read_loses_its_connection_on_the_fast_path() {
    unread_response(true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn m5_a_caller_that_does_not_read_loses_its_connection_on_the_general_path() {
    unread_response(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn m5_a_stream_of_http2_without_a_window_is_reset_and_the_others_go_on() {
    let limits = ProxyLimits { idle_timeout: Duration::from_secs(1), ..settings().limits };
    let shop = shop(limits).await;
    let mut sender = http2(shop.port.address()).await;
    // Nobody reads it, so its window is used up.
    let stalled = sender.send_request(get("http://cart.shop/big?5000000", &[])).await.unwrap();
    let error = tokio::time::timeout(PATIENCE, async {
        // Requests meanwhile are answered.
        let mut body = stalled.into_body();
        for _ in 0..20 {
            let other = sender.send_request(get("http://cart.shop/", &[])).await.unwrap();
            assert_eq!(whole(other).await.0, 200);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        loop {
            match http_body_util::BodyExt::frame(&mut body).await {
                Some(Ok(_)) => {}
                Some(Err(error)) => break error,
                None => panic!("the whole response was sent"),
            }
        }
    });
    let error = error.await.expect("the stream ends");
    let source = std::error::Error::source(&error).unwrap().downcast_ref::<h2::Error>().unwrap();
    assert_eq!(source.reason(), Some(h2::Reason::CANCEL));
}

async fn h2_client(
    shop: &ShopFixture,
) -> (h2::client::SendRequest<bytes::Bytes>, tokio::task::JoinHandle<Result<(), h2::Error>>) {
    let stream = TcpStream::connect(shop.port.address()).await.unwrap();
    let (sender, connection) = h2::client::handshake(stream).await.unwrap();
    (sender, tokio::spawn(connection))
}

#[tokio::test(flavor = "multi_thread")]
async fn m5_rapid_resets_end_the_connection_and_leave_the_pod_alone() {
    let shop = shop(ProxyLimits { max_premature_resets: 10, ..settings().limits }).await;
    let (mut sender, served) = h2_client(&shop).await;
    let mut asked = 0;
    let flooded = async {
        // Each one reaches the pod before it is reset: resets of others are limited by the HTTP/2 library.
        while let Ok(mut ready) = sender.clone().ready().await {
            let request = get("http://cart.shop/slow?600000", &[]).map(|_| ());
            let Ok((answer, mut stream)) = ready.send_request(request, true) else { break };
            asked += 1;
            let before = asked;
            let arrived = || async { shop.baseline.seen() >= before || served.is_finished() };
            eventually("the pod was asked", arrived).await;
            stream.send_reset(h2::Reason::CANCEL);
            drop(answer);
            sender = ready;
        }
    };
    tokio::time::timeout(PATIENCE, flooded).await.expect("the flood ends");
    let error = served.await.unwrap().unwrap_err();
    assert_eq!(error.reason(), Some(h2::Reason::ENHANCE_YOUR_CALM), "{error}");
    assert!((11..20).contains(&shop.baseline.seen()), "{}", shop.baseline.seen());
    assert!(metric(&shop, "router_connections_closed_total{limit=\"resets\"} 1").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn m5_streams_that_are_cancelled_after_their_response_began_do_not_count() {
    let shop = shop(ProxyLimits { max_premature_resets: 10, ..settings().limits }).await;
    let (mut sender, _served) = h2_client(&shop).await;
    for _ in 0..30 {
        sender = sender.ready().await.unwrap();
        let request = get("http://cart.shop/big?5000000", &[]).map(|_| ());
        let (answer, mut stream) = sender.send_request(request, true).unwrap();
        assert_eq!(answer.await.unwrap().status(), 200);
        stream.send_reset(h2::Reason::CANCEL);
    }
    assert!(metric(&shop, "router_connections_closed_total{limit=\"resets\"} 0").await);
}
