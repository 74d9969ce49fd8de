//! `capt connect` as people run it: the built binary, a real Kubernetes API beside it, and the gateway of a router, in this
//! process or in that of `capt router`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "what goes wrong here fails a test"
)]

mod capt_process;
mod cluster;
mod end_to_end;
mod forward;
mod harness;
mod kubelet;
pub(crate) mod network;
mod two_nodes;
mod two_routers;

use std::time::Duration;

use embedded_kube::fault_injection::Fault;
use nix::sys::signal::Signal;
use sandbox_router::tunnel::gateway::TunnelError;
use serde_json::json;

use crate::test_kube;

use self::{
    cluster::condition_status,
    harness::{GatewayHarness, start_app},
};

#[tokio::test(flavor = "multi_thread")]
async fn a_developer_connects_is_shown_with_name_and_ports_and_leaves() {
    let rig = GatewayHarness::start().await;
    let app = start_app("mine").await;
    rig.create_workload(&json!([{"port": 8080, "toLocal": format!("localhost:{}", app.port())}])).await;
    let mut agent = rig.connect("ann", &[]);
    let status = rig
        .wait_for_status(|it| {
            condition_status(it, "Connected") == "True" && condition_status(it, "LocalReachable") == "True"
        })
        .await;
    assert_eq!(status["phase"], "Connected");
    assert_eq!(status["session"]["user"], "ann");
    assert_eq!(status["session"]["gateway"], "router-0");
    assert_eq!(status["session"]["epoch"], 1);
    assert_eq!(status["ports"][0]["toLocal"], format!("localhost:{}", app.port()));
    assert_eq!(rig.request().await.unwrap(), "mine");
    agent.wait_for_output("connected as ann").await;
    agent.signal(Signal::SIGINT);
    assert_eq!(agent.wait_for_exit().await, Some(0), "{}", agent.output());
    assert!(agent.output().contains("disconnected"), "{}", agent.output());
    let status = rig.wait_for_status(|it| it["phase"] == "Disconnected").await;
    assert_eq!(condition_status(&status, "LocalReachable"), "Unknown");
    assert_eq!(rig.request().await, Err(TunnelError::Disconnected));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_that_is_busy_at_first_is_asked_again() {
    let rig = GatewayHarness::start().await;
    // Only this one can be told to be busy.
    let test_kube::TestKube::Embedded(kube) = &rig.server else { return };
    rig.create_workload(&json!([{"port": 8080, "toLocal": "localhost:1"}])).await;
    let busy = Fault::throttle(|call| call.user == "ann", 1).times(1);
    let busy = kube.faults().add(busy);
    let mut agent = rig.connect("ann", &[]);
    agent.wait_for_output("connected as ann").await;
    assert_eq!(kube.faults().trigger_count(busy), 1);
    agent.signal(Signal::SIGINT);
    assert_eq!(agent.wait_for_exit().await, Some(0), "{}", agent.output());
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_waits_for_a_developer_who_changes_their_mind_while_it_connects() {
    let rig = GatewayHarness::start().await;
    rig.create_workload(&json!([{"port": 8080, "toLocal": "localhost:1"}])).await;
    rig.set_grace_period("10m").await;
    for moment in 0..10 {
        let mut agent = rig.connect("ann", &[]);
        // Connecting, or already connected: another moment each time, and whichever it is has to do.
        agent.wait_for_output("connect").await;
        tokio::time::sleep(Duration::from_millis(moment)).await;
        agent.signal(Signal::SIGINT);
        assert_eq!(agent.wait_for_exit().await, Some(0), "{}", agent.output());
        assert_eq!(rig.request().await, Err(TunnelError::Disconnected), "after {moment} ms");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_that_is_not_there_is_told_to_the_developer_and_to_everybody() {
    let rig = GatewayHarness::start().await;
    rig.create_workload(&json!([{"port": 8080, "toLocal": "localhost:1"}])).await;
    let mut agent = rig.connect("ann", &[]);
    agent.wait_for_output("nothing listens at localhost:1: connection refused").await;
    let status = rig.wait_for_status(|it| condition_status(it, "LocalReachable") == "False").await;
    assert_eq!(status["ports"][0]["lastError"], "connection refused");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_connect_is_told_what_to_ask_for() {
    let rig = GatewayHarness::start().await;
    rig.create_workload(&json!([{"port": 8080, "toLocal": "localhost:1"}])).await;
    let mut agent = rig.connect("bob", &[]);
    assert_eq!(agent.wait_for_exit().await, Some(1));
    let words = ["bob may not connect", "shop/cart-local", "`localworkloads/tunnel`"];
    assert!(words.iter().all(|it| agent.output().contains(it)), "{}", agent.output());
    assert_eq!(rig.request().await, Err(TunnelError::Disconnected));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_nobody_knows_gets_nobody_in() {
    let rig = GatewayHarness::start().await;
    rig.create_workload(&json!([{"port": 8080, "toLocal": "localhost:1"}])).await;
    let file = rig.write_file("token", "made up\n");
    let mut agent = rig.connect("ann", &["--token-file", &file]);
    assert_eq!(agent.wait_for_exit().await, Some(1));
    assert!(agent.output().contains("the token is not valid"), "{}", agent.output());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_object_says_later_is_not_dialled() {
    let rig = GatewayHarness::start().await;
    let (mine, private) = (start_app("mine").await, start_app("private").await);
    rig.create_workload(&json!([{"port": 8080, "toLocal": format!("localhost:{}", mine.port())}])).await;
    let _agent = rig.connect("ann", &[]);
    rig.wait_for_status(|it| condition_status(it, "LocalReachable") == "True").await;
    rig.set_mappings(&json!([
        {"port": 8080, "toLocal": format!("localhost:{}", private.port())},
        {"port": 9090, "toLocal": format!("localhost:{}", private.port())},
    ]))
    .await;
    // No event says that the change was seen and ignored. A slow machine makes this weaker, and not red.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(rig.request().await.unwrap(), "mine");
    assert_eq!(rig.request_port(9090).await, Err(TunnelError::NotMapped(9090)));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_leaves_this_machine_has_to_be_confirmed() {
    let rig = GatewayHarness::start().await;
    rig.create_workload(&json!([{"port": 8080, "toLocal": "192.0.2.1:80"}])).await;
    let mut agent = rig.connect("ann", &[]);
    assert_eq!(agent.wait_for_exit().await, Some(1));
    assert!(agent.output().contains("--map 8080=192.0.2.1:80"), "{}", agent.output());
    let app = start_app("mine").await;
    let _agent = rig.connect("ann", &["--map", &format!("8080={}", app.port())]);
    rig.wait_for_status(|it| condition_status(it, "LocalReachable") == "True").await;
    assert_eq!(rig.request().await.unwrap(), "mine");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_local_workload_that_is_deleted_ends_its_agent() {
    let rig = GatewayHarness::start().await;
    rig.create_workload(&json!([{"port": 8080, "toLocal": "localhost:1"}])).await;
    let mut agent = rig.connect("ann", &[]);
    rig.wait_for_status(|it| condition_status(it, "Connected") == "True").await;
    rig.delete_workload().await;
    assert_eq!(agent.wait_for_exit().await, Some(1));
    assert!(agent.output().contains("the LocalWorkload was deleted"), "{}", agent.output());
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_connected_to_another_router_is_not_thrown_out_unless_somebody_insists() {
    let rig = GatewayHarness::start().await;
    rig.create_workload(&json!([{"port": 8080, "toLocal": "localhost:1"}])).await;
    rig.set_peer_session("ann", 7).await;
    let mut zoe = rig.connect("zoe", &[]);
    assert_eq!(zoe.wait_for_exit().await, Some(1));
    assert!(zoe.output().contains("ann is connected; --takeover takes it from them"), "{}", zoe.output());
    let _zoe = rig.connect("zoe", &["--takeover"]);
    let status = rig.wait_for_status(|it| it["session"]["user"] == "zoe").await;
    assert_eq!((&status["session"]["epoch"], &status["session"]["gateway"]), (&json!(8), &json!("router-0")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_router_that_lost_its_session_to_another_lets_it_go() {
    let rig = GatewayHarness::start().await;
    rig.create_workload(&json!([{"port": 8080, "toLocal": "localhost:1"}])).await;
    let mut agent = rig.connect("ann", &[]);
    rig.wait_for_status(|it| condition_status(it, "Connected") == "True").await;
    rig.set_peer_session("zoe", 7).await;
    assert_eq!(agent.wait_for_exit().await, Some(1));
    assert!(agent.output().contains("zoe took it over"), "{}", agent.output());
    assert_eq!(rig.request().await, Err(TunnelError::Moved));
}
