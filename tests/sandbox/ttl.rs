//! F12: a Sandbox is deleted when its time is over, and not when somebody gave it more.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use embedded_kube::faults::Logged;
use http::Method;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::{
    life::with_cart,
    shop::{Shop, forking},
    trouble::Effect,
    world::World,
};

/// How far the controllers' clocks are ahead of everybody's. Only forward: a later test begins later.
static AHEAD: AtomicI64 = AtomicI64::new(0);

fn clock() -> Timestamp {
    let ahead = SignedDuration::from_secs(AHEAD.load(Ordering::SeqCst));
    terraform_driver::clock::now().saturating_add(ahead).unwrap_or(Timestamp::MAX)
}

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

/// How late this process is by itself: a machine that is busy with something else delays us and the measurement alike.
pub(crate) struct Starved(Arc<AtomicI64>, tokio::task::JoinHandle<()>);

impl Starved {
    pub(crate) fn watch() -> Self {
        const TICK: Duration = Duration::from_millis(50);
        let worst = Arc::new(AtomicI64::new(0));
        let seen = Arc::clone(&worst);
        let watching = tokio::spawn(async move {
            loop {
                let begun = std::time::Instant::now();
                tokio::time::sleep(TICK).await;
                let late = begun.elapsed().saturating_sub(TICK).as_millis();
                seen.fetch_max(i64::try_from(late).unwrap_or(i64::MAX), Ordering::SeqCst);
            }
        });
        Self(worst, watching)
    }

    pub(crate) fn worst(self) -> SignedDuration {
        self.1.abort();
        SignedDuration::from_millis(self.0.load(Ordering::SeqCst))
    }
}

/// One test for all, because they share a clock.
#[tokio::test]
async fn f12_a_sandbox_ends_in_time_and_an_extension_is_never_lost() {
    let mut world = World::idle().await;
    world.clock = clock;
    world.begin();
    let shop = with_cart(&world).await;
    lasting(&shop, "short", "1m", "createdAt").await;
    lasting(&shop, "longer", "2m", "createdAt").await;
    let short = shop.until_said("short", "ForksReady", "True", "Ready").await;
    let longer = shop.until_said("longer", "ForksReady", "True", "Ready").await;
    let created: Timestamp = short["metadata"]["creationTimestamp"].as_str().unwrap().parse().unwrap();
    assert_eq!(end_of(&short).duration_since(created), SignedDuration::from_mins(1));

    // Four seconds before the end nothing has happened; a moment after it, it goes.
    let starved = Starved::watch();
    let ahead = end_of(&short).duration_since(terraform_driver::clock::now()).as_secs() - 4;
    AHEAD.store(ahead, Ordering::SeqCst);
    shop.merge("Sandbox", "short", json!({"metadata": {"labels": {"looked": "at"}}})).await.unwrap();
    shop.until_told("short", "Expiring").await;
    assert!(shop.get("Sandbox", "short").await.unwrap()["metadata"].get("deletionTimestamp").is_none());
    shop.until_gone("Sandbox", "short").await;
    let log = world.requests();
    let is = |it: &&Logged| is_asked(it, "delete", "short");
    let deleted = log.iter().find(is).unwrap().at.saturating_add(SignedDuration::from_secs(ahead)).unwrap();
    let late = deleted.duration_since(end_of(&short));
    let most = SignedDuration::from_secs(2) + starved.worst();
    assert!((SignedDuration::ZERO..most).contains(&late), "{late:?} after its time, of at most {most:?}");
    shop.until_told("short", "Expired").await;

    // Somebody extends it in the same moment: the delete of what we saw is refused, and it lives.
    let its_end =
        |method: &Method, path: &str| method == Method::DELETE && path.ends_with("/sandboxes/longer");
    world.trouble.add(its_end, Effect::Delay(Duration::from_secs(2)), u32::MAX);
    AHEAD.store(
        end_of(&longer).duration_since(terraform_driver::clock::now()).as_secs() + 1,
        Ordering::SeqCst,
    );
    shop.merge("Sandbox", "longer", json!({"metadata": {"labels": {"looked": "at"}}})).await.unwrap();
    // It says so before it is deleted, which takes its time here.
    shop.until("Sandbox", "longer", "over", |it| it["status"]["phase"] == "Expired").await;
    shop.merge("Sandbox", "longer", json!({"spec": {"ttl": {"duration": "2h"}}})).await.unwrap();
    let kept = shop
        .until("Sandbox", "longer", "extended", |it| {
            it["status"]["observedGeneration"] == it["metadata"]["generation"]
        })
        .await;
    assert_eq!(end_of(&kept).duration_since(end_of(&longer)), SignedDuration::from_mins(118));
    world.settle().await;
    assert!(shop.get("Sandbox", "longer").await.unwrap()["metadata"].get("deletionTimestamp").is_none());

    // From the last change of the spec.
    lasting(&shop, "touched", "1h", "updatedAt").await;
    let first = shop
        .until("Sandbox", "touched", "scheduled", |it| it["status"]["scheduledDeleteTime"].is_string())
        .await;
    AHEAD.fetch_add(600, Ordering::SeqCst);
    shop.merge("Sandbox", "touched", json!({"spec": {"description": "still needed"}})).await.unwrap();
    let second = shop.until("Sandbox", "touched", "looked at", super::shop::is_current).await;
    assert!(end_of(&second).duration_since(end_of(&first)) >= SignedDuration::from_mins(10));
    world.end().await;
}
