//! Processes on somebody's desk, behind a tunnel.

use std::{net::IpAddr, sync::Arc};

use http::{HeaderName, HeaderValue, StatusCode};
use serde::{Serialize, Serializer};

use super::backend::{AppProtocol, Backend, Unavailable, route_name, text};

/// A port of a local workload.
#[derive(Debug, Clone, Hash, Serialize)]
pub struct Local {
    #[serde(serialize_with = "as_text")]
    name: HeaderValue,
    namespace: String,
    workload: String,
    port: u16,
    protocol: AppProtocol,
    when: When,
    before: Before,
    otherwise: Otherwise,
    gateway: Option<Gateway>,
}

/// The router that holds the session of a local workload. All routers have the same table; each one knows its own name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Gateway {
    /// Of the router.
    pub name: String,
    /// Where the others reach it.
    pub address: IpAddr,
}

/// Whether the local process answers alone, or may leave a request to what it stands before.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum When {
    /// It answers.
    #[default]
    Always,
    /// Its answer counts if it carries this header with this value; otherwise the request falls through.
    Header(HeaderName, HeaderValue),
    /// Its answer counts unless it has one of these codes; then the request falls through.
    ExceptStatus(Vec<StatusCode>),
}

/// What a local process stands before: where requests go that it lets fall through.
#[derive(Debug, Clone, Hash, Default)]
pub enum Before {
    /// The service as it is.
    #[default]
    Baseline,
    /// The fork of the same sandbox.
    Fork(Arc<Backend>),
    /// A fork of the same sandbox that cannot answer.
    Unavailable(Arc<Unavailable>),
}

/// What answers while the local process is not connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Otherwise {
    /// Nobody: an answer with the error says so.
    #[default]
    Fail,
    /// The service as it is.
    Baseline,
    /// What it stands before.
    Before,
}

impl Local {
    /// A port of a workload, as its baseline numbers its container's ports.
    pub fn new(namespace: &str, workload: &str, port: u16) -> Self {
        Self {
            name: route_name(&["local", namespace, workload]),
            namespace: namespace.to_owned(),
            workload: workload.to_owned(),
            port,
            protocol: AppProtocol::default(),
            when: When::default(),
            before: Before::default(),
            otherwise: Otherwise::default(),
            gateway: None,
        }
    }

    /// What the local port speaks.
    #[must_use]
    pub fn speaks(self, protocol: AppProtocol) -> Self {
        Self { protocol, ..self }
    }

    /// When its answer counts.
    #[must_use]
    pub fn when(self, when: When) -> Self {
        Self { when, ..self }
    }

    /// What it stands before.
    #[must_use]
    pub fn before(self, before: Before) -> Self {
        Self { before, ..self }
    }

    /// What answers while it is not connected.
    #[must_use]
    pub fn otherwise(self, otherwise: Otherwise) -> Self {
        Self { otherwise, ..self }
    }

    /// The router that has its session.
    #[must_use]
    pub fn behind(self, gateway: Gateway) -> Self {
        Self { gateway: Some(gateway), ..self }
    }

    /// Its name in `x-sandbox-route`.
    pub fn name(&self) -> &HeaderValue {
        &self.name
    }

    /// Of the workload.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The name of the workload.
    pub fn workload(&self) -> &str {
        &self.workload
    }

    /// The container's port that it stands for.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What the local port speaks.
    pub fn protocol(&self) -> AppProtocol {
        self.protocol
    }

    /// When its answer counts.
    pub fn counts_when(&self) -> &When {
        &self.when
    }

    /// What it stands before.
    pub fn stands_before(&self) -> &Before {
        &self.before
    }

    /// What answers while it is not connected.
    pub fn fallback(&self) -> Otherwise {
        self.otherwise
    }

    /// The router that has its session, if one has it.
    pub fn gateway(&self) -> Option<&Gateway> {
        self.gateway.as_ref()
    }
}

impl Serialize for When {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Always => serializer.serialize_str("always"),
            Self::Header(name, value) => (name.as_str(), text(value)).serialize(serializer),
            Self::ExceptStatus(codes) => {
                codes.iter().map(StatusCode::as_u16).collect::<Vec<_>>().serialize(serializer)
            }
        }
    }
}

impl Serialize for Before {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Baseline => serializer.serialize_str("baseline"),
            Self::Fork(backend) => backend.serialize(serializer),
            Self::Unavailable(why) => why.serialize(serializer),
        }
    }
}

fn as_text<S: Serializer>(value: &HeaderValue, serializer: S) -> Result<S::Ok, S::Error> {
    text(value).serialize(serializer)
}
