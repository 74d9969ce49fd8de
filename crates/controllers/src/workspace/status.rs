//! Computes the status of a workspace from the previous status, the run and the decision. Pure: no I/O.

use std::collections::BTreeMap;

use capt_engine::{
    pipeline::Goal,
    runs::{RunResult, RunSnapshot, retry_delay, status_class},
};
use capt_kinds::{
    api::{
        IdentityRef, LastError, PlanApproval, RunOperation, RunPhase, RunRecord, RunStatus,
        WorkspaceTemplateApply, WorkspaceTemplateApplyStatus,
        conditions::{reasons, types},
        names,
    },
    grant::Granted,
};
use capt_kube::k8s::conditions::{self, ConditionUpdate};
use capt_model::workspaces::WorkspaceKey;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;
use terraform_driver::{classify::TerraformFailure, output::Outputs};

use super::{
    act::WorkspaceOutcome,
    decide::Decision,
    observation::{ConditionReason, RunInputs, WorkspaceObservation},
};

/// Maximum number of runs in the history.
const HISTORY_LIMIT: usize = 10;

type Status = WorkspaceTemplateApplyStatus;

/// The object's status with its run recorded in it. The uid seeds the jitter.
pub fn with_run(object: &WorkspaceTemplateApply, run: Option<&RunSnapshot>) -> Status {
    let before = object.status.clone().unwrap_or_default();
    match run {
        Some(run) => record_run(before, run, object.metadata.uid.as_deref().unwrap_or_default()),
        None => before,
    }
}

/// Whether the status of the object has the result of this run.
pub fn is_recorded(object: &WorkspaceTemplateApply, run: &RunSnapshot) -> bool {
    let recorded = object.status.as_ref().and_then(|it| it.run.as_ref());
    recorded.is_some_and(|it| it.id == run.id && it.finished_at.is_some())
}

/// Copies the run into the status. `seed` is the jitter seed, which spreads the retries of many objects.
fn record_run(mut status: Status, run: &RunSnapshot, seed: &str) -> Status {
    let inputs = status.run.as_ref().is_some_and(|it| it.id == run.id && it.finished_at.is_some());
    // Until this run starts a command, the previous reason stays; otherwise every run would repeat the event.
    let last = status.run.take().filter(|_| !run.is_finished()).and_then(|run| run.without_gateway);
    status.run = Some(RunStatus {
        id: run.id.clone(),
        operation: run.operation,
        phase: run.phase,
        started_at: Some(to_time(run.started_at)),
        finished_at: run.finished_at.map(to_time),
        inputs_hash: Some(run.inputs_hash.clone()),
        waiting_for: run.waiting_for.clone(),
        without_gateway: run.gateway_bypass.clone().or(last),
        notes: run.notes.clone(),
    });
    status.progress.clone_from(&run.progress);
    if run.plan.is_some() {
        status.plan.clone_from(&run.plan);
    }
    if let (Some(end), Some(finished), false) = (&run.result, run.finished_at, inputs) {
        record_result(&mut status, run, end, (finished, seed));
    }
    status
}

/// Records the result of a finished run, once.
fn record_result(
    status: &mut Status,
    run: &RunSnapshot,
    end: &RunResult,
    (finished, seed): (Timestamp, &str),
) {
    match end {
        RunResult::Applied | RunResult::Unchanged if run.operation == RunOperation::Apply => {
            if matches!(end, RunResult::Applied) || status.last_applied_time.is_none() {
                status.last_applied_time = Some(to_time(finished));
            }
            status.applied = Some(true);
            status.inputs_hash = Some(run.inputs_hash.clone());
            status.last_checked_time = Some(to_time(finished));
            status.last_error = None;
        }
        RunResult::Unchanged | RunResult::Applied | RunResult::Differs { .. } => {
            status.last_checked_time = Some(to_time(finished));
            status.last_error = None;
        }
        RunResult::Blocked { hash, .. } => {
            status.last_checked_time = Some(to_time(finished));
            status.last_error = None;
            status.plan.get_or_insert_default().hash.clone_from(hash);
        }
        RunResult::Failed(trouble) => {
            // Failures of another class say nothing about this one: EKS may be busy for many attempts before something fails.
            let earlier = status.last_error.as_ref().filter(|it| it.class == status_class(trouble.class));
            let attempts = earlier.and_then(|it| it.attempts).unwrap_or(0).saturating_add(1);
            status.last_error = Some(build_last_error(trouble, attempts, finished, seed));
        }
        RunResult::Destroyed => {
            status.applied = Some(false);
            status.last_error = None;
            status.outputs = BTreeMap::new();
        }
        RunResult::Interrupted => {}
    }
    append_history(status, run, end);
}

