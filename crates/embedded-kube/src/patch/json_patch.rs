//! JSON patch (RFC 6902) with kube-apiserver's deviations: `replace` of a missing key adds it, negative indices count
//! from the end, a missing `value` is null, and errors do not say why an operation failed.

use serde_json::{Map, Value};

use super::go_json;
use crate::{
    object::{depth, type_name},
    status_error::{ApiResult, StatusDetails, StatusError},
};

const MAX_OPERATIONS: usize = 10_000;
/// Maximum number of bytes that `copy` may add in one patch.
const MAX_COPIED_BYTES: usize = 3 * 1024 * 1024;

/// An operation cannot be applied.
struct OperationFailed;

/// Applies a JSON patch.
pub fn json_patch(object: &Value, patch: &[u8]) -> ApiResult<Value> {
    let operations = decode_operations(patch)
        .map_err(|text| StatusError::bad_request(format!("error decoding patch: {text}")))?;
    if operations.len() > MAX_OPERATIONS {
        let text = format!(
            "Request entity too large: The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
            operations.len()
        );
        return Err(StatusError::new(413, "RequestEntityTooLarge", text, None));
    }
    let mut run = PatchRun { root: object.clone(), copied: 0 };
    operations
        .iter()
        .try_for_each(|operation| run.apply_operation(operation))
        .map_err(|OperationFailed| unprocessable())?;
    Ok(run.root)
}

/// The error of a well-formed patch that cannot be applied.
pub(super) fn unprocessable() -> StatusError {
    let text = "the server rejected our request due to an error in our request";
    StatusError::new(422, "Invalid", text, Some(StatusDetails::default()))
}

fn decode_operations(patch: &[u8]) -> Result<Vec<Map<String, Value>>, String> {
    let list = match go_json::parse(patch)? {
        Value::Array(list) => list,
        Value::Null => return Ok(Vec::new()),
        other => {
            let what = type_name(&other);
            return Err(format!(
                "json: cannot unmarshal {what} into Go value of type []handlers.jsonPatchOp"
            ));
        }
    };
    list.into_iter().map(decode_operation).collect()
}

fn decode_operation(item: Value) -> Result<Map<String, Value>, String> {
    let fields = match item {
        Value::Object(fields) => fields,
        Value::Null => return Ok(Map::new()),
        other => {
            let what = type_name(&other);
            return Err(format!("json: cannot unmarshal {what} into Go value of type handlers.jsonPatchOp"));
        }
    };
    for (key, value) in &fields {
        if matches!(key.as_str(), "op" | "path" | "from") && !value.is_string() && !value.is_null() {
            let what = type_name(value);
            return Err(format!(
                "json: cannot unmarshal {what} into Go struct field jsonPatchOp.{key} of type string"
            ));
        }
    }
    Ok(fields)
}

struct PatchRun {
    root: Value,
    copied: usize,
}

impl PatchRun {
    fn apply_operation(&mut self, operation: &Map<String, Value>) -> Result<(), OperationFailed> {
        let text = |key: &str| operation.get(key).and_then(Value::as_str);
        let path = text("path").ok_or(OperationFailed)?;
        let value = operation.get("value").unwrap_or(&Value::Null);
        match text("op").unwrap_or_default() {
            "add" => self.add(path, value.clone()),
            "remove" => self.remove(path).map(drop),
            "replace" => self.replace(path, value.clone()),
            "move" => {
                let moved = self.remove(text("from").ok_or(OperationFailed)?)?;
                self.add(path, moved)
            }
            "test" => self.test(path, value),
            "copy" => self.copy(text("from").ok_or(OperationFailed)?, path),
            _ => Err(OperationFailed),
        }
    }

    /// The parent of the last path segment, and that segment.
    fn find_parent(&mut self, path: &str) -> Result<(&mut Value, String), OperationFailed> {
        let mut steps = path.split('/').skip(1).map(unescape_pointer).peekable();
        let mut place = &mut self.root;
        loop {
            let step = steps.next().ok_or(OperationFailed)?;
            if steps.peek().is_none() {
                return if place.is_object() || place.is_array() {
                    Ok((place, step))
                } else {
                    Err(OperationFailed)
                };
            }
            place = match place {
                Value::Object(map) => map.get_mut(&step),
                Value::Array(list) => {
                    let index = parse_index(&step, list.len())?;
                    list.get_mut(index)
                }
                _ => None,
            }
            .ok_or(OperationFailed)?;
        }
    }

    fn get(&mut self, path: &str) -> Result<&Value, OperationFailed> {
        match self.find_parent(path)? {
            (Value::Object(map), key) => Ok(map.get(&key).unwrap_or(&Value::Null)),
            (Value::Array(list), key) => {
                let index = parse_index(&key, list.len())?;
                list.get(index).ok_or(OperationFailed)
            }
            _ => Err(OperationFailed),
        }
    }

