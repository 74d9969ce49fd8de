//! A test namespace with helpers to create, change and wait for objects, on any Kubernetes API.

use std::{
    fmt::Write as _,
    time::{Duration, Instant},
};

use kube::{
    Api, Client, ResourceExt as _,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
    core::GroupVersionKind,
};
use serde_json::{Value, json};

/// Timeout of every wait. Shorter than the resync interval of ten minutes, so that a change that only the resync finds fails
/// the test.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(5);
/// API group of the Sandbox kinds.
pub(crate) const GROUP: &str = "sandbox.capt.x-k8s.io";

/// The namespace.
#[derive(Clone)]
pub(crate) struct TestNamespace {
    pub(crate) client: Client,
    pub(crate) namespace: String,
}

#[allow(dead_code, reason = "several test targets share this file, and none uses all of it")]
impl TestNamespace {
    /// Creates an empty namespace.
    pub(crate) async fn create(client: Client, namespace: &str) -> Self {
        let namespaces = Api::<DynamicObject>::all_with(client.clone(), &api_resource("Namespace"));
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        let object = serde_json::from_value(object).unwrap();
        namespaces.create(&PostParams::default(), &object).await.unwrap();
        Self { client, namespace: namespace.to_owned() }
    }

    pub(crate) fn api(&self, kind: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &self.namespace, &api_resource(kind))
    }

    /// Creates an object; adds namespace and apiVersion.
    pub(crate) async fn create_object(&self, kind: &str, object: Value) -> Result<Value, kube::Error> {
        let mut object = object;
        object["apiVersion"] = json!(api_resource(kind).api_version);
        object["kind"] = json!(kind.trim_start_matches("Core"));
        object["metadata"]["namespace"] = json!(self.namespace);
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        Ok(to_value(&self.api(kind).create(&PostParams::default(), &object).await?))
    }

    /// Creates a Deployment with one container and its Service.
    pub(crate) async fn create_service(&self, name: &str) -> Value {
        let made = self.create_object("Deployment", deployment_object(name)).await.unwrap();
        self.create_object("Service", service_object(name)).await.unwrap();
        made
    }

    /// The same, and waits until both pods are available and in the `EndpointSlice`.
    pub(crate) async fn create_settled_service(&self, name: &str) {
        self.create_service(name).await;
        let is_settled = |it: &Value| {
            it["status"]["availableReplicas"] == 2
                && condition(it, "Progressing").1 == "NewReplicaSetAvailable"
        };
        self.wait_until("Deployment", name, "available", is_settled).await;
        // The EndpointSlice controller runs later.
        let of_service = format!("kubernetes.io/service-name={name}");
        self.wait_for("both pods are told of", async || {
            let slices = self.list("EndpointSlice", &of_service).await;
            slices.iter().filter_map(|it| it["endpoints"].as_array()).flatten().count() == 2
        })
        .await;
    }

    /// A Sandbox with this spec.
    pub(crate) async fn create_sandbox(&self, name: &str, spec: Value) -> Value {
        self.create_object("Sandbox", json!({"metadata": {"name": name}, "spec": spec})).await.unwrap()
    }

    /// A Sandbox with one fork of a Deployment, in another image.
    pub(crate) async fn create_fork(&self, name: &str, of: &str) -> Value {
        self.create_sandbox(name, fork_spec(of, &json!({"images": [{"image": format!("repo/{of}:{name}")}]})))
            .await
    }

    pub(crate) async fn get(&self, kind: &str, name: &str) -> Option<Value> {
        self.api(kind).get_opt(name).await.unwrap().map(|it| to_value(&it))
    }

    /// All objects of a kind with these labels.
    pub(crate) async fn list(&self, kind: &str, labels: &str) -> Vec<Value> {
        let params = ListParams::default().labels(labels);
        self.api(kind).list(&params).await.unwrap().iter().map(to_value).collect()
    }

    /// The Deployments that a Sandbox made.
    pub(crate) async fn forks(&self, sandbox: &str) -> Vec<Value> {
        self.list("Deployment", &format!("{GROUP}/sandbox={sandbox}")).await
    }

    /// The Services that a Sandbox made.
    pub(crate) async fn fork_services(&self, sandbox: &str) -> Vec<Value> {
        self.list("Service", &format!("{GROUP}/sandbox={sandbox}")).await
    }

    pub(crate) async fn merge_patch(
        &self,
        kind: &str,
        name: &str,
        patch: Value,
    ) -> Result<Value, kube::Error> {
        let params = PatchParams { field_manager: Some("hand".to_owned()), ..PatchParams::default() };
        Ok(to_value(&self.api(kind).patch(name, &params, &Patch::Merge(patch)).await?))
    }

    /// Writes the status of an object as another controller would.
    pub(crate) async fn set_status(&self, kind: &str, name: &str, status: Value) {
        let patch = Patch::Merge(json!({ "status": status }));
        self.api(kind).patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Creates the `FailedScheduling` event of the scheduler for a pod.
    pub(crate) async fn create_scheduling_event(&self, pod: &Value, text: &str) {
        let event = json!({
            "metadata": {"name": format!("{}.1", name(pod))}, "reason": "FailedScheduling", "message": text, "type": "Warning",
            "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": self.namespace,
                "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]},
            "lastTimestamp": "2026-11-17T05:00:00Z",
        });
        self.create_object("CoreEvent", event).await.unwrap();
    }

    pub(crate) async fn delete(&self, kind: &str, name: &str) {
        self.api(kind).delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// Waits until an object satisfies the condition; on timeout, panics with its last state.
    pub(crate) async fn wait_until(
        &self,
        kind: &str,
        name: &str,
        what: &str,
        is: impl Fn(&Value) -> bool,
    ) -> Value {
        let begun = Instant::now();
        let mut last = None;
        while begun.elapsed() < TIMEOUT {
            last = self.get(kind, name).await;
            if let Some(found) = last.as_ref().filter(|found| is(found)) {
                return found.clone();
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        panic!("{kind} {name} is not {what}: {last:#?}\n{}", self.events_text().await);
    }

    pub(crate) async fn wait_until_deleted(&self, kind: &str, name: &str) {
        let begun = Instant::now();
        while begun.elapsed() < TIMEOUT {
            if self.get(kind, name).await.is_none() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        panic!(
            "{kind} {name} is still there: {:#?}\n{}",
            self.get(kind, name).await,
            self.events_text().await
        );
    }

    /// Waits until the condition is true.
    pub(crate) async fn wait_for(&self, what: &str, is: impl AsyncFn() -> bool) {
        let begun = Instant::now();
        while begun.elapsed() < TIMEOUT {
            if is().await {
                return;
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        panic!("it never happened: {what}\n{}", self.events_text().await);
    }

    /// Waits until a Sandbox has this phase at its current generation.
    pub(crate) async fn wait_for_phase(&self, sandbox: &str, phase: &str) -> Value {
        self.wait_until("Sandbox", sandbox, phase, |it| is_current(it) && it["status"]["phase"] == phase)
            .await
    }

    /// Waits until a condition of a Sandbox has this status and reason.
    pub(crate) async fn wait_for_condition(
        &self,
        sandbox: &str,
        kind: &str,
        status: &str,
        reason: &str,
    ) -> Value {
        let what = format!("{kind}={status}/{reason}");
        self.wait_until("Sandbox", sandbox, &what, |it| {
            is_current(it) && condition(it, kind) == (status.to_owned(), reason.to_owned())
        })
        .await
    }

    /// Waits for an event with this reason for an object.
    pub(crate) async fn wait_for_event(&self, name: &str, reason: &str) -> Value {
        let begun = Instant::now();
        while begun.elapsed() < TIMEOUT {
            let all = self.list("Event", "").await;
            let is = |it: &&Value| it["regarding"]["name"] == name && it["reason"] == reason;
            if let Some(found) = all.iter().find(is) {
                return found.clone();
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        panic!("{reason} was not told of {name}:\n{}", self.events_text().await);
    }

    /// All events, for the output of a failed test.
    async fn events_text(&self) -> String {
        let mut text = String::new();
        for it in self.list("Event", "").await {
            let _ = writeln!(text, "{} {}: {}", it["regarding"]["name"], it["reason"], it["note"]);
        }
        text
    }
}

/// A spec with one fork.
pub(crate) fn fork_spec(of: &str, customizations: &Value) -> Value {
    json!({"forks": [{"forkOf": {"kind": "Deployment", "name": of}, "customizations": customizations}]})
}

/// A typical Deployment.
pub(crate) fn deployment_object(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"app": name, "app.kubernetes.io/instance": "shop"}},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name, "team": "cart", "tier": "backend"}},
                "spec": {"containers": [{
                    "name": "app", "image": format!("repo/{name}:v1"),
                    "ports": [{"name": "http", "containerPort": 8080}],
                    "env": [{"name": "LOG", "value": "info"}],
                    "resources": {"requests": {"cpu": "250m", "memory": "512Mi"}},
                }]},
            },
        },
    })
}

