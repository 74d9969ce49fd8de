//! F12: a Sandbox is deleted when its TTL expires, unless it was extended.

use embedded_kube::fault_injection::RequestRecord;
use http::Method;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::{
    fault_injection::{FaultEffect, Gate},
    harness::SandboxHarness,
    lifecycle::namespace_with_cart,
    test_clock::TestClock,
    test_namespace::{TestNamespace, fork_spec},
};

/// The controllers' clock. It stands from the beginning: a Sandbox ends when the test says so.
static CLOCK: TestClock = TestClock::new();

async fn create_with_ttl(shop: &TestNamespace, name: &str, duration: &str, from: &str) {
    let mut spec = fork_spec("cart", &json!({}));
    spec["ttl"] = json!({"duration": duration, "offsetFrom": from});
    shop.create_sandbox(name, spec).await;
}

fn expiry(sandbox: &serde_json::Value) -> Timestamp {
    sandbox["status"]["scheduledDeleteTime"].as_str().unwrap().parse().unwrap()
}

fn is_request(request: &RequestRecord, verb: &str, sandbox: &str) -> bool {
    let is = request.verb.is_some_and(|it| it.name() == verb);
    is && request.resource == "sandboxes" && request.name == sandbox
}

/// One test for all, because they share a clock.
#[tokio::test]
async fn f12_a_sandbox_ends_in_time_and_an_extension_is_never_lost() {
    let mut world = SandboxHarness::idle().await;
    world.clock = || CLOCK.now();
    CLOCK.stop_after(SignedDuration::ZERO);
    world.start_controllers();
    let shop = namespace_with_cart(&world).await;
    create_with_ttl(&shop, "short", "1m", "createdAt").await;
    create_with_ttl(&shop, "longer", "2m", "createdAt").await;
    let short = shop.wait_for_condition("short", "ForksReady", "True", "Ready").await;
    let longer = shop.wait_for_condition("longer", "ForksReady", "True", "Ready").await;
    let created: Timestamp = short["metadata"]["creationTimestamp"].as_str().unwrap().parse().unwrap();
    assert_eq!(expiry(&short).duration_since(created), SignedDuration::from_mins(1));

    // Four seconds before the end nothing has happened.
    let moment = SignedDuration::from_secs(1);
    CLOCK.stop_at(expiry(&short) - moment * 4);
    shop.merge_patch("Sandbox", "short", json!({"metadata": {"labels": {"looked": "at"}}})).await.unwrap();
    shop.wait_for_event("short", "Expiring").await;
    assert!(shop.get("Sandbox", "short").await.unwrap()["metadata"].get("deletionTimestamp").is_none());
    // It is deleted just after its expiry without any other trigger: the controllers requeue it for that time.
    let before = terraform_driver::clock::now();
    CLOCK.stop_at(expiry(&short) + moment);
    shop.wait_until_deleted("Sandbox", "short").await;
    let log = world.requests();
    let deleted = log.iter().find(|it| is_request(it, "delete", "short")).unwrap().at;
    assert!(deleted >= before, "deleted at {deleted}, when its time was not over until {before}");
    shop.wait_for_event("short", "Expired").await;

    // A concurrent extension: the delete with the old resource version is refused, and the Sandbox stays.
    let gate = Gate::closed();
    let its_end =
        |method: &Method, path: &str| method == Method::DELETE && path.ends_with("/sandboxes/longer");
    world.faults.add(its_end, FaultEffect::Hold(gate.clone()), u32::MAX);
    CLOCK.stop_at(expiry(&longer) + moment);
    shop.merge_patch("Sandbox", "longer", json!({"metadata": {"labels": {"looked": "at"}}})).await.unwrap();
    gate.wait_for_request().await;
    // It says so before it is deleted.
    shop.wait_until("Sandbox", "longer", "over", |it| it["status"]["phase"] == "Expired").await;
    shop.merge_patch("Sandbox", "longer", json!({"spec": {"ttl": {"duration": "2h"}}})).await.unwrap();
    gate.open();
    let kept = shop.wait_until("Sandbox", "longer", "extended", super::test_namespace::is_current).await;
    assert_eq!(expiry(&kept).duration_since(expiry(&longer)), SignedDuration::from_mins(118));
    world.settle().await;
    assert!(shop.get("Sandbox", "longer").await.unwrap()["metadata"].get("deletionTimestamp").is_none());

    // From the last change of the spec.
    create_with_ttl(&shop, "touched", "1h", "updatedAt").await;
    let first = shop
        .wait_until("Sandbox", "touched", "scheduled", |it| it["status"]["scheduledDeleteTime"].is_string())
        .await;
    CLOCK.stop_after(SignedDuration::from_mins(10));
    shop.merge_patch("Sandbox", "touched", json!({"spec": {"description": "still needed"}})).await.unwrap();
    let second = shop.wait_until("Sandbox", "touched", "looked at", super::test_namespace::is_current).await;
    assert!(expiry(&second).duration_since(expiry(&first)) >= SignedDuration::from_mins(10));
    world.stop_controllers().await;
}
