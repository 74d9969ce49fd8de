//! Requests, responses and byte streams pass through the tunnel unchanged.

use std::{sync::atomic::Ordering, time::Duration};

use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Frame;
use rstest::rstest;
use sandbox_router::tunnel::gateway::TunnelError;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    sync::mpsc,
};
use tokio_tungstenite::tungstenite::Message;

use super::{
    app::{App, tcp_echo, websocket_echo},
    rig::{PORT, Rig, cart, get},
};

#[tokio::test(flavor = "multi_thread")]
async fn an_application_sees_the_host_and_the_headers_of_the_caller_and_no_others() {
    let (rig, app) = (Rig::start().await, App::start("cart").await);
    let _agent = rig.ann(&[format!("{PORT}={}", app.to_local())]).await;
    let mut request = get("/hello/world");
    request.headers_mut().insert("x-mine", "1".parse().unwrap());
    request.headers_mut().insert("connection", "x-hop, keep-alive".parse().unwrap());
    request.headers_mut().insert("x-hop", "1".parse().unwrap());
    request.headers_mut().insert("capt-tunnel-port", "22".parse().unwrap());
    let answer = rig.gateway.request(&cart(), PORT, request).await.unwrap();
    let text = answer.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(text, "cart cart.shop /hello/world [\"host\", \"x-mine\"]");
}

#[tokio::test(flavor = "multi_thread")]
async fn f11_statuses_bodies_and_trailers_come_back() {
    let (rig, app) = (Rig::start().await, App::start("cart").await);
    let _agent = rig.ann(&[format!("{PORT}={}", app.to_local())]).await;
    assert_eq!(rig.get("/status/418").await.unwrap().status(), StatusCode::IM_A_TEAPOT);
    let body = Bytes::from(vec![3; 300_000]);
    let request = Request::post("http://cart/echo").body(Full::new(body.clone())).unwrap();
    let echoed = rig.gateway.request(&cart(), PORT, request).await.unwrap();
    assert_eq!(echoed.into_body().collect().await.unwrap().to_bytes(), body);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_cannot_speak_for_the_agent() {
    let (rig, app) = (Rig::start().await, App::start("cart").await);
    let _agent = rig.ann(&[format!("{PORT}={}", app.to_local())]).await;
    let answer = rig.get("/forged").await.unwrap();
    assert!(answer.headers().get("capt-tunnel-error").is_none());
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "forged");
}

#[tokio::test(flavor = "multi_thread")]
async fn f11_a_grpc_call_streams_both_ways_and_ends_with_its_trailers() {
    let (rig, app) = (Rig::start().await, App::start("cart").await);
    let _agent = rig.ann(&[format!("{PORT}={}/grpc", app.to_local())]).await;
    let (send, mut frames) = mpsc::channel::<Frame<Bytes>>(1);
    let frames = futures::stream::poll_fn(move |cx| frames.poll_recv(cx)).map(Ok::<_, std::io::Error>);
    let request = Request::post("http://cart/echo")
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(StreamBody::new(frames))
        .unwrap();
    let mut answer = rig.gateway.request(&cart(), PORT, request).await.unwrap().into_body();
    for message in ["one", "two", "three"] {
        send.send(Frame::data(Bytes::from(message))).await.unwrap();
        let frame = answer.frame().await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), message, "each message comes back before the next is sent");
    }
    let trailers: HeaderMap = [("grpc-status".parse().unwrap(), "0".parse().unwrap())].into_iter().collect();
    send.send(Frame::trailers(trailers.clone())).await.unwrap();
    drop(send);
    let last = answer.frame().await.unwrap().unwrap();
    assert_eq!(last.into_trailers().unwrap(), trailers);
    assert!(answer.frame().await.is_none());
}

