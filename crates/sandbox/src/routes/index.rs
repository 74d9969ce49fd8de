//! Services and their endpoints, found fast.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use k8s_openapi::api::{core::v1::Service, discovery::v1::EndpointSlice};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt as _;
use sandbox_router::table::{AppProtocol, Backend, Route, ServicePort};

use super::{ByName, Objects};
use crate::{
    api::names,
    service::{Routing, is_ours, is_taken_over, original, routing},
};

/// A Service by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Named<'a> {
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
}

/// Services and their endpoints.
pub(super) struct Index<'a> {
    services: ByName<'a, &'a Service>,
    /// The Service that keeps the selector of another one, by the other's name.
    keepers: ByName<'a, &'a str>,
    slices: ByName<'a, Vec<&'a EndpointSlice>>,
    /// Namespaces whose Services all go through the router.
    routed: HashSet<&'a str>,
    scope: Option<&'a str>,
}

impl<'a> Index<'a> {
    pub(super) fn new(objects: &Objects<'a>) -> Self {
        let mut index = Self {
            services: HashMap::new(),
            keepers: HashMap::new(),
            slices: HashMap::new(),
            routed: HashSet::new(),
            scope: objects.scope,
        };
        for service in &objects.services {
            let (namespace, name) = key(service.metadata.namespace.as_ref(), service.metadata.name.as_ref());
            index.services.insert((namespace, name), service);
            if let Some(of) = service.labels().get(names::BASE_OF_LABEL) {
                index.keepers.insert((namespace, of.as_str()), name);
            }
        }
        for slice in &objects.slices {
            if let Some(service) = slice.labels().get("kubernetes.io/service-name") {
                let namespace = slice.metadata.namespace.as_deref().unwrap_or_default();
                index.slices.entry((namespace, service.as_str())).or_default().push(slice);
            }
        }
        let enabled = objects.namespaces.iter().filter(|it| is_enabled(it.annotations()));
        index.routed = enabled.filter_map(|it| it.metadata.name.as_deref()).collect();
        index
    }

    /// The namespaces that have Services here.
    pub(super) fn namespaces(&self) -> impl Iterator<Item = &'a str> {
        self.services.keys().map(|(namespace, _)| *namespace).collect::<BTreeSet<_>>().into_iter()
    }

    pub(super) fn is_in_scope(&self, namespace: &str) -> bool {
        self.scope.is_none_or(|scope| scope == namespace)
    }

    pub(super) fn service(&self, namespace: &str, name: &str) -> Option<&'a Service> {
        self.services.get(&(namespace, name)).copied()
    }

    /// Whether the traffic of a Service should go to the router and does not yet.
    pub(super) fn is_waiting(&self, namespace: &str, name: &str) -> bool {
        self.service(namespace, name).is_some_and(|it| {
            let wanted = match it.annotations().contains_key(names::ROUTING_ANNOTATION) {
                true => routing(it.annotations()).is_some(),
                false => self.routed.contains(namespace),
            };
            wanted && !is_taken_over(it)
        })
    }

    /// Every port of a Service at which the router listens, in the order of their names.
    pub(super) fn listeners(&self) -> Vec<(Named<'a>, u16, u16)> {
        let in_scope = self.services.iter().filter(|((namespace, _), _)| self.is_in_scope(namespace));
        let mut all: Vec<_> = in_scope
            .flat_map(|((namespace, name), service)| {
                let named = Named { namespace, name };
                listening(service).into_iter().map(move |(port, listen)| (named, port, listen))
            })
            .collect();
        all.sort_unstable();
        all
    }

    /// The route of a Service's port, without overrides.
    pub(super) fn route(&self, at: &ServicePort) -> Route {
        let port = self.port(at.namespace(), at.name(), at.port());
        let protocol = port.and_then(|it| it.app_protocol.as_deref().map(speaks));
        Route::new(at.clone(), self.baseline(at)).speaks(protocol.unwrap_or_default())
    }

    /// Who answers a port of a Service without a key.
    pub(super) fn baseline(&self, at: &ServicePort) -> Arc<Backend> {
        let (namespace, name) = (at.namespace(), at.name());
        let Some(service) = self.service(namespace, name) else { return Backend::baseline([]) };
        let port = self.port(namespace, name, at.port());
        let port = port.map(|it| it.name.clone().unwrap_or_default()).unwrap_or_default();
        let keeper = self.keepers.get(&(namespace, name));
        let kept = keeper.map(|it| self.addresses(namespace, it, &port)).unwrap_or_default();
        // The endpoints of a Service that was taken over are the routers, and they may be so before the Service tells.
        if kept.is_empty() && !is_taken_over(service) {
            return Backend::baseline(self.addresses(namespace, name, &port));
        }
        Backend::baseline(kept)
    }

    /// The port of a Service, as it was before the router took over.
    fn port(
        &self,
        namespace: &str,
        name: &str,
        port: u16,
    ) -> Option<k8s_openapi::api::core::v1::ServicePort> {
        let service = self.service(namespace, name)?;
        original(service).ports.into_iter().find(|it| it.port == i32::from(port))
    }

    /// The name of a Service's port; `None` if it does not exist or carries no TCP.
    pub(super) fn port_name(&self, namespace: &str, name: &str, port: i32) -> Option<String> {
        let service = self.service(namespace, name)?;
        let ports = service.spec.as_ref()?.ports.as_ref()?;
        let found = ports.iter().find(|it| it.port == port)?;
        let is_tcp = found.protocol.as_deref().is_none_or(|it| it == "TCP");
        is_tcp.then(|| found.name.clone().unwrap_or_default())
    }

    /// The addresses behind a port of a Service that can take requests.
    pub(super) fn addresses(&self, namespace: &str, name: &str, port: &str) -> Vec<SocketAddr> {
        let slices = self.slices.get(&(namespace, name)).into_iter().flatten();
        slices.flat_map(|slice| ready(slice, port)).collect()
    }
}

