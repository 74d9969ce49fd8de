//! Shared controller code: the reconcile gate (ownership, pause, watch filter), controller wiring, error policy, metrics hooks,
//! and reads that several kinds need.

pub mod apply_diff;
pub mod cluster;
pub mod context;
pub mod error_policy;
pub mod gate;
pub mod granted_reader;
pub mod identity;
pub mod invalid_object;
pub mod metrics;
pub mod owning_cluster;
pub mod reconcile_error;
pub mod runner;
pub mod template_policy;
pub mod workspace_summary;

pub use context::{Context, Settings};
pub use metrics::{ControllerMetricsSink, ProvisionedResource, ReconcileOutcome};
