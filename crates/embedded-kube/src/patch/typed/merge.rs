//! Merges two values. Nothing is removed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Map, Value};

use super::{super::field_set::PathElement, Atom, ListAtom, MapAtom, TypeErrors, TypeRef};

/// Merges the config into the live object: leaves of the config win, items keep the order of both lists where possible.
pub fn merge_typed(live: &Value, config: &Value, kind: TypeRef<'_>) -> Result<Value, TypeErrors> {
    let mut walk = MergeWalk { faults: TypeErrors::new() };
    let merged = walk.merge(Some(live), Some(config), kind);
    if walk.faults.is_empty() {
        Ok(merged.unwrap_or_else(|| Value::Object(Map::new())))
    } else {
        Err(walk.faults)
    }
}

struct MergeWalk {
    faults: TypeErrors,
}

impl MergeWalk {
    fn merge(&mut self, live: Option<&Value>, config: Option<&Value>, kind: TypeRef<'_>) -> Option<Value> {
        let atom = kind.atom(if config.is_some() { config } else { live });
        match atom {
            Atom::Scalar(_) => config.or(live).cloned(),
            Atom::List(list) => {
                let old = live.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
                let new = config.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
                if list.is_atomic() || (old.is_empty() && new.is_empty()) {
                    return config.or(live).cloned();
                }
                let merged = self.lists(&list, old, new);
                (!merged.is_empty()).then_some(Value::Array(merged))
            }
            Atom::Map(map) => {
                let empty = Map::new();
                let old = live.and_then(Value::as_object).unwrap_or(&empty);
                let new = config.and_then(Value::as_object).unwrap_or(&empty);
                if map.atomic || (old.is_empty() && new.is_empty()) {
                    return config.or(live).cloned();
                }
                let merged = self.maps(&map, old, new);
                (!merged.is_empty()).then_some(Value::Object(merged))
            }
        }
    }

    fn maps(
        &mut self,
        map: &MapAtom<'_>,
        old: &Map<String, Value>,
        new: &Map<String, Value>,
    ) -> Map<String, Value> {
        let mut out = Map::new();
        let kept = old.iter().map(|(key, live)| (key, Some(live), new.get(key)));
        let fresh = new
            .iter()
            .filter(|(key, _)| !old.contains_key(*key))
            .map(|(key, value)| (key, None, Some(value)));
        for (key, live, config) in kept.chain(fresh) {
            if let Some(merged) = self.merge(live, config, map.field_or_any(key)) {
                out.insert(key.clone(), merged);
            }
        }
        out
    }

    fn lists(&mut self, list: &ListAtom<'_>, old: &[Value], new: &[Value]) -> Vec<Value> {
        let (Some(new), Some(old)) = (self.index(list, new, false), self.index(list, old, true)) else {
            return Vec::new();
        };
        ListMerge::new(&old, &new).run(|live, config| self.merge(live, config, list.items))
    }

    fn index<'v>(
        &mut self,
        list: &ListAtom<'_>,
        items: &'v [Value],
        duplicates: bool,
    ) -> Option<ItemIndex<'v>> {
        let mut index = ItemIndex::default();
        let before = self.faults.len();
        for (place, item) in items.iter().enumerate() {
            match list.element(item) {
                Err(text) => self.faults.push((String::new(), format!("element {place}: {text}"))),
                Ok(element) => {
                    if index.found.contains_key(&element) {
                        if !duplicates {
                            self.faults.push((String::new(), format!("duplicate entries for key {element}")));
                            continue;
                        }
                        index.found.insert(element.clone(), &Value::Null);
                    } else {
                        index.found.insert(element.clone(), item);
                    }
                    index.order.push((element, item));
                }
            }
        }
        (self.faults.len() == before).then_some(index)
    }
}

/// Items by key and in order. Duplicate items are not merged: their lookup value is null.
#[derive(Default)]
struct ItemIndex<'v> {
    order: Vec<(PathElement, &'v Value)>,
    found: BTreeMap<PathElement, &'v Value>,
}

/// Merges two lists: the config defines the order of its items, live items keep their position among shared ones.
struct ListMerge<'i, 'v> {
    old: &'i ItemIndex<'v>,
    new: &'i ItemIndex<'v>,
    shared: VecDeque<&'i PathElement>,
    done: BTreeSet<&'i PathElement>,
}

impl<'i, 'v> ListMerge<'i, 'v> {
    fn new(old: &'i ItemIndex<'v>, new: &'i ItemIndex<'v>) -> Self {
        let shared =
            new.order.iter().map(|(element, _)| element).filter(|element| old.found.contains_key(*element));
        Self { old, new, shared: shared.collect(), done: BTreeSet::new() }
    }

    fn run(mut self, mut merge: impl FnMut(Option<&Value>, Option<&Value>) -> Option<Value>) -> Vec<Value> {
        let mut out = Vec::with_capacity(self.old.order.len().max(self.new.order.len()));
        let (mut left, mut right) = (0, 0);
        loop {
            let (live, config) = (self.old.order.get(left), self.new.order.get(right));
            if let (Some((live, _)), Some((config, _))) = (live, config) {
                if live == config {
                    out.extend(merge(self.old.found.get(live).copied(), self.new.found.get(live).copied()));
                    self.done.insert(live);
                    self.shared.pop_front();
                    left += 1;
                    right += 1;
                    continue;
                }
                // A shared item that is not the next one in order.
                if self.new.found.contains_key(live) && self.shared.front().is_some_and(|next| *next != live)
                {
                    left += 1;
                    continue;
                }
            }
            if let Some((element, item)) = live {
                if !self.new.found.contains_key(element) {
                    out.extend(merge(Some(item), None));
                    left += 1;
                    continue;
                }
                if self.done.contains(element) {
                    left += 1;
                }
            }
            match config {
                Some((element, _)) => {
                    out.extend(merge(
                        self.old.found.get(element).copied(),
                        self.new.found.get(element).copied(),
                    ));
                    self.done.insert(element);
                    right += 1;
                    if self.shared.front().is_some_and(|next| *next == element) {
                        self.shared.pop_front();
                    }
                }
                None if self.old.order.get(left).is_none() => return out,
                None => {}
            }
        }
    }
}
