//! What a `Host` says.

use serde::Serialize;

use super::route::{Key, ServicePort};

/// A host name whose requests get a key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Preview {
    service: ServicePort,
    key: Key,
}

impl Preview {
    /// Requests to the host go to this port of this service, with this key.
    pub fn new(service: ServicePort, key: Key) -> Self {
        Self { service, key }
    }

    /// Where they go.
    pub fn service(&self) -> &ServicePort {
        &self.service
    }

    /// What they get.
    pub fn key(&self) -> &Key {
        &self.key
    }
}

/// A host and its port.
pub(super) fn split(host: &str) -> (&str, Option<u16>) {
    match host.rsplit_once(':') {
        Some((name, port)) => match port.parse() {
            Ok(port) => (name, Some(port)),
            Err(_) => (host, None),
        },
        None => (host, None),
    }
}

/// `service.namespace` of the names that a service has inside of a cluster.
pub fn short(name: &str) -> &str {
    let name = name.strip_suffix('.').unwrap_or(name);
    match name.find(".svc") {
        Some(at) if matches!(name.as_bytes().get(at + 4), None | Some(b'.')) => &name[..at],
        _ => name,
    }
}