fn build_last_error(trouble: &TerraformFailure, attempts: i32, finished: Timestamp, seed: &str) -> LastError {
    let attempt = u32::try_from(attempts).unwrap_or(1);
    let retry = retry_delay(trouble.class, attempt, jitter(seed, attempts));
    LastError {
        class: status_class(trouble.class),
        code: trouble.code.clone(),
        address: trouble.address.clone(),
        message: trouble.message.clone(),
        retry_at: finished.checked_add(retry).ok().map(to_time),
        attempts: Some(attempts),
    }
}

/// Jitter between 0 and 1, deterministic for each object and attempt.
fn jitter(seed: &str, attempts: i32) -> f64 {
    let sum = seed
        .bytes()
        .fold(attempts.unsigned_abs(), |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    f64::from(sum % 1000) / 1000.0
}

fn append_history(status: &mut Status, run: &RunSnapshot, end: &RunResult) {
    // Checks without changes would push the relevant runs out of the history.
    if matches!(end, RunResult::Unchanged)
        && run.operation != RunOperation::Destroy
        && status.history.len() > 1
    {
        return;
    }
    let why = match end {
        RunResult::Failed(trouble) => Some(trouble.message.clone()),
        RunResult::Blocked { reasons, .. } => Some(reasons.join("; ")),
        _ => None,
    };
    let record = RunRecord {
        id: run.id.clone(),
        operation: run.operation,
        phase: run.phase,
        started_at: Some(to_time(run.started_at)),
        finished_at: run.finished_at.map(to_time),
        plan: run.plan.clone(),
        error: why,
        approved_by: approver(status, run),
    };
    status.history.insert(0, record);
    status.history.truncate(HISTORY_LIMIT);
}

/// Who approved the plan that the run applied, if it needed an approval.
fn approver(status: &Status, run: &RunSnapshot) -> Option<String> {
    let approval = status.approval.as_ref()?;
    let is_of_run = run.plan.as_ref().is_some_and(|plan| plan.hash == approval.plan_hash);
    approval.user.clone().filter(|_| is_of_run && run.phase != RunPhase::AwaitingApproval)
}

/// The status after a decision was carried out. `status` is the previous one with the last run recorded in it.
pub fn after_act(
    mut status: Status,
    (observed, decision): (&WorkspaceObservation, &Decision),
    outcome: &WorkspaceOutcome,
    (key, now): (&WorkspaceKey, Timestamp),
) -> Status {
    if let Some(outputs) = &outcome.outputs {
        set_outputs(&mut status, outputs);
    }
    if let Some(arns) = &outcome.eks_cluster_arns {
        status.eks_cluster_arns.clone_from(arns);
    }
    status.workspace_name = Some(key.name.clone());
    set_references(&mut status, observed);
    if let Decision::StartRun { goal: Goal::Apply { approved: Some(hash) }, .. } = decision {
        let user = observed.approved_by.clone();
        status.approval =
            Some(PlanApproval { plan_hash: hash.clone(), user, accepted_at: Some(to_time(now)) });
    }
    let generation = outcome.object.metadata.generation;
    set_conditions(&mut status, observed, decision, generation, now);
    status
}

/// Sets the references to the connection Secret and the identity in the status.
fn set_references(status: &mut Status, observed: &WorkspaceObservation) {
    if let RunInputs::Resolved(inputs) = &observed.inputs {
        status.connection_secret_ref = inputs.connection_secret.clone().map(Granted::into_inner);
        status.identity_ref = inputs.identity.as_ref().map(|name| IdentityRef { name: name.clone() });
    }
}

/// Sets the outputs that are not sensitive.
fn set_outputs(status: &mut Status, outputs: &Outputs) {
    status.outputs = outputs
        .non_sensitive()
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.clone()))
        .collect::<BTreeMap<String, Value>>();
}

/// Sets all conditions from the status, the run and the decision.
fn set_conditions(
    status: &mut Status,
    observed: &WorkspaceObservation,
    decision: &Decision,
    generation: Option<i64>,
    now: Timestamp,
) {
    let run = observed.run.as_ref();
    let said = [
        Some(synced_condition(status, run, decision)),
        Some(ready_condition(status, decision)),
        Some(planned_condition(status)),
        drifted_condition(status, run),
        incomplete_approval(status, observed).or_else(|| blocked_condition(status, run)),
    ];
    for said in said.into_iter().flatten() {
        let _transition = conditions::set(&mut status.conditions, said, generation, now);
    }
    status.observed_generation = generation;
}

