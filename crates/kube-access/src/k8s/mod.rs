//! The Kubernetes client: the only writer to the API server, and the only place that classifies its errors.
//!
//! Makes no decisions. Callers state the desired object; this module guarantees that no call hangs, unchanged objects are
//! not written, and concurrent writes of others are not lost.
//!
//! | file | responsibility |
//! |---|---|
//! | `kube_client` | deadline, metrics and retries of every call; reads |
//! | `swappable_client` | a client whose connection can be replaced |
//! | `connection` | client configuration; installation and discovery of CRDs |
//! | `objects` | apply, create, replace, delete |
//! | `dynamic` | objects of kinds known only at run time; merge patches |
//! | `dry_run` | server-side dry run of patches |
//! | `metadata` | finalizers, annotations, owner references |
//! | `status`, `conditions` | status updates and conditions |
//! | `events` | deduplicated events |
//! | `secrets` | connection Secrets |
//! | `state_store` | Terraform states in Secrets |
//! | `leader` | leader election by Lease, with fencing tokens |

pub mod conditions;
pub mod connection;
mod dry_run;
mod dynamic;
mod error;
pub mod events;
mod kube_client;
pub mod leader;
mod metadata;
mod objects;
pub mod secrets;
pub mod state_store;
pub mod status;
mod swappable_client;
mod truncate;

pub use self::{
    connection::{KubeconfigSource, connect, connect_by_token},
    dry_run::PatchKind,
    error::{ApiOperation, K8sError},
    events::{EventPublisher, EventSpec},
    kube_client::{CallMetrics, CallOutcome, DEADLINE, KubeClient},
    leader::{FencingToken, LeaderCandidate, LeadershipEnd, run_as_leader},
    objects::{DeleteOutcome, DeletionPropagation},
    status::StatusWrite,
    swappable_client::SwappableClient,
};

#[cfg(test)]
mod tests;
