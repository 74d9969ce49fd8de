//! What is asked of every object of a kind to find the few that are meant: its name, its labels, who manages it.
//!
//! Read once for each version of an object and kept beside its bytes, so that whoever looks for a few among thousands
//! parses those few.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};

use super::{Meta, at, text};

/// See the module.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Marks {
    namespace: Box<str>,
    name: Box<str>,
    labels: Option<Map<String, Value>>,
    controller: Option<Manager>,
}

/// The owner that manages an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Manager {
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

/// Nothing here may make the whole fail: what is not as it should be is as if it were not there.
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

impl Marks {
    /// Of an object.
    pub fn of(object: &Value) -> Self {
        Self {
            namespace: object.namespace().into(),
            name: object.name().into(),
            labels: at(object, &["metadata", "labels"]).and_then(Value::as_object).cloned(),
            controller: at(object, &["metadata", "ownerReferences"]).and_then(controller),
        }
    }

    /// Of a serialised object; everything else in it is skipped.
    pub fn read(bytes: &[u8]) -> Self {
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

    /// Who manages it.
    pub fn controller(&self) -> Option<&Manager> {
        self.controller.as_ref()
    }

    /// Whether this uid manages it.
    pub fn is_controlled_by(&self, uid: &str) -> bool {
        self.controller.as_ref().is_some_and(|owner| *owner.uid == *uid)
    }
}

fn controller(owners: &Value) -> Option<Manager> {
    let is_controller = |owner: &&Value| owner.get("controller").and_then(Value::as_bool) == Some(true);
    let owner = owners.as_array()?.iter().find(is_controller)?;
    Some(Manager {
        api_version: text(owner, &["apiVersion"]).into(),
        kind: text(owner, &["kind"]).into(),
        name: text(owner, &["name"]).into(),
        uid: text(owner, &["uid"]).into(),
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
        let marks = Marks::of(&object);
        assert_eq!(Marks::read(object.to_string().as_bytes()), marks);
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
            let marks = Marks::read(object.to_string().as_bytes());
            assert_eq!(marks, Marks::of(&object));
            assert_eq!((marks.name(), marks.labels(), marks.controller()), ("a", None, None));
        }
        assert_eq!(Marks::read(b"null"), Marks::of(&json!({})));
    }
}
