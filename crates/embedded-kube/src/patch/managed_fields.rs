//! `metadata.managedFields`: decoding, encoding and ownership transfer.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{WriteContext, field_set::FieldSet, typed::FieldChanges};
use crate::{clock, status_error::go_quote};

/// Maximum number of entries with operation `Update`; older ones are merged.
const MAX_UPDATE_MANAGERS: usize = 10;
const ANCIENT_MANAGER: &str = "ancient-changes";

/// One entry of `managedFields`.
#[derive(Debug, Clone, PartialEq)]
pub struct ManagedFieldsEntry {
    /// Name.
    pub manager: String,
    /// Whether the operation is `Apply` rather than `Update`.
    pub is_apply: bool,
    /// API version of the field paths.
    pub api_version: String,
    /// Subresource of the writes; empty for none.
    pub subresource: String,
    /// Time of the last change, as encoded.
    pub time: Option<String>,
    /// Owned fields.
    pub fields: FieldSet,
}

impl ManagedFieldsEntry {
    /// An entry that owns nothing yet.
    pub fn new(writer: &WriteContext<'_>, manager: &str, is_apply: bool) -> Self {
        let manager = if manager.is_empty() { "unknown" } else { manager };
        Self {
            manager: manager.to_owned(),
            is_apply,
            api_version: writer.api_version.to_owned(),
            subresource: writer.subresource.to_owned(),
            time: None,
            fields: FieldSet::default(),
        }
    }

    /// Identity of the manager. Apply entries are the same in every version.
    pub fn identifier(&self) -> String {
        let mut id = Map::new();
        let mut put = |key: &str, value: &str| {
            if !value.is_empty() {
                id.insert(key.to_owned(), value.into());
            }
        };
        put("manager", &self.manager);
        put("operation", self.operation());
        if !self.is_apply {
            put("apiVersion", &self.api_version);
        }
        put("subresource", &self.subresource);
        Value::Object(id).to_string()
    }

    fn operation(&self) -> &'static str {
        if self.is_apply { "Apply" } else { "Update" }
    }

    /// Name in conflict messages.
    pub fn display_name(&self) -> String {
        let mut text = go_quote(&self.manager);
        if !self.subresource.is_empty() {
            text = format!("{text} with subresource {}", go_quote(&self.subresource));
        }
        if !self.is_apply {
            text = format!("{text} using {}", self.api_version);
        }
        text
    }

    fn time_seconds(&self) -> i64 {
        let time = self.time.as_ref().and_then(|time| time.parse::<Timestamp>().ok());
        time.map_or(0, Timestamp::as_second)
    }

    fn encode(&self) -> Value {
        let mut entry = Map::new();
        entry.insert("manager".to_owned(), self.manager.clone().into());
        entry.insert("operation".to_owned(), self.operation().into());
        entry.insert("apiVersion".to_owned(), self.api_version.clone().into());
        if let Some(time) = &self.time {
            entry.insert("time".to_owned(), time.clone().into());
        }
        entry.insert("fieldsType".to_owned(), "FieldsV1".into());
        entry.insert("fieldsV1".to_owned(), self.fields.encode());
        if !self.subresource.is_empty() {
            entry.insert("subresource".to_owned(), self.subresource.clone().into());
        }
        if self.manager.is_empty() {
            entry.shift_remove("manager");
        }
        Value::Object(entry)
    }

    fn decode(entry: &Value, index: usize) -> Result<Self, String> {
        let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let applies = match text("operation").as_str() {
            "Apply" => true,
            "Update" => false,
            _ => return Err("operation must be `Apply` or `Update`".to_owned()),
        };
        let api_version = text("apiVersion");
        if api_version.is_empty() {
            return Err("apiVersion must not be empty".to_owned());
        }
        match text("fieldsType").as_str() {
            "FieldsV1" => {}
            "" => return Err(format!("missing fieldsType in managed fields entry {index}")),
            other => {
                return Err(format!(
                    "invalid fieldsType {} in managed fields entry {index}",
                    go_quote(other)
                ));
            }
        }
        Ok(Self {
            manager: text("manager"),
            is_apply: applies,
            api_version,
            subresource: text("subresource"),
            time: entry.get("time").and_then(Value::as_str).map(str::to_owned),
            fields: FieldSet::decode(entry.get("fieldsV1").unwrap_or(&Value::Null))?,
        })
    }
}

/// A field that another manager owns.
#[derive(Debug, Clone)]
pub struct Conflict {
    /// Sorts conflicts by manager.
    pub id: String,
    /// Name of the manager.
    pub manager: String,
    /// Path of the field.
    pub field: String,
    /// The field as a set.
    pub fields: FieldSet,
}

/// All entries of an object by identity.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ManagedFields(BTreeMap<String, ManagedFieldsEntry>);

impl ManagedFields {
    /// Decodes `managedFields`; `None` and null are empty.
    pub fn decode(entries: Option<&Value>) -> Result<Self, String> {
        let mut owners = Self::default();
        for (index, entry) in entries.and_then(Value::as_array).into_iter().flatten().enumerate() {
            owners.insert(ManagedFieldsEntry::decode(entry, index)?);
        }
        Ok(owners)
    }

