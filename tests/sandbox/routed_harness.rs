//! A namespace whose Services lead to two routers of this process.

use serde_json::{Value, json};
use tokio_util::sync::DropGuard;

use super::{
    shop::{GROUP, Shop, name, said},
    takeover::routers,
    traffic::{Pods, Router, enable, is_taken, router, services, until_behind},
    world::World,
};

pub(crate) struct Town {
    world: World,
    pub(crate) shop: Shop,
    pods: Pods,
    routers: Vec<Router>,
    _services: DropGuard,
}

impl Town {
    /// With these services.
    pub(crate) async fn start(names: &[&str]) -> Self {
        let pods = Pods::default();
        let world = World::with_pods(pods.clone().starts()).await;
        let controller = services(&world);
        let shop = world.shop().await;
        for name in names {
            shop.service(name).await;
        }
        for name in names {
            shop.until("Deployment", name, "available", |it| it["status"]["availableReplicas"] == 2).await;
        }
        let behind = routers(&shop, 2).await;
        let running = behind.iter().map(|pod| router(world.server.client("router"), pod)).collect();
        for name in names {
            enable(&shop, name, json!("enabled")).await;
        }
        for name in names {
            shop.until("Service", name, "taken over", is_taken).await;
            until_behind(&shop, name, &[&behind[0], &behind[1]]).await;
        }
        Self { world, shop, pods, routers: running, _services: controller }
    }

    /// A Sandbox with a key of its own and forks of these services, in images that are named after it.
    pub(crate) async fn sandbox(&self, name: &str, of: &[&str]) {
        let fork = |of: &&str| {
            let image = json!({"image": format!("repo/{of}:{name}")});
            json!({"forkOf": {"name": of}, "customizations": {"images": [image]}})
        };
        let forks: Vec<Value> = of.iter().map(fork).collect();
        let meta = json!({"name": name, "labels": {"feature": "town"}});
        let spec = json!({"forks": forks, "routingKey": format!("{name}-key")});
        self.shop.make("Sandbox", json!({"metadata": meta, "spec": spec})).await.unwrap();
    }

    /// A group of all Sandboxes, with the key `group-key`.
    pub(crate) async fn group(&self) {
        let spec =
            json!({"match": {"label": {"key": "feature", "value": "town"}}, "routingKey": "group-key"});
        self.shop.make("RouteGroup", json!({"metadata": {"name": "g"}, "spec": spec})).await.unwrap();
    }

    /// The processes of a Sandbox's image die, and no new ones start.
    pub(crate) async fn kill(&self, sandbox: &str, image: &str) {
        self.world.node.refuse(image, "CrashLoopBackOff", "it fell over");
        self.pods.kill(image);
        for pod in self.shop.list("Pod", &format!("{GROUP}/sandbox={sandbox}")).await {
            self.shop.delete("Pod", name(&pod)).await;
        }
    }

    /// Ends the routers and the controllers, and looks whether these kept to what they may do.
    pub(crate) async fn end(mut self) {
        for it in self.routers {
            it.stop.cancel();
            it.task.await.unwrap().unwrap();
        }
        self.world.end().await;
    }
}

/// Whether the routers have the routes of a Sandbox or a group, by its own word.
pub(crate) fn is_programmed(object: &Value) -> bool {
    said(object, "RoutesProgrammed").0 == "True"
}
