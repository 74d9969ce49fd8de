//! HTTP/1.1 requests that servers read differently: they are refused, or routed like all others, on both paths.

use std::sync::Arc;

use rstest::rstest;
use sandbox_router::{
    local_transport::NoLocalTransport,
    proxy::{Proxy, ProxySettings},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::harness::{PATIENCE, ShopFixture, settings};

async fn shop(http1_fast_path: bool) -> ShopFixture {
    let settings = ProxySettings { http1_fast_path, ..settings() };
    ShopFixture::with(Proxy::start(settings, Arc::new(NoLocalTransport)).unwrap()).await
}

/// Everything that the router says to these bytes, until it closes the connection.
async fn answers(shop: &ShopFixture, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(shop.port.address()).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut said = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut said)).await;
    let _reset = read.expect("the router closes the connection");
    String::from_utf8_lossy(&said).into_owned()
}

const KEYED: &str = "baggage: sd-routing-key=k1\r\nconnection: close\r\n\r\n";

#[rstest]
#[case::empty_lines("\r\n\r\n\r\nGET /status?207 HTTP/1.1\r\nhost: a\r\n")]
#[case::bare_empty_lines("\n\nGET /status?207 HTTP/1.1\r\nhost: a\r\n")]
#[case::a_small_method("get /status?207 HTTP/1.1\r\nhost: a\r\n")]
#[case::a_strange_method("X_Y.2~ /status?207 HTTP/1.1\r\nhost: a\r\n")]
#[case::a_long_method("AN-UNUSUALLY-LONG-METHOD-OF-SOMEBODY /status?207 HTTP/1.1\r\nhost: a\r\n")]
#[case::an_absolute_target("GET HTTP://a/status?207 HTTP/1.1\r\nhost: a\r\n")]
#[tokio::test(flavor = "multi_thread")]
async fn m5_an_unusual_request_is_routed_by_its_key(
    #[case] start: &str,
    #[values(true, false)] fast_path: bool,
) {
    let shop = shop(fast_path).await;
    let said = answers(&shop, format!("{start}{KEYED}").as_bytes()).await;
    assert!(said.starts_with("HTTP/1.1 207 ") && said.ends_with("fork"), "{said}");
    assert_eq!((shop.baseline.seen(), shop.fork.seen()), (0, 1));
}

#[rstest]
#[case::no_host("GET / HTTP/1.1\r\n")]
#[case::two_hosts("GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n")]
#[case::the_same_host_twice("GET / HTTP/1.1\r\nHost: a\r\nhost: a\r\n")]
#[case::two_hosts_of_http_1_0("GET / HTTP/1.0\r\nhost: a\r\nhost: b\r\n")]
#[case::a_path_in_the_host("GET / HTTP/1.1\r\nhost: a/b\r\n")]
#[case::a_user_in_the_host("GET / HTTP/1.1\r\nhost: a@b\r\n")]
#[case::two_hosts_in_one_line("GET / HTTP/1.1\r\nhost: a b\r\n")]
#[case::no_host_beside_an_absolute_target("GET http://a/ HTTP/1.1\r\n")]
#[case::no_host_of_grpc("POST / HTTP/1.1\r\ncontent-type: application/grpc\r\n")]
#[case::tabs_in_the_request_line("GET\t/\tHTTP/1.1\r\nhost: a\r\n")]
#[case::a_leading_space(" GET / HTTP/1.1\r\nhost: a\r\n")]
#[case::a_space_before_a_colon("GET / HTTP/1.1\r\nhost : a\r\n")]
#[case::a_target_without_a_slash("GET ?a HTTP/1.1\r\nhost: a\r\n")]
#[tokio::test(flavor = "multi_thread")]
async fn m5_a_malformed_head_is_answered_400_and_reaches_no_pod(
    #[case] start: &str,
    #[values(true, false)] fast_path: bool,
) {
    let shop = shop(fast_path).await;
    // Nothing that follows is read as a request.
    let said = answers(&shop, format!("{start}\r\nGET / HTTP/1.1\r\nhost: a\r\n{KEYED}").as_bytes()).await;
    assert!(said.starts_with("HTTP/1.1 400 ") || said.starts_with("HTTP/1.0 400 "), "{said}");
    assert_eq!(said.matches("HTTP/1.").count(), 1, "{said}");
    assert_eq!((shop.baseline.seen(), shop.fork.seen()), (0, 0));
}

#[rstest]
#[case::no_number("z\r\nhello\r\n0\r\n\r\n")]
#[case::a_negative_number("-5\r\nhello\r\n0\r\n\r\n")]
#[case::a_prefix("0x5\r\nhello\r\n0\r\n\r\n")]
#[case::a_number_that_is_too_large("11111111111111111\r\nhello\r\n0\r\n\r\n")]
#[case::no_end_of_the_chunk("5\r\nhelloGET\r\n0\r\n\r\n")]
#[case::a_bare_end_of_line("5\r\nhello\n0\r\n\r\n")]
#[tokio::test(flavor = "multi_thread")]
async fn m5_a_malformed_chunk_is_the_callers_fault(
    #[case] body: &str,
    #[values("", "baggage: sd-routing-key=k1\r\n")] key: &str,
) {
    let shop = shop(true).await;
    let head = format!("POST /echo HTTP/1.1\r\nhost: a\r\n{key}transfer-encoding: chunked\r\n\r\n");
    let said = answers(&shop, format!("{head}{body}GET / HTTP/1.1\r\nhost: a\r\n\r\n").as_bytes()).await;
    assert!(said.starts_with("HTTP/1.1 400 ") && said.contains("x-sandbox-error: malformed"), "{said}");
    assert_eq!(said.matches("HTTP/1.1 ").count(), 1, "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn m5_a_pod_that_fails_is_not_the_callers_fault() {
    let shop = shop(true).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let pod = listener.local_addr().unwrap();
    let route = super::harness::cart(shop.port.port, &[pod]);
    shop.proxy.apply(super::harness::table([route])).await;
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let _head = stream.read(&mut [0; 4096]).await.unwrap();
    });
    let request =
        "POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n";
    let said = answers(&shop, request.as_bytes()).await;
    assert!(said.starts_with("HTTP/1.1 502 "), "{said}");
}
