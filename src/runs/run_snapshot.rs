//! What is known of a run, for the status of its object.

use jiff::Timestamp;
use terraform_driver::{
    classify::Class,
    plan::{Counts, Summary},
};

use super::retry::Trouble;
use crate::{
    api::{PlanStatus, Progress, RunOperation, RunPhase},
    work::{Outcome, WorkError},
};

/// A run as others see it.
#[derive(Debug, Clone)]
pub struct View {
    /// Its id; sorts by time.
    pub id: String,
    /// What it is for.
    pub operation: RunOperation,
    /// Where it is.
    pub phase: RunPhase,
    /// When it was asked for.
    pub started: Timestamp,
    /// When it ended.
    pub finished: Option<Timestamp>,
    /// Digest of everything that it is made from.
    pub inputs_hash: String,
    /// What it waits for, if it waits.
    pub waiting_for: Option<String>,
    /// What its plan would do, or did.
    pub plan: Option<PlanStatus>,
    /// How far it is.
    pub progress: Option<Progress>,
    /// What a person should know.
    pub notes: Vec<String>,
    /// Why it had to do without the gateway, if it had to.
    pub plain: Option<String>,
    /// How it ended.
    pub end: Option<End>,
}

/// How a run ended.
#[derive(Debug, Clone)]
pub enum End {
    /// Everything was as it should be.
    Unchanged,
    /// It was changed.
    Applied,
    /// It differs, and was only looked at.
    Differs {
        /// Addresses of what differs, the first few.
        what: Vec<String>,
    },
    /// The state is proven empty.
    Destroyed,
    /// The plan would harm what is protected.
    Blocked {
        /// What it would do.
        reasons: Vec<String>,
        /// The plan's hash, which an approval names.
        hash: String,
    },
    /// It failed.
    Failed(Trouble),
    /// It was withdrawn or broken off; the next run goes on.
    Interrupted,
}

impl View {
    /// A run that begins now.
    pub fn new(id: String, operation: RunOperation, started: Timestamp, inputs_hash: String) -> Self {
        Self {
            id,
            operation,
            phase: RunPhase::Pending,
            started,
            finished: None,
            inputs_hash,
            waiting_for: None,
            plan: None,
            progress: None,
            notes: Vec::new(),
            plain: None,
            end: None,
        }
    }

    /// Whether it is over.
    pub const fn is_over(&self) -> bool {
        self.end.is_some()
    }

    /// Whether it changes the cloud just now, so that it must not be broken off.
    pub const fn is_changing(&self) -> bool {
        matches!(self.phase, RunPhase::Applying | RunPhase::Destroying)
    }
}

impl End {
    /// Of what the work said.
    pub fn of(outcome: Result<Outcome, WorkError>) -> Self {
        match outcome {
            Ok(Outcome::Unchanged | Outcome::Kept | Outcome::Later { .. }) => Self::Unchanged,
            Ok(Outcome::Applied(_)) => Self::Applied,
            Ok(Outcome::Planned(summary)) => Self::Differs { what: addresses(&summary) },
            Ok(Outcome::Destroyed { .. }) => Self::Destroyed,
            Err(WorkError::Blocked { reasons, hash }) => {
                Self::Blocked { reasons: reasons.iter().map(ToString::to_string).collect(), hash }
            }
            Err(WorkError::Interrupted | WorkError::NotConfirmed) => Self::Interrupted,
            Err(WorkError::Failed(failure)) if failure.class == Class::Interrupted => Self::Interrupted,
            Err(error) => Self::Failed(Trouble::of(&error)),
        }
    }

    /// In the words of the status.
    pub const fn phase(&self) -> RunPhase {
        match self {
            Self::Unchanged | Self::Applied | Self::Differs { .. } | Self::Destroyed => RunPhase::Succeeded,
            Self::Blocked { .. } => RunPhase::AwaitingApproval,
            Self::Failed(_) => RunPhase::Failed,
            Self::Interrupted => RunPhase::Interrupted,
        }
    }

    /// One word for metrics.
    pub const fn result(&self) -> &'static str {
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

/// A plan in the words of the status.
pub(super) fn plan_status(summary: &Summary) -> PlanStatus {
    let Counts { add, change, replace, destroy, .. } = summary.counts;
    let small = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    PlanStatus {
        hash: summary.hash.short().to_owned(),
        add: small(add),
        change: small(change),
        replace: small(replace),
        destroy: small(destroy),
    }
}

/// The first few addresses that a plan touches.
fn addresses(summary: &Summary) -> Vec<String> {
    const FEW: usize = 5;
    let mut all: Vec<String> = summary.changes.iter().map(|change| change.address.clone()).collect();
    let more = all.len().saturating_sub(FEW);
    all.truncate(FEW);
    if more > 0 {
        all.push(format!("and {more} more"));
    }
    all
}
