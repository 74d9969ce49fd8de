//! Decides the next action for a workspace from its observation, its status and the time. Pure: no I/O.

use std::time::Duration;

use capt_engine::{
    pipeline::Goal,
    runs::{RunPriority, RunResult, RunSnapshot},
};
use capt_kinds::api::{RunOperation, RunPhase, WorkspaceTemplateApplyStatus, conditions::reasons};
use jiff::Timestamp;

use super::observation::{
    ConditionReason, DestroyIdentity, DriftMode, ResolvedInputs, RunInputs, WorkspaceObservation,
};

/// Requeue delay of a destroy without identity. The namespace's labels, which may allow it, are not watched.
const IDENTITY_RETRY: Duration = Duration::from_secs(30);

/// The next action.
#[derive(Debug)]
pub enum Decision {
    /// Do nothing until the object is unpaused.
    Pause,
    /// Add the finalizer before anything else.
    AddFinalizer,
    /// A run is active; wait for it to change.
    AwaitRun,
    /// Cancel an active run that is obsolete and not yet changing resources.
    CancelRun,
    /// Write the result of the finished run to the status; another run, which would replace it, starts afterwards.
    RecordRun,
    /// Wait for a prerequisite; requeue after the delay, if any.
    Wait(ConditionReason, Option<Duration>),
    /// Invalid; wait for a change of the object or its references.
    Reject(ConditionReason),
    /// Start an apply or a drift check.
    StartRun {
        /// Whether to check, apply or correct drift.
        goal: Goal,
        /// Scheduling priority.
        priority: RunPriority,
    },
    /// Start a destroy.
    StartDestroy,
    /// Nothing to do until the next retry or drift check.
    Idle(Option<Duration>),
    /// Deletion is complete; remove the finalizer.
    RemoveFinalizer,
}

/// Decides the next action. `status` already includes the last run.
pub fn decide(
    observed: &WorkspaceObservation,
    status: &WorkspaceTemplateApplyStatus,
    now: Timestamp,
) -> Decision {
    let decision = decide_next(observed, status, now);
    // The state is released only after the status says that everything is destroyed: if the process dies in between and the disk is
    // lost, nothing else tells a released state from a lost one.
    let needs_record = match decision {
        Decision::StartRun { .. } | Decision::StartDestroy => true,
        Decision::RemoveFinalizer => observed.run.as_ref().is_some_and(is_destroyed),
        _ => false,
    };
    if needs_record && !observed.is_run_recorded { Decision::RecordRun } else { decision }
}

fn decide_next(
    observed: &WorkspaceObservation,
    status: &WorkspaceTemplateApplyStatus,
    now: Timestamp,
) -> Decision {
    let under_way = observed.run.as_ref().filter(|run| !run.is_finished());
    if observed.paused {
        let early = under_way.is_some_and(|run| !run.is_mutating());
        return if early { Decision::CancelRun } else { Decision::Pause };
    }
    if let Some(run) = under_way {
        let unwanted = observed.deleting && run.operation != RunOperation::Destroy && !run.is_mutating();
        return if unwanted { Decision::CancelRun } else { Decision::AwaitRun };
    }
    if observed.deleting {
        return decide_deletion(observed, status, now);
    }
    if !observed.has_finalizer {
        return Decision::AddFinalizer;
    }
    match &observed.inputs {
        RunInputs::NotRead => Decision::AwaitRun,
        RunInputs::Waiting(reason) => Decision::Wait(reason.clone(), None),
        RunInputs::Invalid(reason) => Decision::Reject(reason.clone()),
        RunInputs::Resolved(inputs) => decide_run(observed, inputs, status, now),
    }
}

/// Decision for an object that is being deleted.
fn decide_deletion(
    observed: &WorkspaceObservation,
    status: &WorkspaceTemplateApplyStatus,
    now: Timestamp,
) -> Decision {
    let destroyed = observed.run.as_ref().is_some_and(is_destroyed) || is_recorded_as_destroyed(status);
    // Only the owner of a workspace destroys it.
    let is_foreign = observed.other_owner.is_some();
    if !observed.has_finalizer || observed.retains_resources || destroyed || is_foreign {
        return Decision::RemoveFinalizer;
    }
    if !observed.dependents.is_empty() {
        let message = format!("waiting for dependents to be deleted: {}", observed.dependents.join(", "));
        return Decision::Wait(ConditionReason::new(reasons::WAITING_FOR_DEPENDENTS, message), None);
    }
    if let DestroyIdentity::Unavailable(why) = &observed.destroy_identity
        && may_have_resources(observed, status)
    {
        return Decision::Wait(why.clone(), Some(IDENTITY_RETRY));
    }
    let failed = last_phase_of(status, RunOperation::Destroy).is_some_and(|phase| phase == RunPhase::Failed);
    match time_until_retry(status, now).filter(|_| failed) {
        Some(pause) => {
            Decision::Wait(ConditionReason::new(reasons::DELETING, last_error_message(status)), Some(pause))
        }
        None => Decision::StartDestroy,
    }
}

/// Whether a run may have created something. Where none ever started, a deletion needs no identity.
fn may_have_resources(observed: &WorkspaceObservation, status: &WorkspaceTemplateApplyStatus) -> bool {
    observed.has_directory || status.run.is_some() || status.applied == Some(true)
}

