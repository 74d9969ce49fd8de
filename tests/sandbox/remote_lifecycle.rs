//! The controllers in another cluster stay as long as they are needed there, and are there again after a restart.

use serde_json::json;

use super::{
    clusters::{Made, in_dev},
    shop::Shop,
    takeover::{annotation, announced, is_taken, listens, routers, wanted},
    world::World,
};

/// Lets the Service go through a router.
async fn take_over(there: &Shop) {
    let pods = routers(there, 1).await;
    let port = announced(there).await;
    listens(there, &pods[0], &port).await;
    there.until("Service", "cart", "taken over", is_taken).await;
}

/// The routers go, and nobody told anybody before.
async fn lose_routers(there: &Shop) {
    there.delete("Deployment", "router").await;
    let is_back = |it: &serde_json::Value| annotation(it, "original").is_none();
    let back = there.until("Service", "cart", "given back", is_back).await;
    assert_eq!(back["spec"]["selector"], json!({"app": "cart"}));
}

#[tokio::test]
async fn f4_a_service_in_another_cluster_is_given_back_after_the_last_sandbox_has_left_it() {
    let mut world = World::start().await;
    let here = world.shop().await;
    let (made, _node) = Made::with_a_fork(&here).await;
    wanted(&made.there, json!("enabled")).await;
    take_over(&made.there).await;
    here.delete("Sandbox", "pr-1").await;
    here.until_gone("Sandbox", "pr-1").await;
    lose_routers(&made.there).await;

    // Also by the next process, which has never seen a Sandbox there.
    here.sandbox("pr-2", in_dev(&json!({}))).await;
    here.until_said("pr-2", "ForksReady", "True", "Ready").await;
    take_over(&made.there).await;
    here.delete("Sandbox", "pr-2").await;
    here.until_gone("Sandbox", "pr-2").await;
    world.end().await;
    world.begin();
    lose_routers(&made.there).await;
    world.end().await;
}

#[tokio::test]
async fn what_people_made_in_another_cluster_is_looked_after_when_the_last_sandbox_has_left() {
    let mut world = World::start().await;
    let here = world.shop().await;
    let (made, _node) = Made::with_a_fork(&here).await;
    made.there.fork("theirs", "cart").await;
    made.there.until_said("theirs", "ForksReady", "True", "Ready").await;
    here.delete("Sandbox", "pr-1").await;
    here.until_gone("Sandbox", "pr-1").await;
    world.end().await;
    world.begin();
    // It has our finalizer: without a controller it would stay for ever.
    made.there.delete("Sandbox", "theirs").await;
    made.there.until_gone("Sandbox", "theirs").await;
    world.end().await;
}
