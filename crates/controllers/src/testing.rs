//! Test environment: an in-process API server with our CRDs, the real controllers, and helpers that act for all other clients.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use capt_kinds::api::{self, names};
use capt_kube::k8s::{KubeClient, events::EventPublisher};
use embedded_kube::{auth, cluster::EmbeddedKube, fault_injection::RequestRecord};
use k8s_openapi::{
    api::core::v1::Namespace, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
    core::GroupVersionKind,
};
use serde_json::{Value, json};
use terraform_driver::clock;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    capi_cluster, captcluster,
    common::{Context, Settings},
};

/// User agent of the controllers in the request log.
pub(super) const USER_AGENT: &str = "capt-controllers";
/// The namespace of all test objects.
pub(super) const NAMESPACE: &str = "team";

/// Timeout of all waits, generous for a busy machine. Shorter than the ten-minute resync interval, so that a test fails if only
/// the resync finds a change.
pub(super) const TIMEOUT: Duration = Duration::from_mins(2);

const CLUSTER_CRD: &str = include_str!("../../../crds/standalone/cluster.x-k8s.io_clusters.yaml");

/// An API server and the context of the controllers.
pub(super) struct TestEnv {
    pub(super) server: EmbeddedKube,
    client: kube::Client,
    pub(super) ctx: Arc<Context>,
    stop: CancellationToken,
    _on_drop: DropGuard,
}

impl TestEnv {
    /// Starts the API server with our CRDs and the namespace, without controllers.
    pub(super) async fn start() -> Self {
        Self::start_with(Settings::default()).await
    }

    /// [`start`](Self::start) with these settings.
    pub(super) async fn start_with(settings: Settings) -> Self {
        let server = EmbeddedKube::builder().in_memory().start().await.unwrap();
        let client = server.client_with_agent(auth::admin(), "hand");
        let kube = KubeClient::new(server.client_with_agent(auth::admin(), USER_AGENT));
        let events = EventPublisher::new(kube.clone(), "capt/test", "test");
        let ctx = Arc::new(Context::new(kube, settings, events, "v1beta2"));
        let stop = CancellationToken::new();
        let rig = Self { server, client, ctx, _on_drop: stop.clone().drop_guard(), stop };
        rig.install_crds().await;
        rig
    }

