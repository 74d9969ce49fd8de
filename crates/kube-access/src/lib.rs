//! Access to the Kubernetes API.
//!
//! | module | responsibility |
//! |---|---|
//! | [`k8s`] | the Kubernetes client: deadlines, retries, patches, events, leases, state in Secrets |
//! | [`certificate`] | serving certificates: issued, shared between replicas, renewed |
//! | [`error`] | error classes and the retry policy they imply |

pub mod certificate;
pub mod error;
pub mod k8s;
