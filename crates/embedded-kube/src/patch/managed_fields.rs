//! Who owns which fields: `metadata.managedFields`, read and written.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{Writer, fields::Set, typed::Changes};
use crate::{clock, failure::quoted};

/// Managers that only update, and are kept apart, are at most this many.
const MOST_UPDATERS: usize = 10;
const OLD_UPDATERS: &str = "ancient-changes";

/// One entry of `managedFields`.
#[derive(Debug, Clone, PartialEq)]
pub struct Owner {
    /// Name.
    pub manager: String,
    /// Applies, rather than updates.
    pub applies: bool,
    /// Version in which the fields are named.
    pub api_version: String,
    /// Subresource through which it writes; empty for none.
    pub subresource: String,
    /// When it last changed something, as written.
    pub time: Option<String>,
    /// What it owns.
    pub set: Set,
}

impl Owner {
    /// A manager that owns nothing yet.
    pub fn new(writer: &Writer<'_>, manager: &str, applies: bool) -> Self {
        let manager = if manager.is_empty() { "unknown" } else { manager };
        Self {
            manager: manager.to_owned(),
            applies,
            api_version: writer.api_version.to_owned(),
            subresource: writer.subresource.to_owned(),
            time: None,
            set: Set::default(),
        }
    }

    /// What tells owners apart. Those who apply are the same in every version.
    pub fn id(&self) -> String {
        let mut id = Map::new();
        let mut put = |key: &str, value: &str| {
            if !value.is_empty() {
                id.insert(key.to_owned(), value.into());
            }
        };
        put("manager", &self.manager);
        put("operation", self.operation());
        if !self.applies {
            put("apiVersion", &self.api_version);
        }
        put("subresource", &self.subresource);
        Value::Object(id).to_string()
    }

    fn operation(&self) -> &'static str {
        if self.applies { "Apply" } else { "Update" }
    }

    /// As conflicts name it.
    pub fn shown(&self) -> String {
        let mut text = quoted(&self.manager);
        if !self.subresource.is_empty() {
            text = format!("{text} with subresource {}", quoted(&self.subresource));
        }
        if !self.applies {
            text = format!("{text} using {}", self.api_version);
        }
        text
    }

    fn seconds(&self) -> i64 {
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
        entry.insert("fieldsV1".to_owned(), self.set.encode());
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
                return Err(format!("invalid fieldsType {} in managed fields entry {index}", quoted(other)));
            }
        }
        Ok(Self {
            manager: text("manager"),
            applies,
            api_version,
            subresource: text("subresource"),
            time: entry.get("time").and_then(Value::as_str).map(str::to_owned),
            set: Set::decode(entry.get("fieldsV1").unwrap_or(&Value::Null))?,
        })
    }
}

/// A field that somebody else owns.
#[derive(Debug, Clone)]
pub struct Conflict {
    /// Orders conflicts by who they are with.
    pub id: String,
    /// Who, as shown.
    pub with: String,
    /// Which field.
    pub field: String,
    /// The field alone, as a set.
    pub set: Set,
}

/// All owners of an object, by what tells them apart.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Owners(BTreeMap<String, Owner>);

impl Owners {
    /// From `managedFields`; `None` and null are nobody.
    pub fn decode(entries: Option<&Value>) -> Result<Self, String> {
        let mut owners = Self::default();
        for (index, entry) in entries.and_then(Value::as_array).into_iter().flatten().enumerate() {
            owners.put(Owner::decode(entry, index)?);
        }
        Ok(owners)
    }

    /// `managedFields`; `None` for nobody.
    pub fn encode(&self) -> Option<Value> {
        encode(self.0.values().collect())
    }

