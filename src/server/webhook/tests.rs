//! Reviews as the API server sends them.

mod broken;
mod https;
mod references;
mod registration;
mod table;
mod verdicts;

use std::{collections::BTreeMap, sync::Arc};

use capt_kinds::api::{
    WorkspaceTemplate,
    names::{ALLOW_REFERENCES_ANNOTATION, CONTROL_PLANE_GROUP, INFRASTRUCTURE_GROUP},
};
use capt_model::model::{ObjectKey, newtypes::Namespace};
use futures::future::{FutureExt as _, ready};
use serde_json::{Value, json};

use super::*;

/// A cluster with a few objects, by `namespace/name`; namespaces by name.
#[derive(Default)]
struct Cluster {
    templates: BTreeMap<String, Value>,
    namespaces: BTreeMap<String, Annotations>,
    workspaces: BTreeMap<String, Annotations>,
    secrets: BTreeMap<String, Annotations>,
    config_maps: BTreeMap<String, Annotations>,
    /// Nobody answers.
    is_down: bool,
}

impl Cluster {
    fn answer<T: Send + 'static>(&self, what: &str, found: Option<T>) -> LookupFuture<'static, T> {
        let answer = if self.is_down {
            Err(LookupError { what: what.to_owned(), source: "connection refused".into() })
        } else {
            Ok(found)
        };
        ready(answer).boxed()
    }
}

impl Lookup for Cluster {
    fn template<'a>(&'a self, key: &'a ObjectKey) -> LookupFuture<'a, WorkspaceTemplate> {
        let found = self.templates.get(&key.to_string());
        self.answer("WorkspaceTemplate", found.map(|it| serde_json::from_value(it.clone()).unwrap()))
    }

    fn workspace<'a>(&'a self, key: &'a ObjectKey) -> LookupFuture<'a, Annotations> {
        self.answer("WorkspaceTemplateApply", self.workspaces.get(&key.to_string()).cloned())
    }

    fn namespace<'a>(&'a self, name: &'a Namespace) -> LookupFuture<'a, Annotations> {
        self.answer("Namespace", self.namespaces.get(name.as_str()).cloned())
    }

    fn secret<'a>(&'a self, key: &'a ObjectKey) -> LookupFuture<'a, Annotations> {
        self.answer("Secret", self.secrets.get(&key.to_string()).cloned())
    }

    fn config_map<'a>(&'a self, key: &'a ObjectKey) -> LookupFuture<'a, Annotations> {
        self.answer("ConfigMap", self.config_maps.get(&key.to_string()).cloned())
    }
}

fn allows(list: &str) -> Annotations {
    [(ALLOW_REFERENCES_ANNOTATION.to_owned(), list.to_owned())].into()
}

fn object(kind: &str, spec: &Value) -> Value {
    let group = if kind.starts_with("CAPTControlPlane") { CONTROL_PLANE_GROUP } else { INFRASTRUCTURE_GROUP };
    let mut object = json!({
        "apiVersion": format!("{group}/v1beta1"),
        "kind": kind,
        "metadata": {"name": "demo", "namespace": "team-a", "uid": "6f4c6f5e", "creationTimestamp": null},
        "spec": spec,
    });
    if kind == "CAPTIdentity" {
        object["metadata"].as_object_mut().unwrap().remove("namespace");
    }
    object
}

fn template(module: &str) -> Value {
    template_with(&json!({"source": "Inline", "module": module}))
}

fn template_with(parameters: &Value) -> Value {
    object("WorkspaceTemplate", &json!({"template": {"spec": {"forProvider": parameters}}}))
}

/// The body of a review, with everything that a real API server puts into it.
fn body(operation: &str, new: Option<&Value>, old: Option<&Value>) -> Vec<u8> {
    let one = new.or(old).unwrap();
    let (group, version) = one["apiVersion"].as_str().unwrap().split_once('/').unwrap();
    let kind = json!({"group": group, "version": version, "kind": one["kind"]});
    let plural = format!("{}s", one["kind"].as_str().unwrap().to_lowercase());
    let resource = json!({"group": group, "version": version, "resource": plural});
    let mut request = json!({
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": kind, "resource": resource, "requestKind": kind, "requestResource": resource,
        "name": one["metadata"]["name"],
        "operation": operation,
        "userInfo": {"username": "admin", "uid": "014fbff9a07c", "groups": ["system:authenticated"]},
        "object": new, "oldObject": old, "dryRun": false,
        "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions", "fieldManager": "kubectl"},
    });
    if let Some(namespace) = one["metadata"].get("namespace") {
        request["namespace"] = namespace.clone();
    }
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
        .to_string()
        .into_bytes()
}

/// What the API server hears: refused with this message, or let pass; and the warnings.
#[derive(Debug)]
struct Heard {
    refusal: Option<String>,
    warnings: Vec<String>,
}

async fn send(cluster: Cluster, body: &[u8]) -> Heard {
    let webhook = Webhook::new(Arc::new(cluster), Limits::default());
    let (status, answer) = webhook.review(body).await;
    assert_eq!(status, StatusCode::OK, "{}", String::from_utf8_lossy(&answer));
    heard(&answer)
}

fn heard(answer: &[u8]) -> Heard {
    let answer: Value = serde_json::from_slice(answer).unwrap();
    assert_eq!(answer["apiVersion"], "admission.k8s.io/v1");
    assert_eq!(answer["kind"], "AdmissionReview");
    let response = &answer["response"];
    assert_eq!(response["uid"], "705ab4f5-6393-11e8-b7cc-42010a800002");
    let warnings = response["warnings"].as_array().cloned().unwrap_or_default();
    let warnings = warnings.iter().map(|it| it.as_str().unwrap().to_owned()).collect();
    let refusal = (response["allowed"] == false).then(|| {
        assert_eq!(response["status"]["code"], 422);
        response["status"]["message"].as_str().unwrap().to_owned()
    });
    Heard { refusal, warnings }
}

async fn create(cluster: Cluster, new: &Value) -> Heard {
    send(cluster, &body("CREATE", Some(new), None)).await
}

async fn update(cluster: Cluster, old: &Value, new: &Value) -> Heard {
    send(cluster, &body("UPDATE", Some(new), Some(old))).await
}
