//! Plan summaries and the plan guard.
//!
//! The summary is read from the saved plan ([`crate::planfile`]); `show -json`, parsed here, adds the attribute changes. Printable
//! types contain no sensitive values. Unknown actions are treated as destructive.

mod diff;
mod guard;
mod hash;
mod show_json;

use std::{collections::BTreeMap, fmt};

pub use diff::{AttributeChange, DisplayValue};
pub use guard::{GuardPolicy, GuardReason, GuardVerdict, PROTECTED_TYPES, PlanIntent, check_plan};
pub use hash::PlanHash;
use serde::Serialize;
use show_json::{PlanJson, ResourceChangeJson};

/// Why the output of `show -json` could not be read.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// Invalid JSON.
    #[error("cannot parse the plan printed by `show -json`")]
    NotPlan(#[source] serde_json::Error),
    /// Unsupported format version.
    #[error("the plan has format version {found}, and only major version 1 can be read")]
    Format {
        /// The version the plan names.
        found: String,
    },
    /// Terraform marked the plan as errored.
    #[error("the plan ended in an error and cannot be applied")]
    Errored,
}

/// Action of a plan on a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum PlanAction {
    /// Nothing.
    NoOp,
    /// Read of a data source during the apply.
    Read,
    /// Created.
    Add,
    /// Updated in place.
    Change,
    /// Destroyed and created, in either order.
    Replace,
    /// Destroyed.
    Destroy,
    /// Removed from the state; the resource remains.
    Forget,
    /// An unknown combination of actions.
    Unknown,
}

impl PlanAction {
    fn from_actions(actions: &[String]) -> Self {
        let actions: Vec<&str> = actions.iter().map(String::as_str).collect();
        match actions[..] {
            ["no-op"] => Self::NoOp,
            ["read"] => Self::Read,
            ["create"] => Self::Add,
            ["update"] => Self::Change,
            ["delete", "create"] | ["create", "delete"] => Self::Replace,
            ["delete"] => Self::Destroy,
            ["forget"] | ["create", "forget"] => Self::Forget,
            _ => Self::Unknown,
        }
    }

    const fn sign(self) -> &'static str {
        match self {
            Self::NoOp => " ",
            Self::Read => "<=",
            Self::Add => "+",
            Self::Change => "~",
            Self::Replace => "-/+",
            Self::Destroy => "-",
            Self::Forget => ".",
            Self::Unknown => "?",
        }
    }

    /// Whether the existing resource would be lost, or might be.
    pub const fn is_destructive(self) -> bool {
        match self {
            Self::Replace | Self::Destroy | Self::Forget | Self::Unknown => true,
            Self::NoOp | Self::Read | Self::Add | Self::Change => false,
        }
    }
}

/// Change of one resource.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectChange {
    /// Its address.
    pub address: String,
    /// The type, `aws_vpc`.
    #[serde(rename = "type")]
    pub resource_type: String,
    /// Whether it is a managed resource; `false` for a data source.
    pub managed: bool,
    /// The action.
    pub action: PlanAction,
    /// For a replacement: whether the new resource is created before the old one is destroyed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub create_first: bool,
    /// Terraform's own reason: `replace_because_tainted`, …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Key of a deposed object, left by an interrupted replacement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deposed: Option<String>,
    /// Whether an existing resource is imported.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub import: bool,
    /// Attribute changes, without sensitive values.
    pub attributes: Vec<AttributeChange>,
}

impl ObjectChange {
    /// Symbol of the action, as terraform prints it.
    pub const fn sign(&self) -> &'static str {
        if self.create_first { "+/-" } else { self.action.sign() }
    }
}

/// A changed output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OutputChange {
    /// The action.
    pub action: PlanAction,
    /// Whether it is sensitive.
    pub sensitive: bool,
}

/// Numbers of changes by action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangeCounts {
    /// To create.
    pub add: usize,
    /// To update in place.
    pub change: usize,
    /// To replace.
    pub replace: usize,
    /// To destroy.
    pub destroy: usize,
    /// To import.
    pub import: usize,
    /// To remove from the state.
    pub forget: usize,
    /// Drifted resources.
    pub drift: usize,
}

impl ChangeCounts {
    /// Counts the changes of a plan.
    pub(crate) fn from_changes(changes: &[ObjectChange], drift: usize) -> Self {
        let mut counts = Self { drift, ..Self::default() };
        for change in changes {
            counts.import += usize::from(change.import);
            match change.action {
                PlanAction::Add => counts.add += 1,
                PlanAction::Change => counts.change += 1,
                PlanAction::Replace => counts.replace += 1,
                // Count an unknown action as the worst case.
                PlanAction::Destroy | PlanAction::Unknown => counts.destroy += 1,
                PlanAction::Forget => counts.forget += 1,
                PlanAction::NoOp | PlanAction::Read => {}
            }
        }
        counts
    }

