//! Whether a plan may be applied without being asked for (design 3.4, driver P9).

use std::{collections::BTreeSet, fmt};

use super::{Action, Summary};

/// Types whose loss takes a cluster, its network or its identity down.
pub const PROTECTED_TYPES: &[&str] = &[
    "aws_eks_cluster",
    "aws_iam_openid_connect_provider",
    "aws_iam_role",
    "aws_kms_key",
    "aws_subnet",
    "aws_vpc",
];

/// What is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Types that must not be destroyed, replaced or forgotten.
    pub protected: BTreeSet<String>,
    /// The largest share of the existing objects, in per cent, that may be lost at once; none: no limit.
    pub most_lost_percent: Option<u8>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            protected: PROTECTED_TYPES.iter().map(|&name| name.to_owned()).collect(),
            most_lost_percent: None,
        }
    }
}

/// What the run was started for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intent {
    /// Bring the cloud to what the configuration says.
    Change,
    /// Destroy everything, asked for explicitly.
    Destroy,
}

/// Why a plan is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// A protected object would be lost.
    Protected {
        /// The object.
        address: String,
        /// Its type.
        resource_type: String,
        /// What would happen to it.
        action: Action,
        /// Terraform's reason, if it gave one.
        because: Option<String>,
    },
    /// A protected object is not where the state says, and would be made anew.
    Vanished {
        /// The object.
        address: String,
    },
    /// Too many objects would be lost at once.
    TooMany {
        /// How many.
        lost: usize,
        /// Of how many.
        existing: usize,
        /// The limit in per cent.
        limit: u8,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Protected { address, action, because, .. } => {
                let verb = match action {
                    Action::Replace => "replaced",
                    Action::Destroy => "destroyed",
                    Action::Forget => "forgotten",
                    Action::Unknown | Action::NoOp | Action::Read | Action::Add | Action::Change => {
                        "changed in a way that is not understood"
                    }
                };
                write!(f, "{address} would be {verb}")?;
                because.iter().try_for_each(|because| write!(f, " ({})", because.replace('_', " ")))
            }
            Self::Vanished { address } => write!(
                f,
                "{address} was not found, and would be made anew (deleted outside of terraform, or looked for in \
                 another region or account?)"
            ),
            Self::TooMany { lost, existing, limit } => {
                write!(f, "{lost} of {existing} objects would be lost, and the limit is {limit} %")
            }
        }
    }
}

/// Whether a plan may be applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It harms nothing that is protected.
    Pass,
    /// It does harm, and exactly this plan was approved, or the destruction was asked for.
    Approved {
        /// What was approved.
        reasons: Vec<Reason>,
    },
    /// It does harm and nobody approved it.
    Refused {
        /// Why.
        reasons: Vec<Reason>,
    },
}

impl Verdict {
    /// Whether the plan may be applied.
    pub const fn allows(&self) -> bool {
        match self {
            Self::Pass | Self::Approved { .. } => true,
            Self::Refused { .. } => false,
        }
    }
}

/// Judges a plan. `approval` is the hash that a person approved, in its short or whole form.
pub fn guard(summary: &Summary, policy: &Policy, intent: Intent, approval: Option<&str>) -> Verdict {
    let mut reasons: Vec<Reason> = summary
        .changes
        .iter()
        .filter(|change| change.managed && change.action.loses_the_object())
        .filter(|change| policy.protected.contains(&change.resource_type))
        .map(|change| Reason::Protected {
            address: change.address.clone(),
            resource_type: change.resource_type.clone(),
            action: change.action,
            because: change.reason.clone(),
        })
        .collect();
    let vanished = summary.drift.iter().filter(|drift| drift.managed && drift.action == Action::Destroy);
    reasons.extend(
        vanished
            .filter(|drift| policy.protected.contains(&drift.resource_type))
            .map(|drift| Reason::Vanished { address: drift.address.clone() }),
    );
    reasons.extend(too_many(summary, policy));
    if reasons.is_empty() {
        Verdict::Pass
    } else if intent == Intent::Destroy
        || approval.is_some_and(|approval| summary.hash.is_approved_by(approval))
    {
        Verdict::Approved { reasons }
    } else {
        Verdict::Refused { reasons }
    }
}

fn too_many(summary: &Summary, policy: &Policy) -> Option<Reason> {
    let limit = policy.most_lost_percent?;
    let lost =
        summary.changes.iter().filter(|change| change.managed && change.action.loses_the_object()).count();
    let existing = summary.existing;
    (lost * 100 > existing * usize::from(limit)).then_some(Reason::TooMany { lost, existing, limit })
}