fn is_destroyed(run: &RunSnapshot) -> bool {
    matches!(run.result, Some(RunResult::Destroyed))
}

/// Whether a destroy completed, of this process or of an earlier one. No run starts after it, because the object is being deleted.
fn is_recorded_as_destroyed(status: &WorkspaceTemplateApplyStatus) -> bool {
    let completed =
        last_phase_of(status, RunOperation::Destroy).is_some_and(|phase| phase == RunPhase::Succeeded);
    completed && status.applied == Some(false)
}

/// Decision for an object whose inputs are resolved.
fn decide_run(
    observed: &WorkspaceObservation,
    inputs: &ResolvedInputs,
    status: &WorkspaceTemplateApplyStatus,
    now: Timestamp,
) -> Decision {
    let goal = |approved| if inputs.allowed.apply { Goal::Apply { approved } } else { Goal::DetectDrift };
    let start = |priority| Decision::StartRun { goal: goal(None), priority };
    let run = status.run.as_ref();
    // A drift check is repeated as a drift check: an apply would correct drift that is only to be detected.
    let was_check =
        run.is_some_and(|run| run.operation == RunOperation::Check) && is_up_to_date(inputs, status);
    let retry = || {
        if was_check {
            Decision::StartRun { goal: drift_goal(observed, inputs), priority: RunPriority::Retry }
        } else {
            start(RunPriority::Retry)
        }
    };
    let same = run.and_then(|run| run.inputs_hash.as_deref()) == Some(inputs.hash.as_str());
    let asked = observed
        .run_requested_at
        .filter(|at| run.and_then(|run| run.started_at.as_ref()).is_none_or(|started| started.0 < *at));
    match run.map(|run| run.phase).filter(|_| same && asked.is_none()) {
        Some(RunPhase::AwaitingApproval) => {
            let hash = status.plan.as_ref().map(|plan| plan.hash.clone());
            match observed.approved_plan.clone().filter(|approved| Some(approved) == hash.as_ref()) {
                Some(approved) => {
                    Decision::StartRun { goal: goal(Some(approved)), priority: RunPriority::Change }
                }
                None => decide_drift_check(observed, inputs, status, now),
            }
        }
        Some(RunPhase::Failed) => match time_until_retry(status, now) {
            Some(pause) => Decision::Idle(Some(pause)),
            None => retry(),
        },
        Some(RunPhase::Succeeded) if is_up_to_date(inputs, status) => {
            decide_drift_check(observed, inputs, status, now)
        }
        // Interrupted by the end of the process, or cancelled.
        Some(_) => retry(),
        None => start(RunPriority::Change),
    }
}

/// Whether the current inputs are applied, or checked where applying is not allowed.
fn is_up_to_date(inputs: &ResolvedInputs, status: &WorkspaceTemplateApplyStatus) -> bool {
    let applied = status.inputs_hash.as_deref() == Some(inputs.hash.as_str());
    applied || !inputs.allowed.apply
}

/// What a drift check may do about drift.
fn drift_goal(observed: &WorkspaceObservation, inputs: &ResolvedInputs) -> Goal {
    let corrects = observed.drift.mode == DriftMode::Correct && inputs.allowed.apply;
    if corrects { Goal::CorrectDrift } else { Goal::DetectDrift }
}

/// Decision for a workspace that is up to date: start a drift check or stay idle.
fn decide_drift_check(
    observed: &WorkspaceObservation,
    inputs: &ResolvedInputs,
    status: &WorkspaceTemplateApplyStatus,
    now: Timestamp,
) -> Decision {
    let goal = drift_goal(observed, inputs);
    if !observed.has_directory {
        // The disk is new; a run restores state and outputs from the backup.
        return Decision::StartRun { goal, priority: RunPriority::Retry };
    }
    if observed.drift.mode == DriftMode::Off {
        return Decision::Idle(None);
    }
    let checked = status.last_checked_time.as_ref().map(|time| time.0);
    let due = checked.map(|at| at.saturating_add(jittered_interval(&observed.drift.interval, &inputs.hash)));
    match due {
        Some(Ok(due)) if due > now => Decision::Idle(Some(duration_between(now, due))),
        _ => Decision::StartRun { goal, priority: RunPriority::Drift },
    }
}

/// Spreads the checks of many workspaces over a tenth of the interval. Deterministic for each set of inputs.
fn jittered_interval(interval: &Duration, hash: &str) -> Duration {
    let place = hash.bytes().take(4).fold(0_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    interval.mul_f64(0.95 + 0.1 * f64::from(place % 1000) / 1000.0)
}

/// Time until the last error may be retried; `None` if it is due.
fn time_until_retry(status: &WorkspaceTemplateApplyStatus, now: Timestamp) -> Option<Duration> {
    let at = status.last_error.as_ref()?.retry_at.as_ref()?.0;
    (at > now).then(|| duration_between(now, at))
}

fn duration_between(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}

fn last_phase_of(status: &WorkspaceTemplateApplyStatus, operation: RunOperation) -> Option<RunPhase> {
    status.run.as_ref().filter(|run| run.operation == operation).map(|run| run.phase)
}

fn last_error_message(status: &WorkspaceTemplateApplyStatus) -> String {
    status.last_error.as_ref().map(|error| error.message.clone()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
