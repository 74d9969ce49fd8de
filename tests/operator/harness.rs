//! Test harness: an operator in this process, on an embedded Kubernetes API; terraform runs under the real shim.

use std::{
    fmt::Debug,
    path::PathBuf,
    sync::Mutex,
    time::{Duration, Instant},
};

use capt::operator::OperatorSettings;
use capt_engine::aws::Cloud;
use capt_kinds::api::{WorkspaceTemplateApply, crds};
use capt_kube::k8s::KubeClient;
use embedded_kube::cluster::{EmbeddedKube, ListenConfig};
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
    in_process_operator::{InProcessOperator, OperatorOptions, settings},
    log_capture, service_account,
};

/// Timeout of every wait. Only bounds a hang: whole clusters are created within it on a busy machine.
const TIMEOUT: Duration = Duration::from_mins(15);

const CLUSTER_CRD: &str = include_str!("../../crds/standalone/cluster.x-k8s.io_clusters.yaml");

/// Operator, API, data directory and settings of one test.
pub(crate) struct OperatorHarness {
    pub(crate) kube: EmbeddedKube,
    pub(crate) dir: TempDir,
    pub(crate) cloud: Cloud,
    pub(crate) settings: OperatorSettings,
    /// Terraform binary, if not the one on `PATH`.
    pub(crate) engine: Option<PathBuf>,
    /// Run terraform without the provider gateway.
    pub(crate) gateway_bypass: bool,
    /// Confine runs.
    pub(crate) is_isolated: bool,
    /// Namespace of the objects that the wait functions read.
    pub(crate) namespace: &'static str,
    operator: Option<InProcessOperator>,
}

impl OperatorHarness {
    /// The API with our CRDs, and an operator without a reachable AWS.
    pub(crate) async fn without_aws() -> Self {
        let mut stage = Self::idle(Cloud::Local { endpoint: "http://127.0.0.1:9".to_owned() }).await;
        stage.start().await;
        stage
    }

    /// The API with our CRDs, without an operator.
    pub(crate) async fn idle(cloud: Cloud) -> Self {
        log_capture::start();
        let kube =
            EmbeddedKube::builder().in_memory().listen(ListenConfig::loopback()).start().await.unwrap();
        let writer = KubeClient::new(kube.client());
        writer.install_crds(&crds()).await.unwrap();
        let cluster: CustomResourceDefinition = serde_saphyr::from_str(CLUSTER_CRD).unwrap();
        writer.install_crds(&[cluster]).await.unwrap();
        wait_until_kinds_served(&kube.client()).await;
        let stage = Self {
            kube,
            dir: tempfile::tempdir().unwrap(),
            cloud,
            settings: settings(),
            engine: None,
            gateway_bypass: false,
            is_isolated: false,
            namespace: "default",
            operator: None,
        };
        for object in service_account::objects() {
            stage.apply_value(object).await;
        }
        stage
    }

    /// Starts the operator in the data directory of this harness.
    pub(crate) async fn start(&mut self) {
        self.operator = Some(self.start_replica(self.data_dir()).await);
    }

    /// Starts an operator with its own data directory, like another pod.
    pub(crate) async fn start_replica(&self, data: PathBuf) -> InProcessOperator {
        self.start_replica_as(service_account::AGENT, data).await
    }

    /// Starts an operator with this user agent in the request log.
    pub(crate) async fn start_replica_as(&self, agent: &str, data: PathBuf) -> InProcessOperator {
        let client = self.kube.client_with_agent(service_account::user(), agent);
        let how = OperatorOptions {
            engine: self.engine.as_deref(),
            gateway_bypass: self.gateway_bypass,
            is_isolated: self.is_isolated,
        };
        InProcessOperator::start_with(how, client, &data, &self.cloud, &self.settings).await
    }

    /// Stops the operator as SIGTERM does; terraform keeps running. Checks its requests against RBAC.
    pub(crate) async fn stop(&mut self) {
        if let Some(running) = self.operator.take() {
            running.stop().await;
            service_account::assert_requests_allowed(&self.kube.request_log().all());
        }
    }

    pub(crate) fn data_dir(&self) -> PathBuf {
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
        let api = self.dynamic_api(&resource, &capabilities, object.metadata.namespace.as_deref());
        let name = object.metadata.name.clone().unwrap();
        let params = PatchParams::apply("test").force();
        api.patch(&name, &params, &Patch::Apply(&object))
            .await
            .unwrap_or_else(|error| panic!("{} {name}: {error}", types.kind))
    }

    fn dynamic_api(
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
        self.api::<WorkspaceTemplateApply>(self.namespace).get(name).await.unwrap()
    }

    /// Waits until an object satisfies the condition; on timeout, panics with its last state.
    pub(crate) async fn wait_until<K>(&self, name: &str, what: &str, is: impl Fn(&K) -> bool) -> K
    where
        K: Resource<Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
        K::DynamicType: Default,
    {
        let (api, last) = (self.api::<K>(self.namespace), Mutex::new(None));
        let found = self.poll(async || {
            let found = api.get_opt(name).await.unwrap();
            let wanted = found.clone().filter(&is);
            *last.lock().unwrap() = found;
            wanted
        });
        let found = found.await;
        found.unwrap_or_else(|| panic!("{name} is not {what} after {TIMEOUT:?}: {last:#?}"))
    }

    /// Waits until an object is deleted.
    pub(crate) async fn wait_until_deleted<K>(&self, name: &str)
    where
        K: Resource<Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
        K::DynamicType: Default,
    {
        let (api, last) = (self.api::<K>(self.namespace), Mutex::new(None));
        let gone = self.poll(async || {
            let found = api.get_opt(name).await.unwrap();
            let gone = found.is_none().then_some(());
            *last.lock().unwrap() = found;
            gone
        });
        gone.await.unwrap_or_else(|| panic!("{name} is still there after {TIMEOUT:?}: {last:#?}"));
    }

    /// Waits until the condition is true; on timeout, panics with all workspaces.
    pub(crate) async fn wait_for(&self, what: &str, is: impl AsyncFn() -> bool) {
        if self.poll(async || is().await.then_some(())).await.is_none() {
            let all = Api::<WorkspaceTemplateApply>::all(self.client()).list(&ListParams::default()).await;
            panic!("not after {TIMEOUT:?}: {what}: {all:#?}");
        }
    }

    /// Polls until `look` returns a value; `None` on timeout.
    async fn poll<T>(&self, look: impl AsyncFn() -> Option<T>) -> Option<T> {
        let begun = Instant::now();
        while begun.elapsed() < TIMEOUT {
            self.assert_operator_running();
            if let Some(found) = look().await {
                return Some(found);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        None
    }

    /// Ends the operator as SIGKILL does: no cleanup.
    pub(crate) async fn abort(&mut self) {
        if let Some(running) = self.operator.take() {
            running.abort().await;
        }
    }

    fn assert_operator_running(&self) {
        if let Some(running) = &self.operator {
            running.assert_running();
        }
    }
}

impl Drop for OperatorHarness {
    /// Stops the provider gateway. A failed test prints the tail of the logs of operator and terraform.
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", log_capture::tail(&self.data_dir()));
        }
        super::local_aws::stop_gateway(&self.data_dir());
    }
}

/// Waits for discovery: a kind is served shortly after its CRD is created.
async fn wait_until_kinds_served(client: &Client) {
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
pub(crate) fn has_condition(
    conditions: &[k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition],
    kind: &str,
    status: &str,
) -> bool {
    conditions.iter().any(|it| it.type_ == kind && it.status == status)
}
