//! How an object is, from what its status says.

use super::{
    Judgement, Progress, State,
    seen::{Condition, Seen, Work},
};
use crate::api::{
    LastError, RunOperation, RunPhase, RunStatus,
    conditions::{reasons, types},
};

/// Reasons that only a change of somebody's spec can take away.
const FINAL: [&str; 4] = [
    reasons::INVALID_SPEC,
    reasons::INVALID_VPC_CONFIG,
    reasons::IDENTITY_NOT_ALLOWED,
    reasons::WORKSPACE_TEMPLATE_NOT_FOUND,
];

/// How an object is.
pub(super) fn judge(seen: Seen<'_>) -> Judgement {
    let mut judgement = match seen.kind() {
        "WorkspaceTemplateApply" => workspace(seen),
        "Cluster" => cluster(seen),
        "WorkspaceTemplate" => template(seen),
        _ => ours(seen),
    };
    if !matches!(judgement.state, State::Ready | State::Plain) && judgement.since.is_none() {
        judgement.since = seen.since();
    }
    judgement
}

fn paused(seen: Seen<'_>) -> Option<Judgement> {
    let condition = seen.condition(types::PAUSED).filter(Condition::is_true)?;
    Some(Judgement::new(State::Paused, "paused").because(Some(condition.said())))
}

/// A condition that says no for a reason that stays.
fn invalid(seen: Seen<'_>) -> Option<Judgement> {
    let wrong = [types::READY, types::SYNCED, types::VPC_READY, types::VALID]
        .into_iter()
        .filter_map(|name| seen.condition(name))
        .find(|condition| condition.is_false() && FINAL.contains(&condition.reason))?;
    Some(Judgement::new(State::Failed, wrong.reason).because(Some(wrong.said())))
}

fn unseen(seen: Seen<'_>) -> Option<Judgement> {
    if !seen.has_status() {
        return Some(Judgement::new(State::Waiting, "nobody has looked at it yet"));
    }
    seen.is_stale().then(|| Judgement::new(State::Working, "its change is looked at"))
}

fn deleting(seen: Seen<'_>) -> Option<Judgement> {
    let said = seen.condition(types::DELETING).map(|condition| condition.said());
    seen.is_deleting().then(|| Judgement::new(State::Deleting, "deleting").because(said))
}

/// Networks, control planes, identities.
fn ours(seen: Seen<'_>) -> Judgement {
    let early = deleting(seen).or_else(|| paused(seen)).or_else(|| unseen(seen)).or_else(|| invalid(seen));
    if let Some(judgement) = early {
        return judgement;
    }
    let phase = seen.text("/status/phase");
    match seen.condition(types::READY).or_else(|| seen.condition(types::AVAILABLE)) {
        Some(ready) if ready.is_true() => Judgement::new(State::Ready, phase.unwrap_or("Ready")),
        Some(ready) => {
            // A failure that stays shows in the workspace or in its reason; everything else is tried again.
            let state = if phase == Some("Failed") { State::Retrying } else { State::Working };
            Judgement::new(state, phase.unwrap_or("working")).because(Some(ready.said()))
        }
        None => Judgement::new(State::Working, phase.unwrap_or("working")),
    }
}

/// Of Cluster API, or ours where that is absent. Old ones say Ready, new ones Available.
fn cluster(seen: Seen<'_>) -> Judgement {
    if let Some(judgement) = deleting(seen).or_else(|| paused(seen)) {
        return judgement;
    }
    let phase = seen.text("/status/phase").unwrap_or("Pending");
    let whole = seen.condition(types::AVAILABLE).or_else(|| seen.condition(types::READY));
    let parts: Vec<Condition<'_>> = ["InfrastructureReady", "ControlPlaneAvailable"]
        .into_iter()
        .filter_map(|it| seen.condition(it))
        .collect();
    let is_ready = match whole {
        Some(whole) => whole.is_true(),
        None => parts.len() == 2 && parts.iter().all(Condition::is_true),
    };
    if is_ready {
        return Judgement::new(State::Ready, phase);
    }
    let wrong = whole.into_iter().chain(parts).find(|condition| !condition.is_true());
    Judgement::new(State::Working, phase).because(wrong.map(|condition| condition.said()))
}

fn template(seen: Seen<'_>) -> Judgement {
    if let Some(judgement) = deleting(seen) {
        return judgement;
    }
    match seen.condition(types::VALID).or_else(|| seen.condition(types::READY)) {
        Some(valid) if valid.is_true() => Judgement::new(State::Ready, "valid"),
        Some(valid) if valid.is_false() => {
            Judgement::new(State::Failed, "not valid").because(Some(valid.said()))
        }
        _ => Judgement::new(State::Plain, ""),
    }
}

