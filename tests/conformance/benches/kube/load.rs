//! What is done to each server, and how long it takes.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, TryStreamExt as _, future::try_join_all};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    Api, Client,
    api::{DynamicObject, PostParams, WatchEvent, WatchParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, json};

use crate::server::Server;

const SECRETS: usize = 1000;
const CUSTOM: usize = 200;
const SINGLE: usize = 300;
const MANY: usize = 10_000;
const CLIENTS: usize = 8;
const WATCHED: usize = 1000;
const LISTS: usize = 7;

/// One server's figures.
#[derive(Debug)]
pub(crate) struct LoadResult {
    pub(crate) start_ms: f64,
    pub(crate) memory_mb: f64,
    pub(crate) create_ms: f64,
    pub(crate) creates_per_second: f64,
    pub(crate) delivery_ms: f64,
    pub(crate) list_ms: f64,
}

pub(crate) async fn measure_server(server: &Server) -> Result<LoadResult> {
    let client = server.client().await?;
    create_objects(&client).await?;
    let memory_mb = server.memory_mb()?;
    let create_ms = measure_single_client(&client).await?;
    let delivery_ms = measure_watch_delivery(server).await?;
    let creates_per_second = measure_concurrent_creates(server).await?;
    let list_ms = measure_lists(&client).await?;
    Ok(LoadResult {
        start_ms: server.start.as_secs_f64() * 1e3,
        memory_mb,
        create_ms,
        creates_per_second,
        delivery_ms,
        list_ms,
    })
}

fn config_map(name: &str) -> ConfigMap {
    let object =
        json!({"metadata": {"name": name, "labels": {"app": "bench"}}, "data": {"value": "x".repeat(200)}});
    serde_json::from_value(object).unwrap()
}

async fn create_objects(client: &Client) -> Result<()> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "default");
    for number in 0..SECRETS {
        let object = json!({"metadata": {"name": format!("secret-{number}")}, "stringData": {"value": "x".repeat(1000)}});
        secrets.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    }
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("bench.example.com", "v1", "Widget"));
    let things: Api<DynamicObject> = Api::namespaced_with(client.clone(), "default", &resource);
    serve_widgets(client, &things).await?;
    for number in 0..CUSTOM {
        let spec = json!({"spec": {"size": number, "words": ["a", "b", "c"], "text": "x".repeat(500)}});
        let object = DynamicObject::new(&format!("widget-{number}"), &resource).data(spec);
        things.create(&PostParams::default(), &object).await?;
    }
    Ok(())
}

async fn serve_widgets(client: &Client, things: &Api<DynamicObject>) -> Result<()> {
    let names =
        json!({"kind": "Widget", "listKind": "WidgetList", "plural": "widgets", "singular": "widget"});
    let spec = json!({"type": "object", "properties": {
        "size": {"type": "integer"}, "text": {"type": "string"},
        "words": {"type": "array", "items": {"type": "string"}},
    }});
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
        "type": "object", "properties": {"spec": spec},
    }}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.bench.example.com"},
        "spec": {"group": "bench.example.com", "scope": "Namespaced", "names": names, "versions": [version]},
    });
    let request = http::Request::post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
        .header("content-type", "application/json")
        .body(serde_json::to_vec(&definition)?)?;
    client.request::<Value>(request).await?;
    let deadline = Instant::now() + Duration::from_secs(20);
    while things.list(&kube::api::ListParams::default()).await.is_err() {
        anyhow::ensure!(Instant::now() < deadline, "the widgets are not served");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

/// Median of creates one after the other.
async fn measure_single_client(client: &Client) -> Result<f64> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let mut times = Vec::with_capacity(SINGLE);
    for number in 0..SINGLE {
        let object = config_map(&format!("single-{number}"));
        let begin = Instant::now();
        api.create(&PostParams::default(), &object).await?;
        times.push(begin.elapsed());
    }
    Ok(quantile(&mut times, 0.5))
}

/// How long after the writer's answer the watcher knows; an event that comes before the answer counts as at once.
async fn measure_watch_delivery(server: &Server) -> Result<f64> {
    let api: Api<ConfigMap> = Api::namespaced(server.client().await?, "kube-public");
    let watcher: Api<ConfigMap> = Api::namespaced(server.client().await?, "kube-public");
    let mut events = watcher.watch(&WatchParams::default().labels("app=bench"), "0").await?.boxed();
    let mut times = Vec::with_capacity(WATCHED);
    for number in 0..WATCHED {
        let name = format!("watched-{number}");
        let object = config_map(&name);
        let create = async {
            api.create(&PostParams::default(), &object).await?;
            anyhow::Ok(Instant::now())
        };
        let arrive = async {
            loop {
                match events.try_next().await?.context("the watch ended")? {
                    WatchEvent::Added(seen) if seen.metadata.name.as_deref() == Some(&name) => {
                        return anyhow::Ok(Instant::now());
                    }
                    _ => {}
                }
            }
        };
        let (answered, arrived) = tokio::try_join!(create, arrive)?;
        times.push(arrived.saturating_duration_since(answered));
    }
    Ok(quantile(&mut times, 0.99))
}

/// Creates per second of several clients, each with a connection of its own.
async fn measure_concurrent_creates(server: &Server) -> Result<f64> {
    let clients = try_join_all((0..CLIENTS).map(|_| server.client())).await?;
    let begin = Instant::now();
    let workers = clients.into_iter().enumerate().map(|(worker, client)| {
        tokio::spawn(async move {
            let api: Api<ConfigMap> = Api::namespaced(client, "kube-system");
            for number in 0..MANY / CLIENTS {
                api.create(&PostParams::default(), &config_map(&format!("many-{worker}-{number}"))).await?;
            }
            anyhow::Ok(())
        })
    });
    for worker in workers.collect::<Vec<_>>() {
        worker.await??;
    }
    Ok(f64::from(u32::try_from(MANY)?) / begin.elapsed().as_secs_f64())
}

/// Median of reading all of them, as text: what the client makes of it is not the server's time.
async fn measure_lists(client: &Client) -> Result<f64> {
    let mut times = Vec::with_capacity(LISTS);
    for _ in 0..LISTS {
        let request =
            http::Request::get("/api/v1/namespaces/kube-system/configmaps?labelSelector=app%3Dbench");
        let begin = Instant::now();
        let text = client.request_text(request.body(Vec::new())?).await?;
        times.push(begin.elapsed());
        anyhow::ensure!(text.matches("\"many-").count() == MANY, "the list is not complete");
    }
    Ok(quantile(&mut times, 0.5))
}

fn quantile(times: &mut [Duration], part: f64) -> f64 {
    times.sort_unstable();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an index below the length of a short list"
    )]
    let place = ((times.len() as f64 * part) as usize).min(times.len() - 1);
    times[place].as_secs_f64() * 1e3
}