/// The Service of the Deployment.
pub(crate) fn service_object(name: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {"selector": {"app": name}, "ports": [{"name": "http", "port": 80, "targetPort": "http"}]},
    })
}

/// Whether the status is for the current generation.
pub(crate) fn is_current(object: &Value) -> bool {
    object["status"]["observedGeneration"] == object["metadata"]["generation"]
}

/// Status and reason of a condition.
pub(crate) fn condition(object: &Value, kind: &str) -> (String, String) {
    let all = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let one = all.into_iter().find(|it| it["type"] == kind).unwrap_or_default();
    let text = |field: &str| one[field].as_str().unwrap_or_default().to_owned();
    (text("status"), text("reason"))
}

/// Message of a condition.
#[allow(dead_code, reason = "several test targets share this file, and none uses all of it")]
pub(crate) fn condition_message(object: &Value, kind: &str) -> String {
    let all = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let one = all.into_iter().find(|it| it["type"] == kind).unwrap_or_default();
    one["message"].as_str().unwrap_or_default().to_owned()
}

/// The name of an object.
#[allow(dead_code, reason = "several test targets share this file, and none uses all of it")]
pub(crate) fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn to_value(object: &DynamicObject) -> Value {
    debug_assert!(!object.name_any().is_empty());
    serde_json::to_value(object).unwrap()
}

