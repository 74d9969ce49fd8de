//! The namespace of one case.

use std::{
    fmt::Debug,
    fs,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::apis::meta::v1::Condition};
use kube::{
    Api, Resource,
    api::{DynamicObject, ListParams, PostParams},
    core::NamespaceResourceScope,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{
    harness::{CommandOutput, ContractHarness},
    log_capture,
};

/// How long something may take on a busy machine.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(10);

/// The namespace.
#[derive(Clone)]
pub(crate) struct CaseNamespace {
    pub(crate) harness: Arc<ContractHarness>,
    pub(crate) namespace: &'static str,
}

impl CaseNamespace {
    pub(crate) async fn create(world: Arc<ContractHarness>, namespace: &'static str) -> Self {
        let namespaces: Api<Namespace> = Api::all(world.admin.clone());
        let object: Namespace = serde_json::from_value(json!({"metadata": {"name": namespace}})).unwrap();
        namespaces.create(&PostParams::default(), &object).await.unwrap();
        Self { harness: world, namespace }
    }

    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.harness.admin.clone(), self.namespace)
    }

    pub(crate) fn clusters(&self) -> Api<DynamicObject> {
        let kind = capt_controllers::common::cluster::cluster_resource("v1beta2");
        Api::namespaced_with(self.harness.admin.clone(), self.namespace, &kind)
    }

    /// kubectl in this namespace.
    pub(crate) async fn kubectl(&self, arguments: &[&str], stdin: &str) -> CommandOutput {
        let all = [&["-n", self.namespace], arguments].concat();
        self.harness.kubectl(&all, stdin).await
    }

    /// Applies objects as a person does.
    pub(crate) async fn apply(&self, objects: &Value) {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        self.kubectl(&["apply", "-f", "-"], &list.to_string()).await.expect_success();
    }

    pub(crate) async fn count<K>(&self) -> usize
    where
        K: Resource<Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
        K::DynamicType: Default,
    {
        self.api::<K>().list(&ListParams::default()).await.unwrap().items.len()
    }

    /// Waits until an object is as it should be; its last form is shown if it never is.
    pub(crate) async fn wait_until<K>(&self, name: &str, what: &str, is: impl Fn(&K) -> bool) -> K
    where
        K: Resource<Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
        K::DynamicType: Default,
    {
        let (api, begun) = (self.api::<K>(), Instant::now());
        let mut last = None;
        while begun.elapsed() < TIMEOUT {
            self.harness.assert_operator_running().await;
            if let Some(found) = api.get_opt(name).await.unwrap() {
                if is(&found) {
                    return found;
                }
                last = Some(found);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let log = log_capture::tail(&self.harness.data_dir());
        panic!("{}/{name} is not {what} after {TIMEOUT:?}: {last:#?}\n{log}", self.namespace);
    }

    pub(crate) async fn wait_until_deleted<K>(&self, name: &str)
    where
        K: Resource<Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
        K::DynamicType: Default,
    {
        let api = self.api::<K>();
        self.wait_for(&format!("{name} is gone"), async || api.get_opt(name).await.unwrap().is_none()).await;
    }

    /// Waits until something is so.
    pub(crate) async fn wait_for(&self, what: &str, is: impl AsyncFn() -> bool) {
        let begun = Instant::now();
        while begun.elapsed() < TIMEOUT {
            self.harness.assert_operator_running().await;
            if is().await {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let left = self.kubectl(&["get", "cluster-api,wtapply,secret", "-o", "yaml"], "").await.stdout;
        let log = log_capture::tail(&self.harness.data_dir());
        panic!("{}: not after {TIMEOUT:?}: {what}\n{left}\n{log}", self.namespace);
    }

    fn log_path(&self) -> PathBuf {
        self.harness.dir.path().join(format!("{}.log", self.namespace))
    }

    /// What the recording templates of this namespace wrote.
    pub(crate) fn recorded_lines(&self) -> Vec<String> {
        let text = fs::read_to_string(self.log_path()).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// A template that makes nothing, and writes down when it is made and when it is destroyed.
    pub(crate) fn recording_template(&self, name: &str, outputs: &Value) -> Value {
        let log = self.log_path().display().to_string();
        let outputs = outputs.as_object().unwrap().iter();
        let outputs: Vec<String> =
            outputs.map(|(key, value)| format!("output \"{key}\" {{\n  value = {value}\n}}\n")).collect();
        let module = format!(
            "resource \"terraform_data\" \"it\" {{\n  \
               provisioner \"local-exec\" {{\n    command = \"echo made {name} >> {log}\"\n  }}\n  \
               provisioner \"local-exec\" {{\n    when    = destroy\n    command = \"echo gone {name} >> {log}\"\n  }}\n}}\n{}",
            outputs.concat()
        );
        template(name, &module)
    }
}

/// A template with this module.
pub(crate) fn template(name: &str, module: &str) -> Value {
    json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "WorkspaceTemplate",
        "metadata": {"name": name},
        "spec": {"template": {"spec": {"forProvider": {"source": "Inline", "module": module}}}},
    })
}

/// Whether a condition has this status.
pub(crate) fn has_condition(conditions: &[Condition], kind: &str, status: &str) -> bool {
    conditions.iter().any(|it| it.type_ == kind && it.status == status)
}
