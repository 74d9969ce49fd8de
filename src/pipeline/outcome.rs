//! What is asked for, and what became of it.

use std::fmt;

use terraform_driver::plan::{Counts, Summary};

/// What became of a workspace.
#[derive(Debug)]
pub enum Outcome {
    /// It was as it should be.
    Unchanged,
    /// A plan only.
    Planned(Box<Summary>),
    /// It can only be planned when another one is there.
    Later {
        /// Why.
        reason: String,
    },
    /// It was changed.
    Applied(Counts),
    /// It is gone.
    Destroyed {
        /// How many objects were.
        objects: usize,
    },
    /// It was to stay.
    Kept,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unchanged => f.write_str("no changes"),
            Self::Planned(summary) => write!(f, "{}", summary.counts),
            Self::Later { reason } => write!(f, "later: {reason}"),
            Self::Applied(Counts { add, change, replace, destroy, .. }) => {
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
            Self::Destroyed { objects: 0 } => f.write_str("nothing was there"),
            Self::Destroyed { objects } => write!(f, "{objects} destroyed"),
            Self::Kept => f.write_str("kept"),
        }
    }
}

/// Why a workspace is destroyed.
#[derive(Debug, Clone)]
pub enum Doom {
    /// Somebody asked for it.
    Asked,
    /// It is not in the files any more; what is protected needs an approval.
    Dropped {
        /// A plan that may do harm.
        approved: Option<String>,
    },
}

/// How far to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Goal {
    /// Only look, for a person who wants to see what differs.
    Plan,
    /// Only look whether anything differs.
    Check,
    /// Look whether anything differs, and put that right.
    Correct,
    /// Make it so.
    Apply {
        /// A plan that may do harm.
        approved: Option<String>,
    },
}
