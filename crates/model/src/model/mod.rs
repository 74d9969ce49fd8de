//! Validation of specs. Pure: no client, files, clock or processes.
//!
//! Raw specs in, `Validated…` values out; everything downstream uses only those.
//!
//! A validator collects every problem of an object. It agrees with the API server wherever schema or CEL express a rule, and
//! adds checks for quotas (which are settings), for fields that upstream leaves unchecked, and across objects.

mod access;
mod addons;
mod cidr;
mod patterns;

pub mod cluster_class;
pub mod control_plane;
pub mod fargate;
pub mod identity;
pub mod immutability;
pub mod limits;
pub mod names;
pub mod network;
pub mod newtypes;
pub mod overlap;
pub mod problem;
pub mod references;
pub mod tags;
pub mod template;
pub mod version;
pub mod workspace_apply;

pub use cidr::Cidr;
pub use limits::Limits;
pub use newtypes::{MalformedText, Parse};
pub use problem::Problem;
pub use references::ObjectKey;
pub use version::KubernetesVersion;
