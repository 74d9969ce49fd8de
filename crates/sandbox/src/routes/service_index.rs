//! Index of Services and their endpoints by name.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use capt_kinds::sandbox::names;
use k8s_openapi::api::{
    core::v1::{self as k8s, Service},
    discovery::v1::EndpointSlice,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt as _;
use sandbox_router::table::{AppProtocol, Backend, Route, ServicePort};

use super::{ByName, RouteObjects};
use crate::service::{TakeoverMode, is_managed, is_taken_over, original_service, takeover_mode};

/// Namespace and name of a Service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ServiceName<'a> {
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
}

/// Services and their endpoints.
pub(super) struct ServiceIndex<'a> {
    services: ByName<'a, &'a Service>,
    /// Base Services by the names of their Services.
    base_services: ByName<'a, &'a str>,
    slices: ByName<'a, Vec<&'a EndpointSlice>>,
    /// Namespaces that enable routing for all Services.
    routed_namespaces: HashSet<&'a str>,
    /// The namespaces that have Services.
    pub(super) namespaces: BTreeSet<&'a str>,
    /// Service port and listener port of every listener, sorted by name.
    pub(super) listeners: Vec<(ServiceName<'a>, u16, u16)>,
    scope: Option<&'a str>,
}

impl<'a> ServiceIndex<'a> {
    pub(super) fn new(objects: &RouteObjects<'a>) -> Self {
        let mut index = Self {
            services: HashMap::with_capacity(objects.services.len()),
            base_services: HashMap::new(),
            slices: HashMap::with_capacity(objects.slices.len()),
            routed_namespaces: HashSet::new(),
            namespaces: BTreeSet::new(),
            listeners: Vec::new(),
            scope: objects.scope,
        };
        for service in &objects.services {
            index.add_service(service);
        }
        index.listeners.sort_unstable();
        for slice in &objects.slices {
            if let Some(service) = slice.labels().get("kubernetes.io/service-name") {
                let namespace = slice.metadata.namespace.as_deref().unwrap_or_default();
                index.slices.entry((namespace, service.as_str())).or_default().push(slice);
            }
        }
        let enabled = objects.namespaces.iter().filter(|it| is_routing_enabled(it.annotations()));
        index.routed_namespaces = enabled.filter_map(|it| it.metadata.name.as_deref()).collect();
        index
    }

    /// Indexes a Service in a single access: there are thousands, each a cache miss.
    fn add_service(&mut self, service: &'a Service) {
        let (namespace, name) = name_key(service.metadata.namespace.as_ref(), service.metadata.name.as_ref());
        self.services.insert((namespace, name), service);
        self.namespaces.insert(namespace);
        if let Some(of) = service.labels().get(names::BASE_OF_LABEL) {
            self.base_services.insert((namespace, of.as_str()), name);
        }
        if self.is_in_scope(namespace) && !service.annotations().is_empty() {
            let named = ServiceName { namespace, name };
            let ports = listener_ports(service).into_iter().map(|(port, listen)| (named, port, listen));
            self.listeners.extend(ports);
        }
    }

    pub(super) fn is_in_scope(&self, namespace: &str) -> bool {
        self.scope.is_none_or(|scope| scope == namespace)
    }

