//! Lists that merge: by key for objects, as sets for scalars; and the order of what comes out.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::{DIRECTIVE, Fault, Outcome, merge_map, unknown_directive, words};
use crate::shape::Shape;

/// Tells values apart by their text: cheap to look up, where comparing each with each would be quadratic.
fn print(value: &Value) -> String {
    value.to_string()
}

/// What an item is known by: its merge key's value, or the scalar itself where there is no merge key.
fn identity(item: &Value, key: &str) -> Outcome<String> {
    if key.is_empty() {
        return Ok(print(item));
    }
    let map = item.as_object().ok_or_else(|| Fault::wrong_type("map[string]interface {}", item))?;
    map.get(key).map(print).ok_or_else(|| Fault::no_merge_key(item, key))
}

/// A list as an order of items.
pub struct Order<'a>(&'a [Value]);

impl<'a> Order<'a> {
    pub fn of(list: &'a [Value]) -> Self {
        Self(list)
    }

    fn places(&self, key: &str) -> Outcome<HashMap<String, usize>> {
        let mut places = HashMap::with_capacity(self.0.len());
        for (place, item) in self.0.iter().enumerate() {
            places.entry(identity(item, key)?).or_insert(place);
        }
        Ok(places)
    }
}

/// Items to be ordered.
pub struct Items<'a> {
    pub list: Vec<Value>,
    /// Merge key; empty for scalars.
    pub key: &'a str,
}

impl Items<'_> {
    /// Items that `wanted` names come in its order; the others keep the order of `live` and are woven in between.
    pub fn ordered(self, wanted: &Order<'_>, live: &Order<'_>) -> Outcome<Vec<Value>> {
        let wanted = wanted.places(self.key)?;
        let live = live.places(self.key)?;
        let (mut named, mut others) = (Vec::new(), Vec::new());
        for item in self.list {
            let id = identity(&item, self.key)?;
            let at_live = live.get(&id).copied();
            match wanted.get(&id) {
                Some(place) => named.push((*place, at_live, item)),
                None => others.push((at_live.unwrap_or(usize::MAX), at_live, item)),
            }
        }
        named.sort_by_key(|(place, ..)| *place);
        others.sort_by_key(|(place, ..)| *place);
        Ok(woven(others, named))
    }
}

type Placed = (usize, Option<usize>, Value);

fn woven(others: Vec<Placed>, named: Vec<Placed>) -> Vec<Value> {
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

/// All items of both lists must be of one type, and no lists.
fn holds_maps(old: &[Value], new: &[Value]) -> Outcome<bool> {
    let mut first: Option<&'static str> = None;
    for item in old.iter().chain(new) {
        let kind = words::type_of(item);
        match first {
            None if item.is_array() => return Err(Fault::Content),
            None => first = Some(kind),
            Some(known) if known != kind => {
                let lists = Value::Array(vec![Value::from(old.to_vec()), Value::from(new.to_vec())]);
                return Err(Fault::Other(format!(
                    "list element types are not identical: {}",
                    words::plain(&lists)
                )));
            }
            Some(_) => {}
        }
    }
    Ok(first == Some("map[string]interface {}"))
}

/// `old` without `unwanted` scalars.
pub fn deleted(old: Vec<Value>, unwanted: &[Value]) -> Outcome<Vec<Value>> {
    if old.is_empty() && unwanted.is_empty() {
        return Ok(old);
    }
    holds_maps(&old, unwanted)?;
    let unwanted: HashSet<String> = unwanted.iter().map(print).collect();
    Ok(old.into_iter().filter(|item| !unwanted.contains(&print(item))).collect())
}

/// Both lists in one.
pub fn merged(old: Vec<Value>, new: Vec<Value>, items: &Shape, key: &str) -> Outcome<Vec<Value>> {
    if old.is_empty() && new.is_empty() {
        return Ok(old);
    }
    if !holds_maps(&old, &new)? {
        let mut seen = HashSet::new();
        let both: Vec<Value> =
            old.iter().chain(&new).filter(|item| seen.insert(print(item))).cloned().collect();
        return Items { list: both, key }.ordered(&Order::of(&new), &Order::of(&old));
    }
    if key.is_empty() {
        return Err(Fault::Other("cannot merge lists without merge key for struct".to_owned()));
    }
    let (old, new) = steered(old, new, key)?;
    let list = merged_maps(old.clone(), &new, items, key)?;
    Items { list, key }.ordered(&Order::of(&new), &Order::of(&old))
}

/// Carries out the directives among the items: what is left of the live list, and of the patch.
fn steered(mut old: Vec<Value>, new: Vec<Value>, key: &str) -> Outcome<(Vec<Value>, Vec<Value>)> {
    let mut plain = Vec::with_capacity(new.len());
    let mut gone = HashSet::new();
    let mut replace = false;
    for item in new {
        match item.get(DIRECTIVE) {
            None => plain.push(item),
            Some(directive) => match directive.as_str() {
                Some("delete") => {
                    gone.insert(identity(&item, key)?);
                }
                Some("replace") => replace = true,
                Some("merge") => {
                    return Err(Fault::Other(
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
        old.retain(|item| item.get(key).is_none_or(|value| !gone.contains(&print(value))));
    }
    Ok((old, plain))
}

fn merged_maps(mut list: Vec<Value>, new: &[Value], items: &Shape, key: &str) -> Outcome<Vec<Value>> {
    let mut places: HashMap<String, usize> = HashMap::with_capacity(list.len());
    for (place, item) in list.iter().enumerate() {
        if let Some(value) = item.get(key) {
            places.entry(print(value)).or_insert(place);
        }
    }
    for item in new {
        let id = identity(item, key)?;
        match places.get(&id).and_then(|place| list.get_mut(*place)) {
            Some(target) => {
                *target = Value::Object(merge_map(map_of(target.take()), map_of(item.clone()), items)?);
            }
            None => {
                places.insert(id, list.len());
                list.push(item.clone());
            }
        }
    }
    Ok(list)
}

fn map_of(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// The items of a patch must be a subsequence of the order that comes with them; deletions do not count.
pub fn check_order(new: &[Value], order: &[Value], key: &str) -> Outcome<()> {
    if new.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut expected = order.iter();
    for item in new.iter().filter(|item| item.get(DIRECTIVE).is_none()) {
        let id = identity(item, key)?;
        loop {
            match expected.next() {
                Some(next) if identity(next, key)? == id => break,
                Some(_) => {}
                None => {
                    return Err(Fault::Other(format!(
                        "The order in patch list:\n{}\n doesn't match $setElementOrder list:\n{}\n",
                        words::plain(&Value::from(new.to_vec())),
                        words::plain(&Value::from(order.to_vec()))
                    )));
                }
            }
        }
    }
    Ok(())
}
