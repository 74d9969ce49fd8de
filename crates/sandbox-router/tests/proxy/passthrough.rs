//! Connections that are not HTTP are passed through to the baseline.

use std::{sync::atomic::Ordering, time::Duration};

use sandbox_router::table::AppProtocol;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use super::harness::{Reserved, ShopFixture, cart, proxy, run, server_first_proxy, table};

#[tokio::test(flavor = "multi_thread")]
async fn f11_tls_reaches_the_baseline_unopened() {
    let dir = tempfile::tempdir().unwrap();
    let (cert, private) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
    let (cert, private) = (cert.to_str().unwrap(), private.to_str().unwrap());
    let made = run(
        "openssl",
        &[
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-subj",
            "/CN=cart.shop",
            "-days",
            "2",
            "-keyout",
            private,
            "-out",
            cert,
        ],
    )
    .await;
    assert_eq!(made.code, Some(0), "{made:?}");
    let pod = Reserved::new();
    let accept = pod.address().to_string();
    let mut server = tokio::process::Command::new("openssl")
        .args(["s_server", "-accept", &accept, "-cert", cert, "-key", private, "-www", "-quiet"])
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    super::harness::eventually("openssl listens", || async {
        TcpStream::connect(pod.address()).await.is_ok()
    })
    .await;
    let (proxy, port) = (proxy(), Reserved::new());
    proxy.apply(table([cart(port.port, &[pod.address()])])).await;
    let connect = port.address().to_string();
    let script = format!("echo | openssl s_client -connect {connect} -servername cart.shop -CAfile {cert}");
    let said = run("bash", &["-c", &script]).await;
    assert!(said.out.contains("Verify return code: 0 (ok)"), "{said:?}");
    let url = format!("https://cart.shop:{}/", port.port);
    let resolve = format!("cart.shop:{}:127.0.0.1", port.port);
    let page = super::harness::curl(&["--cacert", cert, "--resolve", &resolve, &url]).await;
    assert!(page.contains("s_server"), "{page}");
    server.kill().await.unwrap();
}

/// A pod that greets, and then gives back what it hears until the other side is done.
async fn greeter() -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                stream.write_all(b"220 ready\r\n").await.unwrap();
                let mut heard = Vec::new();
                if stream.read_to_end(&mut heard).await.is_ok() {
                    // A probe that was not needed is closed by now.
                    let _ = stream.write_all(&heard).await;
                }
            });
        }
    });
    address
}

async fn talk(mut stream: TcpStream) -> String {
    let mut greeting = [0; 11];
    stream.read_exact(&mut greeting).await.unwrap();
    assert_eq!(&greeting, b"220 ready\r\n");
    stream.write_all(b"EHLO me\r\n").await.unwrap();
    // One direction ends before the other.
    stream.shutdown().await.unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).await.unwrap();
    said
}

#[tokio::test(flavor = "multi_thread")]
async fn f11_a_service_that_speaks_first_is_heard() {
    let (proxy, port) = (server_first_proxy(), Reserved::new());
    proxy.apply(table([cart(port.port, &[greeter().await])])).await;
    assert_eq!(talk(TcpStream::connect(port.address()).await.unwrap()).await, "EHLO me\r\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_says_it_is_tcp_is_not_looked_at() {
    let (proxy, port) = (proxy(), Reserved::new());
    let route = cart(port.port, &[greeter().await]).with_protocol(AppProtocol::Tcp);
    proxy.apply(table([route])).await;
    assert_eq!(talk(TcpStream::connect(port.address()).await.unwrap()).await, "EHLO me\r\n");
    let metrics = super::harness::curl(&[&format!("http://{}/metrics", proxy.admin().unwrap())]).await;
    assert!(metrics.contains("router_passed_through_total{service=\"shop/cart:80\"} 1"), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_protocol_that_nobody_knows_reaches_the_baseline() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let pod = listener.local_addr().unwrap();
    let (proxy, port) = (proxy(), Reserved::new());
    proxy.apply(table([cart(port.port, &[pod])])).await;
    let mut caller = TcpStream::connect(port.address()).await.unwrap();
    caller.write_all(b"*1\r\n$4\r\nPING\r\n").await.unwrap();
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut heard = [0; 14];
    stream.read_exact(&mut heard).await.unwrap();
    assert_eq!(&heard, b"*1\r\n$4\r\nPING\r\n");
    stream.write_all(b"+PONG\r\n").await.unwrap();
    let mut said = [0; 7];
    caller.read_exact(&mut said).await.unwrap();
    assert_eq!(&said, b"+PONG\r\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_of_http_that_hesitates_is_still_served_by_its_key() {
    let shop = ShopFixture::with(server_first_proxy()).await;
    let mut stream = TcpStream::connect(shop.port.address()).await.unwrap();
    super::harness::eventually("the pod is asked whether it speaks first", || async {
        shop.baseline.connections.load(Ordering::SeqCst) > 0
    })
    .await;
    for part in [
        "G",
        "ET /status?200 HTTP/1.1\r\nho",
        "st: a\r\nbaggage: sd-routing-key=k1\r\n",
        "connection: close\r\n\r\n",
    ] {
        stream.write_all(part.as_bytes()).await.unwrap();
        // So that the parts arrive separately, which cannot be observed from here.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let mut said = String::new();
    stream.read_to_string(&mut said).await.unwrap();
    assert!(said.ends_with("fork"), "{said}");
}
