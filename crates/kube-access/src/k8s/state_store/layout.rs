//! Layout of the Secrets of a workspace, and the commit record. Pure.
//!
//! A workspace has one commit and two parts, `state` and `bundle`. Each part has two slots, each with as many pages as its
//! largest copy needed so far. The commit selects the current slot; the other one is free for the next write.
//!
//! A state that a person puts in its place goes to slots of its own, which no save of an operator writes to, and the one that it
//! replaces is kept as the part `replaced`.

use capt_kinds::api::names::STATE_LABEL;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use terraform_driver::{
    hex::hex,
    state::{InvalidState, State, StateVersion},
};

use super::{super::truncate::truncate_name, compress::CompressedPages};

/// Maximum length of a Secret name.
const LONGEST_NAME: usize = 253;
/// Maximum length of a label value.
const LONGEST_LABEL: usize = 63;
/// Prefix of commit names.
const COMMIT_PREFIX: &str = "capt-state-";
/// Prefix of page names; no commit name starts with it.
const PAGE_PREFIX: &str = "capt-page-";

/// Type of the Secrets.
pub(super) const STATE_SECRET_TYPE: &str = "capt.x-k8s.io/state";
/// Key of the commit.
pub(super) const COMMIT_KEY: &str = "commit";
/// Key of a page.
pub(super) const PAGE_KEY: &str = "page";

/// A part of a stored workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StatePart {
    State,
    Bundle,
    /// The states that were replaced by hand.
    Replaced,
}

impl StatePart {
    /// The parts that every workspace has.
    pub(super) const SAVED: [Self; 2] = [Self::State, Self::Bundle];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::State => "state",
            Self::Bundle => "bundle",
            Self::Replaced => "replaced",
        }
    }
}

/// A slot of a part: A and B for saves, C and D for states that a person puts in their place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum StateSlot {
    A,
    B,
    C,
    D,
}

impl StateSlot {
    /// The slots of saves.
    pub(super) const SAVED: [Self; 2] = [Self::A, Self::B];

    fn as_str(self) -> &'static str {
        match self {
            Self::A => "a",
            Self::B => "b",
            Self::C => "c",
            Self::D => "d",
        }
    }

    fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B | Self::C | Self::D => Self::A,
        }
    }
}

/// Name of the Secret with the commit.
pub(super) fn commit_name(workspace: &str) -> String {
    truncate_name(&format!("{COMMIT_PREFIX}{workspace}"), LONGEST_NAME)
}

/// The workspace whose commit has this name; `None` for a page, and for a name that is too long to hold the workspace's.
pub(super) fn workspace_of_commit(name: &str) -> Option<&str> {
    name.strip_prefix(COMMIT_PREFIX).filter(|_| name.len() < LONGEST_NAME)
}

/// Name of the Secret with the journal entries.
pub(super) fn journal_name(workspace: &str) -> String {
    truncate_name(&format!("capt-journal-{workspace}"), LONGEST_NAME)
}

/// Name of a page Secret. The workspace comes last, so that names of different pages never collide.
pub(super) fn page_name(workspace: &str, part: StatePart, slot: StateSlot, page: usize) -> String {
    let (part, slot) = (part.as_str(), slot.as_str());
    truncate_name(&format!("{PAGE_PREFIX}{part}-{slot}-{page}-{workspace}"), LONGEST_NAME)
}

/// Whether this is the name of a page of any workspace.
pub(super) fn is_page(name: &str) -> bool {
    name.starts_with(PAGE_PREFIX)
}

/// Label value of all Secrets of a workspace.
pub(super) fn label_value(workspace: &str) -> String {
    truncate_name(workspace, LONGEST_LABEL)
}

/// Label selector of all Secrets of a workspace.
pub(super) fn selector(workspace: &str) -> String {
    format!("{STATE_LABEL}={}", label_value(workspace))
}

/// The commit record: the current copy of each part.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StateCommit {
    #[serde(default)]
    state: PartCopies,
    #[serde(default)]
    bundle: PartCopies,
    /// States that were replaced by hand.
    #[serde(default, skip_serializing_if = "PartCopies::is_empty")]
    replaced: PartCopies,
    /// How often the state was replaced by hand.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) edits: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl StateCommit {
    pub(super) fn copies(&self, part: StatePart) -> &PartCopies {
        match part {
            StatePart::State => &self.state,
            StatePart::Bundle => &self.bundle,
            StatePart::Replaced => &self.replaced,
        }
    }

    /// The commit with this copy as the current one of its part.
    pub(super) fn with_current(mut self, part: StatePart, entry: CopyEntry) -> Self {
        let track = match part {
            StatePart::State => &mut self.state,
            StatePart::Bundle => &mut self.bundle,
            StatePart::Replaced => &mut self.replaced,
        };
        track.previous = track.current.replace(entry);
        self
    }
}

