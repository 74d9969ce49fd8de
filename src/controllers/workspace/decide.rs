//! What is to be done with a workspace now. Pure: facts and the time go in, a decision comes out.

use std::time::Duration;

use jiff::Timestamp;

use super::facts::{DriftMode, Facts, Inputs, Known, Reason};
use crate::{
    api::{RunOperation, RunPhase, WorkspaceTemplateApplyStatus, conditions::reasons},
    runs::{End, Lane},
    work::Goal,
};

/// What is to be done.
#[derive(Debug)]
pub enum Decision {
    /// Nothing, until somebody ends the pause.
    Pause,
    /// Put our finalizer on it before anything else.
    Hold,
    /// A run is under way: look at it again when it has something to tell.
    Observe,
    /// Take a run back that is not wanted any more.
    Withdraw,
    /// Something else has to happen first.
    Wait(Reason, Option<Duration>),
    /// Only a change helps.
    Refuse(Reason),
    /// Begin to make it what it should be, or look whether it is.
    Bring {
        /// How far to go.
        goal: Goal,
        /// How urgent it is.
        lane: Lane,
    },
    /// Begin to destroy it.
    Destroy,
    /// All is well; look again after a while.
    Settle(Option<Duration>),
    /// Let the object go.
    LetGo,
}

/// Decides. `status` has taken in what the last run said.
pub fn decide(facts: &Facts, status: &WorkspaceTemplateApplyStatus, now: Timestamp) -> Decision {
    let under_way = facts.run.as_ref().filter(|run| !run.is_over());
    if facts.paused {
        let early = under_way.is_some_and(|run| !run.is_changing());
        return if early { Decision::Withdraw } else { Decision::Pause };
    }
    if let Some(run) = under_way {
        let unwanted = facts.deleting && run.operation != RunOperation::Destroy && !run.is_changing();
        return if unwanted { Decision::Withdraw } else { Decision::Observe };
    }
    if facts.deleting {
        return ending(facts, status, now);
    }
    if !facts.held {
        return Decision::Hold;
    }
    match &facts.inputs {
        Inputs::NotRead => Decision::Observe,
        Inputs::Waiting(reason) => Decision::Wait(reason.clone(), None),
        Inputs::Invalid(reason) => Decision::Refuse(reason.clone()),
        Inputs::Known(known) => bring(facts, known, status, now),
    }
}

/// Of an object that is being deleted.
fn ending(facts: &Facts, status: &WorkspaceTemplateApplyStatus, now: Timestamp) -> Decision {
    let destroyed = facts.run.as_ref().is_some_and(|run| matches!(run.end, Some(End::Destroyed)));
    if !facts.held || facts.retained || destroyed {
        return Decision::LetGo;
    }
    if !facts.dependents.is_empty() {
        let message =
            format!("waits until these are gone, which stand on it: {}", facts.dependents.join(", "));
        return Decision::Wait(Reason::new(reasons::WAITING_FOR_DEPENDENTS, message), None);
    }
    let failed = last(status, RunOperation::Destroy).is_some_and(|phase| phase == RunPhase::Failed);
    match until_retry(status, now).filter(|_| failed) {
        Some(pause) => Decision::Wait(Reason::new(reasons::DELETING, error_text(status)), Some(pause)),
        None => Decision::Destroy,
    }
}

/// Of an object whose inputs are known.
fn bring(facts: &Facts, known: &Known, status: &WorkspaceTemplateApplyStatus, now: Timestamp) -> Decision {
    let goal = |approved| if known.policies.change { Goal::Apply { approved } } else { Goal::Check };
    let start = |lane| Decision::Bring { goal: goal(None), lane };
    let run = status.run.as_ref();
    let same = run.and_then(|run| run.inputs_hash.as_deref()) == Some(known.hash.as_str());
    let asked = facts
        .requested
        .filter(|at| run.and_then(|run| run.started_at.as_ref()).is_none_or(|started| started.0 < *at));
    match run.map(|run| run.phase).filter(|_| same && asked.is_none()) {
        Some(RunPhase::AwaitingApproval) => {
            let hash = status.plan.as_ref().map(|plan| plan.hash.clone());
            match facts.approved.clone().filter(|approved| Some(approved) == hash.as_ref()) {
                Some(approved) => Decision::Bring { goal: goal(Some(approved)), lane: Lane::Change },
                None => check(facts, known, status, now),
            }
        }
        Some(RunPhase::Failed) => match until_retry(status, now) {
            Some(pause) => Decision::Settle(Some(pause)),
            None => start(Lane::Retry),
        },
        Some(RunPhase::Succeeded) if is_current(known, status) => check(facts, known, status, now),
        // A process that died left it so, or it was withdrawn.
        Some(_) => start(Lane::Retry),
        None => start(Lane::Change),
    }
}

/// Whether the last run made, or looked at, what is asked for now.
fn is_current(known: &Known, status: &WorkspaceTemplateApplyStatus) -> bool {
    let applied = status.inputs_hash.as_deref() == Some(known.hash.as_str());
    applied || !known.policies.change
}

/// Of one that is as it should be, as far as anybody knows.
fn check(facts: &Facts, known: &Known, status: &WorkspaceTemplateApplyStatus, now: Timestamp) -> Decision {
    let corrects = facts.drift.mode == DriftMode::Correct && known.policies.change;
    let goal = if corrects { Goal::Correct } else { Goal::Check };
    if !facts.has_directory {
        // On a new disk: what is kept elsewhere has to come back, and the outputs with it.
        return Decision::Bring { goal, lane: Lane::Retry };
    }
    if facts.drift.mode == DriftMode::Off {
        return Decision::Settle(None);
    }
    let checked = status.last_checked_time.as_ref().map(|time| time.0);
    let due = checked.map(|at| at.saturating_add(spread(&facts.drift.interval, &known.hash)));
    match due {
        Some(Ok(due)) if due > now => Decision::Settle(Some(between(now, due))),
        _ => Decision::Bring { goal, lane: Lane::Drift },
    }
}

/// Checks of many workspaces are spread over a tenth of the interval, each always at its own place.
fn spread(interval: &Duration, hash: &str) -> Duration {
    let place = hash.bytes().take(4).fold(0_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    interval.mul_f64(0.95 + 0.1 * f64::from(place % 1000) / 1000.0)
}

/// How long until the last error may be tried again; `None` if that is now.
fn until_retry(status: &WorkspaceTemplateApplyStatus, now: Timestamp) -> Option<Duration> {
    let at = status.last_error.as_ref()?.retry_at.as_ref()?.0;
    (at > now).then(|| between(now, at))
}

fn between(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}

fn last(status: &WorkspaceTemplateApplyStatus, operation: RunOperation) -> Option<RunPhase> {
    status.run.as_ref().filter(|run| run.operation == operation).map(|run| run.phase)
}

fn error_text(status: &WorkspaceTemplateApplyStatus) -> String {
    status.last_error.as_ref().map(|error| error.message.clone()).unwrap_or_default()
}
