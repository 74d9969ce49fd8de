//! Limits and timeouts.

use std::{sync::Arc, time::Duration};

use sandbox_router::{
    local_transport::NoLocalTransport,
    proxy::{Proxy, ProxyLimits},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::harness::{ShopFixture, ask, get, settings};

async fn shop(limits: ProxyLimits) -> ShopFixture {
    let settings = sandbox_router::proxy::ProxySettings { limits, workers: 1, ..settings() };
    ShopFixture::with(Proxy::start(settings, Arc::new(NoLocalTransport)).unwrap()).await
}

/// Sends a byte now and then until the other side has enough; says how many it took.
async fn drip(shop: &ShopFixture, bytes: &[u8]) -> usize {
    let mut stream = TcpStream::connect(shop.port.address()).await.unwrap();
    let mut end = [0; 1024];
    for (at, byte) in bytes.iter().enumerate() {
        if stream.write_all(&[*byte]).await.is_err() {
            return at;
        }
        match tokio::time::timeout(Duration::from_millis(100), stream.read(&mut end)).await {
            Err(_) => {}
            Ok(Ok(0) | Err(_)) => return at,
            Ok(Ok(read)) => panic!("an answer: {}", String::from_utf8_lossy(&end[..read])),
        }
    }
    bytes.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_drips_in_is_cut_off_and_others_are_served_meanwhile() {
    let limits = ProxyLimits { head_timeout: Duration::from_secs(2), ..settings().limits };
    let shop = shop(limits).await;
    let head = format!("GET / HTTP/1.1\r\nhost: a\r\nx-long: {}", "a".repeat(1000));
    let (to, served) = (shop.port.address(), Arc::<std::sync::atomic::AtomicBool>::default());
    let (mut drips, seen) = (tokio::task::JoinSet::new(), Arc::clone(&served));
    drips.spawn(async move {
        while !seen.load(std::sync::atomic::Ordering::SeqCst) {
            assert_eq!(ask(to, get("/", &[])).await.0.as_u16(), 200);
        }
    });
    // Once while it is unclear what is spoken, and once inside of a head.
    let short = drip(&shop, &b"G".repeat(1000)[..20]).await;
    let long = drip(&shop, head.as_bytes()).await;
    served.store(true, std::sync::atomic::Ordering::SeqCst);
    while let Some(done) = drips.join_next().await {
        done.unwrap();
    }
    assert!(short <= 20 && long < head.len(), "{short} and {long}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_is_too_large_is_refused_and_never_reaches_a_pod() {
    let shop = shop(ProxyLimits { max_head_bytes: 16 * 1024, ..settings().limits }).await;
    let small = "a".repeat(4000);
    assert_eq!(ask(shop.port.address(), get("/", &[("x-a", &small)])).await.0.as_u16(), 200);
    let mut stream = TcpStream::connect(shop.port.address()).await.unwrap();
    let large = format!("GET / HTTP/1.1\r\nhost: a\r\nx-a: {}\r\n\r\n", "a".repeat(40_000));
    // It may be closed before all of it is sent.
    let _ = stream.write_all(large.as_bytes()).await;
    let mut said = Vec::new();
    let _ = stream.read_to_end(&mut said).await;
    let said = String::from_utf8_lossy(&said);
    assert!(said.is_empty() || said.starts_with("HTTP/1.1 431 "), "{said}");
    assert_eq!(shop.baseline.seen(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn further_connections_wait_until_there_is_room() {
    let shop = shop(ProxyLimits { max_connections: 3, ..settings().limits }).await;
    let mut open = Vec::new();
    for _ in 0..3 {
        open.push(super::budgets::busy_connection(shop.port.address()).await);
    }
    let to = shop.port.address();
    let waiting = tokio::spawn(async move { ask(to, get("/", &[])).await.0.as_u16() });
    // Of a connection that is not accepted nothing is seen; on a slow machine this may look too early.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!waiting.is_finished(), "a fourth connection was served");
    open.pop();
    assert_eq!(tokio::time::timeout(super::harness::PATIENCE, waiting).await.unwrap().unwrap(), 200);
}
