//! Services and their endpoints, found fast.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use k8s_openapi::api::{
    core::v1::{self as k8s, Service},
    discovery::v1::EndpointSlice,
};
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
    /// The namespaces that have Services here.
    pub(super) namespaces: BTreeSet<&'a str>,
    /// Every port of a Service at which the router listens, in the order of their names.
    pub(super) listeners: Vec<(Named<'a>, u16, u16)>,
    scope: Option<&'a str>,
}

impl<'a> Index<'a> {
    pub(super) fn new(objects: &Objects<'a>) -> Self {
        let mut index = Self {
            services: HashMap::with_capacity(objects.services.len()),
            keepers: HashMap::new(),
            slices: HashMap::with_capacity(objects.slices.len()),
            routed: HashSet::new(),
            namespaces: BTreeSet::new(),
            listeners: Vec::new(),
            scope: objects.scope,
        };
        for service in &objects.services {
            index.add(service);
        }
        index.listeners.sort_unstable();
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

    /// All that is asked of every Service is asked at once: there are thousands, and none is near another in memory.
    fn add(&mut self, service: &'a Service) {
        let (namespace, name) = key(service.metadata.namespace.as_ref(), service.metadata.name.as_ref());
        self.services.insert((namespace, name), service);
        self.namespaces.insert(namespace);
        if let Some(of) = service.labels().get(names::BASE_OF_LABEL) {
            self.keepers.insert((namespace, of.as_str()), name);
        }
        if self.is_in_scope(namespace) && !service.annotations().is_empty() {
            let named = Named { namespace, name };
            let ports = listening(service).into_iter().map(|(port, listen)| (named, port, listen));
            self.listeners.extend(ports);
        }
    }

    pub(super) fn is_in_scope(&self, namespace: &str) -> bool {
        self.scope.is_none_or(|scope| scope == namespace)
    }

    pub(super) fn service(&self, namespace: &str, name: &str) -> Option<&'a Service> {
        self.services.get(&(namespace, name)).copied()
    }

    /// The Service that keeps the selector of another one.
    pub(super) fn keeper(&self, namespace: &str, name: &str) -> Option<&'a Service> {
        self.service(namespace, self.keepers.get(&(namespace, name))?)
    }

    /// Whether all Services of a namespace shall go through the router.
    pub(super) fn is_routed(&self, namespace: &str) -> bool {
        self.routed.contains(namespace)
    }

    /// What a port of a Service speaks. Who takes a Service over leaves that as it is.
    pub(super) fn protocol(&self, at: &ServicePort) -> AppProtocol {
        let spec = self.service(at.namespace(), at.name()).and_then(|it| it.spec.as_ref());
        let mut ports = spec.into_iter().flat_map(|it| it.ports.iter().flatten());
        let port = ports.find(|it| it.port == i32::from(at.port()));
        port.and_then(|it| it.app_protocol.as_deref()).map(speaks).unwrap_or_default()
    }

    /// The route of a Service's port, without overrides.
    pub(super) fn route(&self, at: &ServicePort) -> Route {
        let port = self.port(at);
        let protocol = port.as_ref().and_then(|it| it.app_protocol.as_deref().map(speaks));
        Route::new(at.clone(), self.baseline(at, port)).speaks(protocol.unwrap_or_default())
    }

    /// Who answers a port of a Service without a key.
    fn baseline(&self, at: &ServicePort, port: Option<k8s::ServicePort>) -> Arc<Backend> {
        let (namespace, name) = (at.namespace(), at.name());
        let Some(service) = self.service(namespace, name) else { return Backend::baseline([]) };
        let port = port.and_then(|it| it.name).unwrap_or_default();
        let keeper = self.keeper(namespace, name).filter(|it| is_kept(service, it));
        let kept = keeper.map(|it| self.addresses(namespace, &it.name_any(), &port)).unwrap_or_default();
        // The endpoints of a Service that was taken over are the routers, and they may be so before the Service tells.
        if kept.is_empty() && !is_taken_over(service) {
            return Backend::baseline(self.addresses(namespace, name, &port));
        }
        Backend::baseline(kept)
    }

    /// The port of a Service, as it was before the router took over.
    fn port(&self, at: &ServicePort) -> Option<k8s::ServicePort> {
        let service = self.service(at.namespace(), at.name())?;
        original(service).ports.into_iter().find(|it| it.port == i32::from(at.port()))
    }

    /// The name of a Service's port; `None` if it does not exist or carries no TCP.
    pub(super) fn port_name(&self, namespace: &str, name: &str, port: i32) -> Option<&'a str> {
        let service = self.service(namespace, name)?;
        let ports = service.spec.as_ref()?.ports.as_ref()?;
        let found = ports.iter().find(|it| it.port == port)?;
        let is_tcp = found.protocol.as_deref().is_none_or(|it| it == "TCP");
        is_tcp.then(|| found.name.as_deref().unwrap_or_default())
    }

    /// The addresses behind a port of a Service that can take requests.
    pub(super) fn addresses(&self, namespace: &str, name: &str, port: &str) -> Vec<SocketAddr> {
        let slices = self.slices.get(&(namespace, name)).map_or(&[][..], Vec::as_slice);
        let mut found = Vec::with_capacity(slices.iter().map(|it| it.endpoints.len()).sum());
        for slice in slices {
            ready(slice, port, &mut found);
        }
        found
    }
}

fn key<'a>(namespace: Option<&'a String>, name: Option<&'a String>) -> (&'a str, &'a str) {
    (namespace.map_or("", String::as_str), name.map_or("", String::as_str))
}

/// Whether the keeper's endpoints are those of a Service. One that its owner has back may be something else by now; and
/// until its own endpoints are its pods again, which comes a moment later, the keeper's are.
fn is_kept(service: &Service, keeper: &Service) -> bool {
    let targets = |ports: Vec<k8s::ServicePort>| {
        ports.into_iter().map(|it| (it.port, it.target_port)).collect::<Vec<_>>()
    };
    let (one, other) = (original(service), original(keeper));
    is_taken_over(service)
        || service.annotations().contains_key(names::LISTEN_ANNOTATION)
        || (one.selector == other.selector && targets(one.ports) == targets(other.ports))
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
    let one = |port: &k8s::ServicePort| match port.target_port {
        Some(IntOrString::Int(listen)) => Some((u16::try_from(port.port).ok()?, u16::try_from(listen).ok()?)),
        _ => None,
    };
    ports.filter_map(one).collect()
}

fn ready(slice: &EndpointSlice, port: &str, found: &mut Vec<SocketAddr>) {
    let ports = slice.ports.iter().flatten().filter(|it| it.name.as_deref().unwrap_or_default() == port);
    let ports = ports.filter_map(|it| u16::try_from(it.port?).ok());
    let endpoints = slice.endpoints.iter().filter(|it| {
        // Nothing said means ready.
        it.conditions.as_ref().and_then(|it| it.ready).unwrap_or(true)
    });
    let addresses = endpoints.flat_map(|it| it.addresses.iter()).filter_map(|it| it.parse::<IpAddr>().ok());
    for ip in addresses {
        found.extend(ports.clone().map(|port| SocketAddr::new(ip, port)));
    }
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
