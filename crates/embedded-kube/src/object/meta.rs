//! Accessors for untyped objects and their `metadata`.

use serde_json::{Map, Value};

/// Gets a value by path.
pub fn get_path<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, key| value.get(key))
}

/// Gets or creates a value by path. `None` if a parent is not an object.
pub fn get_path_mut<'a>(value: &'a mut Value, path: &[&str]) -> Option<&'a mut Value> {
    path.iter().try_fold(value, |value, key| {
        if value.is_null() {
            *value = Value::Object(Map::new());
        }
        value.as_object_mut().map(|map| map.entry(*key).or_insert(Value::Null))
    })
}

/// Gets a string by path; empty if missing.
pub fn str_at<'a>(value: &'a Value, path: &[&str]) -> &'a str {
    get_path(value, path).and_then(Value::as_str).unwrap_or_default()
}

/// Reads `metadata`.
pub trait MetaAccessor {
    /// Gets a string of `metadata`; empty if missing.
    fn meta_str(&self, key: &str) -> &str;
    /// `metadata.name`.
    fn name(&self) -> &str {
        self.meta_str("name")
    }
    /// `metadata.namespace`.
    fn namespace(&self) -> &str {
        self.meta_str("namespace")
    }
    /// `metadata.uid`.
    fn uid(&self) -> &str {
        self.meta_str("uid")
    }
    /// `metadata.resourceVersion`.
    fn resource_version(&self) -> &str {
        self.meta_str("resourceVersion")
    }
    /// `metadata.generation`; 0 if missing.
    fn generation(&self) -> i64;
    /// `metadata.deletionTimestamp` is set.
    fn is_terminating(&self) -> bool {
        !self.meta_str("deletionTimestamp").is_empty()
    }
    /// `metadata.finalizers`.
    fn finalizers(&self) -> Vec<String>;
    /// Gets a label.
    fn label(&self, key: &str) -> Option<&str>;
}

impl MetaAccessor for Value {
    fn meta_str(&self, key: &str) -> &str {
        str_at(self, &["metadata", key])
    }

    fn generation(&self) -> i64 {
        get_path(self, &["metadata", "generation"]).and_then(Self::as_i64).unwrap_or_default()
    }

    fn finalizers(&self) -> Vec<String> {
        let list = get_path(self, &["metadata", "finalizers"]).and_then(Self::as_array);
        list.into_iter().flatten().filter_map(Self::as_str).map(str::to_owned).collect()
    }

    fn label(&self, key: &str) -> Option<&str> {
        get_path(self, &["metadata", "labels", key]).and_then(Self::as_str)
    }
}

/// Modifies `metadata`.
pub trait MetaAccessorMut {
    /// Sets a field of `metadata`.
    fn set_meta(&mut self, key: &str, value: impl Into<Value>);
    /// Removes a field of `metadata`.
    fn drop_meta(&mut self, key: &str) -> Option<Value>;
    /// Removes a top-level field.
    fn drop_field(&mut self, key: &str) -> Option<Value>;
}

impl MetaAccessorMut for Value {
    fn set_meta(&mut self, key: &str, value: impl Into<Self>) {
        if let Some(place) = get_path_mut(self, &["metadata", key]) {
            *place = value.into();
        }
    }

    fn drop_meta(&mut self, key: &str) -> Option<Value> {
        self.get_mut("metadata")?.as_object_mut()?.shift_remove(key)
    }

    fn drop_field(&mut self, key: &str) -> Option<Value> {
        self.as_object_mut()?.shift_remove(key)
    }
}