fn key<'a>(namespace: Option<&'a String>, name: Option<&'a String>) -> (&'a str, &'a str) {
    (namespace.map_or("", String::as_str), name.map_or("", String::as_str))
}

fn is_enabled(annotations: &BTreeMap<String, String>) -> bool {
    routing(annotations) == Some(Routing::Enabled)
}

/// The router's port for each port of a Service: as it was announced, else as the traffic goes.
fn listening(service: &Service) -> Vec<(u16, u16)> {
    if is_ours(service) {
        return Vec::new();
    }
    if let Some(text) = service.annotations().get(names::LISTEN_ANNOTATION) {
        let announced: BTreeMap<String, u16> = serde_json::from_str(text).unwrap_or_default();
        return announced.iter().filter_map(|(port, listen)| Some((port.parse().ok()?, *listen))).collect();
    }
    if !is_taken_over(service) {
        return Vec::new();
    }
    let ports = service.spec.iter().flat_map(|it| it.ports.iter().flatten());
    let one = |port: &k8s_openapi::api::core::v1::ServicePort| match port.target_port {
        Some(IntOrString::Int(listen)) => Some((u16::try_from(port.port).ok()?, u16::try_from(listen).ok()?)),
        _ => None,
    };
    ports.filter_map(one).collect()
}

fn ready(slice: &EndpointSlice, port: &str) -> Vec<SocketAddr> {
    let ports = slice.ports.iter().flatten().filter(|it| it.name.as_deref().unwrap_or_default() == port);
    let ports: Vec<u16> = ports.filter_map(|it| u16::try_from(it.port?).ok()).collect();
    let endpoints = slice.endpoints.iter().filter(|it| {
        // Nothing said means ready.
        it.conditions.as_ref().and_then(|it| it.ready).unwrap_or(true)
    });
    let addresses = endpoints.flat_map(|it| it.addresses.iter()).filter_map(|it| it.parse::<IpAddr>().ok());
    addresses.flat_map(|ip| ports.iter().map(move |port| SocketAddr::new(ip, *port))).collect()
}

/// What a Service says of its port. What is not known is looked at when it comes.
fn speaks(word: &str) -> AppProtocol {
    match word {
        "kubernetes.io/h2c" | "h2c" | "http2" => AppProtocol::H2c,
        "grpc" => AppProtocol::Grpc,
        "tcp" | "tls" | "https" | "mysql" | "postgres" | "redis" | "mongo" => AppProtocol::Tcp,
        _ => AppProtocol::Http,
    }
}
