//! Health of an object, derived from its status. Pure.

use capt_kinds::api::{
    LastError, RunOperation, RunPhase, RunStatus,
    conditions::{reasons, types},
};

use super::{
    HealthState, ObjectHealth, RunProgress,
    object_view::{ConditionView, ObjectView, WorkspaceRunStatus},
};

/// Condition reasons that only a spec change can resolve.
const TERMINAL_REASONS: [&str; 4] = [
    reasons::INVALID_SPEC,
    reasons::INVALID_VPC_CONFIG,
    reasons::IDENTITY_NOT_ALLOWED,
    reasons::WORKSPACE_TEMPLATE_NOT_FOUND,
];

/// The health of an object.
pub(super) fn assess(seen: ObjectView<'_>) -> ObjectHealth {
    let mut judgement = match seen.kind() {
        "WorkspaceTemplateApply" => workspace_health(seen),
        "Cluster" => cluster_health(seen),
        "WorkspaceTemplate" => template_health(seen),
        _ => capt_object_health(seen),
    };
    if !matches!(judgement.state, HealthState::Ready | HealthState::Plain) && judgement.since.is_none() {
        judgement.since = seen.since();
    }
    judgement
}

fn paused_health(seen: ObjectView<'_>) -> Option<ObjectHealth> {
    let condition = seen.condition(types::PAUSED).filter(ConditionView::is_true)?;
    Some(ObjectHealth::new(HealthState::Paused, "paused").with_message(Some(condition.summary())))
}

/// A false condition with a terminal reason.
fn invalid_spec_health(seen: ObjectView<'_>) -> Option<ObjectHealth> {
    let wrong = [types::READY, types::SYNCED, types::VPC_READY, types::VALID]
        .into_iter()
        .filter_map(|name| seen.condition(name))
        .find(|condition| condition.is_false() && TERMINAL_REASONS.contains(&condition.reason))?;
    Some(ObjectHealth::new(HealthState::Failed, wrong.reason).with_message(Some(wrong.summary())))
}

fn unobserved_health(seen: ObjectView<'_>) -> Option<ObjectHealth> {
    if !seen.has_status() {
        return Some(ObjectHealth::new(HealthState::Waiting, "not reconciled yet"));
    }
    seen.is_stale().then(|| ObjectHealth::new(HealthState::Working, "reconciling its change"))
}

fn deleting_health(seen: ObjectView<'_>) -> Option<ObjectHealth> {
    let said = seen.condition(types::DELETING).map(|condition| condition.summary());
    seen.is_deleting().then(|| ObjectHealth::new(HealthState::Deleting, "deleting").with_message(said))
}

/// Networks, control planes, identities.
fn capt_object_health(seen: ObjectView<'_>) -> ObjectHealth {
    let early = deleting_health(seen)
        .or_else(|| paused_health(seen))
        .or_else(|| unobserved_health(seen))
        .or_else(|| invalid_spec_health(seen));
    if let Some(judgement) = early {
        return judgement;
    }
    let phase = seen.text_at("/status/phase");
    match seen.condition(types::READY).or_else(|| seen.condition(types::AVAILABLE)) {
        Some(ready) if ready.is_true() => ObjectHealth::new(HealthState::Ready, phase.unwrap_or("Ready")),
        Some(ready) => {
            // Terminal failures show in the workspace or in the reason; everything else is retried.
            let state = if phase == Some("Failed") { HealthState::Retrying } else { HealthState::Working };
            ObjectHealth::new(state, phase.unwrap_or("working")).with_message(Some(ready.summary()))
        }
        None => ObjectHealth::new(HealthState::Working, phase.unwrap_or("working")),
    }
}

/// A Cluster of Cluster API or of capt's standalone controller. v1beta1 reports Ready, v1beta2 Available.
fn cluster_health(seen: ObjectView<'_>) -> ObjectHealth {
    if let Some(judgement) = deleting_health(seen).or_else(|| paused_health(seen)) {
        return judgement;
    }
    let phase = seen.text_at("/status/phase").unwrap_or("Pending");
    let whole = seen.condition(types::AVAILABLE).or_else(|| seen.condition(types::READY));
    let parts: Vec<ConditionView<'_>> = ["InfrastructureReady", "ControlPlaneAvailable"]
        .into_iter()
        .filter_map(|it| seen.condition(it))
        .collect();
    let is_ready = match whole {
        Some(whole) => whole.is_true(),
        None => parts.len() == 2 && parts.iter().all(ConditionView::is_true),
    };
    if is_ready {
        return ObjectHealth::new(HealthState::Ready, phase);
    }
    let wrong = whole.into_iter().chain(parts).find(|condition| !condition.is_true());
    ObjectHealth::new(HealthState::Working, phase).with_message(wrong.map(|condition| condition.summary()))
}

fn template_health(seen: ObjectView<'_>) -> ObjectHealth {
    if let Some(judgement) = deleting_health(seen) {
        return judgement;
    }
    match seen.condition(types::VALID).or_else(|| seen.condition(types::READY)) {
        Some(valid) if valid.is_true() => ObjectHealth::new(HealthState::Ready, "valid"),
        Some(valid) if valid.is_false() => {
            ObjectHealth::new(HealthState::Failed, "not valid").with_message(Some(valid.summary()))
        }
        _ => ObjectHealth::new(HealthState::Plain, ""),
    }
}