    fn add(&mut self, path: &str, value: Value) -> Result<(), OperationFailed> {
        check_depth(path, &value)?;
        match self.find_parent(path)? {
            (Value::Object(map), key) => {
                map.insert(key, value);
            }
            (Value::Array(list), key) if key == "-" => list.push(value),
            (Value::Array(list), key) => {
                let index = parse_index(&key, list.len() + 1)?;
                list.insert(index, value);
            }
            _ => return Err(OperationFailed),
        }
        Ok(())
    }

    fn remove(&mut self, path: &str) -> Result<Value, OperationFailed> {
        match self.find_parent(path)? {
            (Value::Object(map), key) => map.shift_remove(&key).ok_or(OperationFailed),
            (Value::Array(list), key) => {
                let index = parse_index(&key, list.len())?;
                Ok(list.remove(index))
            }
            _ => Err(OperationFailed),
        }
    }

    fn replace(&mut self, path: &str, value: Value) -> Result<(), OperationFailed> {
        if path.is_empty() {
            if !value.is_object() && !value.is_array() {
                return Err(OperationFailed);
            }
            self.root = value;
            return Ok(());
        }
        check_depth(path, &value)?;
        match self.find_parent(path)? {
            (Value::Object(map), key) => {
                map.insert(key, value);
            }
            (Value::Array(list), key) => {
                let index = parse_index(&key, list.len())?;
                *list.get_mut(index).ok_or(OperationFailed)? = value;
            }
            _ => return Err(OperationFailed),
        }
        Ok(())
    }

    fn test(&mut self, path: &str, value: &Value) -> Result<(), OperationFailed> {
        let equal = if path.is_empty() { &self.root == value } else { self.get(path)? == value };
        if equal { Ok(()) } else { Err(OperationFailed) }
    }

    fn copy(&mut self, from: &str, path: &str) -> Result<(), OperationFailed> {
        let value = self.get(from)?.clone();
        self.copied += serde_json::to_vec(&value).map_or(0, |bytes| bytes.len());
        if self.copied > MAX_COPIED_BYTES {
            return Err(OperationFailed);
        }
        self.add(path, value)
    }
}

/// A patch must not build an object that is too deep to be parsed.
fn check_depth(path: &str, value: &Value) -> Result<(), OperationFailed> {
    let steps = path.split('/').count();
    if steps + depth(value) > go_json::MAX_DEPTH { Err(OperationFailed) } else { Ok(()) }
}

fn unescape_pointer(step: &str) -> String {
    step.replace("~1", "/").replace("~0", "~")
}

