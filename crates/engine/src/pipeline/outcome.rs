//! Goals, destroy reasons and outcomes of the pipeline.

use std::fmt;

use terraform_driver::plan::{ChangeCounts, PlanSummary};

/// Result of one run of the pipeline.
#[derive(Debug)]
pub enum WorkspaceOutcome {
    /// Nothing to change.
    Unchanged,
    /// Planned, not applied.
    Planned(Box<PlanSummary>),
    /// Cannot be planned until a dependency is applied.
    Deferred {
        /// The unapplied dependency.
        reason: String,
    },
    /// Changes were applied.
    Applied(ChangeCounts),
    /// All resources were destroyed.
    Destroyed {
        /// Number of destroyed resources.
        objects: usize,
    },
    /// Retained by policy.
    Retained,
}

impl fmt::Display for WorkspaceOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unchanged => f.write_str("no changes"),
            Self::Planned(summary) => write!(f, "{}", summary.counts),
            Self::Deferred { reason } => write!(f, "deferred: {reason}"),
            Self::Applied(ChangeCounts { add, change, replace, destroy, .. }) => {
                let parts =
                    [(add, "added"), (change, "changed"), (replace, "replaced"), (destroy, "destroyed")];
                let said: Vec<String> = parts
                    .iter()
                    .filter(|(count, _)| **count > 0)
                    .map(|(count, verb)| format!("{count} {verb}"))
                    .collect();
                f.write_str(
                    if said.is_empty() { "outputs changed".to_owned() } else { said.join(", ") }.as_str(),
                )
            }
            Self::Destroyed { objects: 0 } => f.write_str("nothing to destroy"),
            Self::Destroyed { objects } => write!(f, "{objects} destroyed"),
            Self::Retained => f.write_str("retained"),
        }
    }
}

/// Why a workspace is destroyed.
#[derive(Debug, Clone)]
pub enum DestroyReason {
    /// Requested explicitly.
    Requested,
    /// The workspace is no longer in the manifests; destroying protected resources requires approval.
    RemovedFromManifests {
        /// Hash of an approved plan that may destroy protected resources.
        approved: Option<String>,
    },
}

/// What the pipeline does with the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Goal {
    /// Plan and report the attribute changes, for display.
    Plan,
    /// Detect drift, change nothing.
    DetectDrift,
    /// Detect drift and correct it.
    CorrectDrift,
    /// Plan and apply.
    Apply {
        /// Hash of an approved plan that may destroy protected resources.
        approved: Option<String>,
    },
}
