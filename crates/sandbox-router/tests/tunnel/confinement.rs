//! The agent dials only its configured mappings, whatever a request says.

use std::sync::atomic::Ordering;

use sandbox_router::tunnel::gateway::TunnelError;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{
    app::App,
    rig::{PORT, Rig, cart, get},
};

#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_was_not_confirmed_is_not_dialled() {
    let (rig, app, other) = (Rig::start().await, App::start("cart").await, App::start("private").await);
    let _agent = rig.ann(&[format!("{PORT}={}", app.to_local())]).await;
    let port = other.address.port();
    let failure = rig.gateway.request(&cart(), port, get("/hello/x")).await.unwrap_err();
    assert_eq!(failure, TunnelError::NotMapped(port));
    assert_eq!(rig.gateway.connect(&cart(), port).await.unwrap_err(), TunnelError::NotMapped(port));
    assert_eq!(other.state.connections.load(Ordering::SeqCst), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_names_another_host_goes_to_the_mapping_all_the_same() {
    let (rig, app, other) = (Rig::start().await, App::start("cart").await, App::start("private").await);
    let _agent = rig.ann(&[format!("{PORT}={}", app.to_local())]).await;
    let uri = format!("http://{}/hello/x", other.address);
    let request = http::Request::get(uri).body(http_body_util::Empty::new()).unwrap();
    let answer = rig.gateway.request(&cart(), PORT, request).await.unwrap();
    let text = http_body_util::BodyExt::collect(answer.into_body()).await.unwrap().to_bytes();
    assert!(text.starts_with(b"cart "), "{text:?}");
    assert_eq!(other.state.connections.load(Ordering::SeqCst), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn http_is_not_sent_to_a_port_of_bytes() {
    let (rig, app) = (Rig::start().await, App::start("cart").await);
    let _agent = rig.ann(&[format!("{PORT}={}/tcp", app.to_local())]).await;
    assert!(matches!(rig.get("/hello/x").await.unwrap_err(), TunnelError::Unreachable(_)));
    // A request that is sent as bytes takes the same way after it, and is the only one.
    let mut bytes = rig.gateway.connect(&cart(), PORT).await.unwrap();
    bytes.write_all(b"GET /hello/x HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    bytes.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(app.state.requests.load(Ordering::SeqCst), 1);
}
