//! What a plan would do, and whether it may be applied.
//!
//! The essence comes from the saved file itself ([`crate::planfile`]); `show -json`, read here, adds what differs in
//! each object. Contract: everything that leaves this module and can be printed is free of sensitive values. What
//! cannot be understood is refused, never waved through.

mod diff;
mod guard;
mod hash;
mod wire;

use std::{collections::BTreeMap, fmt};

pub use diff::{AttributeChange, Shown};
pub use guard::{Intent, PROTECTED_TYPES, Policy, Reason, Verdict, guard};
pub use hash::PlanHash;
use serde::Serialize;
use wire::{PlanFile, ResourceChange};

/// Why a plan could not be read.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// Not the JSON of a plan.
    #[error("reading the plan that `show -json` printed")]
    NotPlan(#[source] serde_json::Error),
    /// A format whose meaning is not known.
    #[error("the plan has format version {found}, and only major version 1 can be read")]
    Format {
        /// The version the plan names.
        found: String,
    },
    /// Terraform says that the plan is not complete.
    #[error("the plan ended in an error and cannot be applied")]
    Errored,
}

/// What happens to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Action {
    /// Nothing.
    NoOp,
    /// A data source is read during the apply.
    Read,
    /// Made.
    Add,
    /// Changed in place.
    Change,
    /// Destroyed and made again, in either order.
    Replace,
    /// Destroyed.
    Destroy,
    /// Taken out of the state and left in the cloud.
    Forget,
    /// A combination that this driver does not know.
    Unknown,
}

impl Action {
    fn of(actions: &[String]) -> Self {
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

    /// Whether the object that exists now would be lost, or might be.
    pub const fn loses_the_object(self) -> bool {
        match self {
            Self::Replace | Self::Destroy | Self::Forget | Self::Unknown => true,
            Self::NoOp | Self::Read | Self::Add | Self::Change => false,
        }
    }
}

/// One object of a plan.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// Its address.
    pub address: String,
    /// The type, `aws_vpc`.
    #[serde(rename = "type")]
    pub resource_type: String,
    /// Whether terraform manages it; false for a data source.
    pub managed: bool,
    /// What happens.
    pub action: Action,
    /// For a replacement: whether the new object is made before the old one goes.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub create_first: bool,
    /// Terraform's own reason: `replace_because_tainted`, …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The key of an object that an interrupted replacement left behind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deposed: Option<String>,
    /// Whether an object that exists is taken into the state.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub import: bool,
    /// What differs, without sensitive values.
    pub attributes: Vec<AttributeChange>,
}

impl Change {
    /// The sign that stands before a line of a plan, as terraform writes it.
    pub const fn sign(&self) -> &'static str {
        if self.create_first { "+/-" } else { self.action.sign() }
    }
}

/// An output that changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OutputChange {
    /// What happens.
    pub action: Action,
    /// Whether it is sensitive.
    pub sensitive: bool,
}

/// How many of what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// Made.
    pub add: usize,
    /// Changed in place.
    pub change: usize,
    /// Replaced.
    pub replace: usize,
    /// Destroyed.
    pub destroy: usize,
    /// Taken into the state.
    pub import: usize,
    /// Taken out of the state.
    pub forget: usize,
    /// Found changed in the cloud.
    pub drift: usize,
}

impl Counts {
    /// Counts the changes of a plan.
    pub(crate) fn of(changes: &[Change], drift: usize) -> Self {
        let mut counts = Self { drift, ..Self::default() };
        for change in changes {
            counts.import += usize::from(change.import);
            match change.action {
                Action::Add => counts.add += 1,
                Action::Change => counts.change += 1,
                Action::Replace => counts.replace += 1,
                // Worst case: what is not understood is counted where people look first.
                Action::Destroy | Action::Unknown => counts.destroy += 1,
                Action::Forget => counts.forget += 1,
                Action::NoOp | Action::Read => {}
            }
        }
        counts
    }

    /// The operations that an apply carries out; a replacement is two.
    pub const fn operations(&self) -> u64 {
        (self.add + self.change + 2 * self.replace + self.destroy) as u64
    }
}

impl fmt::Display for Counts {
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

/// What a plan would do. Free of sensitive values.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Every object that the plan touches, in the order of the addresses; untouched ones are left out.
    pub changes: Vec<Change>,
    /// Objects that differ from the state.
    pub drift: Vec<Change>,
    /// Outputs that change.
    pub outputs: BTreeMap<String, OutputChange>,
    /// How many of what.
    pub counts: Counts,
    /// How many managed objects the state holds before, so that a share of them can be judged.
    pub existing: usize,
    /// The content hash.
    pub hash: PlanHash,
}

impl Summary {
    /// Whether an apply would do nothing at all, not even to an output.
    pub fn is_empty(&self) -> bool {
        let acts = |action| !matches!(action, Action::NoOp | Action::Read);
        !self.changes.iter().any(|change| acts(change.action) || change.import)
            && !self.outputs.values().any(|output| acts(output.action))
    }
}

/// A plan that was read. It holds the values, sensitive ones included, and cannot be printed.
pub struct Plan {
    file: PlanFile,
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan")
            .field("resource_changes", &self.file.resource_changes.len())
            .finish_non_exhaustive()
    }
}

impl Plan {
    /// Reads what `show -json` printed for a saved plan.
    pub fn parse(json: &[u8]) -> Result<Self, PlanError> {
        let file: PlanFile = serde_json::from_slice(json).map_err(PlanError::NotPlan)?;
        if file.format_version.split('.').next() != Some("1") {
            return Err(PlanError::Format { found: file.format_version });
        }
        if file.errored {
            return Err(PlanError::Errored);
        }
        Ok(Self { file })
    }

    /// What it would do, with what differs in each object. `hash` is the one of the saved file.
    pub fn summary(&self, hash: PlanHash) -> Summary {
        let all = &self.file.resource_changes;
        let changes = summarise(all, |change| change.action != Action::NoOp || change.import);
        let drift = summarise(&self.file.resource_drift, |change| change.action != Action::NoOp);
        let outputs: BTreeMap<_, _> = self
            .file
            .output_changes
            .iter()
            .map(|(name, change)| {
                let sensitive =
                    diff::any_set(&change.before_sensitive) || diff::any_set(&change.after_sensitive);
                (name.clone(), OutputChange { action: Action::of(&change.actions), sensitive })
            })
            .filter(|(_, change)| change.action != Action::NoOp)
            .collect();
        let existing = all
            .iter()
            .filter(|change| change.is_managed() && Action::of(&change.change.actions) != Action::Add)
            .count();
        let counts = Counts::of(&changes, drift.len());
        Summary { changes, drift, outputs, counts, existing, hash }
    }
}

fn summarise(changes: &[ResourceChange], keep: impl Fn(&Change) -> bool) -> Vec<Change> {
    let mut all: Vec<Change> = changes
        .iter()
        .map(|wire| Change {
            address: wire.address.clone(),
            resource_type: wire.resource_type.clone(),
            managed: wire.is_managed(),
            action: Action::of(&wire.change.actions),
            create_first: wire.change.actions.first().is_some_and(|first| first == "create")
                && wire.change.actions.len() > 1,
            reason: wire.action_reason.clone(),
            deposed: wire.deposed.clone(),
            import: wire.change.importing.as_ref().is_some_and(|importing| !importing.is_null()),
            attributes: diff::attributes(&wire.change),
        })
        .filter(keep)
        .collect();
    all.sort_by(|a, b| (&a.address, &a.deposed).cmp(&(&b.address, &b.deposed)));
    all
}

#[cfg(test)]
mod tests;
