//! Sets of owned fields and their wire format (`FieldsV1`).
//!
//! A set is a tree of path elements. An element may be owned itself (`member`), have owned children, or both; elements
//! with neither are removed.

mod element;
mod fields_v1;

use std::collections::BTreeMap;

pub use self::element::{PathElement, ScalarKey};
use super::typed::TypeRef;

/// A set of fields, as a tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSet {
    entries: BTreeMap<PathElement, FieldSetEntry>,
}

/// A path element and its children.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSetEntry {
    /// Whether the element itself is owned.
    pub member: bool,
    /// Owned fields below it.
    pub children: FieldSet,
}

impl FieldSetEntry {
    /// Whether neither the element nor a child is owned.
    pub fn is_empty(&self) -> bool {
        !self.member && self.children.is_empty()
    }

    /// An owned element without children.
    pub fn leaf() -> Self {
        Self { member: true, children: FieldSet::default() }
    }
}

impl FieldSet {
    /// From dotted paths.
    pub fn from_paths(paths: &[&str]) -> Self {
        let mut set = Self::default();
        for path in paths {
            let mut place = &mut set;
            let mut steps = path.split('.').peekable();
            while let Some(step) = steps.next() {
                let entry = place.entries.entry(PathElement::Field(step.to_owned())).or_default();
                if steps.peek().is_none() {
                    entry.member = true;
                }
                place = &mut entry.children;
            }
        }
        set
    }

    /// From a single path.
    pub fn from_path(path: &[&PathElement]) -> Self {
        let mut set = Self::default();
        if let [first, rest @ ..] = path {
            set.insert(
                (*first).clone(),
                FieldSetEntry { member: rest.is_empty(), children: Self::from_path(rest) },
            );
        }
        set
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The entry of an element.
    pub fn get(&self, element: &PathElement) -> Option<&FieldSetEntry> {
        self.entries.get(element)
    }

    /// Inserts an entry unless it is empty; merges with an existing one.
    pub fn insert(&mut self, element: PathElement, entry: FieldSetEntry) {
        if entry.is_empty() {
            return;
        }
        let place = self.entries.entry(element).or_default();
        place.member |= entry.member;
        place.children.union_with(entry.children);
    }

    /// Union.
    pub fn union_with(&mut self, other: Self) {
        if self.entries.is_empty() {
            self.entries = other.entries;
            return;
        }
        for (element, entry) in other.entries {
            self.insert(element, entry);
        }
    }

    /// Removes the elements of `other`; their children stay.
    pub fn subtract(&mut self, other: &Self) {
        for (element, theirs) in &other.entries {
            self.update_entry(element, |ours| {
                ours.member &= !theirs.member;
                ours.children.subtract(&theirs.children);
            });
        }
    }

    /// Removes the elements of `other` and everything below them.
    pub fn subtract_recursive(&mut self, other: &Self) {
        for (element, theirs) in &other.entries {
            self.update_entry(element, |ours| {
                if theirs.member {
                    *ours = FieldSetEntry::default();
                } else {
                    ours.children.subtract_recursive(&theirs.children);
                }
            });
        }
    }

    fn update_entry(&mut self, element: &PathElement, change: impl FnOnce(&mut FieldSetEntry)) {
        if let Some(entry) = self.entries.get_mut(element) {
            change(entry);
            if entry.is_empty() {
                self.entries.remove(element);
            }
        }
    }

    /// Intersection.
    pub fn intersection(&self, other: &Self) -> Self {
        let (small, large) =
            if self.entries.len() <= other.entries.len() { (self, other) } else { (other, self) };
        let mut out = Self::default();
        for (element, one) in &small.entries {
            if let Some(two) = large.entries.get(element) {
                let entry = FieldSetEntry {
                    member: one.member && two.member,
                    children: one.children.intersection(&two.children),
                };
                out.insert(element.clone(), entry);
            }
        }
        out
    }

    /// Adds every struct field on the way to an owned field; map keys are not added.
    pub fn with_named_fields(&self, kind: Option<TypeRef<'_>>) -> Self {
        let entries = self.entries.iter().map(|(element, entry)| {
            let named = |name: &str| kind.is_some_and(|kind| kind.declares(name));
            let member = entry.member
                || matches!(element, PathElement::Field(name) if !entry.children.is_empty() && named(name));
            let below = entry.children.with_named_fields(kind.and_then(|kind| kind.child(element)));
            (element.clone(), FieldSetEntry { member, children: below })
        });
        Self { entries: entries.collect() }
    }

    /// Adapts the set to the current shape: atomic values have no owned children.
    pub fn reconcile_with_schema(self, kind: TypeRef<'_>) -> Self {
        let entries = self.entries.into_iter().map(|(element, entry)| {
            let Some(below) = kind.child(&element) else { return (element, entry) };
            if entry.children.is_empty() {
                return (element, entry);
            }
            if below.is_atomic() {
                return (element, FieldSetEntry::leaf());
            }
            (
                element,
                FieldSetEntry { member: entry.member, children: entry.children.reconcile_with_schema(below) },
            )
        });
        Self { entries: entries.collect() }
    }

    /// Paths of all owned fields, shorter ones first.
    pub fn paths(&self) -> Vec<Vec<&PathElement>> {
        let mut out = Vec::new();
        self.collect(&mut Vec::new(), &mut out);
        out
    }

    fn collect<'a>(&'a self, path: &mut Vec<&'a PathElement>, out: &mut Vec<Vec<&'a PathElement>>) {
        for (element, _) in self.entries.iter().filter(|(_, entry)| entry.member) {
            out.push(path.iter().copied().chain([element]).collect());
        }
        for (element, entry) in &self.entries {
            path.push(element);
            entry.children.collect(path, out);
            path.pop();
        }
    }
}
