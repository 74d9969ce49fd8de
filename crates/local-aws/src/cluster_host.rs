//! Interface to whatever runs the Kubernetes API behind a cluster's endpoint. A host starts the API when a cluster is
//! created, returns its endpoint and certificate authority, and stops it when the cluster is deleted.

use std::{fmt, future::Future, pin::Pin};

/// Asynchronous work of a host.
pub type HostFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Why a host could not start an API; shown in the cluster's health.
pub type HostError = Box<dyn std::error::Error + Send + Sync>;

/// Runs the Kubernetes APIs of clusters.
pub trait ClusterHost: fmt::Debug + Send + Sync {
    /// Starts the API of a cluster. The cluster stays CREATING until this completes, and becomes FAILED on error.
    /// Dropping the future cancels the start.
    fn start(&self, cluster: ClusterSpec) -> HostFuture<Result<HostedEndpoint, HostError>>;

    /// Replaces the set of principals with access to the cluster.
    fn set_principals(&self, id: &str, admitted: Vec<ClusterPrincipal>);

    /// Stops the API of a deleted cluster. The cluster may never have been started.
    fn stop(&self, id: &str) -> HostFuture<()>;
}

/// Description of a cluster for its host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterSpec {
    /// Unlike name and ARN, never reused for another cluster.
    pub id: String,
    /// Name within its region.
    pub name: String,
    /// ARN.
    pub arn: String,
    /// Region.
    pub region: String,
    /// Kubernetes version, such as `1.33`.
    pub version: String,
    /// STS endpoint of this local AWS: `http://127.0.0.1:PORT`.
    pub sts_endpoint: String,
    /// Endpoint before a restart. Clients may have stored it.
    pub previous_endpoint: Option<String>,
    /// Principals with access.
    pub principals: Vec<ClusterPrincipal>,
}

/// Where the API of a cluster listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostedEndpoint {
    /// URL.
    pub endpoint: String,
    /// PEM of the CA that signed its certificate.
    pub certificate_authority_pem: String,
}

/// An IAM principal with access to a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterPrincipal {
    /// ARN of the user or role.
    pub principal: String,
    /// Kubernetes username; may contain `{{SessionName}}`.
    pub username: String,
    /// Kubernetes groups.
    pub groups: Vec<String>,
    /// Attached access policies.
    pub policies: Vec<AttachedPolicy>,
}

/// An access policy and its scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachedPolicy {
    /// Name, such as `AmazonEKSClusterAdminPolicy`.
    pub name: String,
    /// Namespaces it applies to; empty for the whole cluster.
    pub namespaces: Vec<String>,
}
