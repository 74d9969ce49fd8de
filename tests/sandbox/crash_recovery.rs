//! F4: the controllers die at any of their writes and begin again; nothing is left behind and nothing is stuck. Services that go
//! through a router are next door.

use serde_json::json;

use super::{
    crash_client::CrashPoint,
    harness::SandboxHarness,
    lifecycle::namespace_with_cart,
    test_namespace::{TestNamespace, fork_spec},
};

/// More writes than a Sandbox takes from its making to its end.
const MAX_WRITES: u64 = 60;

fn sandbox_spec() -> serde_json::Value {
    let mut spec = fork_spec(
        "cart",
        &json!({"images": [{"image": "repo/cart:pr-1"}], "patch": {"value": "spec: {minReadySeconds: 0}"}}),
    );
    spec["local"] = json!([{"name": "web", "from": {"name": "web"}, "mappings": [{"port": 8080, "toLocal": "localhost:1"}]}]);
    spec
}

/// Leads a Sandbox through its life while its controllers die like this. Says whether they did.
async fn run_lifecycle(world: &mut SandboxHarness, shop: &TestNamespace, death: CrashPoint) -> bool {
    let fate = world.start_controllers_until_crash(Some(death));
    shop.create_sandbox("pr-1", sandbox_spec()).await;
    let made = shop.wait_for_condition("pr-1", "ForksReady", "True", "Ready");
    let died = tokio::select! {
        _ = made => false,
        () = fate.wait_for_crash() => true,
    };
    if died {
        restart_controllers(world).await;
        shop.wait_for_condition("pr-1", "ForksReady", "True", "Ready").await;
        assert_eq!((shop.forks("pr-1").await.len(), shop.fork_services("pr-1").await.len()), (1, 1));
    }
    shop.delete("Sandbox", "pr-1").await;
    let gone = shop.wait_until_deleted("Sandbox", "pr-1");
    let died_later = tokio::select! {
        () = gone => false,
        () = fate.wait_for_crash(), if !died => true,
    };
    if died_later {
        restart_controllers(world).await;
        shop.wait_until_deleted("Sandbox", "pr-1").await;
    }
    died || died_later
}

/// The next process.
async fn restart_controllers(world: &mut SandboxHarness) {
    world.kill_controllers().await;
    world.start_controllers();
}

async fn assert_nothing_is_left(shop: &TestNamespace, death: CrashPoint) {
    for kind in ["Deployment", "ReplicaSet", "Pod", "Service", "LocalWorkload"] {
        let what = format!("{kind}s of the sandbox are gone after {death:?}");
        shop.wait_for(&what, async || shop.list(kind, "sandbox.capt.x-k8s.io/sandbox").await.is_empty())
            .await;
    }
}

#[tokio::test]
async fn f4_a_kill_at_any_write_leaves_nothing_behind() {
    let mut world = SandboxHarness::idle().await;
    let shop = namespace_with_cart(&world).await;
    shop.create_service("web").await;
    let service = shop.get("Service", "cart").await.unwrap()["spec"].clone();
    let mut deaths = 0;
    for after in [false, true] {
        for at in 1..=MAX_WRITES {
            let death = CrashPoint { nth_write: at, after_write: after };
            let died = run_lifecycle(&mut world, &shop, death).await;
            world.kill_controllers().await;
            assert_nothing_is_left(&shop, death).await;
            assert_eq!(shop.get("Service", "cart").await.unwrap()["spec"], service, "{death:?}");
            deaths += u32::from(died);
            if !died {
                break;
            }
            assert!(at < MAX_WRITES, "a life takes more writes than were looked at");
        }
    }
    assert!(deaths > 10, "only {deaths} writes were looked at");
}
