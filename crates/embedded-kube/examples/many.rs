//! Measures how long many workloads of one namespace take to become ready and reachable:
//! `cargo run --release -p embedded-kube --example many -- [COUNT]...`, by default 100, 300 and 1000.
//!
//! Each workload is a Deployment with one pod and a Service. A task fakes the node: it binds pods and reports them ready.

#![allow(clippy::print_stdout, reason = "it is what an example is for")]

use std::{
    collections::HashSet,
    error::Error,
    pin::pin,
    time::{Duration, Instant},
};

use embedded_kube::cluster::EmbeddedKube;
use futures::{Stream, StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Node, Pod, Service},
    discovery::v1::EndpointSlice,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{Patch, PatchParams, PostParams},
    runtime::{WatchStreamExt as _, watcher},
};
use serde_json::json;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const NAMESPACE: &str = "default";
/// Number of concurrent clients that create objects.
const AT_ONCE: usize = 8;

#[tokio::main]
async fn main() -> Outcome<()> {
    let asked: Result<Vec<usize>, _> = std::env::args().skip(1).map(|one| one.parse()).collect();
    let asked = asked?;
    let counts = if asked.is_empty() { &[100, 300, 1000] } else { asked.as_slice() };
    for &count in counts {
        let took = fill(count).await?;
        println!("{count:>6} workloads  {:>9.3} s  {:>7.2} ms each", took.as_secs_f64(), each(took, count));
    }
    Ok(())
}

fn each(took: Duration, count: usize) -> f64 {
    took.as_secs_f64() * 1000.0 / f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// Time from the first create until every workload is ready.
async fn fill(count: usize) -> Outcome<Duration> {
    let kube = EmbeddedKube::builder().in_memory().start().await?;
    let client = kube.client();
    let node: Node = serde_json::from_value(json!({"metadata": {"name": "n1"}}))?;
    Api::all(client.clone()).create(&PostParams::default(), &node).await?;
    let plays_node = tokio::spawn(play_node(client.clone()));
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), NAMESPACE);
    let slices: Api<EndpointSlice> = Api::namespaced(client.clone(), NAMESPACE);
    let start = Instant::now();
    let made = futures::stream::iter(0..count)
        .map(|number| create(client.clone(), format!("w{number}")))
        .buffer_unordered(AT_ONCE)
        .try_collect::<Vec<()>>();
    let available = until(count, watcher(deployments, watcher::Config::default()).applied_objects(), |one| {
        one.status.as_ref().and_then(|it| it.available_replicas) == Some(1)
    });
    let reachable = until(count, watcher(slices, watcher::Config::default()).applied_objects(), |slice| {
        slice.endpoints.iter().any(|it| it.conditions.as_ref().and_then(|it| it.ready) == Some(true))
    });
    let (made, available, reachable) = futures::join!(made, available, reachable);
    let took = start.elapsed();
    made?;
    available?;
    reachable?;
    plays_node.abort();
    kube.stop().await;
    Ok(took)
}

async fn create(client: Client, name: String) -> Outcome<()> {
    let labels = json!({"app": name, "managed-by": "many", "tier": "workload"});
    let deployment: Deployment = serde_json::from_value(json!({
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{
                    "name": "main", "image": "registry.example/main:1", "ports": [{"name": "http", "containerPort": 8080}],
                    "env": [{"name": "NAME", "value": name}, {"name": "PORT", "value": "8080"}],
                    "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
                }]},
            },
        },
    }))?;
    let service: Service = serde_json::from_value(json!({
        "metadata": {"name": name, "labels": labels},
        "spec": {"selector": {"app": name}, "ports": [{"name": "http", "port": 80, "targetPort": "http"}]},
    }))?;
    let how = PostParams::default();
    Api::<Deployment>::namespaced(client.clone(), NAMESPACE).create(&how, &deployment).await?;
    Api::<Service>::namespaced(client, NAMESPACE).create(&how, &service).await?;
    Ok(())
}

/// Returns when `count` distinct objects have matched.
async fn until<K: kube::Resource>(
    count: usize,
    objects: impl Stream<Item = Result<K, watcher::Error>>,
    is_done: impl Fn(&K) -> bool,
) -> Outcome<()> {
    let mut objects = pin!(objects);
    let mut done = HashSet::new();
    while done.len() < count {
        let Some(object) = objects.try_next().await? else { return Err("the watch has ended".into()) };
        if is_done(&object) {
            done.insert(object.name_any());
        }
    }
    Ok(())
}

/// Ignores conflicts: the next watch event retries the pod.
async fn play_node(client: Client) {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let changes = watcher(pods.clone(), watcher::Config::default()).default_backoff().applied_objects();
    let mut addresses = 0_u32;
    let mut changes = pin!(changes);
    while let Some(change) = changes.next().await {
        let Ok(pod) = change else { continue };
        let name = pod.name_any();
        let is_bound = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
        let phase = pod.status.and_then(|status| status.phase).unwrap_or_default();
        if !is_bound {
            bind(&client, &name).await.ok();
        } else if matches!(phase.as_str(), "" | "Pending") {
            addresses += 1;
            let [_, a, b, c] = addresses.to_be_bytes();
            let patch = Patch::Merge(json!({"status": running(&format!("10.{a}.{b}.{c}"))}));
            pods.patch_status(&name, &PatchParams::default(), &patch).await.ok();
        }
    }
}

async fn bind(client: &Client, name: &str) -> Outcome<()> {
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
    });
    let request = http::Request::post(format!("/api/v1/namespaces/{NAMESPACE}/pods/{name}/binding"))
        .header("content-type", "application/json")
        .body(binding.to_string().into_bytes())?;
    client.request::<serde_json::Value>(request).await?;
    Ok(())
}

fn running(address: &str) -> serde_json::Value {
    let is =
        |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": "2026-11-01T10:00:00Z"});
    json!({
        "phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
        "conditions": [is("PodScheduled"), is("Initialized"), is("ContainersReady"), is("Ready")],
        "containerStatuses": [{
            "name": "main", "image": "registry.example/main:1", "imageID": "", "ready": true, "restartCount": 0,
            "state": {"running": {"startedAt": "2026-11-01T10:00:00Z"}},
        }],
    })
}
