//! What differs in an object, with sensitive values taken out before anything else sees them.

use std::{collections::BTreeSet, fmt};

use serde::Serialize;
use serde_json::Value;

use super::wire::Body;
use crate::output::REDACTED;

/// A value as it may be shown.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Shown {
    /// The value.
    Value(Value),
    /// A placeholder: sensitive, or not known yet.
    Hidden(&'static str),
}

const UNKNOWN: &str = "(known after apply)";

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(value) => write!(f, "{value}"),
            Self::Hidden(what) => f.write_str(what),
        }
    }
}

/// One attribute that differs.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AttributeChange {
    /// `vpc_config[0].subnet_ids`
    pub path: String,
    /// Before; absent if it was not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Shown>,
    /// After; absent if it goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Shown>,
    /// Whether terraform names it as a reason to replace the object.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub forces_replacement: bool,
}

/// Deeper than any resource; below it a value is shown as a whole.
const DEPTH: usize = 16;

pub(super) fn attributes(change: &Body) -> Vec<AttributeChange> {
    let side = Sides {
        before: Some(&change.before),
        after: Some(&change.after),
        unknown: &change.after_unknown,
        before_mask: &change.before_sensitive,
        after_mask: &change.after_sensitive,
    };
    let forcing = replace_paths(&change.replace_paths);
    let mut found = Vec::new();
    walk(&side, String::new(), DEPTH, &mut found);
    for change in &mut found {
        change.forces_replacement = forcing.iter().any(|path| covers(path, &change.path));
    }
    found
}

/// Whether any part of a mask is set. A mask (sensitive, unknown) is `true`, `false`, or has the shape of the value.
pub(super) fn any_set(mask: &Value) -> bool {
    match mask {
        Value::Bool(set) => *set,
        Value::Array(items) => items.iter().any(any_set),
        Value::Object(map) => map.values().any(any_set),
        Value::Null => false,
        // Not a mask at all: better hidden than shown.
        Value::Number(_) | Value::String(_) => true,
    }
}

#[derive(Clone, Copy)]
struct Sides<'a> {
    before: Option<&'a Value>,
    after: Option<&'a Value>,
    unknown: &'a Value,
    before_mask: &'a Value,
    after_mask: &'a Value,
}

fn walk(sides: &Sides<'_>, path: String, depth: usize, found: &mut Vec<AttributeChange>) {
    let whole = sides.unknown == &Value::Bool(true)
        || depth == 0
        || hidden_whole(sides.before, sides.before_mask)
        || hidden_whole(sides.after, sides.after_mask);
    let keys = if whole { None } else { sides.keys() };
    if let Some(keys) = keys {
        for key in keys {
            let below = sides.below(&key);
            walk(&below, key.join(&path), depth - 1, found);
        }
        return;
    }
    let hides = any_set(sides.before_mask) || any_set(sides.after_mask);
    let before = shown(sides.before, hides, false);
    let after = shown(sides.after, hides, sides.unknown == &Value::Bool(true));
    if sides.before.unwrap_or(&Value::Null) != sides.after.unwrap_or(&Value::Null) || any_set(sides.unknown) {
        found.push(AttributeChange { path, before, after, forces_replacement: false });
    }
}

fn shown(value: Option<&Value>, sensitive: bool, unknown: bool) -> Option<Shown> {
    if unknown {
        return Some(Shown::Hidden(UNKNOWN));
    }
    let value = value.filter(|value| !value.is_null())?;
    Some(if sensitive { Shown::Hidden(REDACTED) } else { Shown::Value(value.clone()) })
}

/// Whether a mask hides a value as a whole: it says so, or it has another shape than the value and hides something.
fn hidden_whole(value: Option<&Value>, mask: &Value) -> bool {
    let same_shape = match (value, mask) {
        (Some(Value::Object(_)), Value::Object(_)) => true,
        (Some(Value::Array(items)), Value::Array(mask)) => mask.len() <= items.len(),
        _ => false,
    };
    !same_shape && any_set(mask)
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Index(usize),
    Name(String),
}

impl Key {
    fn join(&self, path: &str) -> String {
        match self {
            Self::Index(index) => format!("{path}[{index}]"),
            Self::Name(name) if path.is_empty() => name.clone(),
            Self::Name(name) => format!("{path}.{name}"),
        }
    }

    fn of<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        match self {
            Self::Index(index) => value.get(index),
            Self::Name(name) => value.get(name),
        }
    }
}

static FALSE: Value = Value::Bool(false);

impl<'a> Sides<'a> {
    /// The keys to look below, or none if a side is a scalar or the sides are of different kinds.
    fn keys(&self) -> Option<BTreeSet<Key>> {
        let mut keys = BTreeSet::new();
        let mut kinds = BTreeSet::new();
        let values = [self.before, self.after, Some(self.unknown)].into_iter().flatten();
        for value in values {
            match value {
                Value::Object(map) => {
                    kinds.insert("object");
                    keys.extend(map.keys().cloned().map(Key::Name));
                }
                Value::Array(items) => {
                    kinds.insert("array");
                    keys.extend((0..items.len()).map(Key::Index));
                }
                Value::Null | Value::Bool(false) => {}
                _ => return None,
            }
        }
        let scalar = |value: Option<&Value>| value == Some(&Value::Bool(false));
        (kinds.len() == 1 && !scalar(self.before) && !scalar(self.after)).then_some(keys)
    }

    fn below(&self, key: &Key) -> Self {
        // A mask of `true` stays in force below; where the mask has no entry, nothing is sensitive.
        let mask = |mask: &'a Value| match mask {
            Value::Object(_) | Value::Array(_) => key.of(mask).unwrap_or(&FALSE),
            whole => whole,
        };
        Self {
            before: self.before.and_then(|value| key.of(value)),
            after: self.after.and_then(|value| key.of(value)),
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
        Value::String(name) => Key::Name(name.clone()).join(&path),
        _ => path,
    };
    let paths = paths.as_array().into_iter().flatten();
    paths.filter_map(Value::as_array).map(|steps| steps.iter().fold(String::new(), step)).collect()
}

/// A path covers itself and everything below it.
fn covers(path: &str, attribute: &str) -> bool {
    attribute.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}
