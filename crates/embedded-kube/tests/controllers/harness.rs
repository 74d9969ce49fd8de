//! A cluster with request helpers.

use std::time::{Duration, Instant};

use embedded_kube::cluster::EmbeddedKube;
use http::Request;
use kube::Client;
use serde_json::{Value, json};

/// Only bounds a hang: no test depends on how long something takes.
pub const PATIENCE: Duration = Duration::from_mins(2);

/// Code and message of an error.
pub type StatusCodeMessage = (u16, String);

pub struct TestCluster {
    pub kube: EmbeddedKube,
    client: Client,
}

impl TestCluster {
    pub async fn start() -> Self {
        let kube = EmbeddedKube::builder().in_memory().start().await.unwrap();
        let client = kube.client();
        Self { kube, client }
    }

    async fn call(
        &self,
        method: &str,
        path: &str,
        media: &str,
        body: Value,
    ) -> Result<Value, StatusCodeMessage> {
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request =
            Request::builder().method(method).uri(path).header("Content-Type", media).body(body).unwrap();
        match self.client.request::<Value>(request).await {
            Ok(value) => Ok(value),
            Err(kube::Error::Api(status)) => Err((status.code, status.message.clone())),
            Err(other) => panic!("{method} {path}: {other}"),
        }
    }

    pub async fn get(&self, path: &str) -> Option<Value> {
        match self.call("GET", path, "application/json", Value::Null).await {
            Ok(value) => Some(value),
            Err((404, _)) => None,
            Err(other) => panic!("GET {path}: {other:?}"),
        }
    }

    pub async fn items(&self, path: &str) -> Vec<Value> {
        self.get(path).await.unwrap()["items"].as_array().cloned().unwrap_or_default()
    }

    pub async fn try_create(&self, path: &str, object: Value) -> Result<Value, StatusCodeMessage> {
        self.call("POST", path, "application/json", object).await
    }

    pub async fn create(&self, path: &str, object: Value) -> Value {
        self.try_create(path, object).await.unwrap_or_else(|refusal| panic!("POST {path}: {refusal:?}"))
    }

    pub async fn merge(&self, path: &str, change: Value) -> Value {
        let outcome = self.call("PATCH", path, "application/merge-patch+json", change).await;
        outcome.unwrap_or_else(|refusal| panic!("PATCH {path}: {refusal:?}"))
    }

    pub async fn delete(&self, path: &str, policy: &str) {
        let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": policy});
        self.call("DELETE", path, "application/json", options).await.unwrap();
    }

    pub async fn delete_now(&self, path: &str) {
        let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0});
        self.call("DELETE", path, "application/json", options).await.unwrap();
    }

    /// Polls until the closure returns a value.
    pub async fn until<T>(&self, what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
        let start = Instant::now();
        loop {
            if let Some(found) = look().await {
                return found;
            }
            if start.elapsed() > PATIENCE {
                let mut calls = self.kube.request_log().all();
                let last = calls.split_off(calls.len().saturating_sub(40));
                panic!("waited for {what}; the last calls were {last:#?}");
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    pub async fn until_gone(&self, path: &str) {
        self.until(&format!("the end of {path}"), async || self.get(path).await.is_none().then_some(()))
            .await;
    }

    /// Waits until the garbage collector has processed earlier writes: it deletes an ownerless object written after
    /// them.
    pub async fn wait_for_gc(&self) {
        self.config_map("default", "last", &[owner("ghost", "no-such-uid", false)]).await;
        self.until_gone(&map("last")).await;
    }

    pub async fn namespace(&self, name: &str) {
        self.create(
            "/api/v1/namespaces",
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}),
        )
        .await;
    }

    /// Creates a `ConfigMap` with these owners; returns its uid.
    pub async fn config_map(&self, namespace: &str, name: &str, owners: &[Value]) -> String {
        let path = format!("/api/v1/namespaces/{namespace}/configmaps");
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "ownerReferences": owners},
        });
        self.create(&path, object).await["metadata"]["uid"].as_str().unwrap().to_owned()
    }
}

pub fn map(name: &str) -> String {
    format!("/api/v1/namespaces/default/configmaps/{name}")
}

pub fn owner(name: &str, uid: &str, is_blocking: bool) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid, "blockOwnerDeletion": is_blocking})
}

pub fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|one| one["type"] == kind)
}
