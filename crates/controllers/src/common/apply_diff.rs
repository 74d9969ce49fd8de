//! Compares a live object with the desired one, so that a server-side apply without effect is never sent. Pure.

use capt_kinds::api::names;
use serde_json::{Map, Value};

/// Whether applying `wanted` would change `live`. Fields of other field managers are ignored; fields that our field manager
/// applied before and that are no longer wanted count as a difference.
pub fn needs_apply(live: &Value, wanted: &Value) -> bool {
    needs_apply_as(live, wanted, names::FIELD_MANAGER)
}

/// [`differs`] for an object that is applied under the field manager `manager`.
pub fn needs_apply_as(live: &Value, wanted: &Value, manager: &str) -> bool {
    !contains(live, wanted)
        || applied_fields(live, manager).is_some_and(|fields| has_unwanted_field(fields, wanted))
}

/// Whether `live` contains every wanted field.
fn contains(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => {
            wanted.iter().all(|(name, value)| match live.get(name) {
                Some(found) if name == "ownerReferences" => contains_owners(found, value),
                Some(found) => contains(found, value),
                // The API server drops empty objects, so that an absent field is equal to an empty object.
                None => value.is_null() || value.as_object().is_some_and(Map::is_empty),
            })
        }
        _ => live == wanted,
    }
}

/// Owner references are a set: other controllers may add theirs.
fn contains_owners(live: &Value, wanted: &Value) -> bool {
    let found = live.as_array().map_or(&[][..], Vec::as_slice);
    wanted.as_array().into_iter().flatten().all(|one| found.iter().any(|other| contains(other, one)))
}

/// The `fieldsV1` of the last apply by `manager`.
fn applied_fields<'a>(live: &'a Value, manager: &str) -> Option<&'a Map<String, Value>> {
    let managers = live.pointer("/metadata/managedFields")?.as_array()?;
    let mine =
        |it: &&Value| it["manager"] == manager && it["operation"] == "Apply" && it["subresource"].is_null();
    managers.iter().find(mine)?.get("fieldsV1")?.as_object()
}

/// Whether the field set has a field that is not wanted. List items are compared as values in [`contains`].
fn has_unwanted_field(fields: &Map<String, Value>, wanted: &Value) -> bool {
    fields.iter().any(|(key, inner)| {
        let Some(name) = key.strip_prefix("f:") else { return false };
        let Some(value) = wanted.get(name) else { return true };
        inner.as_object().is_some_and(|inner| has_unwanted_field(inner, value))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn live(fields: &Value) -> Value {
        json!({
            "metadata": {
                "name": "demo", "labels": {"ours": "1", "theirs": "2"},
                "ownerReferences": [{"uid": "them"}, {"uid": "us", "controller": true}],
                "managedFields": [
                    {"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:spec": {"f:extra": {}}}},
                    {"manager": "capt", "operation": "Apply", "fieldsV1": fields},
                ],
            },
            "spec": {"region": "eu-central-1", "inputs": {"name": "demo", "tags": ["a"]}, "extra": 1},
        })
    }

    fn wanted() -> Value {
        json!({
            "metadata": {"name": "demo", "labels": {"ours": "1"}, "ownerReferences": [{"uid": "us", "controller": true}]},
            "spec": {"region": "eu-central-1", "inputs": {"name": "demo", "tags": ["a"]}},
        })
    }

    fn as_applied() -> Value {
        json!({"f:metadata": {"f:labels": {"f:ours": {}}, "f:ownerReferences": {"k:{\"uid\":\"us\"}": {}}},
               "f:spec": {"f:region": {}, "f:inputs": {"f:name": {}, "f:tags": {}}}})
    }

    #[test]
    fn what_others_added_does_not_count() {
        assert!(!needs_apply(&live(&as_applied()), &wanted()));
    }

    #[test]
    fn a_value_that_somebody_changed_is_put_right() {
        for (path, value) in [
            ("/spec/region", json!("us-east-1")),
            ("/spec/inputs/tags", json!(["a", "b"])),
            ("/metadata/labels/ours", json!("2")),
            ("/metadata/ownerReferences", json!([{"uid": "them"}])),
        ] {
            let mut changed = live(&as_applied());
            *changed.pointer_mut(path).unwrap() = value;
            assert!(needs_apply(&changed, &wanted()), "{path}");
        }
    }

    #[test]
    fn what_we_do_not_want_any_more_is_taken_away() {
        let mut fields = as_applied();
        fields["f:spec"]["f:extra"] = json!({});
        assert!(needs_apply(&live(&fields), &wanted()));
    }

    #[test]
    fn nothing_at_all_is_wanted_by_an_empty_object() {
        let mut more = wanted();
        more["spec"]["variables"] = json!({});
        assert!(!needs_apply(&live(&as_applied()), &more));
    }
}
