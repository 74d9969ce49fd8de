//! How long the route table takes: 1,000 sandboxes with forks of 3 services each (sandbox F18: at most 20 ms).

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a measurement that cannot go on stops, and prints its figures"
)]

use std::time::Instant;

use capt_kinds::sandbox::{RouteGroup, Sandbox};
use k8s_openapi::api::{core::v1::Service, discovery::v1::EndpointSlice};
use sandbox::routes::{RouteObjects, build_routes};
use serde_json::{Value, json};

const SERVICES: [&str; 3] = ["cart", "web", "pay"];

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn service(name: &str) -> Service {
    read(json!({
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"selector": {"app": name}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]}
    }))
}

fn slice(service: &str, address: &str) -> EndpointSlice {
    read(json!({
        "metadata": {"name": service, "namespace": "shop", "labels": {"kubernetes.io/service-name": service}},
        "addressType": "IPv4", "ports": [{"name": "http", "port": 8080}],
        "endpoints": [{"addresses": [address], "conditions": {"ready": true}}]
    }))
}

fn sandbox(number: usize) -> Sandbox {
    let name = format!("pr-{number}");
    let fork = |it: &&str| {
        let services =
            json!([{"from": it, "to": format!("{it}-{name}"), "ports": [{"port": 80, "targetPort": 8080}]}]);
        json!({"name": it, "services": services})
    };
    read(json!({
        "apiVersion": "sandbox.capt.x-k8s.io/v1alpha1", "kind": "Sandbox",
        "metadata": {
            "name": name, "namespace": "shop", "uid": format!("uid-{number}"), "labels": {"team": format!("t{}", number % 50)},
            "creationTimestamp": "2026-11-17T05:00:00Z"
        },
        "spec": {"forks": SERVICES.iter().map(|it| json!({"forkOf": {"name": it}})).collect::<Vec<_>>()},
        "status": {"forks": SERVICES.iter().map(fork).collect::<Vec<_>>()}
    }))
}

fn group(number: usize) -> RouteGroup {
    read(json!({
        "apiVersion": "sandbox.capt.x-k8s.io/v1alpha1", "kind": "RouteGroup",
        "metadata": {"name": format!("g-{number}"), "namespace": "shop", "uid": format!("uid-g-{number}")},
        "spec": {"match": {"label": {"key": "team", "value": format!("t{number}")}}}
    }))
}

fn main() {
    // `cargo test --all-targets` starts benches too, without this argument.
    if !std::env::args().any(|it| it == "--bench") {
        return;
    }
    let sandboxes: Vec<_> = (0..1_000).map(sandbox).collect();
    let groups: Vec<_> = (0..10).map(group).collect();
    let (mut services, mut slices) = (Vec::new(), Vec::new());
    for name in SERVICES {
        services.push(service(name));
        slices.push(slice(name, "10.0.0.1"));
        for number in 0..1_000 {
            let fork = format!("{name}-pr-{number}");
            services.push(service(&fork));
            slices.push(slice(&fork, &format!("10.1.{}.{}", number / 250, number % 250)));
        }
    }
    let objects = RouteObjects {
        sandboxes: sandboxes.iter().collect(),
        groups: groups.iter().collect(),
        services: services.iter().collect(),
        slices: slices.iter().collect(),
        ..RouteObjects::default()
    };
    let mut times = Vec::new();
    for _ in 0..51 {
        let begin = Instant::now();
        let made = build_routes(&objects);
        times.push(begin.elapsed());
        assert_eq!(made.table.override_count(), 3_000 + 10 * 3);
    }
    times.sort_unstable();
    println!(
        "table of 1,000 sandboxes x 3 services and 10 groups: median {:.1} ms, best {:.1} ms, worst {:.1} ms of {}",
        times[times.len() / 2].as_secs_f64() * 1e3,
        times[0].as_secs_f64() * 1e3,
        times[times.len() - 1].as_secs_f64() * 1e3,
        times.len()
    );
}
