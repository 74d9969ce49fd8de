//! The input of `decide`: everything observed about a workspace. Data only.

use std::time::Duration;

use capt_engine::{aws::Principal, pipeline::WorkspaceJob, runs::RunSnapshot};
use capt_kinds::{api::SecretRef, grant::Granted};
use jiff::Timestamp;

/// Everything that a decision depends on, except status and time.
#[expect(clippy::struct_excessive_bools, reason = "the flags are independent")]
pub struct WorkspaceObservation {
    /// The object or its Cluster is paused.
    pub paused: bool,
    /// The object has a deletion timestamp.
    pub deleting: bool,
    /// The object has our finalizer.
    pub has_finalizer: bool,
    /// Active or most recent run in this process.
    pub run: Option<RunSnapshot>,
    /// The result of that run is in the object's status, so that another run may replace it.
    pub is_run_recorded: bool,
    /// Resolved inputs, or why they are unavailable.
    pub inputs: RunInputs,
    /// Workspaces that depend on this one; read only during deletion.
    pub dependents: Vec<String>,
    /// The identity of a destroy; read only during deletion.
    pub destroy_identity: DestroyIdentity,
    /// Another object that owns the workspace. `demo` and `demo-apply` have the same one; the first that applies owns it.
    pub other_owner: Option<String>,
    /// The resources are retained when the object is deleted.
    pub retains_resources: bool,
    /// The workspace's directory exists on this disk.
    pub has_directory: bool,
    /// Drift settings.
    pub drift: DriftSettings,
    /// Hash of the approved plan.
    pub approved_plan: Option<String>,
    /// Who approved it.
    pub approved_by: Option<String>,
    /// When a rerun was requested by annotation.
    pub run_requested_at: Option<Timestamp>,
}

/// The AWS identity of a destroy.
#[derive(Debug)]
pub enum DestroyIdentity {
    /// Not read, because no destroy can start now.
    NotRead,
    /// Its principal; none for the operator's own credentials, with which the resources were created.
    Available(Option<Principal>),
    /// It is missing or not allowed.
    Unavailable(ConditionReason),
}

/// Inputs of a run, as far as they could be resolved.
pub enum RunInputs {
    /// Not read, because no run can start now.
    NotRead,
    /// Resolved.
    Resolved(Box<ResolvedInputs>),
    /// A referenced object is missing or not ready.
    Waiting(ConditionReason),
    /// The spec or a referenced object is invalid.
    Invalid(ConditionReason),
}

/// Fully resolved inputs of a run.
pub struct ResolvedInputs {
    /// Job for the pipeline.
    pub job: WorkspaceJob,
    /// Hash of all inputs.
    pub hash: String,
    /// Operations that the management policies allow.
    pub allowed: AllowedOperations,
    /// The Secret that receives the outputs.
    pub connection_secret: Option<Granted<SecretRef>>,
    /// Name of the `CAPTIdentity`; none for the operator's own identity.
    pub identity: Option<String>,
}

/// Reason and message of a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConditionReason {
    /// Machine-readable reason.
    pub reason: &'static str,
    /// Human-readable message.
    pub message: String,
}

impl ConditionReason {
    /// Creates a reason.
    pub fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}

/// Operations that the template's management policies allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AllowedOperations {
    /// Resources may be created and updated; otherwise they are only checked for drift.
    pub apply: bool,
    /// Resources may be destroyed.
    pub destroy: bool,
}

/// Drift settings of a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DriftSettings {
    /// What to do about drift.
    pub mode: DriftMode,
    /// Interval between checks.
    pub interval: Duration,
}

/// What to do about drift.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, strum::EnumString)]
#[strum(serialize_all = "lowercase")]
pub enum DriftMode {
    /// No drift checks.
    Off,
    /// Report drift in the condition `Drifted`.
    Detect,
    /// Correct drift by an apply.
    #[default]
    Correct,
}
