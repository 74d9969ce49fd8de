//! Types shared by several kinds.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema;

/// A workload that exists: the baseline.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadRef {
    /// Its kind.
    #[serde(default)]
    pub kind: WorkloadKind,
    /// Its name.
    #[schemars(length(min = 1, max = 253), regex(pattern = schema::DNS_SUBDOMAIN))]
    pub name: String,
    /// Its namespace, which must be the object's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = schema::DNS_LABEL))]
    pub namespace: Option<String>,
}

/// Kinds of workloads that can be forked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum WorkloadKind {
    /// A Deployment of `apps/v1`.
    #[default]
    Deployment,
}

/// A preview address; requests to it get the key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Endpoint {
    /// Its name, unique in the object; the first part of its host name.
    #[schemars(length(min = 1, max = 30), regex(pattern = schema::DNS_LABEL))]
    pub name: String,
    /// The Service behind it, such as `http://frontend.shop.svc:8080`.
    #[schemars(length(min = 1, max = 512))]
    pub target: String,
}

/// An address that is served.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EndpointStatus {
    /// Its name.
    pub name: String,
    /// The Service behind it.
    pub target: String,
    /// The address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// A port of the baseline's container, and who answers for it on the developer's machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Mapping {
    /// The port of the baseline's *container*.
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
    /// Who answers, as `host:port`.
    #[schemars(length(min = 1, max = 264), regex(pattern = schema::HOST_PORT))]
    pub to_local: String,
    /// What is spoken there.
    #[serde(default)]
    pub app_protocol: LocalProtocol,
}

/// What is spoken on a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LocalProtocol {
    /// HTTP/1.1.
    #[default]
    Http,
    /// HTTP/2 without TLS.
    H2c,
    /// gRPC without TLS.
    Grpc,
    /// Bytes.
    Tcp,
}

/// What happens to requests while no agent is connected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DisconnectPolicy {
    /// They are answered with 503.
    #[default]
    Fail,
    /// They go to the baseline.
    Baseline,
    /// They go to the sandbox's fork of the same baseline.
    Fork,
}

/// Which answers of the local workload count; all others come from where the request would have gone without it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.requireHeader) != has(self.exceptStatus)")
        .message("override needs exactly one of requireHeader and exceptStatus"),
)]
pub struct Override {
    /// Only answers with this header count, written as `name: value`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 400), regex(pattern = schema::HEADER_LINE))]
    pub require_header: Option<String>,
    /// All answers but those with one of these codes count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32), inner(range(min = 100, max = 599)))]
    pub except_status: Option<Vec<i32>>,
}
