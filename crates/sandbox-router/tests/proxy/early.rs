//! Slow callers, server-first pods, early responses, and frames that no client library sends.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use sandbox_router::{
    local_transport::NoLocalTransport,
    proxy::{Proxy, ProxyLimits, ProxySettings},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use super::harness::{
    PATIENCE, Pod, Reserved, SERVER_FIRST_DELAY, ShopFixture, cart, eventually, fork, get, http2, key, proxy,
    server_first_proxy, settings, table, unless_idle, whole,
};

/// Sends SETTINGS and then waits for requests, like every HTTP/2 server. Counts its connections.
async fn grpc_server(name: &'static str, came: &Arc<AtomicUsize>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, came) = (listener.local_addr().unwrap(), Arc::clone(came));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            came.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(async move {
                // One that only asks who speaks first goes away again.
                let Ok(mut connection) = h2::server::handshake(stream).await else { return };
                while let Some(Ok((_, mut respond))) = connection.accept().await {
                    let response = http::Response::builder().header("x-pod", name).body(()).unwrap();
                    respond.send_response(response, true).unwrap();
                }
            });
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread")]
async fn f1_a_caller_that_hesitates_before_a_server_of_http2_still_reaches_the_fork() {
    let (proxy, port) = (server_first_proxy(), Reserved::new());
    let asked = Arc::<AtomicUsize>::default();
    let mut route = cart(port.port, &[grpc_server("baseline", &asked).await]);
    route.set_override(key("k1"), fork("pr-1", grpc_server("fork", &asked).await));
    proxy.apply(table([route])).await;
    let stream = TcpStream::connect(port.address()).await.unwrap();
    let is_asked = || async { asked.load(Ordering::SeqCst) > 0 };
    eventually("the router asks the service whether it speaks first", is_asked).await;
    // Nothing tells that the router has heard the answer; on a slow machine it may not have.
    tokio::time::sleep(SERVER_FIRST_DELAY).await;
    let (sender, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let mut sender = sender.ready().await.unwrap();
    for (baggage, pod) in [("sd-routing-key=k1", "fork"), ("a=b", "baseline")] {
        let request = get("http://cart.shop/", &[("baggage", baggage)]).map(|_| ());
        let (answer, _) = sender.send_request(request, true).unwrap();
        assert_eq!(answer.await.unwrap().headers()["x-pod"], pod);
    }
}

/// A pod that answers as soon as it has a head, and then keeps what it hears.
async fn hasty() -> (SocketAddr, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, heard) = (listener.local_addr().unwrap(), Arc::<Mutex<Vec<u8>>>::default());
    let ear = Arc::clone(&heard);
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let (mut buffer, mut has_answered) = ([0; 4096], false);
        while let Ok(read) = stream.read(&mut buffer).await.map(|read| &buffer[..read]) {
            if read.is_empty() {
                return;
            }
            ear.lock().unwrap().extend(read);
            if !std::mem::replace(&mut has_answered, true) {
                stream.write_all(b"HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno").await.unwrap();
            }
        }
    });
    (address, heard)
}

