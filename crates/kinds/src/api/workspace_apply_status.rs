//! Status of a `WorkspaceTemplateApply`: run, plan, progress, outputs, last error.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    common::{IdentityRef, SecretRef},
    schema,
};

/// Observed state of a Terraform workspace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceTemplateApplyStatus {
    /// Name of the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_name: Option<String>,
    /// Whether it was applied at least once, and not destroyed since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<bool>,
    /// Time of the last apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_applied_time: Option<Time>,
    /// Conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::workspace_conditions")]
    pub conditions: Vec<Condition>,
    /// The current or last run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunStatus>,
    /// Summary of the last plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanStatus>,
    /// Progress of the current run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// Non-sensitive outputs. All outputs are in the connection Secret.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::any_object")]
    pub outputs: BTreeMap<String, Value>,
    /// The last error, until a run succeeds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<LastError>,
    /// Finished runs, newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub history: Vec<RunRecord>,
    /// Hash of all inputs of the last successful apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs_hash: Option<String>,
    /// The Secret with the outputs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection_secret_ref: Option<SecretRef>,
    /// The last approval of a plan that was accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<PlanApproval>,
    /// ARNs of the EKS clusters in the state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub eks_cluster_arns: Vec<String>,
    /// The AWS identity of the last run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity_ref: Option<IdentityRef>,
    /// Time of the last drift check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_checked_time: Option<Time>,
    /// The generation that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// A run of terraform.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunStatus {
    /// Id of the run.
    pub id: String,
    /// Operation of the run.
    pub operation: RunOperation,
    /// Phase of the run.
    pub phase: RunPhase,
    /// Start time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// End time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Time>,
    /// Hash of all inputs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs_hash: Option<String>,
    /// What the run waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<String>,
    /// Why terraform started its own providers instead of using the provider gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without_gateway: Option<String>,
    /// Additional messages for users.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Operation of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RunOperation {
    /// Apply the configuration.
    Apply,
    /// Destroy all resources.
    Destroy,
    /// Check for drift.
    Check,
}

/// Phase of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RunPhase {
    /// Waiting for a slot or a lock.
    Pending,
    /// `terraform init`.
    Initializing,
    /// `terraform plan`.
    Planning,
    /// The plan waits for an approval.
    AwaitingApproval,
    /// `terraform apply`.
    Applying,
    /// Applying a destroy plan.
    Destroying,
    /// Reading the outputs, or verifying that the state is empty.
    Collecting,
    /// Finished successfully.
    Succeeded,
    /// Finished with an error.
    Failed,
    /// Stopped by a signal.
    Interrupted,
}

/// Summary of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanStatus {
    /// Hash of the plan, used for approvals.
    pub hash: String,
    /// Resources to create.
    #[serde(default)]
    pub add: i32,
    /// Resources to change in place.
    #[serde(default)]
    pub change: i32,
    /// Resources to replace.
    #[serde(default)]
    pub replace: i32,
    /// Resources to destroy.
    #[serde(default)]
    pub destroy: i32,
}

/// An accepted approval.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanApproval {
    /// Full hash of the approved plan.
    pub plan_hash: String,
    /// Who approved it, as the annotation says. The admission policy `capt-approvals` makes sure that it is true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// When the operator accepted it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted_at: Option<Time>,
}

/// Progress of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// Completed resource changes.
    #[serde(default)]
    pub done: i32,
    /// All resource changes of the plan.
    #[serde(default)]
    pub total: i32,
    /// Address of the resource that has been in progress longest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slowest: Option<String>,
    /// Seconds it has been in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slowest_seconds: Option<i64>,
}

/// An error of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LastError {
    /// Error class, which determines retries.
    #[schemars(with = "String")]
    pub class: FailureClass,
    /// AWS error code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Address of the resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Error message.
    pub message: String,
    /// Time of the next attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Time>,
    /// Number of consecutive failed runs with this class of error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<i32>,
}

/// Class of an error. It determines whether and when the run is retried.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    strum::Display,
    strum::IntoStaticStr,
    strum::EnumIter,
)]
pub enum FailureClass {
    /// EKS is busy with another change. Not a failure.
    Wait,
    /// Throttled by AWS.
    Throttle,
    /// Eventual consistency: a new resource is not visible everywhere yet.
    Propagation,
    /// Needs a fix by the user: the configuration, a permission, a name conflict.
    UserFix,
    /// An object to create exists already.
    AlreadyExists,
    /// Account quota exceeded.
    Quota,
    /// Another resource depends on the one to delete.
    Dependency,
    /// The state is locked.
    Lock,
    /// Expired credentials.
    Expired,
    /// Deletion protection.
    Protected,
    /// The state changed after the plan.
    StalePlan,
    /// Interrupted by a stop or a signal.
    Interrupted,
    /// A provider cannot be installed or started.
    Provider,
    /// Missing or rejected credentials.
    Credentials,
    /// Network error or server error of AWS.
    Network,
    /// Problem of the engine: its version, its directory, the disk.
    Engine,
    /// No rule matches, or a class of another release.
    #[default]
    #[serde(other)]
    Unknown,
}

impl FailureClass {
    /// Whether the run only has to wait for AWS; not a failure.
    pub const fn is_wait(self) -> bool {
        matches!(self, Self::Wait)
    }

    /// Whether it resolves without user action. Such an error is reported, but never as a failure.
    pub const fn is_self_resolving(self) -> bool {
        match self {
            Self::Wait
            | Self::Throttle
            | Self::Propagation
            | Self::Dependency
            | Self::Lock
            | Self::Expired
            | Self::StalePlan
            | Self::Interrupted
            | Self::Network => true,
            Self::UserFix
            | Self::AlreadyExists
            | Self::Quota
            | Self::Protected
            | Self::Provider
            | Self::Credentials
            | Self::Engine
            | Self::Unknown => false,
        }
    }
}

/// A finished run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunRecord {
    /// Id of the run.
    pub id: String,
    /// Operation of the run.
    pub operation: RunOperation,
    /// Final phase.
    pub phase: RunPhase,
    /// Start time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// End time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Time>,
    /// Summary of its plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanStatus>,
    /// Error message, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Who approved its plan, if it needed an approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved_by: Option<String>,
}
