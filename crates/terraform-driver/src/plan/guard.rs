//! Plan guard: rejects destructive plans that are not approved.

use std::{collections::BTreeSet, fmt};

use super::{PlanAction, PlanSummary};

/// Types whose loss breaks a cluster, its network or its identity.
pub const PROTECTED_TYPES: &[&str] = &[
    "aws_eks_cluster",
    "aws_iam_openid_connect_provider",
    "aws_iam_role",
    "aws_kms_key",
    "aws_subnet",
    "aws_vpc",
];

/// Policy of the guard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuardPolicy {
    /// Resource types that must not be destroyed, replaced or removed from the state.
    pub protected: BTreeSet<String>,
    /// Maximum share of the existing resources, in per cent, that a plan may destroy; `None`: no limit.
    pub max_lost_percent: Option<u8>,
}

impl Default for GuardPolicy {
    fn default() -> Self {
        Self {
            protected: PROTECTED_TYPES.iter().map(|&name| name.to_owned()).collect(),
            max_lost_percent: None,
        }
    }
}

/// Intent of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlanIntent {
    /// Apply the configuration.
    Change,
    /// Destroy everything, explicitly requested.
    Destroy,
}

/// Why a plan is rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GuardReason {
    /// A protected resource would be destroyed, replaced or removed from the state.
    Protected {
        /// Address of the resource.
        address: String,
        /// Its type.
        resource_type: String,
        /// The planned action.
        action: PlanAction,
        /// Terraform's reason, if it gave one.
        because: Option<String>,
    },
    /// A protected resource no longer exists and would be created again.
    DeletedOutside {
        /// Address of the resource.
        address: String,
    },
    /// The plan would destroy too many resources.
    TooManyLost {
        /// Number of destroyed resources.
        lost: usize,
        /// Number of existing resources.
        existing: usize,
        /// The limit in per cent.
        limit: u8,
    },
}

impl fmt::Display for GuardReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Protected { address, action, because, .. } => {
                let verb = match action {
                    PlanAction::Replace => "replaced",
                    PlanAction::Destroy => "destroyed",
                    PlanAction::Forget => "forgotten",
                    PlanAction::Unknown
                    | PlanAction::NoOp
                    | PlanAction::Read
                    | PlanAction::Add
                    | PlanAction::Change => "changed by an unknown action",
                };
                write!(f, "{address} would be {verb}")?;
                because.iter().try_for_each(|because| write!(f, " ({})", because.replace('_', " ")))
            }
            Self::DeletedOutside { address } => write!(
                f,
                "{address} was not found and would be created again (deleted outside terraform, or the wrong \
                 region or account?)"
            ),
            Self::TooManyLost { lost, existing, limit } => {
                write!(f, "{lost} of {existing} objects would be lost; the limit is {limit} %")
            }
        }
    }
}

/// Verdict of the guard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GuardVerdict {
    /// The plan is not destructive.
    Pass,
    /// The plan is destructive, and it was approved or the destroy was requested.
    Approved {
        /// What was approved.
        reasons: Vec<GuardReason>,
    },
    /// The plan is destructive and not approved.
    Refused {
        /// Why.
        reasons: Vec<GuardReason>,
    },
}

impl GuardVerdict {
    /// Whether the plan may be applied.
    pub const fn is_allowed(&self) -> bool {
        match self {
            Self::Pass | Self::Approved { .. } => true,
            Self::Refused { .. } => false,
        }
    }
}

/// Checks a plan against the policy. `approval` is the approved plan hash in its short or full form.
pub fn check_plan(
    summary: &PlanSummary,
    policy: &GuardPolicy,
    intent: PlanIntent,
    approval: Option<&str>,
) -> GuardVerdict {
    let mut reasons: Vec<GuardReason> = summary
        .changes
        .iter()
        .filter(|change| change.managed && change.action.is_destructive())
        .filter(|change| policy.protected.contains(&change.resource_type))
        .map(|change| GuardReason::Protected {
            address: change.address.clone(),
            resource_type: change.resource_type.clone(),
            action: change.action,
            because: change.reason.clone(),
        })
        .collect();
    let vanished = summary.drift.iter().filter(|drift| drift.managed && drift.action == PlanAction::Destroy);
    reasons.extend(
        vanished
            .filter(|drift| policy.protected.contains(&drift.resource_type))
            .map(|drift| GuardReason::DeletedOutside { address: drift.address.clone() }),
    );
    reasons.extend(check_loss_limit(summary, policy));
    if reasons.is_empty() {
        GuardVerdict::Pass
    } else if intent == PlanIntent::Destroy
        || approval.is_some_and(|approval| summary.hash.is_approved_by(approval))
    {
        GuardVerdict::Approved { reasons }
    } else {
        GuardVerdict::Refused { reasons }
    }
}

fn check_loss_limit(summary: &PlanSummary, policy: &GuardPolicy) -> Option<GuardReason> {
    let limit = policy.max_lost_percent?;
    let lost =
        summary.changes.iter().filter(|change| change.managed && change.action.is_destructive()).count();
    let existing = summary.existing;
    (lost * 100 > existing * usize::from(limit)).then_some(GuardReason::TooManyLost { lost, existing, limit })
}
