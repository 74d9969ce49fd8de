//! The changes that a journal records, and which of them a state lacks.

use std::collections::{BTreeMap, BTreeSet};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use jiff::Timestamp;

use super::{
    state_document::{NewObject, ObjectInState, StateDocument},
    value::ResourceValue,
};
use crate::journal::{ChangeStage, JournalEntry};

/// What is known of the end of a change.
#[derive(Debug, Clone, PartialEq)]
pub enum ChangeOutcome {
    /// The provider or the gateway was killed before the answer.
    Unknown,
    /// The provider answered.
    Finished {
        /// The object afterwards; null if there is none.
        new: ResourceValue,
        /// Private data of the provider, in base64.
        private: String,
        /// Whether the provider reported an error.
        failed: bool,
    },
}

/// A change that the journal records.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedChange {
    /// Its call number.
    pub call: u64,
    /// When it was sent to the provider.
    pub since: Timestamp,
    /// The resource's type.
    pub kind: String,
    /// Version of the type's schema.
    pub schema_version: Option<u64>,
    /// The object before; null for a creation.
    pub prior: ResourceValue,
    /// The object as planned; null for a deletion.
    pub planned: ResourceValue,
    /// The result.
    pub outcome: ChangeOutcome,
}

/// What is left after everything was replayed that needs no address.
#[derive(Debug, Default)]
pub struct Replay {
    /// Whether the state was changed.
    pub changed: bool,
    /// Calls whose changes are in the state now, or need not be.
    pub settled: BTreeSet<u64>,
    /// Finished creations that are missing in the state.
    pub missing: Vec<RecordedChange>,
    /// Creations of unknown outcome.
    pub unknown: Vec<RecordedChange>,
}

impl RecordedChange {
    /// The object of a finished creation, for an address.
    pub fn new_object(&self, assignment: &super::Assignment) -> Option<NewObject> {
        let ChangeOutcome::Finished { new, private, failed } = &self.outcome else { return None };
        Some(NewObject {
            address: assignment.address.clone(),
            provider: assignment.provider.clone(),
            attributes: new.to_json()?,
            private: private.clone(),
            schema_version: self.schema_version?,
            is_tainted: *failed,
        })
    }

    /// What identifies the object for a person: its id, or the name that was planned.
    pub fn label(&self) -> String {
        let new = match &self.outcome {
            ChangeOutcome::Finished { new, .. } => Some(new),
            ChangeOutcome::Unknown => None,
        };
        let named = new.into_iter().chain([&self.planned, &self.prior]).find_map(|value| {
            let tag = value.attribute("tags").and_then(|tags| tags.text("Name"));
            ["id", "name", "arn"].iter().find_map(|name| value.text(name)).or(tag)
        });
        named.map_or_else(|| self.kind.clone(), |name| format!("{} {name}", self.kind))
    }
}

/// Joins starts and ends of the changes of a workspace, in the order of their starts.
pub fn recorded_changes(entries: &[JournalEntry], workspace: &str) -> Vec<RecordedChange> {
    let mut changes: BTreeMap<u64, RecordedChange> = BTreeMap::new();
    let ours = entries.iter().filter(|it| it.workspace == workspace && it.method == "ApplyResourceChange");
    for entry in ours {
        let change = changes.entry(entry.call).or_insert_with(|| RecordedChange {
            call: entry.call,
            since: entry.time,
            kind: entry.kind.clone(),
            schema_version: entry.schema_version,
            prior: decode(&entry.prior),
            planned: decode(&entry.planned),
            outcome: ChangeOutcome::Unknown,
        });
        if entry.stage == ChangeStage::Done {
            let (new, private) = (decode(&entry.new), entry.private.clone());
            change.outcome = ChangeOutcome::Finished { new, private, failed: entry.failed };
        }
    }
    changes.into_values().collect()
}

fn decode(base64: &str) -> ResourceValue {
    let bytes = BASE64_STANDARD.decode(base64).ok();
    bytes.and_then(|bytes| ResourceValue::decode(&bytes)).unwrap_or(ResourceValue::Unknown)
}

/// Replays updates and deletions, and sorts out the creations that the state has already.
///
/// An update or deletion is replayed only if the state has exactly the object that it began with: anything else is newer
/// than the change, and the next plan reads it from the cloud.
pub fn replay_known(changes: Vec<RecordedChange>, state: &mut StateDocument) -> serde_json::Result<Replay> {
    let mut replay = Replay::default();
    for change in changes {
        let call = change.call;
        if change.prior.is_null() {
            sort_creation(change, state, &mut replay);
            continue;
        }
        replay.settled.insert(call);
        let ChangeOutcome::Finished { new, private, failed } = &change.outcome else { continue };
        withdraw(&change, &mut replay, *failed, new);
        if !state.objects().any(|it| it.address.kind == change.kind && it.value == change.prior) {
            continue;
        }
        if new.is_null() && !failed {
            state.remove(&change.kind, &change.prior);
            replay.changed = true;
        } else if let Some(attributes) = new.to_json().filter(|_| !new.is_null() && *new != change.prior) {
            state.update(&change.kind, &change.prior, (&attributes, private))?;
            replay.changed = true;
        }
    }
    Ok(replay)
}

fn sort_creation(change: RecordedChange, state: &StateDocument, replay: &mut Replay) {
    match &change.outcome {
        ChangeOutcome::Unknown => replay.unknown.push(change),
        // A creation that failed without an object made nothing.
        ChangeOutcome::Finished { new, .. }
            if new.is_null() || state.objects().any(|object| is_same_object(&object, &change.kind, new)) =>
        {
            replay.settled.insert(change.call);
        }
        ChangeOutcome::Finished { .. } => replay.missing.push(change),
    }
}

/// A missing object that was changed or deleted later on takes part in that change.
fn withdraw(change: &RecordedChange, replay: &mut Replay, failed: bool, new: &ResourceValue) {
    for missing in &mut replay.missing {
        let ChangeOutcome::Finished { new: made, private, .. } = &mut missing.outcome else { continue };
        if missing.kind != change.kind || !has_same_identity(made, &change.prior) {
            continue;
        }
        if !new.is_null() {
            *made = new.clone();
            if let ChangeOutcome::Finished { private: newer, .. } = &change.outcome {
                private.clone_from(newer);
            }
        } else if !failed {
            replay.settled.insert(missing.call);
        }
    }
    replay.missing.retain(|missing| !replay.settled.contains(&missing.call));
}

fn is_same_object(object: &ObjectInState, kind: &str, value: &ResourceValue) -> bool {
    object.address.kind == kind && has_same_identity(&object.value, value)
}

/// Whether two values are of one object: by their ids, or by all attributes if they have none.
pub(super) fn has_same_identity(left: &ResourceValue, right: &ResourceValue) -> bool {
    for name in ["id", "arn"] {
        if let (Some(left), Some(right)) = (left.text(name), right.text(name)) {
            return left == right;
        }
    }
    left == right
}