fn workspace_health(seen: ObjectView<'_>) -> ObjectHealth {
    let status = seen.run_status();
    let early =
        (!seen.is_deleting()).then(|| paused_health(seen).or_else(|| unobserved_health(seen))).flatten();
    if let Some(judgement) = early.or_else(|| approval_health(seen, &status)) {
        return judgement;
    }
    let ready = seen.condition(types::READY);
    let is_ready = !seen.is_deleting() && ready.is_some_and(|ready| ready.is_true());
    if let Some(judgement) = status.run.as_ref().and_then(|run| running_health(run, &status, is_ready)) {
        return judgement;
    }
    if is_ready {
        return ObjectHealth::new(HealthState::Ready, "ready").with_message(gateway_bypass_note(&status));
    }
    let wrong = if seen.is_deleting() { None } else { invalid_spec_health(seen) };
    if let Some(judgement) = wrong.or_else(|| failed_health(seen, &status)).or_else(|| deleting_health(seen))
    {
        return judgement;
    }
    let synced = seen.condition(types::SYNCED).filter(ConditionView::is_false);
    let said = ready.filter(|ready| !ready.is_true()).or(synced).map(|condition| condition.summary());
    ObjectHealth::new(HealthState::Waiting, "waiting").with_message(said)
}

/// A run without the gateway is slow; this tells the user why.
fn gateway_bypass_note(status: &WorkspaceRunStatus) -> Option<String> {
    status.run.as_ref().and_then(|run| run.without_gateway.clone())
}

fn approval_health(seen: ObjectView<'_>, status: &WorkspaceRunStatus) -> Option<ObjectHealth> {
    let condition = seen.condition(types::DESTRUCTIVE_CHANGE_BLOCKED).filter(ConditionView::is_true);
    let awaits = status.run.as_ref().is_some_and(|run| run.phase == RunPhase::AwaitingApproval);
    if condition.is_none() && !awaits {
        return None;
    }
    let mut judgement = ObjectHealth::new(HealthState::Blocked, "waiting for approval");
    judgement.approve = status.plan.as_ref().map(|plan| plan.hash.clone());
    Some(judgement.with_message(condition.map(|condition| condition.summary())))
}

/// A run in progress. A drift check does not make a workspace unready.
fn running_health(run: &RunStatus, status: &WorkspaceRunStatus, is_ready: bool) -> Option<ObjectHealth> {
    let (state, phase) = match run.phase {
        RunPhase::Pending => (HealthState::Waiting, "queued"),
        RunPhase::Initializing => (HealthState::Working, "initializing"),
        RunPhase::Planning => (HealthState::Working, "planning"),
        RunPhase::Applying => (HealthState::Working, "applying"),
        RunPhase::Destroying => (HealthState::Deleting, "destroying"),
        RunPhase::Collecting => (HealthState::Working, "collecting"),
        RunPhase::AwaitingApproval | RunPhase::Succeeded | RunPhase::Failed | RunPhase::Interrupted => {
            return None;
        }
    };
    if is_ready && run.operation == RunOperation::Check {
        return Some(ObjectHealth::new(HealthState::Ready, "ready, checking drift"));
    }
    let phase = match &run.waiting_for {
        Some(what) if run.phase == RunPhase::Pending => format!("waiting for {what}"),
        _ => phase.to_owned(),
    };
    let mut judgement = ObjectHealth::new(state, phase);
    judgement.since = run.started_at.as_ref().map(|time| time.0);
    judgement.progress =
        status.progress.as_ref().filter(|progress| progress.total > 0).map(|progress| RunProgress {
            done: progress.done,
            total: progress.total,
            slowest: progress.slowest.clone(),
            slowest_seconds: progress.slowest_seconds,
        });
    // Shows the failure of the previous attempt too.
    Some(judgement.with_message(
        status.last_error.as_ref().map(|error| format!("previous attempt: {}", first_line(error))),
    ))
}

fn failed_health(seen: ObjectView<'_>, status: &WorkspaceRunStatus) -> Option<ObjectHealth> {
    // A failed apply is irrelevant for the pending destroy.
    if seen.is_deleting() && status.run.as_ref().is_none_or(|run| run.operation != RunOperation::Destroy) {
        return None;
    }
    let ended_badly = status.run.as_ref().is_some_and(|run| run.phase == RunPhase::Failed);
    let Some(error) = &status.last_error else {
        let said =
            seen.condition(types::SYNCED).or_else(|| seen.condition(types::READY)).map(|it| it.summary());
        return ended_badly.then(|| ObjectHealth::new(HealthState::Failed, "failed").with_message(said));
    };
    let mut judgement = match &error.retry_at {
        Some(_) => ObjectHealth::new(HealthState::Retrying, "failed, retrying"),
        None => ObjectHealth::new(HealthState::Failed, "failed"),
    };
    judgement.retry_at = error.retry_at.as_ref().map(|time| time.0);
    judgement.since = status.run.as_ref().and_then(|run| Some(run.finished_at.as_ref()?.0));
    Some(judgement.with_message(Some(first_line(error))))
}

fn first_line(error: &LastError) -> String {
    let message = error.message.lines().next().unwrap_or_default();
    match &error.address {
        Some(address) if !message.contains(address.as_str()) => format!("{address}: {message}"),
        _ => message.to_owned(),
    }
}
