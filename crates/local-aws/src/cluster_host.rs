//! Who plays the API behind a cluster's endpoint. This crate knows only that somebody may: when a cluster is created a
//! host is told to begin, and answers with an endpoint and a certificate authority; when the cluster is gone it is told
//! to end.

use std::{fmt, future::Future, pin::Pin};

/// What a host works on, beside the caller.
pub type Work<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Why a host could not begin. The cluster's health shows it.
pub type HostError = Box<dyn std::error::Error + Send + Sync>;

/// Plays the APIs of clusters.
pub trait ClusterHost: fmt::Debug + Send + Sync {
    /// Starts the API of a cluster. The cluster is not ACTIVE before this is over, and FAILED if it ends badly.
    /// Dropping the work gives up the start.
    fn begin(&self, cluster: ClusterSeed) -> Work<Result<Hosting, HostError>>;

    /// From now on these, and nobody else, are let into the cluster of this id.
    fn admit(&self, id: &str, admitted: Vec<Admitted>);

    /// The cluster of this id is gone. It may be one that never began.
    fn end(&self, id: &str) -> Work<()>;
}

/// What a host is told about a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterSeed {
    /// Unlike name and ARN never given to a second cluster.
    pub id: String,
    /// Name in its region.
    pub name: String,
    /// ARN.
    pub arn: String,
    /// Region.
    pub region: String,
    /// Version of Kubernetes that the cluster has, as `1.33`.
    pub version: String,
    /// Where STS of this local AWS answers: `http://127.0.0.1:PORT`.
    pub sts: String,
    /// Where the cluster was before a restart. Clients may have written it down.
    pub before: Option<String>,
    /// Who is let in.
    pub admitted: Vec<Admitted>,
}

/// Where a cluster's API answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hosting {
    /// URL.
    pub endpoint: String,
    /// PEM of the authority that signed its certificate.
    pub certificate_authority_pem: String,
}

/// A principal of IAM that is let into a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admitted {
    /// ARN of the user or role.
    pub principal: String,
    /// Its name in the cluster; may hold `{{SessionName}}`.
    pub username: String,
    /// Its groups in the cluster.
    pub groups: Vec<String>,
    /// The access policies that it was given.
    pub policies: Vec<Policy>,
}

/// An access policy and where it counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Name, such as `AmazonEKSClusterAdminPolicy`.
    pub name: String,
    /// The namespaces in which it counts; empty for the whole cluster.
    pub namespaces: Vec<String>,
}