fn workspace(seen: Seen<'_>) -> Judgement {
    let status = seen.work();
    let early = (!seen.is_deleting()).then(|| paused(seen).or_else(|| unseen(seen))).flatten();
    if let Some(judgement) = early.or_else(|| blocked(seen, &status)) {
        return judgement;
    }
    let ready = seen.condition(types::READY);
    let is_ready = !seen.is_deleting() && ready.is_some_and(|ready| ready.is_true());
    if let Some(judgement) = status.run.as_ref().and_then(|run| running(run, &status, is_ready)) {
        return judgement;
    }
    if is_ready {
        return Judgement::new(State::Ready, "ready").because(slow(&status));
    }
    let wrong = if seen.is_deleting() { None } else { invalid(seen) };
    if let Some(judgement) = wrong.or_else(|| failed(seen, &status)).or_else(|| deleting(seen)) {
        return judgement;
    }
    let synced = seen.condition(types::SYNCED).filter(Condition::is_false);
    let said = ready.filter(|ready| !ready.is_true()).or(synced).map(|condition| condition.said());
    Judgement::new(State::Waiting, "waiting").because(said)
}

/// What nobody should find out by waiting.
fn slow(status: &Work) -> Option<String> {
    status.run.as_ref().and_then(|run| run.without_gateway.clone())
}

fn blocked(seen: Seen<'_>, status: &Work) -> Option<Judgement> {
    let condition = seen.condition(types::DESTRUCTIVE_CHANGE_BLOCKED).filter(Condition::is_true);
    let awaits = status.run.as_ref().is_some_and(|run| run.phase == RunPhase::AwaitingApproval);
    if condition.is_none() && !awaits {
        return None;
    }
    let mut judgement = Judgement::new(State::Blocked, "waits for approval");
    judgement.approve = status.plan.as_ref().map(|plan| plan.hash.clone());
    Some(judgement.because(condition.map(|condition| condition.said())))
}

/// A run under way. A look for drift does not make a workspace less ready.
fn running(run: &RunStatus, status: &Work, is_ready: bool) -> Option<Judgement> {
    let (state, phase) = match run.phase {
        RunPhase::Pending => (State::Waiting, "waits for its turn"),
        RunPhase::Initializing => (State::Working, "initializing"),
        RunPhase::Planning => (State::Working, "planning"),
        RunPhase::Applying => (State::Working, "applying"),
        RunPhase::Destroying => (State::Deleting, "destroying"),
        RunPhase::Collecting => (State::Working, "collecting"),
        RunPhase::AwaitingApproval | RunPhase::Succeeded | RunPhase::Failed | RunPhase::Interrupted => {
            return None;
        }
    };
    if is_ready && run.operation == RunOperation::Check {
        return Some(Judgement::new(State::Ready, "ready, being checked"));
    }
    let phase = match &run.waiting_for {
        Some(what) if run.phase == RunPhase::Pending => format!("waits for {what}"),
        _ => phase.to_owned(),
    };
    let mut judgement = Judgement::new(state, phase);
    judgement.since = run.started_at.as_ref().map(|time| time.0);
    judgement.progress =
        status.progress.as_ref().filter(|progress| progress.total > 0).map(|progress| Progress {
            done: progress.done,
            total: progress.total,
            slowest: progress.slowest.clone(),
            slowest_seconds: progress.slowest_seconds,
        });
    // A failed attempt before this one is still worth a word.
    Some(judgement.because(status.last_error.as_ref().map(|error| format!("before: {}", one_line(error)))))
}

fn failed(seen: Seen<'_>, status: &Work) -> Option<Judgement> {
    // That an apply failed says nothing of the destroy that is to come.
    if seen.is_deleting() && status.run.as_ref().is_none_or(|run| run.operation != RunOperation::Destroy) {
        return None;
    }
    let ended_badly = status.run.as_ref().is_some_and(|run| run.phase == RunPhase::Failed);
    let Some(error) = &status.last_error else {
        let said = seen.condition(types::SYNCED).or_else(|| seen.condition(types::READY)).map(|it| it.said());
        return ended_badly.then(|| Judgement::new(State::Failed, "failed").because(said));
    };
    let mut judgement = match &error.retry_at {
        Some(_) => Judgement::new(State::Retrying, "failed, is tried again"),
        None => Judgement::new(State::Failed, "failed"),
    };
    judgement.retry_at = error.retry_at.as_ref().map(|time| time.0);
    judgement.since = status.run.as_ref().and_then(|run| Some(run.finished_at.as_ref()?.0));
    Some(judgement.because(Some(one_line(error))))
}

fn one_line(error: &LastError) -> String {
    let message = error.message.lines().next().unwrap_or_default();
    match &error.address {
        Some(address) if !message.contains(address.as_str()) => format!("{address}: {message}"),
        _ => message.to_owned(),
    }
}
