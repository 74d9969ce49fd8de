//! A CRD object, read.

use serde_json::Value;

use crate::object::{at, text};

/// `spec.names` or `status.acceptedNames`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(clippy::struct_field_names, reason = "the API calls them so")]
pub struct Names {
    pub plural: String,
    pub singular: String,
    pub kind: String,
    pub list_kind: String,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
}

impl Names {
    /// What is not there is empty.
    pub fn read(names: Option<&Value>) -> Self {
        let word = |key: &str| names.map(|names| text(names, &[key])).unwrap_or_default().to_owned();
        Self {
            plural: word("plural"),
            singular: word("singular"),
            kind: word("kind"),
            list_kind: word("listKind"),
            short_names: names.map(|names| words(names, &["shortNames"])).unwrap_or_default(),
            categories: names.map(|names| words(names, &["categories"])).unwrap_or_default(),
        }
    }

    /// As the API has it: empty lists are left out, empty words too except for those that are required.
    pub fn value(&self) -> Value {
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

/// Names that the CRD asks for.
pub fn spec_names(crd: &Value) -> Names {
    Names::read(at(crd, &["spec", "names"]))
}

/// Names that it has got.
pub fn accepted_names(crd: &Value) -> Names {
    Names::read(at(crd, &["status", "acceptedNames"]))
}

/// `spec.versions`.
pub fn versions(crd: &Value) -> &[Value] {
    at(crd, &["spec", "versions"]).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// The name of the version that is written to the store; empty if there is none.
pub fn storage_version(crd: &Value) -> &str {
    let version = versions(crd).iter().find(|version| flag(version, "storage"));
    version.map(|version| text(version, &["name"])).unwrap_or_default()
}

/// A yes or no; missing is no.
pub fn flag(value: &Value, key: &str) -> bool {
    value.get(key).and_then(Value::as_bool).unwrap_or_default()
}

/// A list of words; missing is empty.
pub fn words(value: &Value, path: &[&str]) -> Vec<String> {
    let list = at(value, path).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// One condition by type.
pub fn condition<'a>(crd: &'a Value, kind: &str) -> Option<&'a Value> {
    let list = at(crd, &["status", "conditions"]).and_then(Value::as_array)?;
    list.iter().find(|condition| text(condition, &["type"]) == kind)
}

/// A condition is there and true.
pub fn is_true(crd: &Value, kind: &str) -> bool {
    condition(crd, kind).is_some_and(|condition| text(condition, &["status"]) == "True")
}
