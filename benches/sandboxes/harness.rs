//! Everything that runs: the operator, a node, three services that were taken over, and two routers before them.

use std::{
    fs,
    net::{IpAddr, Ipv4Addr},
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use embedded_kube::auth;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    diary::{Diary, Seen},
    fleet::Fleet,
    node::Node,
    router::Router,
    say,
    shop::{GROUP, Shop},
};

/// The services that are forked.
pub(crate) const SERVICES: [&str; 3] = ["cart", "web", "pay"];
/// How long a thousand Sandboxes may take.
const PATIENCE: Duration = Duration::from_mins(30);

pub(crate) struct Town {
    pub(crate) fleet: Fleet,
    pub(crate) shop: Shop,
    pub(crate) diary: Diary,
    pub(crate) routers: Vec<Router>,
    _node: Node,
    _dir: TempDir,
}

impl Town {
    /// With no Sandbox yet.
    pub(crate) async fn start() -> anyhow::Result<Self> {
        // Nobody makes a cluster here, so nothing is ever applied.
        let fleet = Fleet::start(Duration::ZERO).await?;
        let dir = tempfile::tempdir()?;
        let kubeconfig = dir.path().join("kubeconfig");
        fs::write(&kubeconfig, fleet.kube.kubeconfig().context("an API server that does not listen")?)?;
        let node = Node::start(fleet.kube.client_of(auth::admin(), "node")).await;
        let shop = Shop::open(fleet.kube.client_of(auth::admin(), "hand"), "shop").await;
        let diary = Diary::start(&shop);
        for service in SERVICES {
            shop.service(service).await;
        }
        let mut routers = Vec::new();
        for (pod, last) in pods_of_routers(&shop).await?.iter().zip(2..) {
            let at = IpAddr::V4(Ipv4Addr::new(127, 0, 0, last));
            routers.push(Router::start(dir.path(), &kubeconfig, pod, at)?);
        }
        for service in SERVICES {
            let patch = json!({"metadata": {"annotations": {(format!("{GROUP}/routing")): "enabled"}}});
            shop.merge("Service", service, patch).await?;
            let is_taken = |it: &Value| it["spec"]["selector"].get(format!("{GROUP}/router")).is_some();
            shop.until("Service", service, "taken over", is_taken).await;
        }
        Ok(Self { fleet, shop, diary, routers, _node: node, _dir: dir })
    }

    /// Asks for so many Sandboxes, and waits until all are ready.
    pub(crate) async fn fill(&self, sandboxes: usize) -> anyhow::Result<Duration> {
        say(&format!("making {sandboxes} sandboxes"));
        let (begun, mut told) = (Instant::now(), 0);
        for number in 0..sandboxes {
            self.shop.fork(&format!("pr-{number}"), SERVICES[number % SERVICES.len()]).await;
        }
        say(&format!("  all are asked for after {} s", begun.elapsed().as_secs()));
        loop {
            let ready = self.diary.count(Seen::Ready);
            if ready >= sandboxes {
                break;
            }
            if ready >= told + sandboxes.div_ceil(10) {
                told = ready;
                say(&format!("  {ready} are ready after {} s", begun.elapsed().as_secs()));
            }
            ensure!(begun.elapsed() < PATIENCE, "{ready} of {sandboxes} are ready after {PATIENCE:?}");
            // Nobody counts the requests here.
            self.fleet.kube.requests().clear();
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        let took = begun.elapsed();
        self.settle().await;
        Ok(took)
    }

    /// Waits until the operator has had nothing to write for a while.
    async fn settle(&self) {
        loop {
            self.fleet.kube.requests().clear();
            tokio::time::sleep(Duration::from_secs(2)).await;
            if self.fleet.kube.requests().writes_by("capt").is_empty() {
                return;
            }
        }
    }

    /// When every router answers a request with a key like this.
    pub(crate) async fn everywhere(
        &self,
        service: &str,
        key: &str,
        is: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<Instant> {
        let all = self.routers.iter().map(|it| it.until(service, key, &is));
        let all = futures::future::try_join_all(all).await?;
        all.into_iter().max().context("there is no router")
    }

    /// The most memory that one of the routers ever had, in megabytes.
    pub(crate) fn router_memory(&mut self) -> anyhow::Result<u64> {
        let all: Vec<u64> = self.routers.iter_mut().map(Router::peak_memory).collect::<Result<_, _>>()?;
        all.into_iter().max().context("there is no router")
    }
}

/// The pods of two routers, once they are ready. Their processes are started by hand.
async fn pods_of_routers(shop: &Shop) -> anyhow::Result<Vec<Value>> {
    let label = json!({(format!("{GROUP}/router")): "router"});
    let template = json!({
        "metadata": {"labels": label},
        "spec": {"containers": [{"name": "router", "image": "repo/capt:v1"}]},
    });
    let spec = json!({"replicas": 2, "selector": {"matchLabels": label}, "template": template});
    shop.make("Deployment", json!({"metadata": {"name": "router"}, "spec": spec})).await?;
    let selector = format!("{GROUP}/router");
    let runs = |it: &Value| it["status"]["phase"] == "Running";
    shop.eventually("the routers run", async || {
        shop.list("Pod", &selector).await.iter().filter(|it| runs(it)).count() == 2
    })
    .await;
    Ok(shop.list("Pod", &selector).await)
}
