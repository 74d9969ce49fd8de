//! Compares two values.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{
    super::field_set::{FieldSet, FieldSetEntry, PathElement},
    Atom, ListAtom, MapAtom, TypeErrors, TypeRef,
    validation::scalar_error,
};

/// Differences; the sets are disjoint.
#[derive(Debug, Default)]
pub struct FieldChanges {
    /// Only in the old value.
    pub removed: FieldSet,
    /// In both, but different.
    pub modified: FieldSet,
    /// Only in the new value.
    pub added: FieldSet,
}

impl FieldChanges {
    /// Removes everything at or below these fields.
    pub fn without(mut self, fields: &FieldSet) -> Self {
        for set in [&mut self.removed, &mut self.modified, &mut self.added] {
            set.subtract_recursive(fields);
        }
        self
    }
}

/// Differences at and below one element.
#[derive(Default)]
struct EntryChanges {
    removed: FieldSetEntry,
    modified: FieldSetEntry,
    added: FieldSetEntry,
}

impl EntryChanges {
    fn put(&mut self, element: &PathElement, below: Self) {
        for (place, entry) in [
            (&mut self.removed, below.removed),
            (&mut self.modified, below.modified),
            (&mut self.added, below.added),
        ] {
            if !entry.is_empty() {
                place.children.insert(element.clone(), entry);
            }
        }
    }

    fn leaf(&mut self, old: Option<&Value>, new: Option<&Value>) {
        match (old, new) {
            (None, _) => self.added.member = true,
            (_, None) => self.removed.member = true,
            (Some(old), Some(new)) => self.modified.member |= !values_equal(old, new),
        }
    }
}

/// Compares two objects of one shape.
pub fn compare(old: &Value, new: &Value, kind: TypeRef<'_>) -> Result<FieldChanges, TypeErrors> {
    let mut walk = CompareWalk { faults: TypeErrors::new() };
    let found = walk.compare(Some(old), Some(new), kind);
    if walk.faults.is_empty() {
        Ok(FieldChanges {
            removed: found.removed.children,
            modified: found.modified.children,
            added: found.added.children,
        })
    } else {
        Err(walk.faults)
    }
}

struct CompareWalk {
    faults: TypeErrors,
}

impl CompareWalk {
    fn compare(&mut self, old: Option<&Value>, new: Option<&Value>, kind: TypeRef<'_>) -> EntryChanges {
        let mut found = EntryChanges::default();
        let (was, is) = (kind.atom(old), kind.atom(new));
        let was_leaf = match (old, new) {
            (_, None) => self.visit(&was, old, new, &mut found),
            (None, _) => self.visit(&is, old, new, &mut found),
            _ => {
                if !was.is_same_kind(&is) {
                    self.visit(&was, old, new, &mut found);
                }
                self.visit(&is, old, new, &mut found)
            }
        };
        if !was_leaf {
            found.added.member |= old.is_none();
            found.removed.member |= old.is_some() && new.is_none();
        }
        found
    }

    /// Returns whether the value is atomic.
    fn visit(
        &mut self,
        atom: &Atom<'_>,
        old: Option<&Value>,
        new: Option<&Value>,
        found: &mut EntryChanges,
    ) -> bool {
        match atom {
            Atom::Scalar(scalar) => {
                let wrong = |value: Option<&Value>| value.and_then(|value| scalar_error(*scalar, value));
                if let (Some(old), Some(new)) = (wrong(old), wrong(new)) {
                    self.faults.push((String::new(), format!("lhs: {old}")));
                    self.faults.push((String::new(), format!("rhs: {new}")));
                    return false;
                }
                found.leaf(old, new);
                true
            }
            Atom::List(list) => {
                let (was, is) = (items(old), items(new));
                if list.is_atomic() || (was.is_empty() && is.is_empty()) {
                    found.leaf(old, new);
                    return true;
                }
                self.lists(list, was, is, found);
                false
            }
            Atom::Map(map) => {
                let empty = Map::new();
                let was = old.and_then(Value::as_object).unwrap_or(&empty);
                let is = new.and_then(Value::as_object).unwrap_or(&empty);
                if map.atomic || (was.is_empty() && is.is_empty()) {
                    found.leaf(old, new);
                    return true;
                }
                self.maps(map, was, is, found);
                false
            }
        }
    }

    fn maps(
        &mut self,
        map: &MapAtom<'_>,
        was: &Map<String, Value>,
        is: &Map<String, Value>,
        found: &mut EntryChanges,
    ) {
        let gone = was.iter().map(|(key, old)| (key, Some(old), is.get(key)));
        let fresh =
            is.iter().filter(|(key, _)| !was.contains_key(*key)).map(|(key, new)| (key, None, Some(new)));
        for (key, old, new) in gone.chain(fresh) {
            let below = self.compare(old, new, map.field_or_any(key));
            found.put(&PathElement::Field(key.clone()), below);
        }
    }

    fn lists(&mut self, list: &ListAtom<'_>, was: &[Value], is: &[Value], found: &mut EntryChanges) {
        if was == is {
            return;
        }
        let mut pairs: BTreeMap<PathElement, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
        for (items, old) in [(was, true), (is, false)] {
            for (index, item) in items.iter().enumerate() {
                match list.element(item) {
                    Ok(element) => {
                        let pair = pairs.entry(element).or_default();
                        if old { pair.0.push(item) } else { pair.1.push(item) }
                    }
                    Err(text) => self.faults.push((String::new(), format!("element {index}: {text}"))),
                }
            }
        }
        for (element, (was, is)) in pairs {
            let below = self.items(list, &was, &is);
            found.put(&element, below);
        }
    }

    /// Items with the same key. If there are several, they count as atomic.
    fn items(&mut self, list: &ListAtom<'_>, was: &[&Value], is: &[&Value]) -> EntryChanges {
        match (was, is) {
            ([] | [_], [] | [_]) => self.compare(was.first().copied(), is.first().copied(), list.items),
            ([_, _, ..], [_, _, ..]) => {
                let equal =
                    was.len() == is.len() && was.iter().zip(is).all(|(old, new)| values_equal(old, new));
                let mut found = EntryChanges::default();
                found.modified.member = !equal;
                found
            }
            ([_, _, ..], _) => {
                let mut found =
                    is.first().map(|new| self.compare(None, Some(new), list.items)).unwrap_or_default();
                found.removed.member = true;
                found
            }
            (_, [_, _, ..]) => {
                let mut found =
                    was.first().map(|old| self.compare(Some(old), None, list.items)).unwrap_or_default();
                found.added.member = true;
                found
            }
        }
    }
}

fn items(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Equality; numbers are compared by value, not by notation.
pub fn values_equal(one: &Value, two: &Value) -> bool {
    match (one, two) {
        (Value::Number(one), Value::Number(two)) => {
            one == two || one.as_f64() == two.as_f64() && (one.is_f64() || two.is_f64())
        }
        (Value::Array(one), Value::Array(two)) => {
            one.len() == two.len() && one.iter().zip(two).all(|(one, two)| values_equal(one, two))
        }
        (Value::Object(one), Value::Object(two)) => {
            one.len() == two.len()
                && one.iter().all(|(key, one)| two.get(key).is_some_and(|two| values_equal(one, two)))
        }
        _ => one == two,
    }
}
