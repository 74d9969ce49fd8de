//! Correlates old and new values for ratcheting: invalid values that an update does not change are accepted.

use serde_json::Value;

use super::parse::Schema;

/// A new value, the old value at the same path, and their schema.
#[derive(Debug, Clone, Copy)]
pub struct CorrelatedValue<'a> {
    pub new: &'a Value,
    pub old: &'a Value,
    pub schema: &'a Schema,
}

impl CorrelatedValue<'_> {
    /// The pair at a key, if both have it and the schema describes it.
    pub fn key(self, key: &str) -> Option<Self> {
        Some(Self { new: self.new.get(key)?, old: self.old.get(key)?, schema: self.schema.child(key)? })
    }

    /// The pair of an item, if items are identified by keys.
    pub fn index(self, index: usize) -> Option<Self> {
        let new = self.new.get(index)?;
        let old = matching_item(self.schema, self.old, new)?;
        Some(Self { new, old, schema: self.schema.items.as_deref()? })
    }

    /// Whether the value is unchanged. Values that the schema does not describe count as changed.
    pub fn is_unchanged(self) -> bool {
        match (self.new, self.old) {
            (Value::Object(new), Value::Object(old)) => {
                new.len() == old.len() && new.keys().all(|key| self.key(key).is_some_and(Self::is_unchanged))
            }
            (Value::Array(new), Value::Array(old)) if self.schema.list_type.as_deref() == Some("map") => {
                new.len() == old.len()
                    && (0..new.len()).all(|index| self.index(index).is_some_and(Self::is_unchanged))
            }
            (new, old) => new == old,
        }
    }
}

/// The item of an old list with the same keys.
pub fn matching_item<'a>(schema: &Schema, old: &'a Value, item: &Value) -> Option<&'a Value> {
    if !schema.is_list_map() {
        return None;
    }
    let wanted = keys_of(schema, item)?;
    old.as_array()?.iter().find(|candidate| keys_of(schema, candidate).is_some_and(|keys| keys == wanted))
}

fn keys_of<'a>(schema: &Schema, item: &'a Value) -> Option<Vec<&'a Value>> {
    let is_scalar = |value: &&Value| value.is_string() || value.is_number() || value.is_boolean();
    schema.list_keys.iter().map(|key| item.get(key).filter(is_scalar)).collect()
}
