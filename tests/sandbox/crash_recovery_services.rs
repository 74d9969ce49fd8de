//! F4 for Services whose traffic goes to routers: the controllers die at any of their writes and begin again; the Service is what
//! it was when nobody wants it any more, and nothing is left.

use std::{sync::Arc, time::Duration};

use capt::operator::sandbox_controllers::{SandboxControllers, remote_starter};
use capt_controllers::{common::Settings, sandbox_common::remote_target::SandboxScope};
use capt_kube::k8s::KubeClient;
use serde_json::{Value, json};
use tokio::task::AbortHandle;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    crash_client::{self, CrashHandle, CrashPoint},
    harness::SandboxHarness,
    lifecycle::namespace_with_cart,
    takeover::{
        annotation, create_routers, is_taken_over, set_cart_routing, wait_for_listen_port, write_router_lease,
    },
    test_namespace::{GROUP, TestNamespace, name},
};

/// More writes than a Service takes from its taking to its giving back.
const MAX_WRITES: u64 = 40;

/// All controllers, as a process that dies like this.
fn spawn_controllers(world: &SandboxHarness, death: Option<CrashPoint>) -> (AbortHandle, CrashHandle) {
    let (client, fate) = crash_client::wrap_client(world.operator_client(), death);
    let kube = KubeClient::new(client).with_deadline(Duration::from_mins(2));
    let crew = SandboxControllers { kube, settings: Settings::default(), metrics: Arc::new(()) };
    let stop = CancellationToken::new();
    let ground = SandboxScope::ManagementCluster(remote_starter(&crew, &TaskTracker::new(), &stop));
    (tokio::spawn(crew.run(ground, stop)).abort_handle(), fate)
}

/// Lets a Service go through a router and come back, by the hands of its owner and of the router.
async fn run_takeover(shop: &TestNamespace, router: &Value) {
    set_cart_routing(shop, json!("enabled")).await;
    let port = wait_for_listen_port(shop).await;
    write_router_lease(shop, router, &port).await;
    shop.wait_until("Service", "cart", "taken over", is_taken_over).await;
    set_cart_routing(shop, Value::Null).await;
    let is_back = |it: &Value| annotation(it, "original").is_none() && annotation(it, "listen").is_none();
    shop.wait_until("Service", "cart", "given back", is_back).await;
    shop.wait_for("the keeper is gone", async || {
        shop.list("Service", &format!("{GROUP}/base-of=cart")).await.is_empty()
    })
    .await;
}

/// The same while the controllers die like this and begin again. Says whether they did.
async fn run_takeover_with_crash(
    world: &SandboxHarness,
    shop: &TestNamespace,
    router: &Value,
    death: CrashPoint,
) -> bool {
    let (first, fate) = spawn_controllers(world, Some(death));
    let mut life = std::pin::pin!(run_takeover(shop, router));
    let died = tokio::select! {
        () = &mut life => false,
        () = fate.wait_for_crash() => true,
    };
    first.abort();
    if died {
        let (second, _) = spawn_controllers(world, None);
        life.await;
        second.abort();
    }
    died
}

#[tokio::test]
async fn f4_a_kill_at_any_write_gives_a_service_back_as_it_was() {
    let world = SandboxHarness::idle().await;
    let shop = namespace_with_cart(&world).await;
    let router = create_routers(&shop, 1).await.remove(0);
    let before = shop.get("Service", "cart").await.unwrap();
    let mut deaths = 0;
    for after in [false, true] {
        for at in 1..=MAX_WRITES {
            let death = CrashPoint { nth_write: at, after_write: after };
            let died = run_takeover_with_crash(&world, &shop, &router, death).await;
            let now = shop.get("Service", "cart").await.unwrap();
            assert_eq!(now["spec"].to_string(), before["spec"].to_string(), "{death:?}");
            assert_eq!(now["metadata"]["annotations"], before["metadata"]["annotations"], "{death:?}");
            let lease = shop.api("Lease").delete(name(&router), &kube::api::DeleteParams::default()).await;
            assert!(lease.is_ok(), "the next router listens nowhere yet");
            deaths += u32::from(died);
            if !died {
                break;
            }
            assert!(at < MAX_WRITES, "a life takes more writes than were looked at");
        }
    }
    assert!(deaths >= 8, "only {deaths} writes were looked at");
}
