//! The kinds of `sandbox.capt.x-k8s.io/v1alpha1`: fields, schema, CEL rules, condition types and reasons.
//!
//! Data only. Rules about a single object are in the schema or in CEL; `sandbox::validate` repeats them without an API server,
//! because an object may be older than a rule.

#![expect(
    unreachable_pub,
    reason = "KubeSchema copies every struct, with its visibility, into a function body"
)]
#![allow(dead_code, reason = "the fields of those copies are never read; `expect` does not see them")]

mod common;
pub mod conditions;
mod crd;
mod customizations;
mod local_workload;
pub mod names;
mod route_group;
mod sandbox_spec;
mod sandbox_status;
pub mod schema;

pub use common::{
    DisconnectPolicy, Endpoint, EndpointStatus, LocalProtocol, Mapping, Override, WorkloadKind, WorkloadRef,
};
pub use crd::{crds, drop_nullable};
pub use customizations::{
    Customizations, EnvFrom, EnvOperation, EnvVar, ForkValue, Image, KeyOf, Patch, PatchType, Resources,
};
pub use local_workload::{
    LocalPhase, LocalPortStatus, LocalWorkload, LocalWorkloadSpec, LocalWorkloadStatus, SandboxRef, Session,
};
pub use route_group::{
    Clause, Conflict, DataPlane, GroupTtl, GroupTtlOffset, LabelMatch, Leaf, Match, NamespaceScope,
    Namespaces, RouteGroup, RouteGroupSpec, RouteGroupStatus, Routing, RoutingMode, UnreadyPolicy,
};
pub use sandbox_spec::{
    BaselineUpdatePolicy, ClusterRef, ForkSpec, LocalSpec, Sandbox, SandboxSpec, Ttl, TtlOffset, VirtualSpec,
};
pub use sandbox_status::{
    BaselineService, BaselineStatus, ForkServiceStatus, ForkStatus, LocalStatus, Phase, SandboxStatus,
    ServicePortStatus, Unroutable, VirtualStatus,
};

#[cfg(test)]
mod tests;