fn synced_condition(status: &Status, run: Option<&RunSnapshot>, decision: &Decision) -> ConditionUpdate {
    let no =
        |reason: &'static str, message: String| ConditionUpdate::status_false(types::SYNCED, reason, message);
    match decision {
        Decision::Pause => no(reasons::RECONCILE_PAUSED, "reconciliation is paused".to_owned()),
        Decision::Reject(ConditionReason { reason, message })
        | Decision::Wait(ConditionReason { reason, message }, _) => no(reason, message.clone()),
        _ => match (&status.last_error, run.and_then(|run| run.result.as_ref())) {
            (Some(error), _) if error.class.is_wait() => {
                no(reasons::WAITING_FOR_EKS, format_last_error(error))
            }
            (Some(error), _) => no(reasons::RECONCILE_ERROR, format_last_error(error)),
            (None, Some(RunResult::Blocked { reasons: why, .. })) => {
                no(reasons::APPROVAL_REQUIRED, why.join("; "))
            }
            (None, _) if is_condition_true(status, types::DESTRUCTIVE_CHANGE_BLOCKED) && run.is_none() => {
                no(reasons::APPROVAL_REQUIRED, condition_message(status, types::DESTRUCTIVE_CHANGE_BLOCKED))
            }
            _ if status.inputs_hash.is_none() => {
                no(reasons::RUNNING, "the first run is in progress".to_owned())
            }
            _ => ConditionUpdate::status_true(types::SYNCED, reasons::RECONCILE_SUCCESS, ""),
        },
    }
}

/// Formats an error with its resource address, code and next retry.
pub fn format_last_error(error: &LastError) -> String {
    let address = error.address.as_ref().map(|it| format!("{it}: ")).unwrap_or_default();
    let code = error.code.as_ref().filter(|it| !error.message.contains(*it)).map(|it| format!(" ({it})"));
    let retry =
        error.retry_at.as_ref().map(|it| format!("; next retry at {}", it.0.strftime("%Y-%m-%dT%H:%M:%SZ")));
    format!("{address}{}{}{}", error.message, code.unwrap_or_default(), retry.unwrap_or_default())
}

fn ready_condition(status: &Status, decision: &Decision) -> ConditionUpdate {
    let no =
        |reason: &'static str, message: &str| ConditionUpdate::status_false(types::READY, reason, message);
    match decision {
        Decision::StartDestroy | Decision::RemoveFinalizer => {
            no(reasons::DELETING, "resources are being destroyed")
        }
        Decision::Wait(ConditionReason { reason, message }, _)
            if [reasons::WAITING_FOR_DEPENDENTS, reasons::WAITING_FOR_IDENTITY, reasons::DELETING]
                .contains(reason) =>
        {
            no(reasons::DELETING, message)
        }
        _ if status.run.as_ref().is_some_and(|run| run.operation == RunOperation::Destroy) => {
            no(reasons::DELETING, "resources are being destroyed")
        }
        _ if status.applied == Some(true) => {
            ConditionUpdate::status_true(types::READY, reasons::AVAILABLE, "")
        }
        _ if status.last_error.as_ref().is_some_and(|error| !error.class.is_wait()) => {
            no(reasons::UNAVAILABLE, "the first apply has not succeeded")
        }
        _ => no(reasons::CREATING, "the first apply is in progress"),
    }
}

fn planned_condition(status: &Status) -> ConditionUpdate {
    match &status.plan {
        Some(plan) => {
            let counts = format!(
                "{} to add, {} to change, {} to replace, {} to destroy",
                plan.add, plan.change, plan.replace, plan.destroy
            );
            ConditionUpdate::status_true(types::PLANNED, reasons::PLANNED, counts)
        }
        None => ConditionUpdate::status_false(types::PLANNED, reasons::RUNNING, "no plan has been made yet"),
    }
}