    pub(super) fn service(&self, namespace: &str, name: &str) -> Option<&'a Service> {
        self.services.get(&(namespace, name)).copied()
    }

    /// The base Service of a Service.
    pub(super) fn base_service(&self, namespace: &str, name: &str) -> Option<&'a Service> {
        self.service(namespace, self.base_services.get(&(namespace, name))?)
    }

    /// Whether a namespace enables routing for all Services.
    pub(super) fn is_namespace_routed(&self, namespace: &str) -> bool {
        self.routed_namespaces.contains(namespace)
    }

    /// The protocol of a Service port, which a takeover does not change.
    pub(super) fn protocol(&self, at: &ServicePort) -> AppProtocol {
        let spec = self.service(at.namespace(), at.name()).and_then(|it| it.spec.as_ref());
        let mut ports = spec.into_iter().flat_map(|it| it.ports.iter().flatten());
        let port = ports.find(|it| it.port == i32::from(at.port()));
        port.and_then(|it| it.app_protocol.as_deref()).map(parse_app_protocol).unwrap_or_default()
    }

    /// The route of a Service's port, without overrides.
    pub(super) fn route(&self, at: &ServicePort) -> Route {
        let port = self.original_port(at);
        let protocol = port.as_ref().and_then(|it| it.app_protocol.as_deref().map(parse_app_protocol));
        Route::new(at.clone(), self.baseline_backend(at, port)).with_protocol(protocol.unwrap_or_default())
    }

    /// The backend of a Service port for requests without a key.
    fn baseline_backend(&self, at: &ServicePort, port: Option<k8s::ServicePort>) -> Arc<Backend> {
        let (namespace, name) = (at.namespace(), at.name());
        let Some(service) = self.service(namespace, name) else { return Backend::baseline([]) };
        let port = port.and_then(|it| it.name).unwrap_or_default();
        let keeper = self.base_service(namespace, name).filter(|it| has_base_endpoints(service, it));
        let kept = keeper.map(|it| self.addresses(namespace, &it.name_any(), &port)).unwrap_or_default();
        // The endpoints of a Service that is taken over are the routers, possibly before the watch delivers its annotation.
        if kept.is_empty() && !is_taken_over(service) {
            return Backend::baseline(self.addresses(namespace, name, &port));
        }
        Backend::baseline(kept)
    }

    /// The port of a Service before the takeover.
    fn original_port(&self, at: &ServicePort) -> Option<k8s::ServicePort> {
        let service = self.service(at.namespace(), at.name())?;
        original_service(service).ports.into_iter().find(|it| it.port == i32::from(at.port()))
    }

    /// The name of a Service's port; `None` if it does not exist or carries no TCP.
    pub(super) fn port_name(&self, namespace: &str, name: &str, port: i32) -> Option<&'a str> {
        let service = self.service(namespace, name)?;
        let ports = service.spec.as_ref()?.ports.as_ref()?;
        let found = ports.iter().find(|it| it.port == port)?;
        let is_tcp = found.protocol.as_deref().is_none_or(|it| it == "TCP");
        is_tcp.then(|| found.name.as_deref().unwrap_or_default())
    }

    /// The ready addresses of a Service port.
    pub(super) fn addresses(&self, namespace: &str, name: &str, port: &str) -> Vec<SocketAddr> {
        let slices = self.slices.get(&(namespace, name)).map_or(&[][..], Vec::as_slice);
        let mut found = Vec::with_capacity(slices.iter().map(|it| it.endpoints.len()).sum());
        for slice in slices {
            push_ready_addresses(slice, port, &mut found);
        }
        found
    }
}

fn name_key<'a>(namespace: Option<&'a String>, name: Option<&'a String>) -> (&'a str, &'a str) {
    (namespace.map_or("", String::as_str), name.map_or("", String::as_str))
}

/// Whether the endpoints of the base Service are those of the Service. After a restore they are, until the Service's own endpoints
/// are its pods again; after its owner changed the selector they are not.
fn has_base_endpoints(service: &Service, keeper: &Service) -> bool {
    let targets = |ports: Vec<k8s::ServicePort>| {
        ports.into_iter().map(|it| (it.port, it.target_port)).collect::<Vec<_>>()
    };
    let (one, other) = (original_service(service), original_service(keeper));
    is_taken_over(service)
        || service.annotations().contains_key(names::LISTEN_ANNOTATION)
        || (one.selector == other.selector && targets(one.ports) == targets(other.ports))
}

fn is_routing_enabled(annotations: &BTreeMap<String, String>) -> bool {
    takeover_mode(annotations) == Some(TakeoverMode::Enabled)
}

/// The listener port for each port of a Service: from its annotation, else from its target ports.
fn listener_ports(service: &Service) -> Vec<(u16, u16)> {
    if is_managed(service) {
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

fn push_ready_addresses(slice: &EndpointSlice, port: &str, found: &mut Vec<SocketAddr>) {
    let ports = slice.ports.iter().flatten().filter(|it| it.name.as_deref().unwrap_or_default() == port);
    let ports = ports.filter_map(|it| u16::try_from(it.port?).ok());
    let endpoints = slice.endpoints.iter().filter(|it| {
        // An unset condition means ready.
        it.conditions.as_ref().and_then(|it| it.ready).unwrap_or(true)
    });
    let addresses = endpoints.flat_map(|it| it.addresses.iter()).filter_map(|it| it.parse::<IpAddr>().ok());
    for ip in addresses {
        found.extend(ports.clone().map(|port| SocketAddr::new(ip, port)));
    }
}

/// Parses an `appProtocol`. Unknown values are treated as HTTP, which the router detects per connection.
fn parse_app_protocol(word: &str) -> AppProtocol {
    match word {
        "kubernetes.io/h2c" | "h2c" | "http2" => AppProtocol::H2c,
        "grpc" => AppProtocol::Grpc,
        "tcp" | "tls" | "https" | "mysql" | "postgres" | "redis" | "mongo" => AppProtocol::Tcp,
        _ => AppProtocol::Http,
    }
}
