//! For tests: an API server in this process with our kinds in it, the real controllers, and a hand that plays all others.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use embedded_kube::{auth, cluster::EmbeddedKube, faults::Logged};
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
    captcluster,
    common::{Context, Settings},
    standalone,
};
use crate::{
    api::{self, names},
    k8s::{Kube, events::Events},
};

/// How the controllers are known in the request log.
pub(super) const AGENT: &str = "capt-controllers";
/// Where everything is.
pub(super) const HOME: &str = "team";

/// How long something may take on a busy machine. Shorter than the ten minutes after which controllers look at everything
/// again: what only that finds is not found in time.
pub(super) const PATIENCE: Duration = Duration::from_mins(2);

const CLUSTER_CRD: &str = include_str!("../../crds/standalone/cluster.x-k8s.io_clusters.yaml");

/// An API server, and everything in it.
pub(super) struct Rig {
    pub(super) server: EmbeddedKube,
    client: kube::Client,
    pub(super) ctx: Arc<Context>,
    stop: CancellationToken,
    _on_drop: DropGuard,
}

impl Rig {
    /// With our kinds and a namespace, and no controller yet.
    pub(super) async fn start() -> Self {
        Self::start_with(Settings::default()).await
    }

    /// The same, with other settings.
    pub(super) async fn start_with(settings: Settings) -> Self {
        let server = EmbeddedKube::builder().in_memory().start().await.unwrap();
        let client = server.client_of(auth::admin(), "hand");
        let kube = Kube::new(server.client_of(auth::admin(), AGENT));
        let events = Events::new(kube.clone(), "capt/test", "test");
        let ctx = Arc::new(Context::new(kube, settings, events, "v1beta2"));
        let stop = CancellationToken::new();
        let rig = Self { server, client, ctx, _on_drop: stop.clone().drop_guard(), stop };
        rig.install().await;
        rig
    }