    /// Encodes `managedFields`; `None` if empty.
    pub fn encode(&self) -> Option<Value> {
        encode_entries(self.0.values().collect())
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All entries.
    pub fn into_iter(self) -> impl Iterator<Item = ManagedFieldsEntry> {
        self.0.into_values()
    }

    /// All entries.
    pub fn iter(&self) -> impl Iterator<Item = &ManagedFieldsEntry> {
        self.0.values()
    }

    /// The entry of the same manager.
    pub fn entry_of_same_manager(&self, owner: &ManagedFieldsEntry) -> Option<&ManagedFieldsEntry> {
        self.0.get(&owner.identifier())
    }

    /// Inserts or replaces an entry.
    pub fn insert(&mut self, owner: ManagedFieldsEntry) {
        self.0.insert(owner.identifier(), owner);
    }

    /// Updates every set; empty entries are removed.
    pub fn update_each(&mut self, mut change: impl FnMut(&mut FieldSet)) {
        self.0.retain(|_, owner| {
            change(&mut owner.fields);
            !owner.fields.is_empty()
        });
    }

    /// Applies changes to every entry but `except`: changed fields are transferred to the writer, removed fields are
    /// dropped. Without `force` nothing is transferred, and every affected field is a conflict.
    pub fn transfer_ownership(
        &mut self,
        changes: &FieldChanges,
        except: Option<&ManagedFieldsEntry>,
        force: bool,
    ) -> Result<(), Vec<Conflict>> {
        let except = except.map(ManagedFieldsEntry::identifier);
        let mut written = changes.modified.clone();
        written.union_with(changes.added.clone());
        if !force {
            let conflicts = self.conflicts(&written, except.as_deref());
            if !conflicts.is_empty() {
                return Err(conflicts);
            }
        }
        self.0.retain(|id, owner| {
            if except.as_ref() != Some(id) {
                owner.fields.subtract(&written);
                owner.fields.subtract(&changes.removed);
            }
            !owner.fields.is_empty()
        });
        Ok(())
    }

    fn conflicts(&self, written: &FieldSet, except: Option<&str>) -> Vec<Conflict> {
        let mut conflicts = Vec::new();
        for (id, owner) in self.0.iter().filter(|(id, _)| Some(id.as_str()) != except) {
            let common = owner.fields.intersection(written);
            for path in common.paths() {
                conflicts.push(Conflict {
                    id: id.clone(),
                    manager: owner.display_name(),
                    field: path.iter().map(ToString::to_string).collect(),
                    fields: FieldSet::from_path(&path),
                });
            }
        }
        conflicts
    }

    /// Merges the oldest `Update` entries of each version until the limit is met.
    pub fn cap_update_managers(&mut self) {
        let mut updaters: Vec<String> =
            self.0.iter().filter(|(_, owner)| !owner.is_apply).map(|(id, _)| id.clone()).collect();
        let mut count = updaters.len();
        updaters.sort_by_cached_key(|id| {
            (self.0.get(id).map_or(0, ManagedFieldsEntry::time_seconds), id.clone())
        });
        let mut first_of_version: BTreeMap<String, String> = BTreeMap::new();
        for id in updaters {
            if count <= MAX_UPDATE_MANAGERS {
                return;
            }
            let Some(version) = self.0.get(&id).map(|owner| owner.api_version.clone()) else { continue };
            let Some(first) = first_of_version.get(&version) else {
                first_of_version.insert(version, id);
                continue;
            };
            self.merge_entry(&first.clone(), &id, &version);
            count -= 1;
        }
    }

    fn merge_entry(&mut self, first: &str, id: &str, version: &str) {
        let bucket = ManagedFieldsEntry {
            manager: ANCIENT_MANAGER.to_owned(),
            is_apply: false,
            api_version: version.to_owned(),
            subresource: String::new(),
            time: None,
            fields: FieldSet::default(),
        };
        let Some(joined) = self.0.remove(id) else { return };
        let mut bucket = match self.0.remove(&bucket.identifier()) {
            Some(bucket) => bucket,
            None => ManagedFieldsEntry {
                fields: self.0.remove(first).map(|owner| owner.fields).unwrap_or_default(),
                ..bucket
            },
        };
        bucket.fields.union_with(joined.fields);
        // Keeps the later time.
        bucket.time = joined.time;
        self.insert(bucket);
    }
}

/// Encodes `managedFields` in kube-apiserver's order; `None` if empty.
pub fn encode_entries(mut owners: Vec<&ManagedFieldsEntry>) -> Option<Value> {
    owners.sort_by_cached_key(|owner| {
        let ManagedFieldsEntry { manager, api_version, subresource, .. } = owner;
        (!owner.is_apply, owner.time_seconds(), manager.clone(), api_version.clone(), subresource.clone())
    });
    (!owners.is_empty()).then(|| Value::Array(owners.into_iter().map(ManagedFieldsEntry::encode).collect()))
}

/// Time of a write, as encoded in entries.
pub fn write_time(writer: &WriteContext<'_>) -> String {
    clock::format_time(writer.now)
}

/// Whether a client requests a reset of all entries: `[{}]`, for built-in kinds also `[]`.
pub fn is_reset(entries: Option<&Value>, built_in: bool) -> bool {
    match entries.and_then(Value::as_array).map(Vec::as_slice) {
        Some([]) => built_in,
        Some([only]) => *only == json!({}),
        _ => false,
    }
}
