//! `capt connect` as people run it: the built binary, a real Kubernetes API beside it, and the gateway of a router, in this
//! process or in that of `capt router`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "what goes wrong here fails a test"
)]

mod agent;
mod cluster;
mod forward;
mod kubelet;
pub(crate) mod network;
mod nodes;
mod rig;
mod two;
mod whole;

use std::time::Duration;

use embedded_kube::faults::Fault;
use nix::sys::signal::Signal;
use sandbox_router::tunnel::gateway::Failure;
use serde_json::json;

use crate::server;

use self::{
    cluster::said,
    rig::{Rig, app},
};

#[tokio::test(flavor = "multi_thread")]
async fn a_developer_connects_is_shown_with_name_and_ports_and_leaves() {
    let rig = Rig::start().await;
    let app = app("mine").await;
    rig.make(&json!([{"port": 8080, "toLocal": format!("localhost:{}", app.port())}])).await;
    let mut agent = rig.connect("ann", &[]);
    let status =
        rig.until(|it| said(it, "Connected") == "True" && said(it, "LocalReachable") == "True").await;
    assert_eq!(status["phase"], "Connected");
    assert_eq!(status["session"]["user"], "ann");
    assert_eq!(status["session"]["gateway"], "router-0");
    assert_eq!(status["session"]["epoch"], 1);
    assert_eq!(status["ports"][0]["toLocal"], format!("localhost:{}", app.port()));
    assert_eq!(rig.get().await.unwrap(), "mine");
    agent.says("connected as ann").await;
    agent.signal(Signal::SIGINT);
    assert_eq!(agent.ends().await, Some(0), "{}", agent.said());
    assert!(agent.said().contains("disconnected"), "{}", agent.said());
    let status = rig.until(|it| it["phase"] == "Disconnected").await;
    assert_eq!(said(&status, "LocalReachable"), "Unknown");
    assert_eq!(rig.get().await, Err(Failure::Disconnected));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_that_is_busy_at_first_is_asked_again() {
    let rig = Rig::start().await;
    // Only this one can be told to be busy.
    let server::Server::Embedded(kube) = &rig.server else { return };
    rig.make(&json!([{"port": 8080, "toLocal": "localhost:1"}])).await;
    let busy = Fault::throttle(|call| call.user == "ann", 1).times(1);
    let busy = kube.faults().add(busy);
    let mut agent = rig.connect("ann", &[]);
    agent.says("connected as ann").await;
    assert_eq!(kube.faults().acted(busy), 1);
    agent.signal(Signal::SIGINT);
    assert_eq!(agent.ends().await, Some(0), "{}", agent.said());
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_waits_for_a_developer_who_changes_their_mind_while_it_connects() {
    let rig = Rig::start().await;
    rig.make(&json!([{"port": 8080, "toLocal": "localhost:1"}])).await;
    rig.wait_for("10m").await;
    for moment in 0..10 {
        let mut agent = rig.connect("ann", &[]);
        // Connecting, or already connected: another moment each time, and whichever it is has to do.
        agent.says("connect").await;
        tokio::time::sleep(Duration::from_millis(moment)).await;
        agent.signal(Signal::SIGINT);
        assert_eq!(agent.ends().await, Some(0), "{}", agent.said());
        assert_eq!(rig.get().await, Err(Failure::Disconnected), "after {moment} ms");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_that_is_not_there_is_told_to_the_developer_and_to_everybody() {
    let rig = Rig::start().await;
    rig.make(&json!([{"port": 8080, "toLocal": "localhost:1"}])).await;
    let mut agent = rig.connect("ann", &[]);
    agent.says("nothing answers at localhost:1: connection refused").await;
    let status = rig.until(|it| said(it, "LocalReachable") == "False").await;
    assert_eq!(status["ports"][0]["lastError"], "connection refused");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_connect_is_told_what_to_ask_for() {
    let rig = Rig::start().await;
    rig.make(&json!([{"port": 8080, "toLocal": "localhost:1"}])).await;
    let mut agent = rig.connect("bob", &[]);
    assert_eq!(agent.ends().await, Some(1));
    let words = ["bob may not connect", "shop/cart-local", "`localworkloads/tunnel`"];
    assert!(words.iter().all(|it| agent.said().contains(it)), "{}", agent.said());
    assert_eq!(rig.get().await, Err(Failure::Disconnected));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_nobody_knows_gets_nobody_in() {
    let rig = Rig::start().await;
    rig.make(&json!([{"port": 8080, "toLocal": "localhost:1"}])).await;
    let file = rig.file("token", "made up\n");
    let mut agent = rig.connect("ann", &["--token-file", &file]);
    assert_eq!(agent.ends().await, Some(1));
    assert!(agent.said().contains("the token is not valid"), "{}", agent.said());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_object_says_later_is_not_dialled() {
    let rig = Rig::start().await;
    let (mine, private) = (app("mine").await, app("private").await);
    rig.make(&json!([{"port": 8080, "toLocal": format!("localhost:{}", mine.port())}])).await;
    let _agent = rig.connect("ann", &[]);
    rig.until(|it| said(it, "LocalReachable") == "True").await;
    rig.change(&json!([
        {"port": 8080, "toLocal": format!("localhost:{}", private.port())},
        {"port": 9090, "toLocal": format!("localhost:{}", private.port())},
    ]))
    .await;
    // No event says that the change was seen and ignored. A slow machine makes this weaker, and not red.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(rig.get().await.unwrap(), "mine");
    assert_eq!(rig.get_at(9090).await, Err(Failure::NotMapped(9090)));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_leaves_this_machine_has_to_be_confirmed() {
    let rig = Rig::start().await;
    rig.make(&json!([{"port": 8080, "toLocal": "192.0.2.1:80"}])).await;
    let mut agent = rig.connect("ann", &[]);
    assert_eq!(agent.ends().await, Some(1));
    assert!(agent.said().contains("--map 8080=192.0.2.1:80"), "{}", agent.said());
    let app = app("mine").await;
    let _agent = rig.connect("ann", &["--map", &format!("8080={}", app.port())]);
    rig.until(|it| said(it, "LocalReachable") == "True").await;
    assert_eq!(rig.get().await.unwrap(), "mine");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_local_workload_that_is_deleted_ends_its_agent() {
    let rig = Rig::start().await;
    rig.make(&json!([{"port": 8080, "toLocal": "localhost:1"}])).await;
    let mut agent = rig.connect("ann", &[]);
    rig.until(|it| said(it, "Connected") == "True").await;
    rig.delete().await;
    assert_eq!(agent.ends().await, Some(1));
    assert!(agent.said().contains("the LocalWorkload was deleted"), "{}", agent.said());
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_connected_to_another_router_is_not_thrown_out_unless_somebody_insists() {
    let rig = Rig::start().await;
    rig.make(&json!([{"port": 8080, "toLocal": "localhost:1"}])).await;
    rig.session_elsewhere("ann", 7).await;
    let mut zoe = rig.connect("zoe", &[]);
    assert_eq!(zoe.ends().await, Some(1));
    assert!(zoe.said().contains("ann is connected; --takeover takes it from them"), "{}", zoe.said());
    let _zoe = rig.connect("zoe", &["--takeover"]);
    let status = rig.until(|it| it["session"]["user"] == "zoe").await;
    assert_eq!((&status["session"]["epoch"], &status["session"]["gateway"]), (&json!(8), &json!("router-0")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_router_that_lost_its_session_to_another_lets_it_go() {
    let rig = Rig::start().await;
    rig.make(&json!([{"port": 8080, "toLocal": "localhost:1"}])).await;
    let mut agent = rig.connect("ann", &[]);
    rig.until(|it| said(it, "Connected") == "True").await;
    rig.session_elsewhere("zoe", 7).await;
    assert_eq!(agent.ends().await, Some(1));
    assert!(agent.said().contains("zoe took it over"), "{}", agent.said());
    assert_eq!(rig.get().await, Err(Failure::Moved));
}