#[rstest]
#[case("http")]
#[case("grpc")]
#[tokio::test(flavor = "multi_thread")]
async fn f11_a_caller_who_goes_away_takes_the_request_along(#[case] protocol: &str) {
    let (rig, app) = (Rig::start().await, App::start("cart").await);
    let _agent = rig.ann(&[format!("{PORT}={}/{protocol}", app.to_local())]).await;
    let hangs = |count| {
        let state = &app.state;
        async move {
            while state.hanging.load(Ordering::SeqCst) != count {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    };
    tokio::select! {
        answer = rig.get("/hang") => panic!("it answers {answer:?}"),
        () = hangs(1) => {}
    }
    tokio::time::timeout(super::rig::PATIENCE, hangs(0)).await.expect("the application still works on it");
}

#[tokio::test(flavor = "multi_thread")]
async fn f11_bytes_go_both_ways_and_each_way_ends_by_itself() {
    let (rig, echo) = (Rig::start().await, tcp_echo().await);
    let _agent = rig.ann(&[format!("{PORT}={echo}/tcp")]).await;
    let mut stream = rig.gateway.connect(&cart(), PORT).await.unwrap();
    stream.write_all(b"hello").await.unwrap();
    let mut first = [0; 5];
    stream.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"hello");
    stream.write_all(b" and goodbye").await.unwrap();
    stream.shutdown().await.unwrap();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).await.unwrap();
    assert_eq!(rest, " and goodbye");
}

#[tokio::test(flavor = "multi_thread")]
async fn f11_a_server_that_speaks_first_is_heard() {
    let rig = Rig::start().await;
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            // Probes do not stay to listen.
            let _gone = socket.write_all(b"220 welcome").await;
        }
    });
    let _agent = rig.ann(&[format!("{PORT}={address}/tcp")]).await;
    let mut stream = rig.gateway.connect(&cart(), PORT).await.unwrap();
    let mut greeting = String::new();
    stream.read_to_string(&mut greeting).await.unwrap();
    assert_eq!(greeting, "220 welcome");
}

#[tokio::test(flavor = "multi_thread")]
async fn f11_a_websocket_is_upgraded_over_bytes() {
    let rig = Rig::start().await;
    let address = websocket_echo().await;
    let _agent = rig.ann(&[format!("{PORT}={address}")]).await;
    let stream = rig.gateway.connect(&cart(), PORT).await.unwrap();
    let (mut socket, answer) = tokio_tungstenite::client_async("ws://cart/feed", stream).await.unwrap();
    assert_eq!(answer.status(), StatusCode::SWITCHING_PROTOCOLS);
    for number in 0..1000 {
        socket.send(Message::text(number.to_string())).await.unwrap();
        assert_eq!(socket.next().await.unwrap().unwrap(), Message::text(number.to_string()));
    }
    socket.close(None).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_that_is_down_is_said_to_be_down_and_found_again() {
    let (rig, app) = (Rig::start().await, App::start("cart").await);
    let address = app.address;
    let _agent = rig.ann(&[format!("{PORT}={}", app.to_local())]).await;
    rig.until(|it| it.ports.iter().all(|port| port.reachable) && !it.ports.is_empty()).await;
    app.stop();
    let view = rig.until(|it| it.ports.iter().all(|port| !port.reachable)).await;
    assert_eq!(view.ports[0].last_error.as_deref(), Some("connection refused"));
    assert_eq!(view.ports[0].to_local, app.to_local());
    let failure = rig.get("/hello/again").await.unwrap_err();
    assert_eq!(failure, TunnelError::Unreachable("connection refused".to_owned()));
    let _app = App::on("cart", TcpListener::bind(address).await.unwrap());
    rig.until(|it| it.ports.iter().all(|port| port.reachable)).await;
    assert!(rig.text("/hello/again").await.starts_with("cart "));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_known_of_a_session_is_true() {
    let (rig, app) = (Rig::start().await, App::start("cart").await);
    let mut agent = rig.ann(&[format!("{PORT}={}", app.to_local())]).await;
    assert_eq!(rig.text("/hello/x").await.split(' ').next(), Some("cart"));
    let view = rig.until(|it| it.rtt.is_some()).await;
    assert_eq!((view.user.as_str(), view.agent_version.as_str(), view.epoch), ("ann", "test", 1));
    assert!(view.bytes.0 > 0 && view.bytes.1 > 0, "{view:?}");
    let shown = agent.until(|it| it.requests == 1 && it.rtt.is_some()).await;
    assert_eq!((shown.user.as_deref(), shown.epoch, shown.connections), (Some("ann"), 1, 1));
}
