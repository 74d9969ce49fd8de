//! F4 for Services whose traffic goes to routers: the controllers die at any of their writes and begin again; the Service is what
//! it was when nobody wants it any more, and nothing is left.

use std::{sync::Arc, time::Duration};

use capt::{
    controllers::common::{Settings, outpost::Ground},
    k8s::Kube,
    operator::sandboxes::{Crew, outposts},
};
use serde_json::{Value, json};
use tokio::task::AbortHandle;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    life::with_cart,
    mortal::{self, Death, Fate},
    shop::{GROUP, Shop, name},
    takeover::{annotation, announced, is_taken, listens, routers, wanted},
    world::World,
};

/// More writes than a Service takes from its taking to its giving back.
const MOST: u64 = 40;

/// All controllers, as a process that dies like this.
fn begin(world: &World, death: Option<Death>) -> (AbortHandle, Fate) {
    let (client, fate) = mortal::client(world.operator(), death);
    let kube = Kube::new(client).with_deadline(Duration::from_mins(2));
    let crew = Crew { kube, settings: Settings::default(), meter: Arc::new(()) };
    let stop = CancellationToken::new();
    let ground = Ground::Home(outposts(&crew, &TaskTracker::new(), &stop));
    (tokio::spawn(crew.work(ground, stop)).abort_handle(), fate)
}

/// Lets a Service go through a router and come back, by the hands of its owner and of the router.
async fn life(shop: &Shop, router: &Value) {
    wanted(shop, json!("enabled")).await;
    let port = announced(shop).await;
    listens(shop, router, &port).await;
    shop.until("Service", "cart", "taken over", is_taken).await;
    wanted(shop, Value::Null).await;
    let is_back = |it: &Value| annotation(it, "original").is_none() && annotation(it, "listen").is_none();
    shop.until("Service", "cart", "given back", is_back).await;
    shop.eventually("the keeper is gone", async || {
        shop.list("Service", &format!("{GROUP}/base-of=cart")).await.is_empty()
    })
    .await;
}

/// The same while the controllers die like this and begin again. Says whether they did.
async fn life_with(world: &World, shop: &Shop, router: &Value, death: Death) -> bool {
    let (first, fate) = begin(world, Some(death));
    let mut life = std::pin::pin!(life(shop, router));
    let died = tokio::select! {
        () = &mut life => false,
        () = fate.died() => true,
    };
    first.abort();
    if died {
        let (second, _) = begin(world, None);
        life.await;
        second.abort();
    }
    died
}

#[tokio::test]
async fn f4_a_kill_at_any_write_gives_a_service_back_as_it_was() {
    let world = World::idle().await;
    let shop = with_cart(&world).await;
    let router = routers(&shop, 1).await.remove(0);
    let before = shop.get("Service", "cart").await.unwrap();
    let mut deaths = 0;
    for after in [false, true] {
        for at in 1..=MOST {
            let death = Death { at, after };
            let died = life_with(&world, &shop, &router, death).await;
            let now = shop.get("Service", "cart").await.unwrap();
            assert_eq!(now["spec"].to_string(), before["spec"].to_string(), "{death:?}");
            assert_eq!(now["metadata"]["annotations"], before["metadata"]["annotations"], "{death:?}");
            let lease = shop.api("Lease").delete(name(&router), &kube::api::DeleteParams::default()).await;
            assert!(lease.is_ok(), "the next router listens nowhere yet");
            deaths += u32::from(died);
            if !died {
                break;
            }
            assert!(at < MOST, "a life takes more writes than were looked at");
        }
    }
    assert!(deaths >= 8, "only {deaths} writes were looked at");
}
