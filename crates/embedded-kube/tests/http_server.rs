//! HTTP interface of a cluster, in process and over TLS: representations, errors, authentication, faults.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests say what they expect")]

mod auth;
mod eks;
mod fault_injection;
mod lifecycle;
mod representations;

use embedded_kube::cluster::{EmbeddedKube, ListenConfig};
use http::{Request, Response};
use http_body_util::BodyExt;
use kube::{
    Client,
    client::Body,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::Value;

/// Only bounds a hang.
const PATIENCE: std::time::Duration = std::time::Duration::from_mins(2);

/// A response with its body read.
struct TextResponse {
    code: u16,
    headers: http::HeaderMap,
    text: String,
}

impl TextResponse {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("not JSON: {}", self.text))
    }

    fn message(&self) -> String {
        self.json()["message"].as_str().unwrap_or_default().to_owned()
    }
}

async fn memory() -> EmbeddedKube {
    EmbeddedKube::builder().in_memory().controllers(false).start().await.unwrap()
}

async fn listening() -> EmbeddedKube {
    EmbeddedKube::builder()
        .in_memory()
        .controllers(false)
        .listen(ListenConfig::loopback())
        .start()
        .await
        .unwrap()
}

/// A client over TLS, with the kubeconfig's token or another one.
async fn over_tls(kube: &EmbeddedKube, token: Option<&str>) -> Client {
    let mut kubeconfig = Kubeconfig::from_yaml(kube.kubeconfig().unwrap()).unwrap();
    for user in &mut kubeconfig.auth_infos {
        if let (Some(user), Some(token)) = (&mut user.auth_info, token) {
            user.token = (!token.is_empty()).then(|| token.to_owned().into());
        }
    }
    let config =
        kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

async fn send(client: &Client, request: http::request::Builder, body: impl Into<Vec<u8>>) -> TextResponse {
    let request: Request<Body> = request.body(Body::from(body.into())).unwrap();
    let response: Response<Body> = client.send(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let text = String::from_utf8_lossy(&body.collect().await.unwrap().to_bytes()).into_owned();
    TextResponse { code: parts.status.as_u16(), headers: parts.headers, text }
}

async fn get(client: &Client, path: &str) -> TextResponse {
    send(client, Request::get(path), "").await
}

async fn post(client: &Client, path: &str, body: &Value) -> TextResponse {
    send(client, Request::post(path).header("content-type", "application/json"), body.to_string()).await
}

fn config_map(name: &str) -> Value {
    serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "b"}})
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
