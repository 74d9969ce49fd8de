//! What is said of a workspace. Pure: what was said before and what happened go in, what is to be said comes out.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;
use terraform_driver::output::Outputs;

use super::{decide::Decision, facts::Reason};
use crate::{
    api::{
        LastError, RunOperation, RunRecord, RunStatus, WorkspaceTemplateApplyStatus,
        conditions::{reasons, types},
    },
    k8s::conditions::{self, Said},
    runs::{End, Trouble, View, pause},
};

/// How many runs are remembered.
const REMEMBER: usize = 10;

type Status = WorkspaceTemplateApplyStatus;

/// Takes in what the run of this process says. `seed` spreads retries of many objects.
pub fn take_in(mut status: Status, run: &View, seed: &str) -> Status {
    let known = status.run.as_ref().is_some_and(|it| it.id == run.id && it.finished_at.is_some());
    // As long as this run has not got to a command, what is known of the last one stands: it is not news each time.
    let last = status.run.take().filter(|_| !run.is_over()).and_then(|run| run.without_gateway);
    status.run = Some(RunStatus {
        id: run.id.clone(),
        operation: run.operation,
        phase: run.phase,
        started_at: Some(time(run.started)),
        finished_at: run.finished.map(time),
        inputs_hash: Some(run.inputs_hash.clone()),
        waiting_for: run.waiting_for.clone(),
        without_gateway: run.plain.clone().or(last),
        notes: run.notes.clone(),
    });
    status.progress.clone_from(&run.progress);
    if run.plan.is_some() {
        status.plan.clone_from(&run.plan);
    }
    if let (Some(end), Some(finished), false) = (&run.end, run.finished, known) {
        finish(&mut status, run, end, (finished, seed));
    }
    status
}

/// Takes in how a run ended, once.
fn finish(status: &mut Status, run: &View, end: &End, (finished, seed): (Timestamp, &str)) {
    match end {
        End::Applied | End::Unchanged if run.operation == RunOperation::Apply => {
            if matches!(end, End::Applied) || status.last_applied_time.is_none() {
                status.last_applied_time = Some(time(finished));
            }
            status.applied = Some(true);
            status.inputs_hash = Some(run.inputs_hash.clone());
            status.last_checked_time = Some(time(finished));
            status.last_error = None;
        }
        End::Unchanged | End::Applied | End::Differs { .. } => {
            status.last_checked_time = Some(time(finished));
            status.last_error = None;
        }
        End::Blocked { hash, .. } => {
            status.last_checked_time = Some(time(finished));
            status.last_error = None;
            status.plan.get_or_insert_default().hash.clone_from(hash);
        }
        End::Failed(trouble) => {
            let attempts =
                status.last_error.as_ref().and_then(|it| it.attempts).unwrap_or(0).saturating_add(1);
            status.last_error = Some(error(trouble, attempts, finished, seed));
        }
        End::Destroyed => {
            status.last_error = None;
            status.outputs = BTreeMap::new();
        }
        End::Interrupted => {}
    }
    remember(status, run, end);
}

fn error(trouble: &Trouble, attempts: i32, finished: Timestamp, seed: &str) -> LastError {
    let attempt = u32::try_from(attempts).unwrap_or(1);
    let retry = pause(trouble.class, attempt, jitter(seed, attempts));
    LastError {
        class: trouble.class.name().to_owned(),
        code: trouble.code.clone(),
        address: trouble.address.clone(),
        message: trouble.message.clone(),
        retry_at: retry.and_then(|pause| finished.checked_add(pause).ok()).map(time),
        attempts: Some(attempts),
    }
}

