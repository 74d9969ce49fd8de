//! JSON patch (RFC 6902) with the habits of the real server: `replace` of a key that is missing adds it, negative
//! indices count from the end, a missing `value` is null, and why an operation fails is not told.

use serde_json::{Map, Value};

use super::syntax;
use crate::{
    failure::{Answer, Details, Failure},
    object::{depth, type_name},
};

const MOST_OPERATIONS: usize = 10_000;
/// Bytes that `copy` may add in one patch.
const MOST_COPIED: usize = 3 * 1024 * 1024;

/// An operation does not apply.
struct Refused;

/// The object after a JSON patch.
pub fn json_patch(object: &Value, patch: &[u8]) -> Answer<Value> {
    let operations =
        decode(patch).map_err(|text| Failure::bad_request(format!("error decoding patch: {text}")))?;
    if operations.len() > MOST_OPERATIONS {
        let text = format!(
            "Request entity too large: The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {}",
            operations.len()
        );
        return Err(Failure::new(413, "RequestEntityTooLarge", text, None));
    }
    let mut run = Run { root: object.clone(), copied: 0 };
    operations.iter().try_for_each(|operation| run.step(operation)).map_err(|Refused| unprocessable())?;
    Ok(run.root)
}

/// The server's answer to a patch that is well-formed but does not apply.
pub(super) fn unprocessable() -> Failure {
    let text = "the server rejected our request due to an error in our request";
    Failure::new(422, "Invalid", text, Some(Details::default()))
}

fn decode(patch: &[u8]) -> Result<Vec<Map<String, Value>>, String> {
    let list = match syntax::parse(patch)? {
        Value::Array(list) => list,
        Value::Null => return Ok(Vec::new()),
        other => {
            let what = type_name(&other);
            return Err(format!(
                "json: cannot unmarshal {what} into Go value of type []handlers.jsonPatchOp"
            ));
        }
    };
    list.into_iter().map(operation).collect()
}

fn operation(item: Value) -> Result<Map<String, Value>, String> {
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

struct Run {
    root: Value,
    copied: usize,
}

impl Run {
    fn step(&mut self, operation: &Map<String, Value>) -> Result<(), Refused> {
        let text = |key: &str| operation.get(key).and_then(Value::as_str);
        let path = text("path").ok_or(Refused)?;
        let value = operation.get("value").unwrap_or(&Value::Null);
        match text("op").unwrap_or_default() {
            "add" => self.add(path, value.clone()),
            "remove" => self.remove(path).map(drop),
            "replace" => self.replace(path, value.clone()),
            "move" => {
                let moved = self.remove(text("from").ok_or(Refused)?)?;
                self.add(path, moved)
            }
            "test" => self.test(path, value),
            "copy" => self.copy(text("from").ok_or(Refused)?, path),
            _ => Err(Refused),
        }
    }

    /// What holds the last step of a path, and that step.
    fn find(&mut self, path: &str) -> Result<(&mut Value, String), Refused> {
        let mut steps = path.split('/').skip(1).map(unescaped).peekable();
        let mut place = &mut self.root;
        loop {
            let step = steps.next().ok_or(Refused)?;
            if steps.peek().is_none() {
                return if place.is_object() || place.is_array() { Ok((place, step)) } else { Err(Refused) };
            }
            place = match place {
                Value::Object(map) => map.get_mut(&step),
                Value::Array(list) => {
                    let index = index(&step, list.len())?;
                    list.get_mut(index)
                }
                _ => None,
            }
            .ok_or(Refused)?;
        }
    }

    fn get(&mut self, path: &str) -> Result<&Value, Refused> {
        match self.find(path)? {
            (Value::Object(map), key) => Ok(map.get(&key).unwrap_or(&Value::Null)),
            (Value::Array(list), key) => {
                let index = index(&key, list.len())?;
                list.get(index).ok_or(Refused)
            }
            _ => Err(Refused),
        }
    }

    fn add(&mut self, path: &str, value: Value) -> Result<(), Refused> {
        fits(path, &value)?;
        match self.find(path)? {
            (Value::Object(map), key) => {
                map.insert(key, value);
            }
            (Value::Array(list), key) if key == "-" => list.push(value),
            (Value::Array(list), key) => {
                let index = index(&key, list.len() + 1)?;
                list.insert(index, value);
            }
            _ => return Err(Refused),
        }
        Ok(())
    }

    fn remove(&mut self, path: &str) -> Result<Value, Refused> {
        match self.find(path)? {
            (Value::Object(map), key) => map.shift_remove(&key).ok_or(Refused),
            (Value::Array(list), key) => {
                let index = index(&key, list.len())?;
                Ok(list.remove(index))
            }
            _ => Err(Refused),
        }
    }

    fn replace(&mut self, path: &str, value: Value) -> Result<(), Refused> {
        if path.is_empty() {
            if !value.is_object() && !value.is_array() {
                return Err(Refused);
            }
            self.root = value;
            return Ok(());
        }
        fits(path, &value)?;
        match self.find(path)? {
            (Value::Object(map), key) => {
                map.insert(key, value);
            }
            (Value::Array(list), key) => {
                let index = index(&key, list.len())?;
                *list.get_mut(index).ok_or(Refused)? = value;
            }
            _ => return Err(Refused),
        }
        Ok(())
    }

    fn test(&mut self, path: &str, value: &Value) -> Result<(), Refused> {
        let equal = if path.is_empty() { &self.root == value } else { self.get(path)? == value };
        if equal { Ok(()) } else { Err(Refused) }
    }

    fn copy(&mut self, from: &str, path: &str) -> Result<(), Refused> {
        let value = self.get(from)?.clone();
        self.copied += serde_json::to_vec(&value).map_or(0, |bytes| bytes.len());
        if self.copied > MOST_COPIED {
            return Err(Refused);
        }
        self.add(path, value)
    }
}

/// A patch must not build what cannot be read back.
fn fits(path: &str, value: &Value) -> Result<(), Refused> {
    let steps = path.split('/').count();
    if steps + depth(value) > syntax::MAX_DEPTH { Err(Refused) } else { Ok(()) }
}

fn unescaped(step: &str) -> String {
    step.replace("~1", "/").replace("~0", "~")
}

/// An index below `length`; negative ones count from the end.
fn index(text: &str, length: usize) -> Result<usize, Refused> {
    let number: i64 = text.parse().map_err(|_| Refused)?;
    let length = i64::try_from(length).map_err(|_| Refused)?;
    let number = if number < 0 { number + length } else { number };
    if (0..length).contains(&number) { usize::try_from(number).map_err(|_| Refused) } else { Err(Refused) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn patched(object: &Value, patch: &Value) -> Answer<Value> {
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
