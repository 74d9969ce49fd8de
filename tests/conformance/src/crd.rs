//! A custom resource of a case's own: `widgets` in a group that no other case has.

use anyhow::Result;
use serde_json::{Value, json};

use crate::Context;

/// The collection of the case's custom resources.
pub const WIDGETS: &str = "/apis/{id}.example.com/v1/namespaces/{ns}/widgets";

/// The definition of the resource, to be changed and then made.
pub struct Widgets(Value);

impl Widgets {
    /// A namespaced kind `Widget` in one version with a schema.
    #[expect(clippy::needless_pass_by_value, reason = "cases hand over literals")]
    pub fn from_schema(schema: Value) -> Self {
        Self(json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": { "name": "widgets.{id}.example.com" },
            "spec": {
                "group": "{id}.example.com",
                "scope": "Namespaced",
                "names": { "plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList" },
                "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } }],
            },
        }))
    }

    /// With these properties of `spec`.
    #[expect(clippy::needless_pass_by_value, reason = "cases hand over literals")]
    pub fn spec(properties: Value) -> Self {
        Self::from_schema(json!({
            "type": "object",
            "properties": { "spec": { "type": "object", "properties": properties } },
        }))
    }

    /// With a spec and a status that take anything, the status a subresource.
    pub fn open() -> Self {
        let anything = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
        Self::from_schema(json!({ "type": "object", "properties": { "spec": anything, "status": anything } }))
            .status()
    }

    /// With the status subresource.
    #[must_use]
    pub fn status(self) -> Self {
        self.version("subresources", json!({ "status": {} }))
    }

    /// Sets a field of the only version.
    #[must_use]
    pub fn version(self, field: &str, value: Value) -> Self {
        self.set(&format!("/spec/versions/0/{field}"), value)
    }

    /// Sets a field by its pointer; its parent must be there.
    #[must_use]
    pub fn set(mut self, pointer: &str, value: Value) -> Self {
        if let Some((parent, field)) = pointer.rsplit_once('/')
            && let Some(parent) = self.0.pointer_mut(parent)
        {
            match (parent, field.parse::<usize>()) {
                (Value::Array(items), Ok(index)) if index < items.len() => items[index] = value,
                (Value::Array(items), _) => items.push(value),
                (parent, _) => parent[field] = value,
            }
        }
        self
    }

    /// The definition.
    pub fn body(&self) -> Value {
        self.0.clone()
    }

    /// Makes it and waits until the resource is served.
    pub async fn install(self, c: &Context) -> Result<()> {
        c.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", self.0).await?;
        let is_namespaced =
            c.wait_until(DEFINITION, is_established).await?.str_at("/spec/scope") == "Namespaced";
        let collection = if is_namespaced { WIDGETS } else { "/apis/{id}.example.com/v1/widgets" };
        c.wait_until(collection, |answer| answer.code == 200).await.map(drop)
    }
}

const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.{id}.example.com";

fn is_established(answer: &crate::ApiResponse) -> bool {
    let conditions = answer.body.pointer("/status/conditions").and_then(Value::as_array);
    conditions.is_some_and(|conditions| {
        conditions.iter().any(|condition| condition["type"] == "Established" && condition["status"] == "True")
    })
}
