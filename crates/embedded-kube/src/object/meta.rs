//! Reading and writing `metadata` of an untyped object.

use serde_json::{Map, Value};

/// A value by path, if every step of it is there.
pub fn at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, key| value.get(key))
}

/// A place by path; objects on the way are made. `None` where something else than an object stands in the way.
pub fn at_mut<'a>(value: &'a mut Value, path: &[&str]) -> Option<&'a mut Value> {
    path.iter().try_fold(value, |value, key| {
        if value.is_null() {
            *value = Value::Object(Map::new());
        }
        value.as_object_mut().map(|map| map.entry(*key).or_insert(Value::Null))
    })
}

/// A text by path; empty where there is none.
pub fn text<'a>(value: &'a Value, path: &[&str]) -> &'a str {
    at(value, path).and_then(Value::as_str).unwrap_or_default()
}

/// What `metadata` says.
pub trait Meta {
    /// A text of `metadata`; empty where there is none.
    fn meta(&self, key: &str) -> &str;
    /// `metadata.name`.
    fn name(&self) -> &str {
        self.meta("name")
    }
    /// `metadata.namespace`.
    fn namespace(&self) -> &str {
        self.meta("namespace")
    }
    /// `metadata.uid`.
    fn uid(&self) -> &str {
        self.meta("uid")
    }
    /// `metadata.resourceVersion`.
    fn resource_version(&self) -> &str {
        self.meta("resourceVersion")
    }
    /// `metadata.generation`; 0 where there is none.
    fn generation(&self) -> i64;
    /// `metadata.deletionTimestamp` is set.
    fn is_terminating(&self) -> bool {
        !self.meta("deletionTimestamp").is_empty()
    }
    /// `metadata.finalizers`.
    fn finalizers(&self) -> Vec<String>;
    /// A label.
    fn label(&self, key: &str) -> Option<&str>;
}

impl Meta for Value {
    fn meta(&self, key: &str) -> &str {
        text(self, &["metadata", key])
    }

    fn generation(&self) -> i64 {
        at(self, &["metadata", "generation"]).and_then(Self::as_i64).unwrap_or_default()
    }

    fn finalizers(&self) -> Vec<String> {
        let list = at(self, &["metadata", "finalizers"]).and_then(Self::as_array);
        list.into_iter().flatten().filter_map(Self::as_str).map(str::to_owned).collect()
    }

    fn label(&self, key: &str) -> Option<&str> {
        at(self, &["metadata", "labels", key]).and_then(Self::as_str)
    }
}

/// Changing `metadata`.
pub trait MetaMut {
    /// Sets a value of `metadata`.
    fn set_meta(&mut self, key: &str, value: impl Into<Value>);
    /// Removes a value of `metadata`.
    fn drop_meta(&mut self, key: &str) -> Option<Value>;
    /// Removes a field at the top.
    fn drop_field(&mut self, key: &str) -> Option<Value>;
}

impl MetaMut for Value {
    fn set_meta(&mut self, key: &str, value: impl Into<Self>) {
        if let Some(place) = at_mut(self, &["metadata", key]) {
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
