//! The operator as a separate process, with an embedded API server, a fake terraform that only sleeps and a fake EKS that
//! believes it.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use capt_kinds::api::{CaptControlPlane, Phase, crds};
use capt_kube::k8s::KubeClient;
use embedded_kube::cluster::{EmbeddedKube, ListenConfig};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api,
    api::{ApiResource, DynamicObject, ListParams, PostParams},
    core::GroupVersionKind,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    fake_cloud::FakeCloud,
    fake_terraform::{self, Script},
};

const CLUSTER_CRD: &str = include_str!("../../crds/standalone/cluster.x-k8s.io_clusters.yaml");

/// Terraform processes that may run at once.
pub(crate) const PARALLEL: usize = 20;

/// Everything that runs.
pub(crate) struct OperatorHarness {
    pub(crate) kube: EmbeddedKube,
    pub(crate) world: PathBuf,
    engine: PathBuf,
    script: Script,
    operator: Child,
    metrics: String,
    _dir: TempDir,
}

impl OperatorHarness {
    /// With no cluster yet; each apply will take so long.
    pub(crate) async fn start(apply: Duration) -> anyhow::Result<Self> {
        let dir = tempfile::tempdir()?;
        let kube = EmbeddedKube::builder().in_memory().listen(ListenConfig::loopback()).start().await?;
        let writer = KubeClient::new(kube.client());
        let cluster: CustomResourceDefinition = serde_saphyr::from_str(CLUSTER_CRD)?;
        writer.install_crds(&crds()).await?;
        writer.install_crds(&[cluster]).await?;
        let made = dir.path().join("world");
        let world = FakeCloud::start(made.clone()).await?;
        let script = Script { apply, world: made.clone(), endpoint: world.api, authority: world.authority };
        let engine = fake_terraform::install(dir.path(), &script)?;
        let kubeconfig = dir.path().join("kubeconfig");
        fs::write(&kubeconfig, kube.kubeconfig().context("an API server that does not listen")?)?;
        let metrics = free_address()?;
        let operator = spawn_operator(dir.path(), &kubeconfig, &engine, (&world.eks, &metrics))?;
        Ok(Self { kube, world: made, engine, script, operator, metrics, _dir: dir })
    }

    /// From now on each apply takes so long.
    pub(crate) fn set_apply_duration(&mut self, apply: Duration) -> anyhow::Result<()> {
        self.script.apply = apply;
        fake_terraform::write_script(&self.engine, &self.script)
    }

    /// Makes so many clusters, each with a network, a control plane and a profile.
    pub(crate) async fn create_clusters(&self, clusters: usize) -> anyhow::Result<()> {
        for number in 0..clusters {
            for object in cluster_objects(&format!("c{number:03}")) {
                self.create(object).await?;
            }
        }
        Ok(())
    }

