//! The controllers for a remote cluster run as long as they are needed there, and start again after a restart.

use serde_json::json;

use super::{
    harness::SandboxHarness,
    remote_clusters::{WorkloadCluster, spec_in_cluster_dev},
    takeover::{
        annotation, create_routers, is_taken_over, set_cart_routing, wait_for_listen_port, write_router_lease,
    },
    test_namespace::TestNamespace,
};

/// Lets the Service go through a router.
async fn enable_routing(there: &TestNamespace) {
    let pods = create_routers(there, 1).await;
    let port = wait_for_listen_port(there).await;
    write_router_lease(there, &pods[0], &port).await;
    there.wait_until("Service", "cart", "taken over", is_taken_over).await;
}

/// Deletes the routers without a graceful shutdown.
async fn delete_routers(there: &TestNamespace) {
    there.delete("Deployment", "router").await;
    let is_back = |it: &serde_json::Value| annotation(it, "original").is_none();
    let back = there.wait_until("Service", "cart", "given back", is_back).await;
    assert_eq!(back["spec"]["selector"], json!({"app": "cart"}));
}

#[tokio::test]
async fn f4_a_service_in_another_cluster_is_given_back_after_the_last_sandbox_has_left_it() {
    let mut world = SandboxHarness::start().await;
    let here = world.create_namespace().await;
    let (made, _node) = WorkloadCluster::start_with_fork(&here).await;
    set_cart_routing(&made.namespace, json!("enabled")).await;
    enable_routing(&made.namespace).await;
    here.delete("Sandbox", "pr-1").await;
    here.wait_until_deleted("Sandbox", "pr-1").await;
    delete_routers(&made.namespace).await;

    // Also by the next process, which has never seen a Sandbox there.
    here.create_sandbox("pr-2", spec_in_cluster_dev(&json!({}))).await;
    here.wait_for_condition("pr-2", "ForksReady", "True", "Ready").await;
    enable_routing(&made.namespace).await;
    here.delete("Sandbox", "pr-2").await;
    here.wait_until_deleted("Sandbox", "pr-2").await;
    world.stop_controllers().await;
    world.start_controllers();
    delete_routers(&made.namespace).await;
    world.stop_controllers().await;
}

#[tokio::test]
async fn what_people_made_in_another_cluster_is_looked_after_when_the_last_sandbox_has_left() {
    let mut world = SandboxHarness::start().await;
    let here = world.create_namespace().await;
    let (made, _node) = WorkloadCluster::start_with_fork(&here).await;
    made.namespace.create_fork("theirs", "cart").await;
    made.namespace.wait_for_condition("theirs", "ForksReady", "True", "Ready").await;
    here.delete("Sandbox", "pr-1").await;
    here.wait_until_deleted("Sandbox", "pr-1").await;
    world.stop_controllers().await;
    world.start_controllers();
    // It has our finalizer: without a controller it would stay for ever.
    made.namespace.delete("Sandbox", "theirs").await;
    made.namespace.wait_until_deleted("Sandbox", "theirs").await;
    world.stop_controllers().await;
}
