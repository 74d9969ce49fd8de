//! A shop of some services in one namespace, and sandboxes that fork them.

use capt_kinds::sandbox::{ForkStatus, LocalWorkload, RouteGroup, Sandbox, names};
use k8s_openapi::api::{
    core::v1::{Namespace, Service},
    discovery::v1::EndpointSlice,
};
use serde_json::{Value, json};

use crate::{
    routes::{RouteObjects, Routes, build_routes},
    service::{OriginalService, original_service},
};

#[derive(Default)]
pub(super) struct Shop {
    pub(super) sandboxes: Vec<Sandbox>,
    pub(super) groups: Vec<RouteGroup>,
    pub(super) locals: Vec<LocalWorkload>,
    pub(super) services: Vec<Service>,
    pub(super) slices: Vec<EndpointSlice>,
    pub(super) namespaces: Vec<Namespace>,
}

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// What the controller would say of a fork.
fn fork_status(baseline: &str, sandbox: &str) -> ForkStatus {
    read(json!({
        "name": baseline, "workload": format!("{baseline}-{sandbox}"),
        "services": [{"from": baseline, "to": format!("{baseline}-{sandbox}"), "ports": [{"port": 80, "targetPort": 8080}]}]
    }))
}

impl Shop {
    /// Each service has one pod.
    pub(super) fn new(names: &[&str]) -> Self {
        let mut shop = Self::default();
        shop.namespaces.push(read(json!({"metadata": {"name": "shop", "labels": {"env": "dev"}}})));
        for (at, name) in names.iter().enumerate() {
            shop.service(name, &json!({}), Some(&format!("10.0.0.{}", at + 1)));
        }
        shop
    }

    pub(super) fn service(&mut self, name: &str, labels: &Value, address: Option<&str>) {
        self.services.push(read(json!({
            "metadata": {"name": name, "namespace": "shop", "labels": labels},
            "spec": {"selector": {"app": name}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]}
        })));
        self.slices.push(slice(name, address));
    }

    /// A sandbox that forks some of the services; its forks have a pod each if they are ready.
    pub(super) fn sandbox(&mut self, name: &str, forks: &[&str], ready: bool) {
        let number = self.sandboxes.len() + 1;
        let specs: Vec<_> = forks.iter().map(|it| json!({"forkOf": {"name": it}})).collect();
        self.sandboxes.push(read(json!({
            "apiVersion": "sandbox.capt.x-k8s.io/v1alpha1", "kind": "Sandbox",
            "metadata": {
                "name": name, "namespace": "shop", "uid": format!("uid-{name}"), "labels": {"feature": "cart-v2"},
                "creationTimestamp": "2026-11-17T05:00:00Z"
            },
            "spec": {"forks": specs, "routingKey": format!("{name}-key")},
            "status": {"forks": forks.iter().map(|it| fork_status(it, name)).collect::<Vec<_>>()}
        })));
        for (at, fork) in forks.iter().enumerate() {
            let labels = json!({names::FORK_LABEL: format!("{fork}-{name}")});
            let address = format!("10.{number}.0.{}", at + 1);
            self.service(&format!("{fork}-{name}"), &labels, ready.then_some(address.as_str()));
        }
    }

    /// Lets a sandbox know a workload without an override of it.
    pub(super) fn virtual_of(&mut self, sandbox: &str, baseline: &str) {
        let is = |it: &&mut Sandbox| it.metadata.name.as_deref() == Some(sandbox);
        let sandbox = self.sandboxes.iter_mut().find(is).unwrap();
        sandbox.spec.virtuals.push(read(json!({"name": baseline, "workload": {"name": baseline}})));
        sandbox.status.as_mut().unwrap().virtuals.push(read(json!({
            "name": baseline, "services": [{"service": baseline, "ports": [{"port": 80, "targetPort": 8080}]}]
        })));
    }

    pub(super) fn group(&mut self, name: &str, spec: &Value) -> &mut RouteGroup {
        self.groups.push(read(json!({
            "apiVersion": "sandbox.capt.x-k8s.io/v1alpha1", "kind": "RouteGroup",
            "metadata": {"name": name, "namespace": "shop", "uid": format!("uid-{name}"), "creationTimestamp": "2026-11-17T05:00:00Z"},
            "spec": spec
        })));
        self.groups.last_mut().unwrap()
    }

    pub(super) fn local(&mut self, sandbox: &str, baseline: &str, spec: &Value) -> &mut LocalWorkload {
        let mut local = json!({
            "apiVersion": "sandbox.capt.x-k8s.io/v1alpha1", "kind": "LocalWorkload",
            "metadata": {"name": format!("{baseline}-local"), "namespace": "shop"},
            "spec": {
                "sandboxRef": {"name": sandbox}, "from": {"name": baseline},
                "mappings": [{"port": 8080, "toLocal": "localhost:3000"}]
            },
            "status": {
                "services": [{"service": baseline, "ports": [{"port": 80, "targetPort": 8080}]}],
                "session": {"id": "s", "gateway": "router-0", "gatewayAddress": "10.9.0.1"},
                "conditions": [{"type": "Connected", "status": "True", "reason": "Connected", "message": "",
                                "lastTransitionTime": "2026-11-17T05:00:00Z"}]
            }
        });
        local["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        self.locals.push(read(local));
        self.locals.last_mut().unwrap()
    }

    /// As the controller does it: the selector is kept by another Service, and the endpoints become the routers.
    pub(super) fn take_over(&mut self, name: &str, listen: i32) {
        let at = self.services.iter().position(|it| it.metadata.name.as_deref() == Some(name)).unwrap();
        let before: OriginalService = original_service(&self.services[at]);
        let service = &mut self.services[at];
        let kept = serde_json::to_string(&before).unwrap();
        service.metadata.annotations = Some([(names::ORIGINAL_ANNOTATION.to_owned(), kept)].into());
        service.spec.as_mut().unwrap().ports =
            Some(read(json!([{"name": "http", "port": 80, "targetPort": listen}])));
        let slice_at = self.slice_of(name);
        let address = self.slices[slice_at].endpoints[0].addresses[0].clone();
        self.slices[slice_at].endpoints[0].addresses = vec!["10.9.9.9".to_owned()];
        self.service(&format!("{name}-sbxbase-aaaa"), &json!({names::BASE_OF_LABEL: name}), Some(&address));
    }

    pub(super) fn slice_of(&self, service: &str) -> usize {
        let is = |it: &EndpointSlice| {
            it.metadata.labels.as_ref().unwrap()["kubernetes.io/service-name"] == service
        };
        self.slices.iter().position(is).unwrap()
    }

    pub(super) fn objects(&self) -> RouteObjects<'_> {
        RouteObjects {
            sandboxes: self.sandboxes.iter().collect(),
            groups: self.groups.iter().collect(),
            locals: self.locals.iter().collect(),
            services: self.services.iter().collect(),
            slices: self.slices.iter().collect(),
            namespaces: self.namespaces.iter().collect(),
            domain: Some("preview.example.com"),
            scope: None,
        }
    }

    pub(super) fn routes(&self) -> Routes {
        build_routes(&self.objects())
    }
}

fn slice(service: &str, address: Option<&str>) -> EndpointSlice {
    let endpoints: Vec<_> =
        address.iter().map(|it| json!({"addresses": [it], "conditions": {"ready": true}})).collect();
    read(json!({
        "metadata": {"name": format!("{service}-x"), "namespace": "shop", "labels": {"kubernetes.io/service-name": service}},
        "addressType": "IPv4", "ports": [{"name": "http", "port": 8080}], "endpoints": endpoints
    }))
}