    async fn create(&self, value: Value) -> anyhow::Result<()> {
        let object: DynamicObject = serde_json::from_value(value)?;
        let types = object.types.clone().context("an object without a kind")?;
        let (group, version) = types.api_version.split_once('/').context("a kind of a group")?;
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &types.kind));
        let api: Api<DynamicObject> = Api::namespaced_with(self.kube.client(), "default", &resource);
        api.create(&PostParams::default(), &object).await.with_context(|| types.kind.clone())?;
        Ok(())
    }

    /// How many control planes are ready.
    pub(crate) async fn count_ready(&self) -> anyhow::Result<usize> {
        let api: Api<CaptControlPlane> = Api::namespaced(self.kube.client(), "default");
        let all = api.list(&ListParams::default()).await?;
        let phase = |it: &CaptControlPlane| it.status.as_ref().and_then(|status| status.phase);
        Ok(all.iter().filter(|it| phase(it) == Some(Phase::Ready)).count())
    }

    /// How many terraform processes there are now.
    pub(crate) fn count_terraform_processes(&self) -> anyhow::Result<usize> {
        let processes = fs::read_dir("/proc")?.flatten();
        let runs = |path: &Path| fs::read_link(path.join("exe")).is_ok_and(|exe| exe == self.engine);
        Ok(processes.filter(|it| runs(&it.path())).count())
    }

    /// The most memory that the operator ever had, in megabytes. Its children are not in it.
    pub(crate) fn peak_memory(&mut self) -> anyhow::Result<u64> {
        ensure!(self.operator.try_wait()?.is_none(), "the operator ended by itself");
        let status = fs::read_to_string(format!("/proc/{}/status", self.operator.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()).context("no VmHWM")?;
        Ok(kilobytes.parse::<u64>()? / 1024)
    }

    /// The operator's metrics, by line.
    pub(crate) async fn metrics(&self) -> anyhow::Result<BTreeMap<String, f64>> {
        let address: http::Uri = format!("http://{}/metrics", self.metrics).parse()?;
        let client = hyper_util::client::legacy::Client::builder(hyper_util::rt::TokioExecutor::new())
            .build_http::<http_body_util::Empty<hyper::body::Bytes>>();
        let answer = client.get(address).await?;
        let body = http_body_util::BodyExt::collect(answer.into_body()).await?.to_bytes();
        let text = String::from_utf8_lossy(&body).into_owned();
        let pair = |line: &str| {
            let (name, value) = line.rsplit_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        Ok(text.lines().filter(|line| !line.starts_with('#')).filter_map(pair).collect())
    }

    /// Waits until something is so.
    pub(crate) async fn wait_until(
        &mut self,
        patience: Duration,
        what: &str,
        mut is: impl AsyncFnMut(&mut Self) -> anyhow::Result<bool>,
    ) -> anyhow::Result<Duration> {
        let begun = Instant::now();
        while !is(self).await? {
            ensure!(begun.elapsed() < patience, "not after {patience:?}: {what}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        Ok(begun.elapsed())
    }
}

impl Drop for OperatorHarness {
    fn drop(&mut self) {
        // It is a child of ours, and holds nothing that anybody needs.
        let _gone = self.operator.kill();
        let _waited = self.operator.wait();
    }
}

fn free_address() -> anyhow::Result<String> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string())
}

#[expect(clippy::disallowed_methods, reason = "a bench starts commands as a person would")]
fn spawn_operator(
    dir: &Path,
    kubeconfig: &Path,
    engine: &Path,
    (eks, metrics): (&str, &str),
) -> anyhow::Result<Child> {
    let log = File::create(dir.join("operator.log"))?;
    Command::new(env!("CARGO_BIN_EXE_capt"))
        .args(["run", "--aws", eks, "--listen", metrics, "--drift-interval", "1h", "--log", "warn"])
        // Its terraform is played, and needs no providers.
        .args(["--memory-budget", "100000", "--parallel", &PARALLEL.to_string(), "--no-gateway"])
        .arg("--data")
        .arg(dir.join("data"))
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .arg("--engine")
        .arg(engine)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
        .context("starting the operator")
}

fn cluster_objects(name: &str) -> [Value; 3] {
    let meta = json!({"name": name, "namespace": "default"});
    let reference = |group: &str, kind: &str| json!({"apiGroup": format!("{group}.cluster.x-k8s.io"), "kind": kind, "name": name});
    [
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": meta,
            "spec": {"infrastructureRef": reference("infrastructure", "CAPTCluster"),
                     "controlPlaneRef": reference("controlplane", "CAPTControlPlane")}}),
        json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "CAPTCluster", "metadata": meta,
            "spec": {"region": "eu-central-1", "vpcConfig": {"cidr": "10.0.0.0/16", "availabilityZoneCount": 2}}}),
        json!({"apiVersion": "controlplane.cluster.x-k8s.io/v1beta1", "kind": "CAPTControlPlane", "metadata": meta,
            "spec": {"version": "v1.33.0",
                "additionalFargateProfiles": [{"name": "apps", "selectors": [{"namespace": "apps"}]}]}}),
    ]
}
