//! Strategic merge patch: like a merge patch, but lists with a merge key are merged by key, and directives control the
//! merge.
//!
//! Directives: `$patch` (delete, replace), `$retainKeys`, `$setElementOrder/<list>`, `$deleteFromPrimitiveList/<list>`.

mod lists;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

use self::lists::{ElementOrder, MergedItems};
use super::{go_fmt, go_json, json_patch::unprocessable};
use crate::{
    object::type_name,
    shape::{Node, PatchStrategy, Shape},
    status_error::{ApiResult, StatusError, go_quote},
};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const SET_ELEMENT_ORDER: &str = "$setElementOrder";
const DELETE_FROM_PRIMITIVE_LIST: &str = "$deleteFromPrimitiveList";

/// Why a patch cannot be applied.
#[derive(Debug)]
enum StrategicError {
    /// The patch is malformed.
    BadPatchFormat(&'static str),
    /// The patch is well-formed but cannot be applied.
    Unprocessable,
    /// A kube-apiserver error without a status of its own.
    Other(String),
}

type StrategicResult<T> = Result<T, StrategicError>;

impl StrategicError {
    fn wrong_type(expected: &str, actual: &Value) -> Self {
        Self::Other(format!("expected a {expected}, but received a {}", go_fmt::format_type(actual)))
    }

    fn no_merge_key(item: &Value, key: &str) -> Self {
        Self::Other(format!("map: {} does not contain declared merge key: {key}", go_fmt::format_v(item)))
    }
}

impl From<StrategicError> for StatusError {
    fn from(fault: StrategicError) -> Self {
        match fault {
            StrategicError::BadPatchFormat(text) => Self::bad_request(text),
            StrategicError::Unprocessable => unprocessable(),
            StrategicError::Other(text) => Self::new(500, "", text, None),
        }
    }
}

/// Applies a strategic merge patch.
pub fn strategic_merge(object: &Value, patch: &[u8], shape: &Shape) -> ApiResult<Value> {
    let patch = match go_json::parse(patch).map_err(StatusError::bad_request)? {
        Value::Object(patch) => patch,
        Value::Null => Map::new(),
        other => {
            let what = type_name(&other);
            return Err(StatusError::bad_request(format!(
                "json: cannot unmarshal {what} into Go value of type map[string]interface {{}}"
            )));
        }
    };
    let original = object.as_object().cloned().unwrap_or_default();
    Ok(Value::Object(merge_map(original, patch, shape)?))
}

fn merge_map(
    mut original: Map<String, Value>,
    mut patch: Map<String, Value>,
    shape: &Shape,
) -> StrategicResult<Map<String, Value>> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => {
                patch.shift_remove(DIRECTIVE);
                Ok(patch)
            }
            Some("delete") => Ok(Map::new()),
            _ => Err(unknown_directive(directive, &Value::Object(patch.clone()))),
        };
    }
    retain_keys(&mut original, &mut patch)?;
    apply_element_orders(&mut original, &mut patch, shape)?;
    for (key, value) in patch {
        if key.starts_with(DELETE_FROM_PRIMITIVE_LIST) {
            let key =
                directive_field(&key, DELETE_FROM_PRIMITIVE_LIST, "invalid patch format of primitive list")?;
            delete_items(&mut original, &key, value, shape)?;
        } else {
            merge_field(&mut original, key, value, shape)?;
        }
    }
    Ok(original)
}

fn unknown_directive(directive: &Value, patch: &Value) -> StrategicError {
    StrategicError::Other(format!(
        "unknown patch type: {} in map: {}",
        go_fmt::format_v(directive),
        go_fmt::format_v(patch)
    ))
}

fn merge_field(
    original: &mut Map<String, Value>,
    key: String,
    value: Value,
    shape: &Shape,
) -> StrategicResult<()> {
    if value.is_null() {
        original.shift_remove(&key);
        return Ok(());
    }
    let merged = match (original.get_mut(&key).map(Value::take), value) {
        (Some(Value::Object(old)), Value::Object(new)) => {
            let (field, _patch) = lookup_field(shape, &key)?;
            Some(Value::Object(merge_map(old, new, field)?))
        }
        (Some(Value::Array(old)), Value::Array(new)) => {
            let (items, patch) = lookup_list(shape, &key)?;
            Some(Value::Array(merge_list(old, new, items, patch)?))
        }
        (_, mut new) => {
            discard_nulls(&mut new);
            without_directives(new)
        }
    };
    match merged {
        Some(merged) => {
            original.insert(key, merged);
        }
        None => {
            original.shift_remove(&key);
        }
    }
    Ok(())
}

fn delete_items(
    original: &mut Map<String, Value>,
    key: &str,
    unwanted: Value,
    shape: &Shape,
) -> StrategicResult<()> {
    if unwanted.is_null() {
        original.shift_remove(key);
        return Ok(());
    }
    let (Some(Value::Array(list)), Value::Array(unwanted)) = (original.get_mut(key), unwanted) else {
        return Ok(());
    };
    lookup_list(shape, key)?;
    *list = lists::delete_scalars(std::mem::take(list), &unwanted)?;
    Ok(())
}

/// Merges a list if its field has a merge strategy; otherwise the patch replaces it.
fn merge_list(
    old: Vec<Value>,
    new: Vec<Value>,
    items: &Shape,
    patch: &PatchStrategy,
) -> StrategicResult<Vec<Value>> {
    if patch.merge { lists::merge_lists(old, new, items, &patch.key) } else { Ok(new) }
}

