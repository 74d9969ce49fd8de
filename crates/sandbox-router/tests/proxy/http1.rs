//! HTTP/1.1 and 1.0 with curl, and with bytes where curl is too polite.

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::harness::{ShopFixture, ask, curl, get};

const KEY: &str = "baggage: sd-routing-key=k1";

#[tokio::test(flavor = "multi_thread")]
async fn f11_a_key_leads_to_the_fork_and_nothing_else_does() {
    let shop = ShopFixture::open().await;
    let plain: Value = serde_json::from_str(&curl(&[&shop.url("/a?b=c")]).await).unwrap();
    assert_eq!((&plain["pod"], &plain["uri"]), (&"baseline".into(), &"/a?b=c".into()));
    let keyed: Value = serde_json::from_str(&curl(&["-H", KEY, &shop.url("/a")]).await).unwrap();
    assert_eq!(keyed["pod"], "fork");
    let unknown = curl(&["-H", "baggage: sd-routing-key=k9", &shop.url("/a")]).await;
    assert!(unknown.contains("\"baseline\""), "{unknown}");
    assert_eq!((shop.baseline.seen(), shop.fork.seen()), (2, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_answer_says_who_gave_it_and_the_pod_learns_who_asked() {
    let shop = ShopFixture::open().await;
    let head = curl(&["-D-", "-o/dev/null", "-H", KEY, &shop.url("/")]).await;
    assert!(head.contains("x-sandbox-route: fork/shop/pr-1"), "{head}");
    let head = curl(&["-D-", "-o/dev/null", &shop.url("/")]).await;
    assert!(head.contains("x-sandbox-route: baseline"), "{head}");
    let told = curl(&["-H", "x-forwarded-for: 9.9.9.9", &shop.url("/")]).await;
    assert!(told.contains(r#"["x-forwarded-for","9.9.9.9, 127.0.0.1"]"#), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn f11_bodies_of_every_framing_arrive_unchanged() {
    let shop = ShopFixture::open().await;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("body");
    let body = (0..3_000_000_u32).map(|at| b'a' + (at % 23) as u8).collect::<Vec<_>>();
    std::fs::write(&file, &body).unwrap();
    let data = format!("@{}", file.display());
    for framing in [&["-H", "transfer-encoding: chunked"][..], &[]] {
        // curl sends `expect: 100-continue` for a body of this size, and waits for the word.
        let url = shop.url("/echo");
        let arguments = [framing, &["-H", KEY, "--data-binary", &data, &url]].concat();
        assert_eq!(curl(&arguments).await.as_bytes(), body);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn f11_100_continue_is_said_before_the_body_is_sent() {
    let shop = ShopFixture::open().await;
    let mut stream = TcpStream::connect(shop.port.address()).await.unwrap();
    let head = "POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\nexpect: 100-continue\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut said = [0; 25];
    stream.read_exact(&mut said).await.unwrap();
    assert_eq!(&said, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"hello").await.unwrap();
    let mut answer = vec![0; 4096];
    let mut length = 0;
    while !answer[..length].ends_with(b"hello") {
        length += stream.read(&mut answer[length..]).await.unwrap();
    }
    assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn f11_one_connection_carries_many_requests_to_different_places() {
    let shop = ShopFixture::open().await;
    let url = shop.url("/nothing");
    let both = ["-w", "connects %{num_connects}\\n", "-D-", "-o/dev/null"];
    let said = curl(&[&both[..], &["-H", KEY, &url, "--next", "-sS"], &both, &[&url]].concat()).await;
    let routes = said.lines().filter(|line| line.contains("x-sandbox-route")).collect::<Vec<_>>();
    assert_eq!(routes, ["x-sandbox-route: fork/shop/pr-1", "x-sandbox-route: baseline"], "{said}");
    let connects = said.lines().filter(|line| line.starts_with("connects")).collect::<Vec<_>>();
    assert_eq!(connects, ["connects 1", "connects 0"], "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn pipelined_requests_are_answered_in_order() {
    let shop = ShopFixture::open().await;
    let mut stream = TcpStream::connect(shop.port.address()).await.unwrap();
    let one = format!("GET /status?201 HTTP/1.1\r\nhost: a\r\n{KEY}\r\n\r\n");
    let two = "GET /status?202 HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    stream.write_all(format!("{one}{two}").as_bytes()).await.unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).await.unwrap();
    let (first, second) = (said.find("HTTP/1.1 201").unwrap(), said.find("HTTP/1.1 202").unwrap());
    assert!(first < second, "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn http_1_0_without_a_host_is_served() {
    let shop = ShopFixture::open().await;
    let mut stream = TcpStream::connect(shop.port.address()).await.unwrap();
    stream.write_all(b"GET /a HTTP/1.0\r\n\r\n").await.unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).await.unwrap();
    assert!(said.starts_with("HTTP/1.0 200 OK\r\n") && said.contains("cart.shop"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_is_done_with_sending_still_gets_its_answer() {
    let shop = ShopFixture::open().await;
    let mut stream = TcpStream::connect(shop.port.address()).await.unwrap();
    stream.write_all(b"GET /slow?300 HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    stream.shutdown().await.unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).await.unwrap();
    assert!(said.starts_with("HTTP/1.1 200 OK\r\n") && said.ends_with("baseline"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_connection_is_parked_and_serves_again() {
    let shop = ShopFixture::open().await;
    let mut stream = TcpStream::connect(shop.port.address()).await.unwrap();
    let mut buffer = vec![0; 4096];
    for pause in [0, 2500, 10, 2500] {
        tokio::time::sleep(std::time::Duration::from_millis(pause)).await;
        stream.write_all(b"GET /status?299 HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
        let mut length = 0;
        while !buffer[..length].ends_with(b"\r\n\r\nbaseline") {
            let read = stream.read(&mut buffer[length..]).await.unwrap();
            assert_ne!(read, 0, "closed after a pause of {pause} ms");
            length += read;
        }
        assert!(buffer.starts_with(b"HTTP/1.1 299"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connect_is_refused_clearly() {
    let shop = ShopFixture::open().await;
    let mut stream = TcpStream::connect(shop.port.address()).await.unwrap();
    stream.write_all(b"CONNECT a:1 HTTP/1.1\r\nhost: a:1\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).await.unwrap();
    assert!(said.starts_with("HTTP/1.1 501 ") && said.contains("x-sandbox-error: connect"), "{said}");
    assert_eq!(shop.baseline.seen(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_to_h2c_is_not_followed() {
    let shop = ShopFixture::open().await;
    // Later requests on such a connection would all go where the first one went.
    let said = curl(&["--http2", "-D-", &shop.url("/a")]).await;
    assert!(said.starts_with("HTTP/1.1 200 OK"), "{said}");
    assert!(!said.contains("h2c"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_answer_keeps_its_length_and_has_no_body() {
    let shop = ShopFixture::open().await;
    let said = curl(&["-I", &shop.url("/big?12345")]).await;
    assert!(said.contains("content-length: 12345"), "{said}");
    // The connection to the pod is still in order afterwards.
    let (status, _, body) = ask(shop.port.address(), get("/big?7", &[])).await;
    assert_eq!((status.as_u16(), body.as_str()), (200, "xxxxxxx"));
}