/// The current and previous copy of one part.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PartCopies {
    /// The current copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) current: Option<CopyEntry>,
    /// The previous copy. Its slot is overwritten next, so it may be incomplete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) previous: Option<CopyEntry>,
}

impl PartCopies {
    /// The slot of the next copy.
    pub(super) fn free_slot(&self) -> StateSlot {
        self.current.as_ref().map_or(StateSlot::A, |entry| entry.slot.other())
    }

    /// The slot of the next copy that a person puts in its place: never one that a save is writing to.
    pub(super) fn free_edit_slot(&self) -> StateSlot {
        match &self.current {
            Some(entry) if entry.slot == StateSlot::C => StateSlot::D,
            _ => StateSlot::C,
        }
    }

    const fn is_empty(&self) -> bool {
        self.current.is_none() && self.previous.is_none()
    }

    /// The current copy, then the fallback.
    pub(super) fn candidates(&self) -> impl Iterator<Item = &CopyEntry> {
        self.current.iter().chain(&self.previous)
    }
}

/// Describes one copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CopyEntry {
    pub(super) slot: StateSlot,
    pub(super) pages: usize,
    pub(super) size: u64,
    pub(super) raw: u64,
    pub(super) sha256: String,
    /// Only for states.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) facts: Option<StateFacts>,
    /// When it was written; absent in commits of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) written: Option<Timestamp>,
}

impl CopyEntry {
    pub(super) fn from_pages(
        packed: &CompressedPages,
        slot: StateSlot,
        (facts, written): (Option<StateFacts>, Timestamp),
    ) -> Self {
        Self {
            slot,
            pages: packed.pages().len(),
            size: packed.size(),
            raw: packed.raw_size,
            sha256: packed.sha256.clone(),
            facts,
            written: Some(written),
        }
    }
}

/// Properties of a state that are needed without reading it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StateFacts {
    pub(super) lineage: String,
    pub(super) serial: u64,
    /// Whether it manages no resources.
    pub(super) is_empty: bool,
    /// Digest of the state file; absent in commits of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) digest: Option<String>,
    /// Number of managed objects; absent in commits of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) resources: Option<usize>,
}

impl StateFacts {
    /// The facts of a state file.
    pub(super) fn of(bytes: &[u8]) -> Result<Self, InvalidState> {
        let state = State::parse(bytes)?;
        let resources = state.managed_objects().count();
        Ok(Self {
            lineage: state.version.lineage,
            serial: state.version.serial,
            is_empty: resources == 0,
            digest: Some(hex(Sha256::digest(bytes))),
            resources: Some(resources),
        })
    }

    pub(super) fn version(&self) -> StateVersion {
        StateVersion { lineage: self.lineage.clone(), serial: self.serial }
    }

    /// Whether both are the same version with different contents.
    pub(super) fn contradicts(&self, other: &Self) -> bool {
        let differ = self.digest.as_ref().zip(other.digest.as_ref()).is_some_and(|(one, two)| one != two);
        differ && self.version() == other.version()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_workspace_can_be_called_like_the_page_of_another() {
        let page = page_name("x", StatePart::State, StateSlot::A, 0);
        assert_eq!(page, "capt-page-state-a-0-x");
        assert!(is_page(&page) && !is_page(&commit_name("page-state-a-0-x")));
        assert_ne!(
            page_name("1-x", StatePart::State, StateSlot::A, 1),
            page_name("x", StatePart::State, StateSlot::A, 11)
        );
    }

    #[test]
    fn names_and_labels_of_the_longest_workspace_fit() {
        let long = format!("{}.{}", "w".repeat(126), "x".repeat(126));
        assert_eq!(commit_name(&long).len(), LONGEST_NAME);
        assert!(page_name(&long, StatePart::Bundle, StateSlot::B, 12).len() <= LONGEST_NAME);
        assert!(label_value(&long).len() <= LONGEST_LABEL);
    }

    #[test]
    fn a_copy_goes_to_the_slot_that_is_not_true() {
        let entry = |slot| {
            CopyEntry::from_pages(&CompressedPages::from_bytes(b"x", 10), slot, (None, Timestamp::UNIX_EPOCH))
        };
        let first = StateCommit::default();
        assert_eq!(first.copies(StatePart::State).free_slot(), StateSlot::A);
        let second = first.with_current(StatePart::State, entry(StateSlot::A));
        assert_eq!(
            (second.copies(StatePart::State).free_slot(), second.copies(StatePart::Bundle).free_slot()),
            (StateSlot::B, StateSlot::A)
        );
        let third = second.with_current(StatePart::State, entry(StateSlot::B));
        let slots: Vec<StateSlot> = third.copies(StatePart::State).candidates().map(|one| one.slot).collect();
        assert_eq!(slots, [StateSlot::B, StateSlot::A]);
    }
}