fn api_resource(kind: &str) -> ApiResource {
    let (group, version, plural) = match kind {
        "Namespace" => ("", "v1", "namespaces"),
        "CoreEvent" => ("", "v1", "events"),
        "Pod" => ("", "v1", "pods"),
        "Secret" => ("", "v1", "secrets"),
        "Service" => ("", "v1", "services"),
        "PersistentVolumeClaim" => ("", "v1", "persistentvolumeclaims"),
        "Deployment" => ("apps", "v1", "deployments"),
        "ReplicaSet" => ("apps", "v1", "replicasets"),
        "Lease" => ("coordination.k8s.io", "v1", "leases"),
        "HTTPRoute" => ("gateway.networking.k8s.io", "v1", "httproutes"),
        "EndpointSlice" => ("discovery.k8s.io", "v1", "endpointslices"),
        "Event" => ("events.k8s.io", "v1", "events"),
        "NetworkPolicy" => ("networking.k8s.io", "v1", "networkpolicies"),
        "PodDisruptionBudget" => ("policy", "v1", "poddisruptionbudgets"),
        "Sandbox" => (GROUP, "v1alpha1", "sandboxes"),
        "RouteGroup" => (GROUP, "v1alpha1", "routegroups"),
        "LocalWorkload" => (GROUP, "v1alpha1", "localworkloads"),
        "Cluster" => ("cluster.x-k8s.io", "v1beta2", "clusters"),
        "CAPTControlPlane" => ("controlplane.cluster.x-k8s.io", "v1beta1", "captcontrolplanes"),
        other => panic!("unknown kind {other}"),
    };
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
}