    async fn install(&self) {
        let all: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let cluster: CustomResourceDefinition = serde_saphyr::from_str(CLUSTER_CRD).unwrap();
        for crd in api::crds().into_iter().chain([cluster]) {
            all.create(&PostParams::default(), &crd).await.unwrap();
        }
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let home = serde_json::from_value(json!({"metadata": {"name": HOME}})).unwrap();
        namespaces.create(&PostParams::default(), &home).await.unwrap();
        for kind in
            ["Cluster", "CAPTCluster", "CAPTControlPlane", "WorkspaceTemplateApply", "WorkspaceTemplate"]
        {
            let served = async {
                while self.api(kind).list(&ListParams::default()).await.is_err() {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            };
            tokio::time::timeout(PATIENCE, served).await.unwrap();
        }
    }

    /// Starts the controller of `CAPTCluster`.
    pub(super) fn run_captcluster(&self) {
        tokio::spawn(captcluster::run(self.ctx.clone(), self.stop.clone().cancelled_owned()));
    }

    /// Starts the controller of Clusters, where Cluster API is absent.
    pub(super) fn run_standalone(&self) {
        tokio::spawn(standalone::run(self.ctx.clone(), self.stop.clone().cancelled_owned()));
    }

    /// Objects of a kind.
    pub(super) fn api(&self, kind: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), HOME, &resource(kind))
    }

    /// Makes an object; its namespace and version are added.
    pub(super) async fn make(&self, kind: &str, mut object: Value) -> Value {
        let resource = resource(kind);
        object["apiVersion"] = json!(resource.api_version);
        object["kind"] = json!(kind);
        object["metadata"]["namespace"] = json!(HOME);
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        value(&self.api(kind).create(&PostParams::default(), &object).await.unwrap())
    }

    /// A Cluster that refers to a network and a control plane of these names.
    pub(super) async fn cluster(&self, name: &str) -> Value {
        let reference = |group: &str, kind: &str| json!({"apiGroup": group, "kind": kind, "name": format!("{name}-{}", kind.to_lowercase())});
        let infrastructure = reference(names::INFRASTRUCTURE_GROUP, "CAPTCluster");
        let control_plane = reference(names::CONTROL_PLANE_GROUP, "CAPTControlPlane");
        let spec = json!({"infrastructureRef": infrastructure, "controlPlaneRef": control_plane});
        self.make("Cluster", json!({"metadata": {"name": name}, "spec": spec})).await
    }

    /// Does what Cluster API does to an object of a Cluster.
    pub(super) async fn own(&self, kind: &str, name: &str, cluster: &Value) {
        let owner = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "name": cluster["metadata"]["name"], "uid": cluster["metadata"]["uid"]});
        let labels = json!({names::CLUSTER_NAME_LABEL: cluster["metadata"]["name"]});
        self.merge(kind, name, json!({"metadata": {"ownerReferences": [owner], "labels": labels}})).await;
    }

    /// One object.
    pub(super) async fn get(&self, kind: &str, name: &str) -> Option<Value> {
        self.api(kind).get_opt(name).await.unwrap().map(|it| value(&it))
    }

    /// Changes an object.
    pub(super) async fn merge(&self, kind: &str, name: &str, patch: Value) -> Value {
        let params = PatchParams::default();
        value(&self.api(kind).patch(name, &params, &Patch::Merge(patch)).await.unwrap())
    }

    /// Changes the status of an object.
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

    /// Plays the controller of workspaces: says that a workspace is done.
    pub(super) async fn workspace_done(&self, name: &str) {
        let generation =
            self.get("WorkspaceTemplateApply", name).await.unwrap()["metadata"]["generation"].clone();
        self.set_status("WorkspaceTemplateApply", name, done(&generation)).await;
    }

    /// Plays the controller of workspaces: says that a run failed like this.
    pub(super) async fn workspace_failed(&self, name: &str, class: &str) {
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

    /// Waits until an object is like this.
    pub(super) async fn until(&self, kind: &str, name: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let what = format!("{kind} {name} did not become so");
        self.seen(&what, || self.get(kind, name), |it| it.clone().filter(|it| is_so(it))).await
    }

    /// Waits until an object is gone.
    pub(super) async fn until_gone(&self, kind: &str, name: &str) {
        let what = format!("{kind} {name} is still there");
        self.seen(&what, || self.get(kind, name), |it| it.is_none().then_some(())).await;
    }

    /// Waits until events with these reasons were told: that happens after the status was written.
    pub(super) async fn until_told(&self, reasons: &[&str]) {
        let told = |all: &Vec<String>| reasons.iter().all(|it| all.iter().any(|one| one == it)).then_some(());
        self.seen(&format!("{reasons:?} were not told"), || self.reasons(), told).await;
    }

    async fn reasons(&self) -> Vec<String> {
        let events = self.api("Event").list(&ListParams::default()).await.unwrap();
        events.iter().filter_map(|it| it.data["reason"].as_str().map(str::to_owned)).collect()
    }

    /// Looks until something is seen. Otherwise shows what was seen last, what was told, and what the controllers asked for.
    async fn seen<T: std::fmt::Debug, S, F: Future<Output = T>>(
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
            if begun.elapsed() > PATIENCE {
                let asked = self.server.requests().matching(|it| it.agent.starts_with(AGENT));
                let last = &asked[asked.len().saturating_sub(40)..];
                panic!("{what}: {found:#?}\nevents: {:?}\nrequests: {last:#?}", self.reasons().await);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Lets the controllers look at what belongs to a Cluster, and waits until they have.
    pub(super) async fn look_by_cluster(&self, name: &str) {
        self.look_by("Cluster", ("clusters", name)).await;
    }

    /// Lets the controllers look at whatever depends on an object that each look reads, and waits until they have: a change
    /// that means nothing leads to a look, and a look begins when the one before it is over.
    pub(super) async fn look_by(&self, kind: &str, (plural, name): (&str, &str)) {
        let is = |it: &Logged| it.agent == AGENT && it.resource == plural && it.name == name;
        let looks = || self.server.requests().matching(is).len();
        for _ in 0..2 {
            let before = looks();
            let now = clock::now().to_string();
            self.merge(kind, name, json!({"metadata": {"annotations": {"looked-at": now}}})).await;
            let what = format!("nobody looks at the {kind} {name}");
            self.seen(&what, async || looks(), |it| (*it > before).then_some(())).await;
        }
    }

    /// Waits until the controllers have had nothing to write for a while.
    pub(super) async fn settle(&self) {
        // A busy machine may be silent for a moment in the middle of its work.
        let (begun, mut before, mut quiet) = (Instant::now(), usize::MAX, 0);
        while quiet < 5 {
            assert!(begun.elapsed() < PATIENCE, "the controllers go on writing");
            let writes = self.server.requests().writes_by(AGENT).len();
            quiet = if writes == before { quiet + 1 } else { 0 };
            before = writes;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// The status of a workspace that is done.
pub(super) fn done(generation: &Value) -> Value {
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
pub(super) fn said(object: &Value, type_: &str) -> (String, String) {
    let all = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let one = all.iter().find(|it| it["type"] == type_).cloned().unwrap_or_default();
    let text = |field: &str| one[field].as_str().unwrap_or_default().to_owned();
    (text("status"), text("reason"))
}

/// Message of a condition of an object.
pub(super) fn message(object: &Value, type_: &str) -> String {
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
        "Sandbox" => (sandbox::api::names::GROUP, sandbox::api::names::VERSION, "sandboxes"),
        "RouteGroup" => (sandbox::api::names::GROUP, sandbox::api::names::VERSION, "routegroups"),
        "EndpointSlice" => ("discovery.k8s.io", "v1", "endpointslices"),
        "Lease" => ("coordination.k8s.io", "v1", "leases"),
        "Pod" => ("", "v1", "pods"),
        "Service" => ("", "v1", "services"),
        "Event" => ("events.k8s.io", "v1", "events"),
        "Secret" => ("", "v1", "secrets"),
        other => panic!("the rig does not know {other}"),
    };
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
}

fn value(object: &DynamicObject) -> Value {
    serde_json::to_value(object).unwrap()
}
