//! Whether an object in the cluster is as we want it, so that nothing is written that is there already. Pure.

use serde_json::{Map, Value};

use crate::api::names;

/// Whether applying `wanted` would change `live`. Fields of others do not count; fields that we once applied and do not
/// want any more do.
pub fn differs(live: &Value, wanted: &Value) -> bool {
    differs_from(live, wanted, names::FIELD_MANAGER)
}

/// The same for what is applied under another name.
pub fn differs_from(live: &Value, wanted: &Value, manager: &str) -> bool {
    !contains(live, wanted) || ours(live, manager).is_some_and(|fields| has_more(fields, wanted))
}

/// Whether everything wanted is there.
fn contains(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => {
            wanted.iter().all(|(name, value)| match live.get(name) {
                Some(found) if name == "ownerReferences" => has_all(found, value),
                Some(found) => contains(found, value),
                // Nobody stores an empty object, and asking for one asks for nothing.
                None => value.is_null() || value.as_object().is_some_and(Map::is_empty),
            })
        }
        _ => live == wanted,
    }
}

/// Owners are a set: others may have added theirs.
fn has_all(live: &Value, wanted: &Value) -> bool {
    let found = live.as_array().map_or(&[][..], Vec::as_slice);
    wanted.as_array().into_iter().flatten().all(|one| found.iter().any(|other| contains(other, one)))
}

/// The fields that we applied last.
fn ours<'a>(live: &'a Value, manager: &str) -> Option<&'a Map<String, Value>> {
    let managers = live.pointer("/metadata/managedFields")?.as_array()?;
    let mine =
        |it: &&Value| it["manager"] == manager && it["operation"] == "Apply" && it["subresource"].is_null();
    managers.iter().find(mine)?.get("fieldsV1")?.as_object()
}

/// Whether there is a field in the set that is not wanted. Items of lists are compared as values, not here.
fn has_more(fields: &Map<String, Value>, wanted: &Value) -> bool {
    fields.iter().any(|(key, inner)| {
        let Some(name) = key.strip_prefix("f:") else { return false };
        let Some(value) = wanted.get(name) else { return true };
        inner.as_object().is_some_and(|inner| has_more(inner, value))
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
        assert!(!differs(&live(&as_applied()), &wanted()));
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
            assert!(differs(&changed, &wanted()), "{path}");
        }
    }

    #[test]
    fn what_we_do_not_want_any_more_is_taken_away() {
        let mut fields = as_applied();
        fields["f:spec"]["f:extra"] = json!({});
        assert!(differs(&live(&fields), &wanted()));
    }

    #[test]
    fn nothing_at_all_is_wanted_by_an_empty_object() {
        let mut more = wanted();
        more["spec"]["variables"] = json!({});
        assert!(!differs(&live(&as_applied()), &more));
    }
}
