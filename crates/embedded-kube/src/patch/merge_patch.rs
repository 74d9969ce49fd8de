//! JSON merge patch (RFC 7386), with kube-apiserver's deviation: nulls inside a list that is new or replaces a
//! non-object are dropped too.

use serde_json::{Map, Value};

use super::go_json;
use crate::{
    object::type_name,
    status_error::{ApiResult, StatusError},
};

/// Applies a merge patch.
pub fn merge_patch(object: &Value, patch: &[u8]) -> ApiResult<Value> {
    let patch = go_json::parse(patch)
        .map_err(|text| StatusError::bad_request(format!("error decoding patch: {text}")))?;
    let fields = match patch {
        Value::Object(fields) => fields,
        Value::Null => return Err(StatusError::bad_request("Invalid JSON Patch")),
        other => {
            let what = type_name(&other);
            return Err(StatusError::bad_request(format!(
                "error decoding patch: json: cannot unmarshal {what} into Go value of type map[string]interface {{}}"
            )));
        }
    };
    let mut object = object.clone();
    match &mut object {
        Value::Object(target) => merge_objects(target, fields),
        other => *other = without_nulls(Value::Object(fields)),
    }
    Ok(object)
}

fn merge_objects(target: &mut Map<String, Value>, patch: Map<String, Value>) {
    for (key, value) in patch {
        if value.is_null() {
            target.shift_remove(&key);
            continue;
        }
        match (target.get_mut(&key), value) {
            (Some(Value::Object(inner)), Value::Object(changes)) => merge_objects(inner, changes),
            (Some(place @ Value::Object(_)), other) => *place = other,
            (Some(place), other) => *place = without_nulls(other),
            (None, other) => {
                target.insert(key, without_nulls(other));
            }
        }
    }
}

/// Drops nulls of objects; nulls that are list items stay.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.into_iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(key, value)| (key, without_nulls(value)))
                .collect(),
        ),
        Value::Array(list) => Value::Array(list.into_iter().map(without_nulls).collect()),
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
            // Nulls in a list that replaces an object are dropped only in the second pass.
            let twice = merge_patch(&once, bytes.as_bytes()).unwrap();
            prop_assert_eq!(merge_patch(&twice, bytes.as_bytes()).unwrap(), twice);
        }

        #[test]
        fn a_merge_into_nothing_gives_the_patch_without_nulls(patch in super::super::arbitrary::object()) {
            let merged = merge_patch(&json!({}), patch.to_string().as_bytes()).unwrap();
            prop_assert_eq!(merged, without_nulls(patch));
        }
    }
}
