//! An operator on an embedded Kubernetes API, in this process; terraform runs under the real shim.

use std::{
    fmt::Debug,
    path::PathBuf,
    sync::Mutex,
    time::{Duration, Instant},
};

use capt::{
    api::{WorkspaceTemplateApply, crds},
    aws::Cloud,
    k8s::Kube,
    operator::Settings,
};
use embedded_kube::cluster::{EmbeddedKube, Listen};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, Resource,
    api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams},
    core::{GroupVersionKind, NamespaceResourceScope},
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tempfile::TempDir;

use super::{
    account, journal,
    running::{How, Running, settings},
};

/// How long anything is waited for. It only ends a test that hangs: whole clusters are made within it on a busy machine.
const PATIENCE: Duration = Duration::from_mins(15);

const CLUSTER_CRD: &str = include_str!("../../crds/standalone/cluster.x-k8s.io_clusters.yaml");

/// Everything that a test of the operator needs.
pub(crate) struct Stage {
    pub(crate) kube: EmbeddedKube,
    pub(crate) dir: TempDir,
    pub(crate) cloud: Cloud,
    pub(crate) settings: Settings,
    /// Another terraform than the one that is found.
    pub(crate) engine: Option<PathBuf>,
    /// Whether every terraform starts its own providers.
    pub(crate) plain: bool,
    /// The namespace whose objects are waited for.
    pub(crate) home: &'static str,
    running: Option<Running>,
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
        journal::keep();
        let kube = EmbeddedKube::builder().in_memory().listen(Listen::loopback()).start().await.unwrap();
        let writer = Kube::new(kube.client());
        writer.install_crds(&crds()).await.unwrap();
        let cluster: CustomResourceDefinition = serde_saphyr::from_str(CLUSTER_CRD).unwrap();
        writer.install_crds(&[cluster]).await.unwrap();
        until_served(&kube.client()).await;
        let stage = Self {
            kube,
            dir: tempfile::tempdir().unwrap(),
            cloud,
            settings: settings(),
            engine: None,
            plain: false,
            home: "default",
            running: None,
        };
        for object in account::objects() {
            stage.apply_value(object).await;
        }
        stage
    }

    /// Starts the operator in the data directory of this stage.
    pub(crate) async fn start(&mut self) {
        self.running = Some(self.launch(self.data()).await);
    }

    /// An operator with a disk of its own, as another pod has it.
    pub(crate) async fn launch(&self, data: PathBuf) -> Running {
        self.launch_as(account::AGENT, data).await
    }

    /// One whose requests are known by another name than everybody's.
    pub(crate) async fn launch_as(&self, agent: &str, data: PathBuf) -> Running {
        let client = self.kube.client_of(account::user(), agent);
        let how = How { engine: self.engine.as_deref(), plain: self.plain };
        Running::with(how, client, &data, &self.cloud, &self.settings).await
    }

    /// Ends the operator as a signal would; terraform goes on.
    pub(crate) async fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop().await;
            account::judge(&self.kube.requests().all());
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
        self.api::<WorkspaceTemplateApply>(self.home).get(name).await.unwrap()
    }

    /// Waits until an object is as it should be; its last form is shown if it never is.
    pub(crate) async fn until<K>(&self, name: &str, what: &str, is: impl Fn(&K) -> bool) -> K
    where
        K: Resource<Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
        K::DynamicType: Default,
    {
        let (api, last) = (self.api::<K>(self.home), Mutex::new(None));
        let found = self.poll(async || {
            let found = api.get_opt(name).await.unwrap();
            let wanted = found.clone().filter(&is);
            *last.lock().unwrap() = found;
            wanted
        });
        let found = found.await;
        found.unwrap_or_else(|| panic!("{name} is not {what} after {PATIENCE:?}: {last:#?}"))
    }

    /// Waits until an object is gone.
    pub(crate) async fn until_gone<K>(&self, name: &str)
    where
        K: Resource<Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
        K::DynamicType: Default,
    {
        let (api, last) = (self.api::<K>(self.home), Mutex::new(None));
        let gone = self.poll(async || {
            let found = api.get_opt(name).await.unwrap();
            let gone = found.is_none().then_some(());
            *last.lock().unwrap() = found;
            gone
        });
        gone.await.unwrap_or_else(|| panic!("{name} is still there after {PATIENCE:?}: {last:#?}"));
    }

    /// Waits until something is so. All workspaces are shown if it never is.
    pub(crate) async fn eventually(&self, what: &str, is: impl AsyncFn() -> bool) {
        if self.poll(async || is().await.then_some(())).await.is_none() {
            let all = Api::<WorkspaceTemplateApply>::all(self.client()).list(&ListParams::default()).await;
            panic!("not after {PATIENCE:?}: {what}: {all:#?}");
        }
    }

    /// Looks again and again; nothing if patience has ended.
    async fn poll<T>(&self, look: impl AsyncFn() -> Option<T>) -> Option<T> {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            self.still_works();
            if let Some(found) = look().await {
                return Some(found);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        None
    }

    /// Ends the operator as a kill would: nothing is tidied up.
    pub(crate) async fn abort(&mut self) {
        if let Some(running) = self.running.take() {
            running.abort().await;
        }
    }

    fn still_works(&self) {
        if let Some(running) = &self.running {
            running.still_works();
        }
    }
}

impl Drop for Stage {
    /// No test leaves providers behind. One that fails shows what the operator and its terraforms said last.
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", journal::tail(&self.data()));
        }
        super::cloud::end_gateway(&self.data());
    }
}

/// A kind is served a moment after its definition was taken.
async fn until_served(client: &Client) {
    let kinds = [
        ("cluster.x-k8s.io", "v1beta2", "Cluster"),
        ("controlplane.cluster.x-k8s.io", "v1beta1", "CAPTControlPlane"),
        ("infrastructure.cluster.x-k8s.io", "v1beta1", "CAPTCluster"),
    ];
    for (group, version, kind) in kinds {
        let kind = GroupVersionKind::gvk(group, version, kind);
        while kube::discovery::pinned_kind(client, &kind).await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// Whether a condition of an object has this status.
pub(crate) fn condition(
    conditions: &[k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition],
    kind: &str,
    status: &str,
) -> bool {
    conditions.iter().any(|it| it.type_ == kind && it.status == status)
}