/// From 0 to 1, and the same for the same object and attempt.
fn jitter(seed: &str, attempts: i32) -> f64 {
    let sum = seed
        .bytes()
        .fold(attempts.unsigned_abs(), |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    f64::from(sum % 1000) / 1000.0
}

fn remember(status: &mut Status, run: &View, end: &End) {
    // Checks that found nothing would push everything of interest out.
    if matches!(end, End::Unchanged) && run.operation != RunOperation::Destroy && status.history.len() > 1 {
        return;
    }
    let why = match end {
        End::Failed(trouble) => Some(trouble.message.clone()),
        End::Blocked { reasons, .. } => Some(reasons.join("; ")),
        _ => None,
    };
    let record = RunRecord {
        id: run.id.clone(),
        operation: run.operation,
        phase: run.phase,
        started_at: Some(time(run.started)),
        finished_at: run.finished.map(time),
        plan: run.plan.clone(),
        error: why,
    };
    status.history.insert(0, record);
    status.history.truncate(REMEMBER);
}

/// Takes in outputs that are nobody's secret.
pub fn set_outputs(status: &mut Status, outputs: &Outputs) {
    status.outputs = outputs
        .public()
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.clone()))
        .collect::<BTreeMap<String, Value>>();
}

/// All conditions, from what is known and what is about to happen.
pub fn conditions(
    status: &mut Status,
    run: Option<&View>,
    decision: &Decision,
    generation: Option<i64>,
    now: Timestamp,
) {
    let said = [
        Some(synced(status, run, decision)),
        Some(ready(status, decision)),
        Some(planned(status)),
        drifted(status, run),
        blocked(status, run),
    ];
    for said in said.into_iter().flatten() {
        let _transition = conditions::set(&mut status.conditions, said, generation, now);
    }
    status.observed_generation = generation;
}

fn synced(status: &Status, run: Option<&View>, decision: &Decision) -> Said {
    let no = |reason: &'static str, message: String| Said::no(types::SYNCED, reason, message);
    match decision {
        Decision::Pause => no(reasons::RECONCILE_PAUSED, "nothing is done while this is paused".to_owned()),
        Decision::Refuse(Reason { reason, message }) | Decision::Wait(Reason { reason, message }, _) => {
            no(reason, message.clone())
        }
        _ => match (&status.last_error, run.and_then(|run| run.end.as_ref())) {
            (Some(error), _) if error.class == "Wait" => no(reasons::WAITING_FOR_EKS, full(error)),
            (Some(error), _) => no(reasons::RECONCILE_ERROR, full(error)),
            (None, Some(End::Blocked { reasons: why, .. })) => no(reasons::APPROVAL_REQUIRED, why.join("; ")),
            (None, _) if was(status, types::DESTRUCTIVE_CHANGE_BLOCKED) && run.is_none() => {
                no(reasons::APPROVAL_REQUIRED, said_before(status, types::DESTRUCTIVE_CHANGE_BLOCKED))
            }
            _ if status.inputs_hash.is_none() => no(reasons::RUNNING, "the first run is not over".to_owned()),
            _ => Said::yes(types::SYNCED, reasons::RECONCILE_SUCCESS, ""),
        },
    }
}

/// An error with where it happened and when it is tried again.
pub fn full(error: &LastError) -> String {
    let address = error.address.as_ref().map(|it| format!("{it}: ")).unwrap_or_default();
    let code = error.code.as_ref().filter(|it| !error.message.contains(*it)).map(|it| format!(" ({it})"));
    let retry =
        error.retry_at.as_ref().map(|it| format!("; next try at {}", it.0.strftime("%Y-%m-%dT%H:%M:%SZ")));
    format!("{address}{}{}{}", error.message, code.unwrap_or_default(), retry.unwrap_or_default())
}

fn ready(status: &Status, decision: &Decision) -> Said {
    let no = |reason: &'static str, message: &str| Said::no(types::READY, reason, message);
    match decision {
        Decision::Destroy | Decision::LetGo => no(reasons::DELETING, "is being destroyed"),
        Decision::Wait(Reason { reason, message }, _)
            if *reason == reasons::WAITING_FOR_DEPENDENTS || *reason == reasons::DELETING =>
        {
            no(reasons::DELETING, message)
        }
        _ if status.run.as_ref().is_some_and(|run| run.operation == RunOperation::Destroy) => {
            no(reasons::DELETING, "is being destroyed")
        }
        _ if status.applied == Some(true) => Said::yes(types::READY, reasons::AVAILABLE, ""),
        _ if status.last_error.as_ref().is_some_and(|error| error.class != "Wait") => {
            no(reasons::UNAVAILABLE, "the first apply has not succeeded")
        }
        _ => no(reasons::CREATING, "the first apply is not over"),
    }
}

