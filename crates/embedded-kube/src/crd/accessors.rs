//! Accessors for CRD objects.

use serde_json::Value;

use crate::object::{get_path, str_at};

/// `spec.names` or `status.acceptedNames`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CrdNames {
    pub plural: String,
    pub singular: String,
    pub kind: String,
    pub list_kind: String,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
}

impl CrdNames {
    /// Missing fields are empty.
    pub fn from_value(names: Option<&Value>) -> Self {
        let word = |key: &str| names.map(|names| str_at(names, &[key])).unwrap_or_default().to_owned();
        Self {
            plural: word("plural"),
            singular: word("singular"),
            kind: word("kind"),
            list_kind: word("listKind"),
            short_names: names.map(|names| string_list(names, &["shortNames"])).unwrap_or_default(),
            categories: names.map(|names| string_list(names, &["categories"])).unwrap_or_default(),
        }
    }

    /// As in the API: empty lists and optional strings are omitted.
    pub fn to_value(&self) -> Value {
        let mut value = serde_json::json!({ "plural": self.plural });
        if !self.singular.is_empty() {
            value["singular"] = self.singular.clone().into();
        }
        if !self.short_names.is_empty() {
            value["shortNames"] = self.short_names.clone().into();
        }
        value["kind"] = self.kind.clone().into();
        if !self.list_kind.is_empty() {
            value["listKind"] = self.list_kind.clone().into();
        }
        if !self.categories.is_empty() {
            value["categories"] = self.categories.clone().into();
        }
        value
    }
}

/// `spec.names`.
pub fn spec_names(crd: &Value) -> CrdNames {
    CrdNames::from_value(get_path(crd, &["spec", "names"]))
}

/// `status.acceptedNames`.
pub fn accepted_names(crd: &Value) -> CrdNames {
    CrdNames::from_value(get_path(crd, &["status", "acceptedNames"]))
}

/// `spec.versions`.
pub fn versions(crd: &Value) -> &[Value] {
    get_path(crd, &["spec", "versions"]).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Name of the storage version; empty if there is none.
pub fn storage_version(crd: &Value) -> &str {
    let version = versions(crd).iter().find(|version| bool_field(version, "storage"));
    version.map(|version| str_at(version, &["name"])).unwrap_or_default()
}

/// Reads a boolean; missing means false.
pub fn bool_field(value: &Value, key: &str) -> bool {
    value.get(key).and_then(Value::as_bool).unwrap_or_default()
}

/// Reads a list of strings; missing means empty.
pub fn string_list(value: &Value, path: &[&str]) -> Vec<String> {
    let list = get_path(value, path).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Finds a condition by type.
pub fn condition<'a>(crd: &'a Value, kind: &str) -> Option<&'a Value> {
    let list = get_path(crd, &["status", "conditions"]).and_then(Value::as_array)?;
    list.iter().find(|condition| str_at(condition, &["type"]) == kind)
}

/// Whether a condition is `True`.
pub fn is_condition_true(crd: &Value, kind: &str) -> bool {
    condition(crd, kind).is_some_and(|condition| str_at(condition, &["status"]) == "True")
}
