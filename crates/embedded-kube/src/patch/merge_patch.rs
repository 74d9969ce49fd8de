//! JSON merge patch (RFC 7386), with the one difference of the real server: nulls inside a list that is new or takes the
//! place of something that is no object are dropped too.

use serde_json::{Map, Value};

use super::syntax;
use crate::{
    failure::{Answer, Failure},
    object::type_name,
};

/// The object after a merge patch.
pub fn merge_patch(object: &Value, patch: &[u8]) -> Answer<Value> {
    let patch =
        syntax::parse(patch).map_err(|text| Failure::bad_request(format!("error decoding patch: {text}")))?;
    let fields = match patch {
        Value::Object(fields) => fields,
        Value::Null => return Err(Failure::bad_request("Invalid JSON Patch")),
        other => {
            let what = type_name(&other);
            return Err(Failure::bad_request(format!(
                "error decoding patch: json: cannot unmarshal {what} into Go value of type map[string]interface {{}}"
            )));
        }
    };
    let mut object = object.clone();
    match &mut object {
        Value::Object(target) => merge(target, fields),
        other => *other = pruned(Value::Object(fields)),
    }
    Ok(object)
}

fn merge(target: &mut Map<String, Value>, patch: Map<String, Value>) {
    for (key, value) in patch {
        if value.is_null() {
            target.shift_remove(&key);
            continue;
        }
        match (target.get_mut(&key), value) {
            (Some(Value::Object(inner)), Value::Object(changes)) => merge(inner, changes),
            (Some(place @ Value::Object(_)), other) => *place = other,
            (Some(place), other) => *place = pruned(other),
            (None, other) => {
                target.insert(key, pruned(other));
            }
        }
    }
}

/// Without the nulls of objects; nulls that are items of lists stay.
fn pruned(value: Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.into_iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(key, value)| (key, pruned(value)))
                .collect(),
        ),
        Value::Array(list) => Value::Array(list.into_iter().map(pruned).collect()),
        scalar => scalar,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(json!({"a": 1, "b": 2}), json!({"b": null, "c": 3}), json!({"a": 1, "c": 3}))]
    #[case(json!({"a": {"b": 1, "c": 2}}), json!({"a": {"c": null, "d": {"e": null, "f": 1}}}), json!({"a": {"b": 1, "d": {"f": 1}}}))]
    #[case(json!({"a": [1, 2]}), json!({"a": [{"x": null, "y": 1}, null]}), json!({"a": [{"y": 1}, null]}))]
    #[case(json!({"a": {"b": 1}}), json!({"a": [{"x": null}]}), json!({"a": [{"x": null}]}))]
    #[case(json!({"a": null}), json!({"a": {"b": null}}), json!({"a": {}}))]
    #[case(json!({"a": "text"}), json!({"a": {"b": 1}}), json!({"a": {"b": 1}}))]
    fn a_merge_patch_merges_objects_and_replaces_the_rest(
        #[case] object: Value,
        #[case] patch: Value,
        #[case] merged: Value,
    ) {
        assert_eq!(merge_patch(&object, patch.to_string().as_bytes()).unwrap(), merged);
    }

    #[rstest]
    #[case("{", "error decoding patch: unexpected end of JSON input")]
    #[case(
        "[]",
        "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"
    )]
    #[case("null", "Invalid JSON Patch")]
    fn a_patch_that_is_no_object_is_a_bad_request(#[case] patch: &str, #[case] text: &str) {
        let refused = merge_patch(&json!({}), patch.as_bytes()).unwrap_err();
        assert_eq!((refused.code(), refused.reason(), refused.message()), (400, "BadRequest", text));
    }

    proptest! {
        #[test]
        fn merging_again_changes_nothing_any_more(object in super::super::arbitrary::object(), patch in super::super::arbitrary::object()) {
            let bytes = patch.to_string();
            let once = merge_patch(&object, bytes.as_bytes()).unwrap();
            // Nulls in a list that takes an object's place are dropped only now.
            let twice = merge_patch(&once, bytes.as_bytes()).unwrap();
            prop_assert_eq!(merge_patch(&twice, bytes.as_bytes()).unwrap(), twice);
        }

        #[test]
        fn a_merge_into_nothing_gives_the_patch_without_nulls(patch in super::super::arbitrary::object()) {
            let merged = merge_patch(&json!({}), patch.to_string().as_bytes()).unwrap();
            prop_assert_eq!(merged, pruned(patch));
        }
    }
}