#[tokio::test(flavor = "multi_thread")]
async fn f1_the_rest_of_a_body_that_was_answered_early_is_never_taken_for_a_request() {
    let ((pod, noted), smuggled) = (hasty().await, Pod::start("fork").await);
    let (proxy, port) = (proxy(), Reserved::new());
    let mut route = cart(port.port, &[pod]);
    route.set_override(key("k1"), fork("pr-1", smuggled.address));
    proxy.apply(table([route])).await;
    let rest = "GET /smuggled HTTP/1.1\r\nhost: a\r\nbaggage: sd-routing-key=k1\r\n\r\n";
    let mut caller = TcpStream::connect(port.address()).await.unwrap();
    let head = format!("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: {}\r\n\r\nsome", rest.len() + 4);
    caller.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\nno") {
        assert_ne!(caller.read_buf(&mut answer).await.unwrap(), 0);
    }
    // Long after a connection between two requests would be parked, of which nothing is seen from outside.
    tokio::time::sleep(Duration::from_millis(400)).await;
    // It may be closed by now, which is as good.
    let _closed = caller.write_all(rest.as_bytes()).await;
    let _closed = caller.shutdown().await;
    let mut more = Vec::new();
    let _reset = tokio::time::timeout(PATIENCE, caller.read_to_end(&mut more)).await.expect("it ends");
    assert!(more.is_empty(), "{}", String::from_utf8_lossy(&more));
    assert_eq!(smuggled.seen(), 0);
    let noted = String::from_utf8(noted.lock().unwrap().clone()).unwrap();
    assert!(noted.contains("\r\n\r\nsome"), "{noted}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_of_http2_that_asks_nothing_is_sent_away() {
    let idle = Duration::from_millis(300);
    let limits = ProxyLimits { idle_timeout: idle, ..settings().limits };
    let settings = ProxySettings { limits, ..settings() };
    let shop = ShopFixture::with(Proxy::start(settings, Arc::new(NoLocalTransport)).unwrap()).await;
    let stream = TcpStream::connect(shop.port.address()).await.unwrap();
    let (sender, connection) = h2::client::handshake(stream).await.unwrap();
    let mut sender = sender.ready().await.unwrap();
    let (answer, _) = sender.send_request(get("http://cart.shop/", &[]).map(|_| ()), true).unwrap();
    let served = tokio::spawn(connection);
    assert_eq!(answer.await.unwrap().status(), 200);
    let ended = tokio::time::timeout(PATIENCE, served).await.expect("it is still connected");
    ended.unwrap().unwrap();
    // One that is used is not.
    unless_idle(idle, async || {
        let (mut used, mut last) = (http2(shop.port.address()).await, Instant::now());
        for _ in 0..6 {
            tokio::time::sleep(idle / 3).await;
            let sent = Instant::now();
            let Ok(response) = used.send_request(get("http://cart.shop/", &[])).await else {
                return Err(last.elapsed());
            };
            assert_eq!(whole(response).await.0, 200);
            last = sent;
        }
        Ok(())
    })
    .await;
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).unwrap();
    [&[0, 0, length, kind, flags, 0, 0, 0, stream], payload].concat()
}

/// The next frame: its type and what is in it.
async fn next_frame(stream: &mut TcpStream) -> (u8, Vec<u8>) {
    let mut head = [0; 9];
    stream.read_exact(&mut head).await.unwrap();
    let mut payload = vec![0; usize::from(u16::from_be_bytes([head[1], head[2]]))];
    stream.read_exact(&mut payload).await.unwrap();
    (head[3], payload)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_of_http2_that_names_its_host_in_a_header_is_answered() {
    let shop = ShopFixture::open().await;
    let mut caller = TcpStream::connect(shop.port.address()).await.unwrap();
    // GET, http, /, and `host: cart.shop`, whose name is the 38th of the static table.
    let block = [&[0x82, 0x86, 0x84, 0x66, 9][..], b"cart.shop"].concat();
    let asked = [PREFACE.to_vec(), frame(4, 0, 0, &[]), frame(1, 0x05, 1, &block)].concat();
    caller.write_all(&asked).await.unwrap();
    let answered = async {
        loop {
            let (kind, payload) = next_frame(&mut caller).await;
            assert_ne!(kind, 3, "the stream was reset: {payload:?}");
            if kind == 1 {
                return payload[0];
            }
        }
    };
    let status = tokio::time::timeout(PATIENCE, answered).await.expect("an answer");
    assert_eq!(status, 0x88, "the eighth of the static table is 200");
    eventually("the baseline was asked", || async { shop.baseline.seen() == 1 }).await;
}

/// A pod that sends GOAWAY on the first request without processing it.
async fn leaving() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(&frame(4, 0, 0, &[])).await.unwrap();
        stream.read_exact(&mut [0; PREFACE.len()]).await.unwrap();
        while next_frame(&mut stream).await.0 != 1 {}
        stream.write_all(&frame(7, 0, 0, &[0; 8])).await.unwrap();
        // Until the other side is done.
        let _rest = stream.read_to_end(&mut Vec::new()).await;
    });
    address
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_came_too_late_for_a_pod_may_be_sent_again() {
    let (proxy, port) = (proxy(), Reserved::new());
    proxy.apply(table([cart(port.port, &[leaving().await])])).await;
    let error = http2(port.address()).await.send_request(get("http://cart.shop/", &[])).await.unwrap_err();
    let source = std::error::Error::source(&error).unwrap().downcast_ref::<h2::Error>().unwrap();
    assert_eq!(source.reason(), Some(h2::Reason::REFUSED_STREAM));
}