fn retain_keys(original: &mut Map<String, Value>, patch: &mut Map<String, Value>) -> StrategicResult<()> {
    let wrong = StrategicError::BadPatchFormat("invalid patch format of retainKeys");
    let keys = match patch.shift_remove(RETAIN_KEYS) {
        None => return Ok(()),
        Some(Value::Array(keys)) => keys,
        Some(_) => return Err(wrong),
    };
    let keys: std::collections::HashSet<&str> = keys.iter().filter_map(Value::as_str).collect();
    let is_steered =
        |key: &str| key.starts_with(DELETE_FROM_PRIMITIVE_LIST) || key.starts_with(SET_ELEMENT_ORDER);
    if patch.iter().any(|(key, value)| !value.is_null() && !is_steered(key) && !keys.contains(key.as_str())) {
        return Err(wrong);
    }
    original.retain(|key, _| keys.contains(key.as_str()));
    Ok(())
}

/// Merges and orders every list with `$setElementOrder`; processed lists are removed from the patch.
fn apply_element_orders(
    original: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
    shape: &Shape,
) -> StrategicResult<()> {
    let directives: Vec<String> =
        patch.keys().filter(|key| key.starts_with(SET_ELEMENT_ORDER)).cloned().collect();
    for directive in directives {
        let Some(order) = patch.shift_remove(&directive) else { continue };
        let Value::Array(order) = order else {
            return Err(StrategicError::wrong_type("[]interface {}", &order));
        };
        let key =
            directive_field(&directive, SET_ELEMENT_ORDER, "invalid patch format of setElementOrder list")?;
        let old = optional_list(original.get(&key))?;
        let new = optional_list(patch.get(&key))?;
        let (items, strategy) = lookup_list(shape, &key)?;
        lists::check_order(new.as_deref().unwrap_or_default(), &order, &strategy.key)?;
        let merged = match (&old, new) {
            (None, None) => continue,
            (Some(old), None) => old.clone(),
            (None, Some(new)) => new.into_iter().filter_map(without_directives).collect(),
            (Some(old), Some(new)) => merge_list(old.clone(), new, items, strategy)?,
        };
        let live = old.unwrap_or_default();
        if live.is_empty() && merged.is_empty() {
            return Err(StrategicError::Other("no elements in any of the given slices".to_owned()));
        }
        let sorted = MergedItems { list: merged, key: &strategy.key }
            .ordered(&ElementOrder::new(&order), &ElementOrder::new(&live))?;
        original.insert(key.clone(), Value::Array(sorted));
        patch.shift_remove(&key);
    }
    Ok(())
}

fn optional_list(value: Option<&Value>) -> StrategicResult<Option<Vec<Value>>> {
    match value {
        None => Ok(None),
        Some(Value::Array(list)) => Ok(Some(list.clone())),
        Some(other) => Err(StrategicError::wrong_type("[]interface {}", other)),
    }
}

fn directive_field(directive: &str, prefix: &str, otherwise: &'static str) -> StrategicResult<String> {
    match directive.split_once('/') {
        Some((head, key)) if head == prefix => Ok(key.to_owned()),
        _ => Err(StrategicError::BadPatchFormat(otherwise)),
    }
}

/// A field of a struct and its patch strategy.
fn lookup_field<'a>(shape: &'a Shape, key: &str) -> StrategicResult<(&'a Shape, &'a PatchStrategy)> {
    let Node::Struct(fields) = shape.node() else {
        let kind = match shape.node() {
            Node::Map(_) => "map",
            Node::List(_) => "slice",
            Node::Any | Node::Struct(_) => "interface",
            Node::Scalar(_) => "string",
        };
        return Err(StrategicError::Other(format!(
            "merging an object in json but data type is not struct, instead is: {kind}"
        )));
    };
    let exact = fields.fields.get(key);
    let folded =
        || fields.fields.iter().find(|(name, _)| name.eq_ignore_ascii_case(key)).map(|(_, field)| field);
    let field = exact.or_else(folded).ok_or_else(|| {
        let name = shape.name().and_then(|name| name.rsplit('.').next()).unwrap_or_default();
        StrategicError::Other(format!(
            "unable to find api field in struct {name} for the json field {}",
            go_quote(key)
        ))
    })?;
    Ok((&field.shape, &field.patch))
}

fn lookup_list<'a>(shape: &'a Shape, key: &str) -> StrategicResult<(&'a Shape, &'a PatchStrategy)> {
    let (field, patch) = lookup_field(shape, key)?;
    let items = field
        .items()
        .ok_or_else(|| StrategicError::Other("expected slice or array type, but got: struct".to_owned()))?;
    Ok((items, patch))
}

/// Drops nulls of objects at any depth.
fn discard_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(discard_nulls);
        }
        Value::Array(list) => list.iter_mut().for_each(discard_nulls),
        _ => {}
    }
}

/// A new value: objects that are directives are omitted.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(map) if map.contains_key(DIRECTIVE) => None,
        Value::Object(map) => Some(Value::Object(
            map.into_iter()
                .filter_map(|(key, value)| without_directives(value).map(|value| (key, value)))
                .collect(),
        )),
        Value::Array(list) => Some(Value::Array(list.into_iter().filter_map(without_directives).collect())),
        scalar => Some(scalar),
    }
}