fn planned(status: &Status) -> Said {
    match &status.plan {
        Some(plan) => {
            let counts = format!(
                "{} to add, {} to change, {} to replace, {} to destroy",
                plan.add, plan.change, plan.replace, plan.destroy
            );
            Said::yes(types::PLANNED, reasons::PLANNED, counts)
        }
        None => Said::no(types::PLANNED, reasons::RUNNING, "there is no plan yet"),
    }
}

fn drifted(status: &Status, run: Option<&View>) -> Option<Said> {
    match run.and_then(|run| run.end.as_ref()) {
        Some(End::Differs { what }) => {
            Some(Said::yes(types::DRIFTED, reasons::DRIFT_DETECTED, format!("differs: {}", what.join(", "))))
        }
        Some(End::Applied | End::Unchanged) => Some(Said::no(types::DRIFTED, reasons::IN_SYNC, "")),
        _ => before(status, types::DRIFTED, reasons::NOT_CHECKED),
    }
}

fn blocked(status: &Status, run: Option<&View>) -> Option<Said> {
    match run.and_then(|run| run.end.as_ref()) {
        Some(End::Blocked { reasons: why, hash }) => {
            let message = format!(
                "{}; if that is meant, approve the plan {hash}: capt approve, or the annotation capt.x-k8s.io/approve-plan",
                why.join("; ")
            );
            Some(Said::yes(types::DESTRUCTIVE_CHANGE_BLOCKED, reasons::APPROVAL_REQUIRED, message))
        }
        Some(End::Applied | End::Unchanged | End::Destroyed) => {
            Some(Said::no(types::DESTRUCTIVE_CHANGE_BLOCKED, reasons::NOTHING_TO_APPROVE, ""))
        }
        _ => before(status, types::DESTRUCTIVE_CHANGE_BLOCKED, reasons::NOTHING_TO_APPROVE),
    }
}

/// What was said before stays as long as nothing new is known.
fn before(status: &Status, kind: &'static str, otherwise: &'static str) -> Option<Said> {
    conditions::find(&status.conditions, kind).is_none().then(|| Said::no(kind, otherwise, ""))
}

fn was(status: &Status, kind: &str) -> bool {
    conditions::is_true(&status.conditions, kind)
}

fn said_before(status: &Status, kind: &str) -> String {
    conditions::find(&status.conditions, kind).map(|it| it.message.clone()).unwrap_or_default()
}

fn time(at: Timestamp) -> Time {
    Time(conditions::whole_seconds(at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::RunPhase;

    fn view(id: &str, plain: Option<&str>, end: Option<End>) -> View {
        let started = "2026-11-01T10:00:00Z".parse().unwrap();
        let mut view = View::new(id.to_owned(), RunOperation::Check, started, "h".to_owned());
        view.plain = plain.map(str::to_owned);
        view.phase = end.as_ref().map_or(RunPhase::Planning, End::phase);
        view.finished = end.as_ref().map(|_| started);
        view.end = end;
        view
    }

    fn why(status: &Status) -> Option<&str> {
        status.run.as_ref()?.without_gateway.as_deref()
    }

    #[test]
    fn why_a_run_does_without_the_gateway_stays_until_another_has_shared() {
        let status = take_in(Status::default(), &view("1", Some("no"), Some(End::Unchanged)), "s");
        assert_eq!(why(&status), Some("no"));
        let status = take_in(status, &view("2", None, None), "s");
        assert_eq!(why(&status), Some("no"), "the next one has not started terraform yet");
        let status = take_in(status, &view("2", None, Some(End::Unchanged)), "s");
        assert_eq!(why(&status), None);
    }
}
