//! Benchmark harness: the operator, a fake node, three services that are taken over, and two routers.

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
    fake_node::FakeNode,
    operator_harness::OperatorHarness,
    print_line,
    router_process::RouterProcess,
    test_namespace::{GROUP, TestNamespace},
    timeline::{Milestone, Timeline},
};

/// The services that are forked.
pub(crate) const SERVICES: [&str; 3] = ["cart", "web", "pay"];
/// How long a thousand Sandboxes may take.
const TIMEOUT: Duration = Duration::from_mins(30);

pub(crate) struct SandboxHarness {
    pub(crate) operator: OperatorHarness,
    pub(crate) namespace: TestNamespace,
    pub(crate) timeline: Timeline,
    pub(crate) routers: Vec<RouterProcess>,
    _node: FakeNode,
    _dir: TempDir,
}

impl SandboxHarness {
    /// With no Sandbox yet.
    pub(crate) async fn start() -> anyhow::Result<Self> {
        // No cluster is created here, so nothing is ever applied.
        let fleet = OperatorHarness::start(Duration::ZERO).await?;
        let dir = tempfile::tempdir()?;
        let kubeconfig = dir.path().join("kubeconfig");
        fs::write(&kubeconfig, fleet.kube.kubeconfig().context("an API server that does not listen")?)?;
        let node = FakeNode::start(fleet.kube.client_with_agent(auth::admin(), "node")).await;
        let shop = TestNamespace::create(fleet.kube.client_with_agent(auth::admin(), "hand"), "shop").await;
        let diary = Timeline::start(&shop);
        for service in SERVICES {
            shop.create_service(service).await;
        }
        let mut routers = Vec::new();
        for (pod, last) in create_router_pods(&shop).await?.iter().zip(2..) {
            let at = IpAddr::V4(Ipv4Addr::new(127, 0, 0, last));
            routers.push(RouterProcess::start(dir.path(), &kubeconfig, pod, at)?);
        }
        for service in SERVICES {
            let patch = json!({"metadata": {"annotations": {(format!("{GROUP}/routing")): "enabled"}}});
            shop.merge_patch("Service", service, patch).await?;
            let is_taken = |it: &Value| it["spec"]["selector"].get(format!("{GROUP}/router")).is_some();
            shop.wait_until("Service", service, "taken over", is_taken).await;
        }
        Ok(Self { operator: fleet, namespace: shop, timeline: diary, routers, _node: node, _dir: dir })
    }

    /// Asks for so many Sandboxes, and waits until all are ready.
    pub(crate) async fn create_sandboxes(&self, sandboxes: usize) -> anyhow::Result<Duration> {
        print_line(&format!("making {sandboxes} sandboxes"));
        let (begun, mut told) = (Instant::now(), 0);
        for number in 0..sandboxes {
            self.namespace.create_fork(&format!("pr-{number}"), SERVICES[number % SERVICES.len()]).await;
        }
        print_line(&format!("  all are asked for after {} s", begun.elapsed().as_secs()));
        loop {
            let ready = self.timeline.count(Milestone::Ready);
            if ready >= sandboxes {
                break;
            }
            if ready >= told + sandboxes.div_ceil(10) {
                told = ready;
                print_line(&format!("  {ready} are ready after {} s", begun.elapsed().as_secs()));
            }
            ensure!(begun.elapsed() < TIMEOUT, "{ready} of {sandboxes} are ready after {TIMEOUT:?}");
            // The request log is not used here.
            self.operator.kube.request_log().clear();
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        let took = begun.elapsed();
        self.settle().await;
        Ok(took)
    }

    /// Waits until the operator has had nothing to write for a while.
    async fn settle(&self) {
        loop {
            self.operator.kube.request_log().clear();
            tokio::time::sleep(Duration::from_secs(2)).await;
            if self.operator.kube.request_log().writes_by("capt").is_empty() {
                return;
            }
        }
    }

    /// When every router answers a request with a key like this.
    pub(crate) async fn wait_on_all_routers(
        &self,
        service: &str,
        key: &str,
        is: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<Instant> {
        let all = self.routers.iter().map(|it| it.wait_until(service, key, &is));
        let all = futures::future::try_join_all(all).await?;
        all.into_iter().max().context("there is no router")
    }

    /// The most memory that one of the routers ever had, in megabytes.
    pub(crate) fn router_memory(&mut self) -> anyhow::Result<u64> {
        let all: Vec<u64> =
            self.routers.iter_mut().map(RouterProcess::peak_memory).collect::<Result<_, _>>()?;
        all.into_iter().max().context("there is no router")
    }
}

/// The pods of two routers, once they are ready. Their processes are started by hand.
async fn create_router_pods(shop: &TestNamespace) -> anyhow::Result<Vec<Value>> {
    let label = json!({(format!("{GROUP}/router")): "router"});
    let template = json!({
        "metadata": {"labels": label},
        "spec": {"containers": [{"name": "router", "image": "repo/capt:v1"}]},
    });
    let spec = json!({"replicas": 2, "selector": {"matchLabels": label}, "template": template});
    shop.create_object("Deployment", json!({"metadata": {"name": "router"}, "spec": spec})).await?;
    let selector = format!("{GROUP}/router");
    let runs = |it: &Value| it["status"]["phase"] == "Running";
    shop.wait_for("the routers run", async || {
        shop.list("Pod", &selector).await.iter().filter(|it| runs(it)).count() == 2
    })
    .await;
    Ok(shop.list("Pod", &selector).await)
}
