//! F4: the controllers die at any of their writes and begin again; nothing is left behind and nothing is stuck. Services that go
//! through a router are next door.

use serde_json::json;

use super::{
    life::with_cart,
    mortal::Death,
    shop::{Shop, forking},
    world::World,
};

/// More writes than a Sandbox takes from its making to its end.
const MOST: u64 = 60;

fn spec() -> serde_json::Value {
    let mut spec = forking(
        "cart",
        &json!({"images": [{"image": "repo/cart:pr-1"}], "patch": {"value": "spec: {minReadySeconds: 0}"}}),
    );
    spec["local"] = json!([{"name": "web", "from": {"name": "web"}, "mappings": [{"port": 8080, "toLocal": "localhost:1"}]}]);
    spec
}

/// Leads a Sandbox through its life while its controllers die like this. Says whether they did.
async fn life(world: &mut World, shop: &Shop, death: Death) -> bool {
    let fate = world.begin_until(Some(death));
    shop.sandbox("pr-1", spec()).await;
    let made = shop.until_said("pr-1", "ForksReady", "True", "Ready");
    let died = tokio::select! {
        _ = made => false,
        () = fate.died() => true,
    };
    if died {
        again(world).await;
        shop.until_said("pr-1", "ForksReady", "True", "Ready").await;
        assert_eq!((shop.forks("pr-1").await.len(), shop.fork_services("pr-1").await.len()), (1, 1));
    }
    shop.delete("Sandbox", "pr-1").await;
    let gone = shop.until_gone("Sandbox", "pr-1");
    let died_later = tokio::select! {
        () = gone => false,
        () = fate.died(), if !died => true,
    };
    if died_later {
        again(world).await;
        shop.until_gone("Sandbox", "pr-1").await;
    }
    died || died_later
}

/// The next process.
async fn again(world: &mut World) {
    world.kill().await;
    world.begin();
}

async fn nothing_is_left(shop: &Shop, death: Death) {
    for kind in ["Deployment", "ReplicaSet", "Pod", "Service", "LocalWorkload"] {
        let what = format!("{kind}s of the sandbox are gone after {death:?}");
        shop.eventually(&what, async || shop.list(kind, "sandbox.capt.x-k8s.io/sandbox").await.is_empty())
            .await;
    }
}

#[tokio::test]
async fn f4_a_kill_at_any_write_leaves_nothing_behind() {
    let mut world = World::idle().await;
    let shop = with_cart(&world).await;
    shop.service("web").await;
    let service = shop.get("Service", "cart").await.unwrap()["spec"].clone();
    let mut deaths = 0;
    for after in [false, true] {
        for at in 1..=MOST {
            let death = Death { at, after };
            let died = life(&mut world, &shop, death).await;
            world.kill().await;
            nothing_is_left(&shop, death).await;
            assert_eq!(shop.get("Service", "cart").await.unwrap()["spec"], service, "{death:?}");
            deaths += u32::from(died);
            if !died {
                break;
            }
            assert!(at < MOST, "a life takes more writes than were looked at");
        }
    }
    assert!(deaths > 10, "only {deaths} writes were looked at");
}