    /// Nobody owns anything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them.
    pub fn into_iter(self) -> impl Iterator<Item = Owner> {
        self.0.into_values()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Owner> {
        self.0.values()
    }

    /// The entry of the same owner.
    pub fn like(&self, owner: &Owner) -> Option<&Owner> {
        self.0.get(&owner.id())
    }

    /// Adds an owner, or puts it in the place of its former self.
    pub fn put(&mut self, owner: Owner) {
        self.0.insert(owner.id(), owner);
    }

    /// Changes every set; owners of nothing are forgotten.
    pub fn change(&mut self, mut change: impl FnMut(&mut Set)) {
        self.0.retain(|_, owner| {
            change(&mut owner.set);
            !owner.set.is_empty()
        });
    }

    /// Every field of every owner but `except`: changed ones pass to whoever changed them, removed ones are gone.
    /// Without `force` nothing passes, and every field that should is a conflict.
    pub fn yield_to(
        &mut self,
        changes: &Changes,
        except: Option<&Owner>,
        force: bool,
    ) -> Result<(), Vec<Conflict>> {
        let except = except.map(Owner::id);
        let mut written = changes.modified.clone();
        written.add(changes.added.clone());
        if !force {
            let conflicts = self.conflicts(&written, except.as_deref());
            if !conflicts.is_empty() {
                return Err(conflicts);
            }
        }
        self.0.retain(|id, owner| {
            if except.as_ref() != Some(id) {
                owner.set.subtract(&written);
                owner.set.subtract(&changes.removed);
            }
            !owner.set.is_empty()
        });
        Ok(())
    }

    fn conflicts(&self, written: &Set, except: Option<&str>) -> Vec<Conflict> {
        let mut conflicts = Vec::new();
        for (id, owner) in self.0.iter().filter(|(id, _)| Some(id.as_str()) != except) {
            let common = owner.set.common(written);
            for path in common.paths() {
                conflicts.push(Conflict {
                    id: id.clone(),
                    with: owner.shown(),
                    field: path.iter().map(ToString::to_string).collect(),
                    set: Set::of_path(&path),
                });
            }
        }
        conflicts
    }

    /// Joins the oldest updaters of each version, until there are not too many.
    pub fn cap(&mut self) {
        let mut updaters: Vec<String> =
            self.0.iter().filter(|(_, owner)| !owner.applies).map(|(id, _)| id.clone()).collect();
        let mut count = updaters.len();
        updaters.sort_by_cached_key(|id| (self.0.get(id).map_or(0, Owner::seconds), id.clone()));
        let mut first_of_version: BTreeMap<String, String> = BTreeMap::new();
        for id in updaters {
            if count <= MOST_UPDATERS {
                return;
            }
            let Some(version) = self.0.get(&id).map(|owner| owner.api_version.clone()) else { continue };
            let Some(first) = first_of_version.get(&version) else {
                first_of_version.insert(version, id);
                continue;
            };
            self.join(&first.clone(), &id, &version);
            count -= 1;
        }
    }

    fn join(&mut self, first: &str, id: &str, version: &str) {
        let bucket = Owner {
            manager: OLD_UPDATERS.to_owned(),
            applies: false,
            api_version: version.to_owned(),
            subresource: String::new(),
            time: None,
            set: Set::default(),
        };
        let Some(joined) = self.0.remove(id) else { return };
        let mut bucket = match self.0.remove(&bucket.id()) {
            Some(bucket) => bucket,
            None => Owner { set: self.0.remove(first).map(|owner| owner.set).unwrap_or_default(), ..bucket },
        };
        bucket.set.add(joined.set);
        // The later of both times.
        bucket.time = joined.time;
        self.put(bucket);
    }
}

/// `managedFields`, in the real server's order; `None` for nobody.
pub fn encode(mut owners: Vec<&Owner>) -> Option<Value> {
    owners.sort_by_cached_key(|owner| {
        let Owner { manager, api_version, subresource, .. } = owner;
        (!owner.applies, owner.seconds(), manager.clone(), api_version.clone(), subresource.clone())
    });
    (!owners.is_empty()).then(|| Value::Array(owners.into_iter().map(Owner::encode).collect()))
}

/// The time of a write, as entries show it.
pub fn stamp(writer: &Writer<'_>) -> String {
    clock::seconds(writer.now)
}

/// Whether a client asks to forget all owners: `[{}]`, and for built-in kinds `[]` too.
pub fn is_reset(entries: Option<&Value>, built_in: bool) -> bool {
    match entries.and_then(Value::as_array).map(Vec::as_slice) {
        Some([]) => built_in,
        Some([only]) => *only == json!({}),
        _ => false,
    }
}