/// Parses an index below `length`; negative ones count from the end.
fn parse_index(text: &str, length: usize) -> Result<usize, OperationFailed> {
    let number: i64 = text.parse().map_err(|_| OperationFailed)?;
    let length = i64::try_from(length).map_err(|_| OperationFailed)?;
    let number = if number < 0 { number + length } else { number };
    if (0..length).contains(&number) {
        usize::try_from(number).map_err(|_| OperationFailed)
    } else {
        Err(OperationFailed)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn patched(object: &Value, patch: &Value) -> ApiResult<Value> {
        json_patch(object, patch.to_string().as_bytes())
    }

    #[rstest]
    #[case(json!({}), json!([{"op": "add", "path": "/a", "value": 1}]), json!({"a": 1}))]
    #[case(json!({"a": [1, 3]}), json!([{"op": "add", "path": "/a/1", "value": 2}]), json!({"a": [1, 2, 3]}))]
    #[case(json!({"a": [1]}), json!([{"op": "add", "path": "/a/-", "value": 2}]), json!({"a": [1, 2]}))]
    #[case(json!({"a": [1, 2]}), json!([{"op": "add", "path": "/a/-1", "value": 3}]), json!({"a": [1, 2, 3]}))]
    #[case(json!({"a": {"b/c": {"~d": 1}}}), json!([{"op": "remove", "path": "/a/b~1c/~0d"}]), json!({"a": {"b/c": {}}}))]
    #[case(json!({"a": 1}), json!([{"op": "replace", "path": "/b", "value": 2}]), json!({"a": 1, "b": 2}))]
    #[case(json!({"a": 1}), json!([{"op": "replace", "path": "", "value": {"b": 2}}]), json!({"b": 2}))]
    #[case(json!({"a": {"x": 1}}), json!([{"op": "move", "from": "/a/x", "path": "/y"}]), json!({"a": {}, "y": 1}))]
    #[case(json!({"a": {"x": 1}}), json!([{"op": "copy", "from": "/a", "path": "/b"}]), json!({"a": {"x": 1}, "b": {"x": 1}}))]
    #[case(json!({"a": 1}), json!([{"op": "test", "path": "/a", "value": 1}, {"op": "add", "path": "/b"}]), json!({"a": 1, "b": null}))]
    #[case(json!({"a": 1}), json!([{"op": "test", "path": "/b", "value": null}]), json!({"a": 1}))]
    #[case(json!({"a": {"b": 1, "c": 2}}), json!([{"op": "test", "path": "/a", "value": {"c": 2, "b": 1}}]), json!({"a": {"b": 1, "c": 2}}))]
    #[case(json!({"a": 1}), json!(null), json!({"a": 1}))]
    fn operations_do_what_the_real_server_does(
        #[case] object: Value,
        #[case] patch: Value,
        #[case] result: Value,
    ) {
        assert_eq!(patched(&object, &patch).unwrap(), result);
    }

    #[rstest]
    #[case(json!([{"op": "test", "path": "/a", "value": 2}]))]
    #[case(json!([{"op": "remove", "path": "/missing"}]))]
    #[case(json!([{"op": "add", "path": "/missing/x", "value": 2}]))]
    #[case(json!([{"op": "add", "path": "a", "value": 2}]))]
    #[case(json!([{"op": "add", "path": "/list/3", "value": 2}]))]
    #[case(json!([{"op": "add", "path": "/list/x", "value": 2}]))]
    #[case(json!([{"op": "replace", "path": "/list/2", "value": 2}]))]
    #[case(json!([{"op": "remove", "path": "/list/-3"}]))]
    #[case(json!([{"op": "jump", "path": "/a"}]))]
    #[case(json!([{"op": "add", "value": 1}]))]
    #[case(json!([{"op": "move", "path": "/b"}]))]
    #[case(json!([null]))]
    fn an_operation_that_does_not_apply_is_unprocessable(#[case] patch: Value) {
        let refused = patched(&json!({"a": 1, "list": [1, 2]}), &patch).unwrap_err();
        assert_eq!(refused, unprocessable());
        assert_eq!(refused.status()["details"], json!({}));
    }

    #[rstest]
    #[case("[", "error decoding patch: unexpected end of JSON input")]
    #[case(
        "{}",
        "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"
    )]
    #[case(
        "[1]",
        "error decoding patch: json: cannot unmarshal number into Go value of type handlers.jsonPatchOp"
    )]
    #[case(
        r#"[{"op":1}]"#,
        "error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string"
    )]
    fn a_patch_that_cannot_be_read_is_a_bad_request(#[case] patch: &str, #[case] text: &str) {
        let refused = json_patch(&json!({}), patch.as_bytes()).unwrap_err();
        assert_eq!((refused.code(), refused.message()), (400, text));
    }

    #[test]
    fn too_many_operations_are_too_large() {
        let patch = Value::Array(vec![json!({"op": "test", "path": "/a", "value": null}); 10_001]);
        let refused = patched(&json!({}), &patch).unwrap_err();
        assert_eq!(refused.code(), 413);
        assert_eq!(
            refused.message(),
            "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"
        );
        let most = Value::Array(vec![json!({"op": "test", "path": "/a", "value": null}); 10_000]);
        assert!(patched(&json!({}), &most).is_ok());
    }

    #[test]
    fn copies_that_double_end_at_the_limit_and_never_nest_too_deep() {
        let doubling = Value::Array(vec![json!({"op": "copy", "from": "/a", "path": "/a/-"}); 200]);
        assert!(patched(&json!({"a": [1, 2, 3, 4]}), &doubling).is_err());
        let deeper = Value::Array(vec![json!({"op": "copy", "from": "/a", "path": "/a/b"}); 200]);
        assert!(patched(&json!({"a": {}}), &deeper).is_err());
    }

    proptest! {
        #[test]
        fn no_patch_panics(object in super::super::arbitrary::object(), op in "add|remove|replace|move|test|copy", path in "(/(name|list|spec|-|0|1)){0,3}", from in "(/(name|list|spec|0)){0,3}", value in super::super::arbitrary::value()) {
            let _either = patched(&object, &json!([{"op": op, "path": path, "from": from, "value": value}]));
        }

        #[test]
        fn what_was_added_passes_its_test(object in super::super::arbitrary::object(), key in super::super::arbitrary::key(), value in super::super::arbitrary::value()) {
            let path = format!("/{}", key.replace('~', "~0").replace('/', "~1"));
            let patch = json!([{"op": "add", "path": path, "value": value}, {"op": "test", "path": path, "value": value}]);
            prop_assert!(patched(&object, &patch).is_ok());
        }
    }
}
