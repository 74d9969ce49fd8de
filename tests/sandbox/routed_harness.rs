//! Test harness: a namespace whose Services are routed through two in-process routers.

use serde_json::{Value, json};
use tokio_util::sync::DropGuard;

use super::{
    harness::SandboxHarness,
    takeover::create_routers,
    test_namespace::{GROUP, TestNamespace, condition, name},
    traffic::{
        InProcessRouter, PodServers, is_taken_over, set_routing, start_router, start_service_controller,
        wait_until_endpoints_are,
    },
};

pub(crate) struct RoutedHarness {
    harness: SandboxHarness,
    pub(crate) namespace: TestNamespace,
    pods: PodServers,
    routers: Vec<InProcessRouter>,
    _services: DropGuard,
}

impl RoutedHarness {
    /// With these services.
    pub(crate) async fn start(names: &[&str]) -> Self {
        let pods = PodServers::default();
        let world = SandboxHarness::with_pods(pods.clone().into_address_fn()).await;
        let controller = start_service_controller(&world);
        let shop = world.create_namespace().await;
        for name in names {
            shop.create_service(name).await;
        }
        for name in names {
            shop.wait_until("Deployment", name, "available", |it| it["status"]["availableReplicas"] == 2)
                .await;
        }
        let behind = create_routers(&shop, 2).await;
        let running = behind.iter().map(|pod| start_router(world.server.client("router"), pod)).collect();
        for name in names {
            set_routing(&shop, name, json!("enabled")).await;
        }
        for name in names {
            shop.wait_until("Service", name, "taken over", is_taken_over).await;
            wait_until_endpoints_are(&shop, name, &[&behind[0], &behind[1]]).await;
        }
        Self { harness: world, namespace: shop, pods, routers: running, _services: controller }
    }

    /// A Sandbox with a key of its own and forks of these services, in images that are named after it.
    pub(crate) async fn create_sandbox(&self, name: &str, of: &[&str]) {
        let fork = |of: &&str| {
            let image = json!({"image": format!("repo/{of}:{name}")});
            json!({"forkOf": {"name": of}, "customizations": {"images": [image]}})
        };
        let forks: Vec<Value> = of.iter().map(fork).collect();
        let meta = json!({"name": name, "labels": {"feature": "town"}});
        let spec = json!({"forks": forks, "routingKey": format!("{name}-key")});
        self.namespace.create_object("Sandbox", json!({"metadata": meta, "spec": spec})).await.unwrap();
    }

    /// A group of all Sandboxes, with the key `group-key`.
    pub(crate) async fn create_group(&self) {
        let spec =
            json!({"match": {"label": {"key": "feature", "value": "town"}}, "routingKey": "group-key"});
        self.namespace
            .create_object("RouteGroup", json!({"metadata": {"name": "g"}, "spec": spec}))
            .await
            .unwrap();
    }

    /// The processes of a Sandbox's image die, and no new ones start.
    pub(crate) async fn crash_image(&self, sandbox: &str, image: &str) {
        self.harness.node.fail_image(image, "CrashLoopBackOff", "it fell over");
        self.pods.kill(image);
        for pod in self.namespace.list("Pod", &format!("{GROUP}/sandbox={sandbox}")).await {
            self.namespace.delete("Pod", name(&pod)).await;
        }
    }

    /// Ends the routers and the controllers, and looks whether these kept to what they may do.
    pub(crate) async fn shut_down(mut self) {
        for it in self.routers {
            it.stop.cancel();
            it.task.await.unwrap().unwrap();
        }
        self.harness.stop_controllers().await;
    }
}

/// Whether the routers have the routes of a Sandbox or a group, by its own word.
pub(crate) fn is_programmed(object: &Value) -> bool {
    condition(object, "RoutesProgrammed").0 == "True"
}
