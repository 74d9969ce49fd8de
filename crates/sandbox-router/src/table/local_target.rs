//! Processes on developers' machines, behind a tunnel.

use std::{net::IpAddr, sync::Arc};

use http::{HeaderName, HeaderValue, StatusCode};
use serde::{Serialize, Serializer};

use super::backend::{AppProtocol, Backend, UnavailableTarget, header_text, route_name};

/// A port of a local workload.
#[derive(Debug, Clone, Hash, Serialize)]
pub struct LocalTarget {
    #[serde(serialize_with = "as_text")]
    name: HeaderValue,
    namespace: String,
    workload: String,
    port: u16,
    protocol: AppProtocol,
    when: ResponseCondition,
    before: FallThrough,
    otherwise: DisconnectedPolicy,
    gateway: Option<SessionGateway>,
}

/// The router that holds the session of a local workload. All routers have the same table; each knows its own name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct SessionGateway {
    /// Name of the router.
    pub name: String,
    /// Its address for peer routers.
    pub address: IpAddr,
}

/// Whether the local process answers alone, or a request may fall through to what it intercepts.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum ResponseCondition {
    /// Every response is used.
    #[default]
    Always,
    /// Used if the response carries this header value; otherwise the request falls through.
    Header(HeaderName, HeaderValue),
    /// Used unless the response has one of these status codes; then the request falls through.
    ExceptStatus(Vec<StatusCode>),
}

/// What a local process intercepts: the target of requests that fall through.
#[derive(Debug, Clone, Hash, Default)]
pub enum FallThrough {
    /// The baseline service.
    #[default]
    Baseline,
    /// The fork of the same sandbox.
    Fork(Arc<Backend>),
    /// A fork of the same sandbox that is unavailable.
    Unavailable(Arc<UnavailableTarget>),
}

/// Responder while the local process is not connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DisconnectedPolicy {
    /// None: the router responds with an error.
    #[default]
    Fail,
    /// The baseline service.
    Baseline,
    /// What the process intercepts.
    Before,
}

impl LocalTarget {
    /// A port of a workload, numbered like the container ports of its baseline.
    pub fn new(namespace: &str, workload: &str, port: u16) -> Self {
        Self {
            name: route_name(&["local", namespace, workload]),
            namespace: namespace.to_owned(),
            workload: workload.to_owned(),
            port,
            protocol: AppProtocol::default(),
            when: ResponseCondition::default(),
            before: FallThrough::default(),
            otherwise: DisconnectedPolicy::default(),
            gateway: None,
        }
    }

    /// Sets the protocol of the local port.
    #[must_use]
    pub fn with_protocol(self, protocol: AppProtocol) -> Self {
        Self { protocol, ..self }
    }

    /// Sets the condition for using its response.
    #[must_use]
    pub fn with_condition(self, when: ResponseCondition) -> Self {
        Self { when, ..self }
    }

    /// Sets what it intercepts.
    #[must_use]
    pub fn with_fall_through(self, before: FallThrough) -> Self {
        Self { before, ..self }
    }

    /// Sets the responder while it is not connected.
    #[must_use]
    pub fn with_disconnected_policy(self, otherwise: DisconnectedPolicy) -> Self {
        Self { otherwise, ..self }
    }

    /// Sets the router that holds its session.
    #[must_use]
    pub fn with_gateway(self, gateway: SessionGateway) -> Self {
        Self { gateway: Some(gateway), ..self }
    }

    /// Its name in `x-sandbox-route`.
    pub fn name(&self) -> &HeaderValue {
        &self.name
    }

    /// Namespace of the workload.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Name of the workload.
    pub fn workload(&self) -> &str {
        &self.workload
    }

    /// The container port that it replaces.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Protocol of the local port.
    pub fn protocol(&self) -> AppProtocol {
        self.protocol
    }

    /// Condition for using its response.
    pub fn response_condition(&self) -> &ResponseCondition {
        &self.when
    }

    /// What it intercepts.
    pub fn fall_through(&self) -> &FallThrough {
        &self.before
    }

    /// Responder while it is not connected.
    pub fn disconnected_policy(&self) -> DisconnectedPolicy {
        self.otherwise
    }

    /// The router that holds its session, if any.
    pub fn gateway(&self) -> Option<&SessionGateway> {
        self.gateway.as_ref()
    }
}

impl Serialize for ResponseCondition {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Always => serializer.serialize_str("always"),
            Self::Header(name, value) => (name.as_str(), header_text(value)).serialize(serializer),
            Self::ExceptStatus(codes) => {
                codes.iter().map(StatusCode::as_u16).collect::<Vec<_>>().serialize(serializer)
            }
        }
    }
}

impl Serialize for FallThrough {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Baseline => serializer.serialize_str("baseline"),
            Self::Fork(backend) => backend.serialize(serializer),
            Self::Unavailable(why) => why.serialize(serializer),
        }
    }
}

fn as_text<S: Serializer>(value: &HeaderValue, serializer: S) -> Result<S::Ok, S::Error> {
    header_text(value).serialize(serializer)
}
