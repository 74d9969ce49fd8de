//! Attribute changes of a resource. Sensitive values are redacted here and never leave this module.

use std::{collections::BTreeSet, fmt};

use serde::Serialize;
use serde_json::Value;

use super::show_json::ChangeJson;
use crate::output::REDACTED;

/// A value for display.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum DisplayValue {
    /// The value.
    Value(Value),
    /// A placeholder: sensitive, or not known yet.
    Hidden(&'static str),
}

const KNOWN_AFTER_APPLY: &str = "(known after apply)";

impl fmt::Display for DisplayValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(value) => write!(f, "{value}"),
            Self::Hidden(what) => f.write_str(what),
        }
    }
}

/// A changed attribute.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AttributeChange {
    /// `vpc_config[0].subnet_ids`
    pub path: String,
    /// Before; absent if it was not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<DisplayValue>,
    /// After; absent if it is removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<DisplayValue>,
    /// Whether terraform names it as a reason for a replacement.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub forces_replacement: bool,
}

/// Recursion limit, deeper than any resource; a value at this depth is shown as a whole.
const MAX_DEPTH: usize = 16;

pub(super) fn attribute_changes(change: &ChangeJson) -> Vec<AttributeChange> {
    let side = DiffSides {
        before: Some(&change.before),
        after: Some(&change.after),
        unknown: &change.after_unknown,
        before_mask: &change.before_sensitive,
        after_mask: &change.after_sensitive,
    };
    let forcing = replace_paths(&change.replace_paths);
    let mut found = Vec::new();
    walk(&side, String::new(), MAX_DEPTH, &mut found);
    for change in &mut found {
        change.forces_replacement = forcing.iter().any(|path| covers(path, &change.path));
    }
    found
}

/// Whether any part of a mask is set. A mask (sensitive, unknown) is `true`, `false`, or has the shape of the value.
pub(super) fn has_any_set(mask: &Value) -> bool {
    match mask {
        Value::Bool(set) => *set,
        Value::Array(items) => items.iter().any(has_any_set),
        Value::Object(map) => map.values().any(has_any_set),
        Value::Null => false,
        // Not a valid mask: redact to be safe.
        Value::Number(_) | Value::String(_) => true,
    }
}

#[derive(Clone, Copy)]
struct DiffSides<'a> {
    before: Option<&'a Value>,
    after: Option<&'a Value>,
    unknown: &'a Value,
    before_mask: &'a Value,
    after_mask: &'a Value,
}

fn walk(sides: &DiffSides<'_>, path: String, depth: usize, found: &mut Vec<AttributeChange>) {
    let whole = sides.unknown == &Value::Bool(true)
        || depth == 0
        || is_hidden_entirely(sides.before, sides.before_mask)
        || is_hidden_entirely(sides.after, sides.after_mask);
    let keys = if whole { None } else { sides.keys() };
    if let Some(keys) = keys {
        for key in keys {
            let below = sides.descend(&key);
            walk(&below, key.join(&path), depth - 1, found);
        }
        return;
    }
    let hides = has_any_set(sides.before_mask) || has_any_set(sides.after_mask);
    let before = display_value(sides.before, hides, false);
    let after = display_value(sides.after, hides, sides.unknown == &Value::Bool(true));
    if sides.before.unwrap_or(&Value::Null) != sides.after.unwrap_or(&Value::Null)
        || has_any_set(sides.unknown)
    {
        found.push(AttributeChange { path, before, after, forces_replacement: false });
    }
}

fn display_value(value: Option<&Value>, sensitive: bool, unknown: bool) -> Option<DisplayValue> {
    if unknown {
        return Some(DisplayValue::Hidden(KNOWN_AFTER_APPLY));
    }
    let value = value.filter(|value| !value.is_null())?;
    Some(if sensitive { DisplayValue::Hidden(REDACTED) } else { DisplayValue::Value(value.clone()) })
}

/// Whether a mask redacts a value entirely: it is `true`, or it has another shape than the value and any part is set.
fn is_hidden_entirely(value: Option<&Value>, mask: &Value) -> bool {
    let same_shape = match (value, mask) {
        (Some(Value::Object(_)), Value::Object(_)) => true,
        (Some(Value::Array(items)), Value::Array(mask)) => mask.len() <= items.len(),
        _ => false,
    };
    !same_shape && has_any_set(mask)
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum PathStep {
    Index(usize),
    Name(String),
}

impl PathStep {
    fn join(&self, path: &str) -> String {
        match self {
            Self::Index(index) => format!("{path}[{index}]"),
            Self::Name(name) if path.is_empty() => name.clone(),
            Self::Name(name) => format!("{path}.{name}"),
        }
    }

    fn lookup<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        match self {
            Self::Index(index) => value.get(index),
            Self::Name(name) => value.get(name),
        }
    }
}

static FALSE: Value = Value::Bool(false);

impl<'a> DiffSides<'a> {
    /// Keys to descend into; `None` if a side is a scalar or the sides have different kinds.
    fn keys(&self) -> Option<BTreeSet<PathStep>> {
        let mut keys = BTreeSet::new();
        let mut kinds = BTreeSet::new();
        let values = [self.before, self.after, Some(self.unknown)].into_iter().flatten();
        for value in values {
            match value {
                Value::Object(map) => {
                    kinds.insert("object");
                    keys.extend(map.keys().cloned().map(PathStep::Name));
                }
                Value::Array(items) => {
                    kinds.insert("array");
                    keys.extend((0..items.len()).map(PathStep::Index));
                }
                Value::Null | Value::Bool(false) => {}
                _ => return None,
            }
        }
        let scalar = |value: Option<&Value>| value == Some(&Value::Bool(false));
        (kinds.len() == 1 && !scalar(self.before) && !scalar(self.after)).then_some(keys)
    }

    fn descend(&self, key: &PathStep) -> Self {
        // A mask of `true` applies to everything below; a missing entry means that nothing is sensitive.
        let mask = |mask: &'a Value| match mask {
            Value::Object(_) | Value::Array(_) => key.lookup(mask).unwrap_or(&FALSE),
            whole => whole,
        };
        Self {
            before: self.before.and_then(|value| key.lookup(value)),
            after: self.after.and_then(|value| key.lookup(value)),
            unknown: mask(self.unknown),
            before_mask: mask(self.before_mask),
            after_mask: mask(self.after_mask),
        }
    }
}

/// `[["vpc_config", 0, "subnet_ids"], …]` → `vpc_config[0].subnet_ids`
fn replace_paths(paths: &Value) -> Vec<String> {
    let step = |path: String, step: &Value| match step {
        Value::Number(index) => format!("{path}[{index}]"),
        Value::String(name) => PathStep::Name(name.clone()).join(&path),
        _ => path,
    };
    let paths = paths.as_array().into_iter().flatten();
    paths.filter_map(Value::as_array).map(|steps| steps.iter().fold(String::new(), step)).collect()
}

/// A path covers itself and everything below it.
fn covers(path: &str, attribute: &str) -> bool {
    attribute.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}