    async fn install_crds(&self) {
        let all: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let cluster: CustomResourceDefinition = serde_saphyr::from_str(CLUSTER_CRD).unwrap();
        for crd in api::crds().into_iter().chain([cluster]) {
            all.create(&PostParams::default(), &crd).await.unwrap();
        }
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let home = serde_json::from_value(json!({"metadata": {"name": NAMESPACE}})).unwrap();
        namespaces.create(&PostParams::default(), &home).await.unwrap();
        for kind in
            ["Cluster", "CAPTCluster", "CAPTControlPlane", "WorkspaceTemplateApply", "WorkspaceTemplate"]
        {
            let served = async {
                while self.api(kind).list(&ListParams::default()).await.is_err() {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            };
            tokio::time::timeout(TIMEOUT, served).await.unwrap();
        }
    }

    /// Starts the `CAPTCluster` controller.
    pub(super) fn run_captcluster(&self) {
        tokio::spawn(captcluster::run(self.ctx.clone(), self.stop.clone().cancelled_owned()));
    }

    /// Starts the standalone Cluster controller, which replaces Cluster API.
    pub(super) fn run_standalone(&self) {
        tokio::spawn(capi_cluster::run(self.ctx.clone(), self.stop.clone().cancelled_owned()));
    }

    /// The API of a kind.
    pub(super) fn api(&self, kind: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), NAMESPACE, &resource(kind))
    }

    /// Creates an object; adds `apiVersion`, `kind` and `namespace`.
    pub(super) async fn create(&self, kind: &str, mut object: Value) -> Value {
        let resource = resource(kind);
        object["apiVersion"] = json!(resource.api_version);
        object["kind"] = json!(kind);
        object["metadata"]["namespace"] = json!(NAMESPACE);
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        to_json(&self.api(kind).create(&PostParams::default(), &object).await.unwrap())
    }

    /// Creates a Cluster that references a `CAPTCluster` and a `CAPTControlPlane` with names derived from its own.
    pub(super) async fn create_cluster(&self, name: &str) -> Value {
        let reference = |group: &str, kind: &str| json!({"apiGroup": group, "kind": kind, "name": format!("{name}-{}", kind.to_lowercase())});
        let infrastructure = reference(names::INFRASTRUCTURE_GROUP, "CAPTCluster");
        let control_plane = reference(names::CONTROL_PLANE_GROUP, "CAPTControlPlane");
        let spec = json!({"infrastructureRef": infrastructure, "controlPlaneRef": control_plane});
        self.create("Cluster", json!({"metadata": {"name": name}, "spec": spec})).await
    }

    /// Sets owner reference and cluster name label as Cluster API does.
    pub(super) async fn set_owner(&self, kind: &str, name: &str, cluster: &Value) {
        let owner = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "name": cluster["metadata"]["name"], "uid": cluster["metadata"]["uid"]});
        let labels = json!({names::CLUSTER_NAME_LABEL: cluster["metadata"]["name"]});
        self.merge(kind, name, json!({"metadata": {"ownerReferences": [owner], "labels": labels}})).await;
    }

    /// Gets an object.
    pub(super) async fn get(&self, kind: &str, name: &str) -> Option<Value> {
        self.api(kind).get_opt(name).await.unwrap().map(|it| to_json(&it))
    }

    /// Merge-patches an object.
    pub(super) async fn merge(&self, kind: &str, name: &str, patch: Value) -> Value {
        let params = PatchParams::default();
        to_json(&self.api(kind).patch(name, &params, &Patch::Merge(patch)).await.unwrap())
    }

    /// Replaces the status of an object.
    pub(super) async fn set_status(&self, kind: &str, name: &str, status: Value) {
        let object = self.get(kind, name).await.unwrap();
        let mut operations = vec![json!({"op": "add", "path": "/status", "value": status})];
        if object.get("status").is_some() {
            operations.insert(0, json!({"op": "remove", "path": "/status"}));
        }
        let patch = Patch::<()>::Json(serde_json::from_value(Value::Array(operations)).unwrap());
        self.api(kind).patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Deletes an object.
    pub(super) async fn delete(&self, kind: &str, name: &str) {
        self.api(kind).delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// Acts as the workspace controller: reports a successful run.
    pub(super) async fn complete_workspace(&self, name: &str) {
        let generation =
            self.get("WorkspaceTemplateApply", name).await.unwrap()["metadata"]["generation"].clone();
        self.set_status("WorkspaceTemplateApply", name, completed_workspace_status(&generation)).await;
    }

    /// Acts as the workspace controller: reports a failed run with this error class.
    pub(super) async fn fail_workspace(&self, name: &str, class: &str) {
        let generation =
            self.get("WorkspaceTemplateApply", name).await.unwrap()["metadata"]["generation"].clone();
        let status = json!({
            "observedGeneration": generation,
            "lastError": {"class": class, "code": "SomeCode", "address": "aws_vpc.this[0]", "message": "it did not work",
                          "retryAt": "2026-11-01T10:10:00Z"},
            "conditions": [condition("Synced", "False", "ReconcileError"), condition("Ready", "False", "Unavailable")],
        });
        self.set_status("WorkspaceTemplateApply", name, status).await;
    }

    /// Waits until an object satisfies the predicate.
    pub(super) async fn wait_until(&self, kind: &str, name: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let what = format!("{kind} {name} did not reach the expected state");
        self.poll_until(&what, || self.get(kind, name), |it| it.clone().filter(|it| is_so(it))).await
    }

    /// Waits until an object is deleted.
    pub(super) async fn wait_until_gone(&self, kind: &str, name: &str) {
        let what = format!("{kind} {name} still exists");
        self.poll_until(&what, || self.get(kind, name), |it| it.is_none().then_some(())).await;
    }

    /// Waits for events with these reasons, which are published after the status write.
    pub(super) async fn wait_for_events(&self, reasons: &[&str]) {
        let told = |all: &Vec<String>| reasons.iter().all(|it| all.iter().any(|one| one == it)).then_some(());
        self.poll_until(&format!("events {reasons:?} were not published"), || self.event_reasons(), told)
            .await;
    }

    async fn event_reasons(&self) -> Vec<String> {
        let events = self.api("Event").list(&ListParams::default()).await.unwrap();
        events.iter().filter_map(|it| it.data["reason"].as_str().map(str::to_owned)).collect()
    }

    /// Polls until `is_seen` returns a value. On timeout, panics with the last value, the events and the controllers' requests.
    async fn poll_until<T: std::fmt::Debug, S, F: Future<Output = T>>(
        &self,
        what: &str,
        look: impl Fn() -> F,
        is_seen: impl Fn(&T) -> Option<S>,
    ) -> S {
        let begun = Instant::now();
        loop {
            let found = look().await;
            if let Some(seen) = is_seen(&found) {
                return seen;
            }
            if begun.elapsed() > TIMEOUT {
                let asked = self.server.request_log().matching(|it| it.agent.starts_with(USER_AGENT));
                let last = &asked[asked.len().saturating_sub(40)..];
                panic!("{what}: {found:#?}\nevents: {:?}\nrequests: {last:#?}", self.event_reasons().await);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Triggers a reconcile of the objects of a Cluster, and waits for it.
    pub(super) async fn trigger_by_cluster(&self, name: &str) {
        self.trigger_by("Cluster", ("clusters", name)).await;
    }

    /// Triggers a reconcile of all objects that depend on an object, by a change without effect, and waits until the reconcile has
    /// read that object. Two rounds, because a reconcile starts only after the previous one has ended.
    pub(super) async fn trigger_by(&self, kind: &str, (plural, name): (&str, &str)) {
        let is = |it: &RequestRecord| it.agent == USER_AGENT && it.resource == plural && it.name == name;
        let looks = || self.server.request_log().matching(is).len();
        for _ in 0..2 {
            let before = looks();
            let now = clock::now().to_string();
            self.merge(kind, name, json!({"metadata": {"annotations": {"looked-at": now}}})).await;
            let what = format!("no reconcile reads {kind} {name}");
            self.poll_until(&what, async || looks(), |it| (*it > before).then_some(())).await;
        }
    }

    /// Waits until the controllers stop writing.
    pub(super) async fn wait_until_idle(&self) {
        // A busy machine may pause between two writes, so several quiet intervals are required.
        let (begun, mut before, mut quiet) = (Instant::now(), usize::MAX, 0);
        while quiet < 5 {
            assert!(begun.elapsed() < TIMEOUT, "the controllers do not stop writing");
            let writes = self.server.request_log().writes_by(USER_AGENT).len();
            quiet = if writes == before { quiet + 1 } else { 0 };
            before = writes;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// The status of a workspace after a successful run.
pub(super) fn completed_workspace_status(generation: &Value) -> Value {
    json!({
        "observedGeneration": generation, "applied": true, "lastAppliedTime": "2026-11-01T10:00:00Z",
        "outputs": {"vpc_id": "vpc-0123456789abcdef0", "azs": ["eu-central-1b", "eu-central-1a"]},
        "conditions": [condition("Synced", "True", "ReconcileSuccess"), condition("Ready", "True", "Available")],
    })
}

pub(super) fn condition(type_: &str, status: &str, reason: &str) -> Value {
    json!({"type": type_, "status": status, "reason": reason, "message": "", "lastTransitionTime": "2026-11-01T10:00:00Z"})
}

/// Status and reason of a condition of an object.
pub(super) fn condition_status(object: &Value, type_: &str) -> (String, String) {
    let all = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let one = all.iter().find(|it| it["type"] == type_).cloned().unwrap_or_default();
    let text = |field: &str| one[field].as_str().unwrap_or_default().to_owned();
    (text("status"), text("reason"))
}

/// Message of a condition of an object.
pub(super) fn condition_message(object: &Value, type_: &str) -> String {
    let all = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let one = all.iter().find(|it| it["type"] == type_).cloned().unwrap_or_default();
    one["message"].as_str().unwrap_or_default().to_owned()
}

fn resource(kind: &str) -> ApiResource {
    let (group, version, plural) = match kind {
        "Cluster" => (names::CLUSTER_API_GROUP, "v1beta2", "clusters"),
        "CAPTCluster" => (names::INFRASTRUCTURE_GROUP, names::VERSION, "captclusters"),
        "CAPTControlPlane" => (names::CONTROL_PLANE_GROUP, names::VERSION, "captcontrolplanes"),
        "WorkspaceTemplateApply" => (names::INFRASTRUCTURE_GROUP, names::VERSION, "workspacetemplateapplies"),
        "WorkspaceTemplate" => (names::INFRASTRUCTURE_GROUP, names::VERSION, "workspacetemplates"),
        "Sandbox" => (capt_kinds::sandbox::names::GROUP, capt_kinds::sandbox::names::VERSION, "sandboxes"),
        "RouteGroup" => {
            (capt_kinds::sandbox::names::GROUP, capt_kinds::sandbox::names::VERSION, "routegroups")
        }
        "EndpointSlice" => ("discovery.k8s.io", "v1", "endpointslices"),
        "Lease" => ("coordination.k8s.io", "v1", "leases"),
        "Pod" => ("", "v1", "pods"),
        "Service" => ("", "v1", "services"),
        "Event" => ("events.k8s.io", "v1", "events"),
        "Secret" => ("", "v1", "secrets"),
        other => panic!("unknown kind {other}"),
    };
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
}

fn to_json(object: &DynamicObject) -> Value {
    serde_json::to_value(object).unwrap()
}
