//! Snapshot of a run, from which the object's status is written.

use capt_kinds::api::{PlanStatus, Progress, RunOperation, RunPhase};
use jiff::Timestamp;
use terraform_driver::{
    classify::{FailureClass, TerraformFailure},
    plan::{ChangeCounts, PlanSummary},
};

use super::retry::run_failure;
use crate::pipeline::{PipelineError, WorkspaceOutcome};

/// Snapshot of a run.
#[derive(Debug, Clone)]
pub struct RunSnapshot {
    /// Run id; sorts by start time.
    pub id: String,
    /// Operation of the run.
    pub operation: RunOperation,
    /// Current phase.
    pub phase: RunPhase,
    /// When the run was requested.
    pub started_at: Timestamp,
    /// When the run finished.
    pub finished_at: Option<Timestamp>,
    /// Hash of all inputs.
    pub inputs_hash: String,
    /// What the run waits for, such as a slot or a cluster lock.
    pub waiting_for: Option<String>,
    /// Summary of the plan.
    pub plan: Option<PlanStatus>,
    /// Progress of an apply or destroy.
    pub progress: Option<Progress>,
    /// Notes for users.
    pub notes: Vec<String>,
    /// Why terraform ran without the provider gateway, if it did.
    pub gateway_bypass: Option<String>,
    /// Result, once the run is finished.
    pub result: Option<RunResult>,
}

/// Result of a finished run.
#[derive(Debug, Clone)]
pub enum RunResult {
    /// No changes were needed.
    Unchanged,
    /// Changes were applied.
    Applied,
    /// Drift was found and, as requested, not corrected.
    Differs {
        /// Addresses of the first few differing resources.
        addresses: Vec<String>,
    },
    /// Everything was destroyed and the state is empty.
    Destroyed,
    /// The guard blocked the plan because it would destroy or replace protected resources.
    Blocked {
        /// The blocked changes.
        reasons: Vec<String>,
        /// Hash of the plan, which an approval must name.
        hash: String,
    },
    /// The run failed.
    Failed(TerraformFailure),
    /// The run was cancelled or interrupted; the next run continues.
    Interrupted,
}

impl RunSnapshot {
    /// Snapshot of a new run in phase Pending.
    pub fn new(id: String, operation: RunOperation, started_at: Timestamp, inputs_hash: String) -> Self {
        Self {
            id,
            operation,
            phase: RunPhase::Pending,
            started_at,
            finished_at: None,
            inputs_hash,
            waiting_for: None,
            plan: None,
            progress: None,
            notes: Vec::new(),
            gateway_bypass: None,
            result: None,
        }
    }

    /// Whether the run has finished.
    pub const fn is_finished(&self) -> bool {
        self.result.is_some()
    }

    /// Whether the run is changing resources and must not be cancelled.
    pub const fn is_mutating(&self) -> bool {
        matches!(self.phase, RunPhase::Applying | RunPhase::Destroying)
    }
}

impl RunResult {
    /// Converts the outcome of the pipeline.
    pub fn from_outcome(outcome: Result<WorkspaceOutcome, PipelineError>) -> Self {
        match outcome {
            Ok(
                WorkspaceOutcome::Unchanged | WorkspaceOutcome::Retained | WorkspaceOutcome::Deferred { .. },
            ) => Self::Unchanged,
            Ok(WorkspaceOutcome::Applied(_)) => Self::Applied,
            Ok(WorkspaceOutcome::Planned(summary)) => Self::Differs { addresses: first_addresses(&summary) },
            Ok(WorkspaceOutcome::Destroyed { .. }) => Self::Destroyed,
            Err(PipelineError::Blocked { reasons, hash }) => {
                Self::Blocked { reasons: reasons.iter().map(ToString::to_string).collect(), hash }
            }
            Err(PipelineError::Interrupted | PipelineError::NotConfirmed) => Self::Interrupted,
            Err(PipelineError::Failed(failure)) if failure.class == FailureClass::Interrupted => {
                Self::Interrupted
            }
            Err(error) => Self::Failed(run_failure(&error)),
        }
    }

    /// The final phase as the status reports it.
    pub const fn phase(&self) -> RunPhase {
        match self {
            Self::Unchanged | Self::Applied | Self::Differs { .. } | Self::Destroyed => RunPhase::Succeeded,
            Self::Blocked { .. } => RunPhase::AwaitingApproval,
            Self::Failed(_) => RunPhase::Failed,
            Self::Interrupted => RunPhase::Interrupted,
        }
    }

    /// Value of the metric label `result`.
    pub const fn metric_label(&self) -> &'static str {
        match self {
            Self::Unchanged => "unchanged",
            Self::Applied => "applied",
            Self::Differs { .. } => "differs",
            Self::Destroyed => "destroyed",
            Self::Blocked { .. } => "blocked",
            Self::Failed(_) => "failed",
            Self::Interrupted => "interrupted",
        }
    }
}

/// Plan summary as the status reports it.
pub(super) fn plan_status(summary: &PlanSummary) -> PlanStatus {
    let ChangeCounts { add, change, replace, destroy, .. } = summary.counts;
    let small = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    PlanStatus {
        hash: summary.hash.as_str().to_owned(),
        add: small(add),
        change: small(change),
        replace: small(replace),
        destroy: small(destroy),
    }
}

/// Addresses of the first few changes of a plan, and how many more there are.
fn first_addresses(summary: &PlanSummary) -> Vec<String> {
    const MAX_ADDRESSES: usize = 5;
    let mut all: Vec<String> = summary.changes.iter().map(|change| change.address.clone()).collect();
    let more = all.len().saturating_sub(MAX_ADDRESSES);
    all.truncate(MAX_ADDRESSES);
    if more > 0 {
        all.push(format!("and {more} more"));
    }
    all
}
