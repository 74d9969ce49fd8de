//! What differs between two values?

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{
    super::fields::{Element, Entry, Set},
    Atom, Faults, ListAtom, MapAtom, Type,
    check::wrong_scalar,
};

/// Differences; no field is in more than one of them.
#[derive(Debug, Default)]
pub struct Changes {
    /// Only in the old value.
    pub removed: Set,
    /// In both, but different.
    pub modified: Set,
    /// Only in the new value.
    pub added: Set,
}

impl Changes {
    /// Without all that is at or below these fields.
    pub fn without(mut self, fields: &Set) -> Self {
        for set in [&mut self.removed, &mut self.modified, &mut self.added] {
            set.subtract_whole(fields);
        }
        self
    }
}

/// Differences below one element, and at it.
#[derive(Default)]
struct Found {
    removed: Entry,
    modified: Entry,
    added: Entry,
}

impl Found {
    fn put(&mut self, element: &Element, below: Self) {
        for (place, entry) in [
            (&mut self.removed, below.removed),
            (&mut self.modified, below.modified),
            (&mut self.added, below.added),
        ] {
            if !entry.is_empty() {
                place.below.put(element.clone(), entry);
            }
        }
    }

    fn leaf(&mut self, old: Option<&Value>, new: Option<&Value>) {
        match (old, new) {
            (None, _) => self.added.member = true,
            (_, None) => self.removed.member = true,
            (Some(old), Some(new)) => self.modified.member |= !same(old, new),
        }
    }
}

/// Compares two objects of one shape.
pub fn compare(old: &Value, new: &Value, kind: Type<'_>) -> Result<Changes, Faults> {
    let mut walk = Walk { faults: Faults::new() };
    let found = walk.compare(Some(old), Some(new), kind);
    if walk.faults.is_empty() {
        Ok(Changes { removed: found.removed.below, modified: found.modified.below, added: found.added.below })
    } else {
        Err(walk.faults)
    }
}

struct Walk {
    faults: Faults,
}

impl Walk {
    fn compare(&mut self, old: Option<&Value>, new: Option<&Value>, kind: Type<'_>) -> Found {
        let mut found = Found::default();
        let (was, is) = (kind.atom(old), kind.atom(new));
        let was_leaf = match (old, new) {
            (_, None) => self.visit(&was, old, new, &mut found),
            (None, _) => self.visit(&is, old, new, &mut found),
            _ => {
                if !was.is_like(&is) {
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

    /// Whether the value was taken as one piece.
    fn visit(
        &mut self,
        atom: &Atom<'_>,
        old: Option<&Value>,
        new: Option<&Value>,
        found: &mut Found,
    ) -> bool {
        match atom {
            Atom::Scalar(scalar) => {
                let wrong = |value: Option<&Value>| value.and_then(|value| wrong_scalar(*scalar, value));
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
        found: &mut Found,
    ) {
        let gone = was.iter().map(|(key, old)| (key, Some(old), is.get(key)));
        let fresh =
            is.iter().filter(|(key, _)| !was.contains_key(*key)).map(|(key, new)| (key, None, Some(new)));
        for (key, old, new) in gone.chain(fresh) {
            let below = self.compare(old, new, map.field_or_any(key));
            found.put(&Element::Field(key.clone()), below);
        }
    }

    fn lists(&mut self, list: &ListAtom<'_>, was: &[Value], is: &[Value], found: &mut Found) {
        if was == is {
            return;
        }
        let mut pairs: BTreeMap<Element, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
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

    /// Items of one key. Where there are several, they count as one piece.
    fn items(&mut self, list: &ListAtom<'_>, was: &[&Value], is: &[&Value]) -> Found {
        match (was, is) {
            ([] | [_], [] | [_]) => self.compare(was.first().copied(), is.first().copied(), list.items),
            ([_, _, ..], [_, _, ..]) => {
                let equal = was.len() == is.len() && was.iter().zip(is).all(|(old, new)| same(old, new));
                let mut found = Found::default();
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

/// Equal values; numbers are compared by value, not by how they are written.
pub fn same(one: &Value, two: &Value) -> bool {
    match (one, two) {
        (Value::Number(one), Value::Number(two)) => {
            one == two || one.as_f64() == two.as_f64() && (one.is_f64() || two.is_f64())
        }
        (Value::Array(one), Value::Array(two)) => {
            one.len() == two.len() && one.iter().zip(two).all(|(one, two)| same(one, two))
        }
        (Value::Object(one), Value::Object(two)) => {
            one.len() == two.len()
                && one.iter().all(|(key, one)| two.get(key).is_some_and(|two| same(one, two)))
        }
        _ => one == two,
    }
}
