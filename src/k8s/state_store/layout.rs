//! Which Secrets hold what, and what the commit says. Pure.
//!
//! A workspace has one commit and pages: `state` and `bundle`, each in two slots, each slot with as many pages as the
//! largest copy so far needed. The commit names the slot that is true; the other is free to be written.

use serde::{Deserialize, Serialize};
use terraform_driver::state::Version;

use super::{super::text::fit, pack::Packed};
use crate::api::names::STATE_LABEL;

/// Longest name of a Secret.
const LONGEST_NAME: usize = 253;
/// Longest value of a label.
const LONGEST_LABEL: usize = 63;
/// Begins the names of pages. Nothing that a commit can be called begins like this.
const PAGE_PREFIX: &str = "capt-page-";

/// Type of the Secrets.
pub(super) const TYPE: &str = "capt.x-k8s.io/state";
/// Key of the commit.
pub(super) const COMMIT_KEY: &str = "commit";
/// Key of a page.
pub(super) const PAGE_KEY: &str = "page";

/// What is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    State,
    Bundle,
}

impl Part {
    pub(super) const ALL: [Self; 2] = [Self::State, Self::Bundle];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::State => "state",
            Self::Bundle => "bundle",
        }
    }
}

/// One of two places for a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Slot {
    A,
    B,
}

impl Slot {
    pub(super) const BOTH: [Self; 2] = [Self::A, Self::B];

    fn as_str(self) -> &'static str {
        match self {
            Self::A => "a",
            Self::B => "b",
        }
    }

    fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }
}

/// Name of the Secret with the commit.
pub(super) fn commit_name(workspace: &str) -> String {
    fit(&format!("capt-state-{workspace}"), LONGEST_NAME)
}

/// Name of a Secret with a page. The workspace comes last: whatever it is called, no two pages meet in one name.
pub(super) fn page_name(workspace: &str, part: Part, slot: Slot, page: usize) -> String {
    let (part, slot) = (part.as_str(), slot.as_str());
    fit(&format!("{PAGE_PREFIX}{part}-{slot}-{page}-{workspace}"), LONGEST_NAME)
}

/// Whether this is the name of a page, of whatever workspace.
pub(super) fn is_page(name: &str) -> bool {
    name.starts_with(PAGE_PREFIX)
}

/// Value of the label that all Secrets of a workspace carry.
pub(super) fn label_value(workspace: &str) -> String {
    fit(workspace, LONGEST_LABEL)
}

/// Finds all Secrets of a workspace.
pub(super) fn selector(workspace: &str) -> String {
    format!("{STATE_LABEL}={}", label_value(workspace))
}

/// What is true.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Commit {
    #[serde(default)]
    state: Track,
    #[serde(default)]
    bundle: Track,
}

impl Commit {
    pub(super) fn track(&self, part: Part) -> &Track {
        match part {
            Part::State => &self.state,
            Part::Bundle => &self.bundle,
        }
    }

    /// The same, with this copy as the true one of its part.
    pub(super) fn with(mut self, part: Part, entry: Entry) -> Self {
        let track = match part {
            Part::State => &mut self.state,
            Part::Bundle => &mut self.bundle,
        };
        track.previous = track.current.replace(entry);
        self
    }
}

/// The copies of one part.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Track {
    /// The true one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) current: Option<Entry>,
    /// The one before it. Its slot is the next to be overwritten, so it may be gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) previous: Option<Entry>,
}

impl Track {
    /// Where the next copy goes.
    pub(super) fn free(&self) -> Slot {
        self.current.as_ref().map_or(Slot::A, |entry| entry.slot.other())
    }

    /// The true copy, then what is better than nothing.
    pub(super) fn candidates(&self) -> impl Iterator<Item = &Entry> {
        self.current.iter().chain(&self.previous)
    }
}

/// One copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Entry {
    pub(super) slot: Slot,
    pub(super) pages: usize,
    pub(super) size: u64,
    pub(super) raw: u64,
    pub(super) sha256: String,
    /// Of states only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) facts: Option<Facts>,
}

impl Entry {
    pub(super) fn of(packed: &Packed, slot: Slot, facts: Option<Facts>) -> Self {
        Self {
            slot,
            pages: packed.pages().len(),
            size: packed.size(),
            raw: packed.raw,
            sha256: packed.sha256.clone(),
            facts,
        }
    }
}

/// What must be known of a state without reading it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Facts {
    pub(super) lineage: String,
    pub(super) serial: u64,
    /// It manages nothing any more.
    pub(super) is_empty: bool,
}

impl Facts {
    pub(super) fn version(&self) -> Version {
        Version { lineage: self.lineage.clone(), serial: self.serial }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_workspace_can_be_called_like_the_page_of_another() {
        let page = page_name("x", Part::State, Slot::A, 0);
        assert_eq!(page, "capt-page-state-a-0-x");
        assert!(is_page(&page) && !is_page(&commit_name("page-state-a-0-x")));
        assert_ne!(page_name("1-x", Part::State, Slot::A, 1), page_name("x", Part::State, Slot::A, 11));
    }

    #[test]
    fn names_and_labels_of_the_longest_workspace_fit() {
        let long = format!("{}.{}", "w".repeat(126), "x".repeat(126));
        assert_eq!(commit_name(&long).len(), LONGEST_NAME);
        assert!(page_name(&long, Part::Bundle, Slot::B, 12).len() <= LONGEST_NAME);
        assert!(label_value(&long).len() <= LONGEST_LABEL);
    }

    #[test]
    fn a_copy_goes_to_the_slot_that_is_not_true() {
        let entry = |slot| Entry::of(&Packed::of(b"x", 10), slot, None);
        let first = Commit::default();
        assert_eq!(first.track(Part::State).free(), Slot::A);
        let second = first.with(Part::State, entry(Slot::A));
        assert_eq!((second.track(Part::State).free(), second.track(Part::Bundle).free()), (Slot::B, Slot::A));
        let third = second.with(Part::State, entry(Slot::B));
        let slots: Vec<Slot> = third.track(Part::State).candidates().map(|one| one.slot).collect();
        assert_eq!(slots, [Slot::B, Slot::A]);
    }
}
