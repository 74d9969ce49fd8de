//! WebSocket, and upgrades to anything else.

use std::time::{Duration, Instant};

use futures::{SinkExt, StreamExt};
use sandbox_router::table::{Backend, Target};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tokio_tungstenite::{
    accept_async, client_async,
    tungstenite::{Message, client::IntoClientRequest},
};

use super::harness::{Reserved, ShopFixture, cart, key, proxy, table};

/// A pod that answers every message with its name and the message.
async fn echo(name: &'static str) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut socket = accept_async(stream).await.unwrap();
                while let Some(Ok(message)) = socket.next().await {
                    if message.is_text() {
                        let text = format!("{name} {message}");
                        socket.send(Message::text(text)).await.unwrap();
                    }
                }
            });
        }
    });
    address
}

/// `WEBSOCKET_SECONDS=600` is how long the property asks for; there are a million messages then.
#[tokio::test(flavor = "multi_thread")]
async fn f11_a_websocket_stays_with_the_pod_of_its_key() {
    let (proxy, port) = (proxy(), Reserved::new());
    let mut route = cart(port.port, &[echo("baseline").await]);
    let fork = Backend::fork("shop", "pr-1", [echo("fork").await]);
    route.set_override(key("k1"), Target::Backend(fork));
    proxy.apply(table([route])).await;
    let seconds = std::env::var("WEBSOCKET_SECONDS").map_or(2, |it| it.parse::<u64>().unwrap());
    for (member, pod) in [("sd-routing-key=k1", "fork"), ("other=1", "baseline")] {
        let mut request = format!("ws://cart.shop:{}/chat", port.port).into_client_request().unwrap();
        request.headers_mut().insert("baggage", member.parse().unwrap());
        let stream = TcpStream::connect(port.address()).await.unwrap();
        let (mut socket, response) = client_async(request, stream).await.unwrap();
        assert_eq!(response.status().as_u16(), 101);
        let end = Instant::now() + Duration::from_secs(seconds);
        let mut count = 0_u64;
        while Instant::now() < end || count < seconds.min(600) * 1_667 {
            // In lots: the messages of one are under way together.
            for at in count..count + 500 {
                socket.feed(Message::text(at.to_string())).await.unwrap();
            }
            socket.flush().await.unwrap();
            for at in count..count + 500 {
                let answer = socket.next().await.unwrap().unwrap();
                assert_eq!(answer.to_text().unwrap(), format!("{pod} {at}"));
            }
            count += 500;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        socket.close(None).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_that_is_declined_is_an_answer_like_others() {
    let shop = ShopFixture::open().await;
    let request = format!("ws://cart.shop:{}/status?404", shop.port.port).into_client_request().unwrap();
    let stream = TcpStream::connect(shop.port.address()).await.unwrap();
    let error = client_async(request, stream).await.unwrap_err();
    assert!(error.to_string().contains("404"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_switch_each_side_may_finish_before_the_other() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let pod = listener.local_addr().unwrap();
    let (proxy, port) = (proxy(), Reserved::new());
    proxy.apply(table([cart(port.port, &[pod])])).await;
    let mut caller = TcpStream::connect(port.address()).await.unwrap();
    let opening = "GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: mine/1\r\n\r\n";
    // Bytes of the new protocol may come right behind the head, on both sides.
    caller.write_all(format!("{opening}early").as_bytes()).await.unwrap();
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut heard = vec![0; 4096];
    let mut length = 0;
    while !heard[..length].windows(4).any(|it| it == b"\r\n\r\n") {
        length += stream.read(&mut heard[length..]).await.unwrap();
    }
    let asked = String::from_utf8_lossy(&heard[..length]).into_owned();
    assert!(asked.contains("upgrade: mine/1") && asked.contains("connection: upgrade"), "{asked}");
    let switch = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: mine/1\r\n\r\nwelcome";
    stream.write_all(switch.as_bytes()).await.unwrap();
    caller.write_all(b" late").await.unwrap();
    caller.shutdown().await.unwrap();
    let mut rest = String::from_utf8_lossy(&heard[..length]).split_once("\r\n\r\n").unwrap().1.to_owned();
    stream.read_to_string(&mut rest).await.unwrap();
    assert_eq!(rest, "early late");
    stream.write_all(b", bye").await.unwrap();
    drop(stream);
    let mut said = String::new();
    caller.read_to_string(&mut said).await.unwrap();
    assert!(said.starts_with("HTTP/1.1 101 ") && said.contains("upgrade: mine/1"), "{said}");
    assert!(said.ends_with("\r\n\r\nwelcome, bye"), "{said}");
}
