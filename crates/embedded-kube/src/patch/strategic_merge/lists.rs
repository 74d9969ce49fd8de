//! Merges lists: by key for objects, as sets for scalars; and orders the result.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::{DIRECTIVE, StrategicError, StrategicResult, go_fmt, merge_map, unknown_directive};
use crate::shape::Shape;

/// Values are compared by their text: a hash lookup instead of a quadratic comparison.
fn comparison_text(value: &Value) -> String {
    value.to_string()
}

/// Identity of an item: the value of its merge key, or the scalar itself.
fn merge_key_of(item: &Value, key: &str) -> StrategicResult<String> {
    if key.is_empty() {
        return Ok(comparison_text(item));
    }
    let map = item.as_object().ok_or_else(|| StrategicError::wrong_type("map[string]interface {}", item))?;
    map.get(key).map(comparison_text).ok_or_else(|| StrategicError::no_merge_key(item, key))
}

/// A list that defines an order of items.
pub struct ElementOrder<'a>(&'a [Value]);

impl<'a> ElementOrder<'a> {
    pub fn new(list: &'a [Value]) -> Self {
        Self(list)
    }

    fn positions(&self, key: &str) -> StrategicResult<HashMap<String, usize>> {
        let mut places = HashMap::with_capacity(self.0.len());
        for (place, item) in self.0.iter().enumerate() {
            places.entry(merge_key_of(item, key)?).or_insert(place);
        }
        Ok(places)
    }
}

/// Items to be ordered.
pub struct MergedItems<'a> {
    pub list: Vec<Value>,
    /// Merge key; empty for scalars.
    pub key: &'a str,
}

impl MergedItems<'_> {
    /// Items that `wanted` contains follow its order; the others keep the order of `live` and are interleaved.
    pub fn ordered(self, wanted: &ElementOrder<'_>, live: &ElementOrder<'_>) -> StrategicResult<Vec<Value>> {
        let wanted = wanted.positions(self.key)?;
        let live = live.positions(self.key)?;
        let (mut named, mut others) = (Vec::new(), Vec::new());
        for item in self.list {
            let id = merge_key_of(&item, self.key)?;
            let at_live = live.get(&id).copied();
            match wanted.get(&id) {
                Some(place) => named.push((*place, at_live, item)),
                None => others.push((at_live.unwrap_or(usize::MAX), at_live, item)),
            }
        }
        named.sort_by_key(|(place, ..)| *place);
        others.sort_by_key(|(place, ..)| *place);
        Ok(interleave(others, named))
    }
}

type PositionedItem = (usize, Option<usize>, Value);

fn interleave(others: Vec<PositionedItem>, named: Vec<PositionedItem>) -> Vec<Value> {
    let mut out = Vec::with_capacity(others.len() + named.len());
    let (mut others, mut named) = (others.into_iter().peekable(), named.into_iter().peekable());
    loop {
        let take_other = match (others.peek(), named.peek()) {
            (None, None) => return out,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some((_, left, _)), Some((_, right, _))) => {
                matches!((left, right), (Some(left), Some(right)) if left < right)
            }
        };
        let next = if take_other { others.next() } else { named.next() };
        out.extend(next.map(|(.., item)| item));
    }
}

/// All items of both lists must have the same type, and none may be a list.
fn holds_maps(old: &[Value], new: &[Value]) -> StrategicResult<bool> {
    let mut first: Option<&'static str> = None;
    for item in old.iter().chain(new) {
        let kind = go_fmt::format_type(item);
        match first {
            None if item.is_array() => return Err(StrategicError::Unprocessable),
            None => first = Some(kind),
            Some(known) if known != kind => {
                let lists = Value::Array(vec![Value::from(old.to_vec()), Value::from(new.to_vec())]);
                return Err(StrategicError::Other(format!(
                    "list element types are not identical: {}",
                    go_fmt::format_v(&lists)
                )));
            }
            Some(_) => {}
        }
    }
    Ok(first == Some("map[string]interface {}"))
}