fn drifted_condition(status: &Status, run: Option<&RunSnapshot>) -> Option<ConditionUpdate> {
    match run.and_then(|run| run.result.as_ref()) {
        Some(RunResult::Differs { addresses: what }) => Some(ConditionUpdate::status_true(
            types::DRIFTED,
            reasons::DRIFT_DETECTED,
            format!("drifted: {}", what.join(", ")),
        )),
        Some(RunResult::Applied | RunResult::Unchanged) => {
            Some(ConditionUpdate::status_false(types::DRIFTED, reasons::IN_SYNC, ""))
        }
        _ => default_if_absent(status, types::DRIFTED, reasons::NOT_CHECKED),
    }
}

/// The plan still waits, because the approval has only a part of its hash.
fn incomplete_approval(status: &Status, observed: &WorkspaceObservation) -> Option<ConditionUpdate> {
    let run = status.run.as_ref().filter(|run| run.phase == RunPhase::AwaitingApproval)?;
    let hash = &status.plan.as_ref()?.hash;
    let given = observed.approved_plan.as_deref().map(str::trim)?;
    (run.finished_at.is_some() && !given.is_empty() && given != hash && hash.starts_with(given)).then(|| {
        ConditionUpdate::status_true(
            types::DESTRUCTIVE_CHANGE_BLOCKED,
            reasons::APPROVAL_REQUIRED,
            format!(
                "{given} is only a part of the plan hash, so the approval does not count; use `capt approve`, or set the annotation \
                 {} to {hash}",
                names::APPROVE_PLAN_ANNOTATION
            ),
        )
    })
}

fn blocked_condition(status: &Status, run: Option<&RunSnapshot>) -> Option<ConditionUpdate> {
    match run.and_then(|run| run.result.as_ref()) {
        Some(RunResult::Blocked { reasons: why, hash }) => {
            let message = format!(
                "{}; to apply it anyway, approve plan {hash} with `capt approve` or the annotation capt.x-k8s.io/approve-plan",
                why.join("; ")
            );
            Some(ConditionUpdate::status_true(
                types::DESTRUCTIVE_CHANGE_BLOCKED,
                reasons::APPROVAL_REQUIRED,
                message,
            ))
        }
        Some(RunResult::Applied | RunResult::Unchanged | RunResult::Destroyed) => Some(
            ConditionUpdate::status_false(types::DESTRUCTIVE_CHANGE_BLOCKED, reasons::NOTHING_TO_APPROVE, ""),
        ),
        _ => default_if_absent(status, types::DESTRUCTIVE_CHANGE_BLOCKED, reasons::NOTHING_TO_APPROVE),
    }
}

/// Default for a missing condition; an existing one stays as long as there is no new result.
fn default_if_absent(
    status: &Status,
    kind: &'static str,
    otherwise: &'static str,
) -> Option<ConditionUpdate> {
    conditions::find(&status.conditions, kind)
        .is_none()
        .then(|| ConditionUpdate::status_false(kind, otherwise, ""))
}

fn is_condition_true(status: &Status, kind: &str) -> bool {
    conditions::is_true(&status.conditions, kind)
}

fn condition_message(status: &Status, kind: &str) -> String {
    conditions::find(&status.conditions, kind).map(|it| it.message.clone()).unwrap_or_default()
}

fn to_time(at: Timestamp) -> Time {
    Time(conditions::whole_seconds(at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use capt_kinds::api::RunPhase;

    fn snapshot(id: &str, plain: Option<&str>, end: Option<RunResult>) -> RunSnapshot {
        let started = "2026-11-01T10:00:00Z".parse().unwrap();
        let mut view = RunSnapshot::new(id.to_owned(), RunOperation::Check, started, "h".to_owned());
        view.gateway_bypass = plain.map(str::to_owned);
        view.phase = end.as_ref().map_or(RunPhase::Planning, RunResult::phase);
        view.finished_at = end.as_ref().map(|_| started);
        view.result = end;
        view
    }

    fn gateway_bypass(status: &Status) -> Option<&str> {
        status.run.as_ref()?.without_gateway.as_deref()
    }

    #[test]
    fn why_a_run_does_without_the_gateway_stays_until_another_has_shared() {
        let status =
            record_run(Status::default(), &snapshot("1", Some("no"), Some(RunResult::Unchanged)), "s");
        assert_eq!(gateway_bypass(&status), Some("no"));
        let status = record_run(status, &snapshot("2", None, None), "s");
        assert_eq!(gateway_bypass(&status), Some("no"), "the next run has not started terraform yet");
        let status = record_run(status, &snapshot("2", None, Some(RunResult::Unchanged)), "s");
        assert_eq!(gateway_bypass(&status), None);
    }
}
