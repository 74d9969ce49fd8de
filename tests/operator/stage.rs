//! An operator on an embedded Kubernetes API, in this process; terraform runs under the real shim.

use std::{
    collections::BTreeMap,
    fmt::Debug,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use capt::{
    api::{WorkspaceTemplateApply, crds},
    aws::Cloud,
    config::Outer,
    gateway::Gateway,
    k8s::Kube,
    model::Limits,
    operator::{self, Settings, Standalone, Surroundings},
    work::find_engine,
};
use embedded_kube::cluster::{EmbeddedKube, Listen};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, Resource,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
    core::{GroupVersionKind, NamespaceResourceScope},
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tempfile::TempDir;
use terraform_driver::{
    engine::EngineKind,
    providers::{Surroundings as Around, Wanted, discover, usual_roots},
};
use tokio::{runtime::Runtime, task::JoinHandle};
use tokio_util::sync::CancellationToken;

const CLUSTER_CRD: &str = include_str!("../../crds/standalone/cluster.x-k8s.io_clusters.yaml");

/// Everything that a test of the operator needs.
pub(crate) struct Stage {
    pub(crate) kube: EmbeddedKube,
    pub(crate) dir: TempDir,
    pub(crate) cloud: Cloud,
    pub(crate) settings: Settings,
    running: Option<Running>,
}

/// An operator on threads of its own, so that it can be killed with everything that it spawned.
struct Running {
    stop: CancellationToken,
    work: JoinHandle<anyhow::Result<()>>,
    runtime: Runtime,
}

impl Stage {
    /// The API with our kinds, and an operator that knows no AWS.
    pub(crate) async fn without_aws() -> Self {
        let mut stage = Self::idle(Cloud::Local { endpoint: "http://127.0.0.1:9".to_owned() }).await;
        stage.start().await;
        stage
    }

    /// The API with our kinds, and no operator yet.
    pub(crate) async fn idle(cloud: Cloud) -> Self {
        // What the operator logs is shown where somebody asks for it, and with a test that fails.
        let _already = capt::telemetry::init(capt::telemetry::LogFormat::Text, "warn,capt=debug");
        let kube = EmbeddedKube::builder().in_memory().listen(Listen::loopback()).start().await.unwrap();
        let writer = Kube::new(kube.client());
        writer.install_crds(&crds()).await.unwrap();
        let cluster: CustomResourceDefinition = serde_saphyr::from_str(CLUSTER_CRD).unwrap();
        writer.install_crds(&[cluster]).await.unwrap();
        Self { kube, dir: tempfile::tempdir().unwrap(), cloud, settings: settings(), running: None }
    }

    /// Starts the operator in the data directory of this stage.
    pub(crate) async fn start(&mut self) {
        let outer = outer(self.dir.path());
        let engine = find_engine(&outer, None).await.unwrap();
        let around = Around {
            setting: None,
            env: &outer.env,
            roots: &usual_roots(outer.home()),
            engine: EngineKind::Terraform,
        };
        let wanted = Wanted::new("hashicorp", "aws", ">= 5.61, < 7").unwrap();
        let found = discover(&around, &[wanted]).unwrap();
        let gateway = Gateway::of(&outer, &self.data(), found.clone());
        let surroundings = Surroundings {
            client: self.kube.client_of(embedded_kube::auth::admin(), "capt-operator"),
            outer,
            data: self.data(),
            engine,
            cli_config: found.cli_config_text(),
            gateway: Some(gateway),
            cloud: self.cloud.clone(),
            default_region: "eu-central-1".to_owned(),
            log_level: None,
        };
        let stop = CancellationToken::new();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let work = runtime.spawn(operator::run(surroundings, self.settings.clone(), stop.clone()));
        self.running = Some(Running { stop, work, runtime });
    }

    /// Ends the operator as a signal would; terraform goes on.
    pub(crate) async fn stop(&mut self) {
        if let Some(Running { stop, work, runtime }) = self.running.take() {
            stop.cancel();
            work.await.unwrap().unwrap();
            end(runtime).await;
        }
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    pub(crate) fn client(&self) -> Client {
        self.kube.client()
    }

    pub(crate) fn api<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client(), namespace)
    }

    /// Applies the documents of a YAML text, as kubectl would.
    pub(crate) async fn apply(&self, text: &str) {
        for document in text.split("\n---") {
            let Ok(value) = serde_saphyr::from_str::<Value>(document) else { panic!("not YAML: {document}") };
            if value.is_null() {
                continue;
            }
            self.apply_value(value).await;
        }
    }

    pub(crate) async fn apply_value(&self, value: Value) -> DynamicObject {
        let object: DynamicObject = serde_json::from_value(value).unwrap();
        let types = object.types.clone().unwrap();
        let (group, version) = types.api_version.split_once('/').unwrap_or(("", &types.api_version));
        let kind = GroupVersionKind::gvk(group, version, &types.kind);
        let (resource, capabilities) = kube::discovery::pinned_kind(&self.client(), &kind).await.unwrap();
        let api = self.dynamic(&resource, &capabilities, object.metadata.namespace.as_deref());
        let name = object.metadata.name.clone().unwrap();
        let params = PatchParams::apply("test").force();
        api.patch(&name, &params, &Patch::Apply(&object))
            .await
            .unwrap_or_else(|error| panic!("{} {name}: {error}", types.kind))
    }

    fn dynamic(
        &self,
        resource: &ApiResource,
        capabilities: &kube::discovery::ApiCapabilities,
        namespace: Option<&str>,
    ) -> Api<DynamicObject> {
        if capabilities.scope == kube::discovery::Scope::Cluster {
            Api::all_with(self.client(), resource)
        } else {
            Api::namespaced_with(self.client(), namespace.unwrap_or("default"), resource)
        }
    }

    pub(crate) async fn workspace(&self, name: &str) -> WorkspaceTemplateApply {
        self.api::<WorkspaceTemplateApply>("default").get(name).await.unwrap()
    }

    /// Waits until an object is as it should be; its last form is shown if it never is.
    pub(crate) async fn until<K>(
        &self,
        name: &str,
        patience: Duration,
        what: &str,
        is: impl Fn(&K) -> bool,
    ) -> K
    where
        K: Resource<Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
        K::DynamicType: Default,
    {
        let (api, begun) = (self.api::<K>("default"), Instant::now());
        let mut last = None;
        while begun.elapsed() < patience {
            self.still_works();
            if let Some(found) = api.get_opt(name).await.unwrap() {
                if is(&found) {
                    return found;
                }
                last = Some(found);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{name} is not {what} after {patience:?}: {last:#?}");
    }

    /// Waits until an object is gone.
    pub(crate) async fn until_gone<K>(&self, name: &str, patience: Duration)
    where
        K: Resource<Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
        K::DynamicType: Default,
    {
        let (api, begun) = (self.api::<K>("default"), Instant::now());
        let mut last = None;
        while begun.elapsed() < patience {
            self.still_works();
            match api.get_opt(name).await.unwrap() {
                None => return,
                found => last = found,
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{name} is still there after {patience:?}: {last:#?}");
    }

    /// Waits until something is so.
    pub(crate) async fn eventually(&self, patience: Duration, what: &str, is: impl AsyncFn() -> bool) {
        let begun = Instant::now();
        while begun.elapsed() < patience {
            self.still_works();
            if is().await {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("not after {patience:?}: {what}");
    }

    /// Ends the operator as a kill would: nothing is tidied up.
    pub(crate) async fn abort(&mut self) {
        if let Some(Running { runtime, .. }) = self.running.take() {
            end(runtime).await;
        }
    }

    fn still_works(&self) {
        if let Some(running) = &self.running {
            assert!(!running.work.is_finished(), "the operator ended by itself");
        }
    }
}

/// Ends everything that a runtime runs, wherever it is.
async fn end(runtime: Runtime) {
    let ended = tokio::task::spawn_blocking(move || runtime.shutdown_timeout(Duration::from_secs(1)));
    ended.await.unwrap();
}

fn settings() -> Settings {
    Settings {
        namespace: None,
        watch_filter: None,
        leader_election: None,
        listen: None,
        webhook_listen: None,
        standalone: Standalone::Auto,
        parallel: 4,
        memory_budget_mb: 100_000,
        drift_interval: Duration::from_mins(10),
        limits: Limits::default(),
    }
}

/// What the process was started in, with the real command as our own executable.
#[expect(clippy::disallowed_methods, reason = "a test reads the environment that it was started in")]
fn outer(dir: &Path) -> Outer {
    let mut env: BTreeMap<String, String> = std::env::vars().collect();
    env.insert("CAPT_CACHE".to_owned(), cache().display().to_string());
    Outer { env, cwd: dir.to_owned(), exe: env!("CARGO_BIN_EXE_capt").into() }
}

/// A cache directory of the caller's, or the one that `make` uses.
#[expect(clippy::disallowed_methods, reason = "a test reads the environment that it was started in")]
pub(crate) fn cache() -> PathBuf {
    std::env::var_os("CAPT_CACHE")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join(".cache"), PathBuf::from)
}

/// Whether a condition of an object has this status.
pub(crate) fn condition(
    conditions: &[k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition],
    kind: &str,
    status: &str,
) -> bool {
    conditions.iter().any(|it| it.type_ == kind && it.status == status)
}

impl Drop for Stage {
    /// A test that fails must not take the process down by dropping a runtime inside of another one.
    fn drop(&mut self) {
        if let Some(Running { runtime, .. }) = self.running.take() {
            runtime.shutdown_background();
        }
    }
}
