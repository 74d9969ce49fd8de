//! F12: a Sandbox is deleted when its time is over, and not when somebody gave it more.

use embedded_kube::faults::Logged;
use http::Method;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::{
    clock::Clock,
    life::with_cart,
    shop::{Shop, forking},
    trouble::{Effect, Gate},
    world::World,
};

/// The controllers' clock. It stands from the beginning: a Sandbox ends when the test says so.
static CLOCK: Clock = Clock::new();

async fn lasting(shop: &Shop, name: &str, duration: &str, from: &str) {
    let mut spec = forking("cart", &json!({}));
    spec["ttl"] = json!({"duration": duration, "offsetFrom": from});
    shop.sandbox(name, spec).await;
}

fn end_of(sandbox: &serde_json::Value) -> Timestamp {
    sandbox["status"]["scheduledDeleteTime"].as_str().unwrap().parse().unwrap()
}

fn is_asked(request: &Logged, verb: &str, sandbox: &str) -> bool {
    let is = request.verb.is_some_and(|it| it.name() == verb);
    is && request.resource == "sandboxes" && request.name == sandbox
}

/// One test for all, because they share a clock.
#[tokio::test]
async fn f12_a_sandbox_ends_in_time_and_an_extension_is_never_lost() {
    let mut world = World::idle().await;
    world.clock = || CLOCK.now();
    CLOCK.stop_after(SignedDuration::ZERO);
    world.begin();
    let shop = with_cart(&world).await;
    lasting(&shop, "short", "1m", "createdAt").await;
    lasting(&shop, "longer", "2m", "createdAt").await;
    let short = shop.until_said("short", "ForksReady", "True", "Ready").await;
    let longer = shop.until_said("longer", "ForksReady", "True", "Ready").await;
    let created: Timestamp = short["metadata"]["creationTimestamp"].as_str().unwrap().parse().unwrap();
    assert_eq!(end_of(&short).duration_since(created), SignedDuration::from_mins(1));

    // Four seconds before the end nothing has happened.
    let moment = SignedDuration::from_secs(1);
    CLOCK.stop_at(end_of(&short) - moment * 4);
    shop.merge("Sandbox", "short", json!({"metadata": {"labels": {"looked": "at"}}})).await.unwrap();
    shop.until_told("short", "Expiring").await;
    assert!(shop.get("Sandbox", "short").await.unwrap()["metadata"].get("deletionTimestamp").is_none());
    // A moment after it, it goes, and nobody has to look at it again: the controllers remember when to look.
    let before = terraform_driver::clock::now();
    CLOCK.stop_at(end_of(&short) + moment);
    shop.until_gone("Sandbox", "short").await;
    let log = world.requests();
    let deleted = log.iter().find(|it| is_asked(it, "delete", "short")).unwrap().at;
    assert!(deleted >= before, "deleted at {deleted}, when its time was not over until {before}");
    shop.until_told("short", "Expired").await;

    // Somebody extends it in the same moment: the delete of what we saw is refused, and it lives.
    let gate = Gate::closed();
    let its_end =
        |method: &Method, path: &str| method == Method::DELETE && path.ends_with("/sandboxes/longer");
    world.trouble.add(its_end, Effect::Hold(gate.clone()), u32::MAX);
    CLOCK.stop_at(end_of(&longer) + moment);
    shop.merge("Sandbox", "longer", json!({"metadata": {"labels": {"looked": "at"}}})).await.unwrap();
    gate.holds_one().await;
    // It says so before it is deleted.
    shop.until("Sandbox", "longer", "over", |it| it["status"]["phase"] == "Expired").await;
    shop.merge("Sandbox", "longer", json!({"spec": {"ttl": {"duration": "2h"}}})).await.unwrap();
    gate.open();
    let kept = shop.until("Sandbox", "longer", "extended", super::shop::is_current).await;
    assert_eq!(end_of(&kept).duration_since(end_of(&longer)), SignedDuration::from_mins(118));
    world.settle().await;
    assert!(shop.get("Sandbox", "longer").await.unwrap()["metadata"].get("deletionTimestamp").is_none());

    // From the last change of the spec.
    lasting(&shop, "touched", "1h", "updatedAt").await;
    let first = shop
        .until("Sandbox", "touched", "scheduled", |it| it["status"]["scheduledDeleteTime"].is_string())
        .await;
    CLOCK.stop_after(SignedDuration::from_mins(10));
    shop.merge("Sandbox", "touched", json!({"spec": {"description": "still needed"}})).await.unwrap();
    let second = shop.until("Sandbox", "touched", "looked at", super::shop::is_current).await;
    assert!(end_of(&second).duration_since(end_of(&first)) >= SignedDuration::from_mins(10));
    world.end().await;
}
