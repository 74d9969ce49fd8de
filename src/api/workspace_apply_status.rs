//! What was observed of a Terraform workspace: the run, its plan, its progress, its outputs, its last error.

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

/// What was observed of a Terraform workspace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceTemplateApplyStatus {
    /// Name of the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_name: Option<String>,
    /// Whether terraform applied it at least once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<bool>,
    /// When it was applied last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_applied_time: Option<Time>,
    /// Conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::workspace_conditions")]
    pub conditions: Vec<Condition>,
    /// The current or last run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunStatus>,
    /// What the last plan would do, or did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanStatus>,
    /// How far the current run is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// Outputs that are not sensitive. All outputs are in the connection Secret.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::any_object")]
    pub outputs: BTreeMap<String, Value>,
    /// The last error, until a run goes well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<LastError>,
    /// The last runs, newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub history: Vec<RunRecord>,
    /// Digest of everything that the last successful apply was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs_hash: Option<String>,
    /// The Secret that holds the outputs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection_secret_ref: Option<SecretRef>,
    /// The AWS identity of the last run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity_ref: Option<IdentityRef>,
    /// When reality was last compared with the state.
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
    /// What the run is for.
    pub operation: RunOperation,
    /// Where it is.
    pub phase: RunPhase,
    /// When it started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Time>,
    /// Digest of everything that it is made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs_hash: Option<String>,
    /// What it waits for, if it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<String>,
    /// Why its terraform had to start providers of its own instead of sharing running ones, if it had to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without_gateway: Option<String>,
    /// What else a person should know of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// What a run is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RunOperation {
    /// To make what the configuration says.
    Apply,
    /// To destroy everything.
    Destroy,
    /// To see whether reality still matches.
    Check,
}

/// Where a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RunPhase {
    /// Waiting for a slot or a lock.
    Pending,
    /// `terraform init`.
    Initializing,
    /// `terraform plan`.
    Planning,
    /// The plan waits for a person's consent.
    AwaitingApproval,
    /// `terraform apply`.
    Applying,
    /// Applying a plan that destroys.
    Destroying,
    /// Reading the outputs, or proving the state empty.
    Collecting,
    /// Done.
    Succeeded,
    /// Ended with an error.
    Failed,
    /// Stopped from outside.
    Interrupted,
}

/// What a plan would do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanStatus {
    /// Hash of the plan, which an approval names.
    pub hash: String,
    /// Resources to make.
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

/// How far a run is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// Resource changes that are done.
    #[serde(default)]
    pub done: i32,
    /// Resource changes of the plan.
    #[serde(default)]
    pub total: i32,
    /// Address of the resource that takes longest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slowest: Option<String>,
    /// For how many seconds it has taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slowest_seconds: Option<i64>,
}

/// An error of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LastError {
    /// What kind of error it is, and so what happens next.
    pub class: String,
    /// AWS's code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Address of the resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The error in a sentence.
    pub message: String,
    /// When it is tried again; never by itself if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Time>,
    /// How many runs in a row failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<i32>,
}

/// A run of the past.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunRecord {
    /// Id of the run.
    pub id: String,
    /// What the run was for.
    pub operation: RunOperation,
    /// How it ended.
    pub phase: RunPhase,
    /// When it started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Time>,
    /// What its plan was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanStatus>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