/// Removes `unwanted` scalars from `old`.
pub fn delete_scalars(old: Vec<Value>, unwanted: &[Value]) -> StrategicResult<Vec<Value>> {
    if old.is_empty() && unwanted.is_empty() {
        return Ok(old);
    }
    holds_maps(&old, unwanted)?;
    let unwanted: HashSet<String> = unwanted.iter().map(comparison_text).collect();
    Ok(old.into_iter().filter(|item| !unwanted.contains(&comparison_text(item))).collect())
}

/// Merges two lists.
pub fn merge_lists(
    old: Vec<Value>,
    new: Vec<Value>,
    items: &Shape,
    key: &str,
) -> StrategicResult<Vec<Value>> {
    if old.is_empty() && new.is_empty() {
        return Ok(old);
    }
    if !holds_maps(&old, &new)? {
        let mut seen = HashSet::new();
        let both: Vec<Value> =
            old.iter().chain(&new).filter(|item| seen.insert(comparison_text(item))).cloned().collect();
        return MergedItems { list: both, key }.ordered(&ElementOrder::new(&new), &ElementOrder::new(&old));
    }
    if key.is_empty() {
        return Err(StrategicError::Other("cannot merge lists without merge key for struct".to_owned()));
    }
    let (old, new) = apply_item_directives(old, new, key)?;
    let list = merge_map_items(old.clone(), &new, items, key)?;
    MergedItems { list, key }.ordered(&ElementOrder::new(&new), &ElementOrder::new(&old))
}

/// Applies the directives among the items; returns what remains of the live list and of the patch.
fn apply_item_directives(
    mut old: Vec<Value>,
    new: Vec<Value>,
    key: &str,
) -> StrategicResult<(Vec<Value>, Vec<Value>)> {
    let mut plain = Vec::with_capacity(new.len());
    let mut gone = HashSet::new();
    let mut replace = false;
    for item in new {
        match item.get(DIRECTIVE) {
            None => plain.push(item),
            Some(directive) => match directive.as_str() {
                Some("delete") => {
                    gone.insert(merge_key_of(&item, key)?);
                }
                Some("replace") => replace = true,
                Some("merge") => {
                    return Err(StrategicError::Other(
                        "merging lists cannot yet be specified in the patch".to_owned(),
                    ));
                }
                _ => return Err(unknown_directive(directive, &item)),
            },
        }
    }
    if replace {
        return Ok((plain, Vec::new()));
    }
    if !gone.is_empty() {
        old.retain(|item| item.get(key).is_none_or(|value| !gone.contains(&comparison_text(value))));
    }
    Ok((old, plain))
}

fn merge_map_items(
    mut list: Vec<Value>,
    new: &[Value],
    items: &Shape,
    key: &str,
) -> StrategicResult<Vec<Value>> {
    let mut places: HashMap<String, usize> = HashMap::with_capacity(list.len());
    for (place, item) in list.iter().enumerate() {
        if let Some(value) = item.get(key) {
            places.entry(comparison_text(value)).or_insert(place);
        }
    }
    for item in new {
        let id = merge_key_of(item, key)?;
        match places.get(&id).and_then(|place| list.get_mut(*place)) {
            Some(target) => {
                *target = Value::Object(merge_map(into_map(target.take()), into_map(item.clone()), items)?);
            }
            None => {
                places.insert(id, list.len());
                list.push(item.clone());
            }
        }
    }
    Ok(list)
}

fn into_map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// The items of a patch must be a subsequence of its element order; deletions do not count.
pub fn check_order(new: &[Value], order: &[Value], key: &str) -> StrategicResult<()> {
    if new.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut expected = order.iter();
    for item in new.iter().filter(|item| item.get(DIRECTIVE).is_none()) {
        let id = merge_key_of(item, key)?;
        loop {
            match expected.next() {
                Some(next) if merge_key_of(next, key)? == id => break,
                Some(_) => {}
                None => {
                    return Err(StrategicError::Other(format!(
                        "The order in patch list:\n{}\n doesn't match $setElementOrder list:\n{}\n",
                        go_fmt::format_v(&Value::from(new.to_vec())),
                        go_fmt::format_v(&Value::from(order.to_vec()))
                    )));
                }
            }
        }
    }
    Ok(())
}
