//! Metadata that objects are selected by: name, labels and controller.
//!
//! Parsed once per version of an object and cached with its bytes, so that a search among thousands parses only the
//! matches.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};

use super::{MetaAccessor, get_path, str_at};

/// Indexed metadata of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IndexedMeta {
    namespace: Box<str>,
    name: Box<str>,
    labels: Option<Map<String, Value>>,
    controller: Option<ControllerRef>,
}

/// The controlling owner reference of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ControllerRef {
    /// `group/version`.
    pub api_version: Box<str>,
    /// Kind.
    pub kind: Box<str>,
    /// Name.
    pub name: Box<str>,
    /// Uid.
    pub uid: Box<str>,
}

#[derive(Deserialize)]
struct Stub<'a> {
    #[serde(borrow)]
    metadata: StubMeta<'a>,
}

/// Lenient: a malformed field is treated as missing and does not affect the others.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StubMeta<'a> {
    #[serde(borrow, default)]
    namespace: Cow<'a, str>,
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    labels: Option<&'a RawValue>,
    #[serde(borrow, default)]
    owner_references: Option<&'a RawValue>,
}

impl IndexedMeta {
    /// From an object.
    pub fn from_value(object: &Value) -> Self {
        Self {
            namespace: object.namespace().into(),
            name: object.name().into(),
            labels: get_path(object, &["metadata", "labels"]).and_then(Value::as_object).cloned(),
            controller: get_path(object, &["metadata", "ownerReferences"]).and_then(controller),
        }
    }

    /// From a serialized object; everything else is skipped.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let Ok(Stub { metadata }) = serde_json::from_slice::<Stub<'_>>(bytes) else { return Self::default() };
        let value = |raw: Option<&RawValue>| raw.and_then(|raw| serde_json::from_str(raw.get()).ok());
        Self {
            namespace: metadata.namespace.into(),
            name: metadata.name.into(),
            labels: match value(metadata.labels) {
                Some(Value::Object(labels)) => Some(labels),
                _ => None,
            },
            controller: value(metadata.owner_references).as_ref().and_then(controller),
        }
    }

    /// `metadata.namespace`; empty where there is none.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// `metadata.name`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// `metadata.labels`.
    pub fn labels(&self) -> Option<&Map<String, Value>> {
        self.labels.as_ref()
    }

    /// A label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.as_ref()?.get(key)?.as_str()
    }

    /// The controlling owner reference.
    pub fn controller(&self) -> Option<&ControllerRef> {
        self.controller.as_ref()
    }

    /// Whether the owner with this uid controls the object.
    pub fn is_controlled_by(&self, uid: &str) -> bool {
        self.controller.as_ref().is_some_and(|owner| *owner.uid == *uid)
    }
}

fn controller(owners: &Value) -> Option<ControllerRef> {
    let is_controller = |owner: &&Value| owner.get("controller").and_then(Value::as_bool) == Some(true);
    let owner = owners.as_array()?.iter().find(is_controller)?;
    Some(ControllerRef {
        api_version: str_at(owner, &["apiVersion"]).into(),
        kind: str_at(owner, &["kind"]).into(),
        name: str_at(owner, &["name"]).into(),
        uid: str_at(owner, &["uid"]).into(),
    })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn marks_are_the_same_whether_read_from_bytes_or_from_a_value() {
        let object = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "a \"b\"", "namespace": "n", "labels": {"app": "web", "odd": null},
                "managedFields": [{"fieldsV1": {"f:metadata": {}}}],
                "ownerReferences": [
                    {"kind": "A", "uid": "1"}, {"kind": "B", "uid": "2", "controller": true},
                    {"kind": "C", "uid": "3", "controller": true},
                ],
            },
            "spec": "anything", "labels": {"not": "these"},
        });
        let marks = IndexedMeta::from_value(&object);
        assert_eq!(IndexedMeta::from_bytes(object.to_string().as_bytes()), marks);
        assert_eq!((marks.namespace(), marks.name()), ("n", "a \"b\""));
        assert_eq!((marks.label("app"), marks.label("odd"), marks.label("not")), (Some("web"), None, None));
        assert_eq!(marks.controller().map(|owner| (&*owner.kind, &*owner.uid)), Some(("B", "2")));
        assert!(marks.is_controlled_by("2") && !marks.is_controlled_by("3"));
    }

    #[test]
    fn what_is_not_as_it_should_be_leaves_the_other_marks() {
        for object in [
            json!({"metadata": {"name": "a", "labels": 1, "ownerReferences": {}}}),
            json!({"metadata": {"name": "a", "labels": null, "ownerReferences": [null, {"controller": "yes"}]}}),
        ] {
            let marks = IndexedMeta::from_bytes(object.to_string().as_bytes());
            assert_eq!(marks, IndexedMeta::from_value(&object));
            assert_eq!((marks.name(), marks.labels(), marks.controller()), ("a", None, None));
        }
        assert_eq!(IndexedMeta::from_bytes(b"null"), IndexedMeta::from_value(&json!({})));
    }
}