    /// Number of operations of an apply; a replacement counts as two.
    pub const fn operations(&self) -> u64 {
        (self.add + self.change + 2 * self.replace + self.destroy) as u64
    }
}

impl fmt::Display for ChangeCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { add, change, replace, destroy, import, forget, drift } = self;
        write!(f, "{add} to add, {change} to change, {replace} to replace, {destroy} to destroy")?;
        for (count, what) in [(import, "to import"), (forget, "to forget"), (drift, "drifted")] {
            if *count > 0 {
                write!(f, ", {count} {what}")?;
            }
        }
        Ok(())
    }
}

/// Summary of a plan. Contains no sensitive values.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanSummary {
    /// Changed resources, sorted by address.
    pub changes: Vec<ObjectChange>,
    /// Resources that differ from the state.
    pub drift: Vec<ObjectChange>,
    /// Changed outputs.
    pub outputs: BTreeMap<String, OutputChange>,
    /// Numbers of changes.
    pub counts: ChangeCounts,
    /// Number of managed resources before the apply, for the guard's loss limit.
    pub existing: usize,
    /// The content hash.
    pub hash: PlanHash,
}

impl PlanSummary {
    /// Whether an apply would change nothing, not even an output.
    pub fn is_empty(&self) -> bool {
        let acts = |action| !matches!(action, PlanAction::NoOp | PlanAction::Read);
        !self.changes.iter().any(|change| acts(change.action) || change.import)
            && !self.outputs.values().any(|output| acts(output.action))
    }
}

/// Parsed output of `show -json`. Contains sensitive values, so `Debug` prints only counts.
pub struct DetailedPlan {
    file: PlanJson,
}

impl fmt::Debug for DetailedPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan")
            .field("resource_changes", &self.file.resource_changes.len())
            .finish_non_exhaustive()
    }
}

impl DetailedPlan {
    /// Parses the output of `show -json` for a saved plan.
    pub fn parse(json: &[u8]) -> Result<Self, PlanError> {
        let file: PlanJson = serde_json::from_slice(json).map_err(PlanError::NotPlan)?;
        if file.format_version.split('.').next() != Some("1") {
            return Err(PlanError::Format { found: file.format_version });
        }
        if file.errored {
            return Err(PlanError::Errored);
        }
        Ok(Self { file })
    }

    /// Summary with attribute changes. `hash` is the hash of the saved plan.
    pub fn summary(&self, hash: PlanHash) -> PlanSummary {
        let all = &self.file.resource_changes;
        let changes = summarize_changes(all, |change| change.action != PlanAction::NoOp || change.import);
        let drift = summarize_changes(&self.file.resource_drift, |change| change.action != PlanAction::NoOp);
        let outputs: BTreeMap<_, _> = self
            .file
            .output_changes
            .iter()
            .map(|(name, change)| {
                let sensitive =
                    diff::has_any_set(&change.before_sensitive) || diff::has_any_set(&change.after_sensitive);
                (name.clone(), OutputChange { action: PlanAction::from_actions(&change.actions), sensitive })
            })
            .filter(|(_, change)| change.action != PlanAction::NoOp)
            .collect();
        let existing = all
            .iter()
            .filter(|change| {
                change.is_managed() && PlanAction::from_actions(&change.change.actions) != PlanAction::Add
            })
            .count();
        let counts = ChangeCounts::from_changes(&changes, drift.len());
        PlanSummary { changes, drift, outputs, counts, existing, hash }
    }
}

fn summarize_changes(
    changes: &[ResourceChangeJson],
    keep: impl Fn(&ObjectChange) -> bool,
) -> Vec<ObjectChange> {
    let mut all: Vec<ObjectChange> = changes
        .iter()
        .map(|wire| ObjectChange {
            address: wire.address.clone(),
            resource_type: wire.resource_type.clone(),
            managed: wire.is_managed(),
            action: PlanAction::from_actions(&wire.change.actions),
            create_first: wire.change.actions.first().is_some_and(|first| first == "create")
                && wire.change.actions.len() > 1,
            reason: wire.action_reason.clone(),
            deposed: wire.deposed.clone(),
            import: wire.change.importing.as_ref().is_some_and(|importing| !importing.is_null()),
            attributes: diff::attribute_changes(&wire.change),
        })
        .filter(keep)
        .collect();
    all.sort_by(|a, b| (&a.address, &a.deposed).cmp(&(&b.address, &b.deposed)));
    all
}

#[cfg(test)]
mod tests;
