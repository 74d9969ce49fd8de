//! Host names: previews and in-cluster service names.

use serde::Serialize;

use super::route::{RoutingKey, ServicePort};

/// A host name whose requests get a key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Preview {
    service: ServicePort,
    key: RoutingKey,
}

impl Preview {
    /// Routes requests for the host to this service port, with this key.
    pub fn new(service: ServicePort, key: RoutingKey) -> Self {
        Self { service, key }
    }

    /// The target service port.
    pub fn service(&self) -> &ServicePort {
        &self.service
    }

    /// The injected key.
    pub fn key(&self) -> &RoutingKey {
        &self.key
    }
}

/// Splits a host into name and port.
pub(super) fn split_port(host: &str) -> (&str, Option<u16>) {
    match host.rsplit_once(':') {
        Some((name, port)) => match port.parse() {
            Ok(port) => (name, Some(port)),
            Err(_) => (host, None),
        },
        None => (host, None),
    }
}

/// `service.namespace` from an in-cluster service name.
pub fn short_service_name(name: &str) -> &str {
    let name = name.strip_suffix('.').unwrap_or(name);
    match name.find(".svc") {
        Some(at) if matches!(name.as_bytes().get(at + 4), None | Some(b'.')) => &name[..at],
        _ => name,
    }
}
