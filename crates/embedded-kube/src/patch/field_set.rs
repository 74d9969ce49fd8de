//! Sets of fields, as managers own them, and their wire form (`FieldsV1`).
//!
//! A set is a tree of path elements. An element may be owned itself (`member`), may have something owned below it, or
//! both; an element with neither is never kept.

mod element;
mod wire;

use std::collections::BTreeMap;

pub use self::element::{Datum, Element};
use super::typed::Type;

/// Fields, as a tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Set {
    entries: BTreeMap<Element, Entry>,
}

/// One element of a path and what is owned of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entry {
    /// Owned itself.
    pub member: bool,
    /// Owned below it.
    pub below: Set,
}

impl Entry {
    /// Nothing is owned here.
    pub fn is_empty(&self) -> bool {
        !self.member && self.below.is_empty()
    }

    /// Owned, with nothing below.
    pub fn leaf() -> Self {
        Self { member: true, below: Set::default() }
    }
}

impl Set {
    /// The fields at dotted paths.
    pub fn of_paths(paths: &[&str]) -> Self {
        let mut set = Self::default();
        for path in paths {
            let mut place = &mut set;
            let mut steps = path.split('.').peekable();
            while let Some(step) = steps.next() {
                let entry = place.entries.entry(Element::Field(step.to_owned())).or_default();
                if steps.peek().is_none() {
                    entry.member = true;
                }
                place = &mut entry.below;
            }
        }
        set
    }

    /// The one field at a path.
    pub fn of_path(path: &[&Element]) -> Self {
        let mut set = Self::default();
        if let [first, rest @ ..] = path {
            set.put((*first).clone(), Entry { member: rest.is_empty(), below: Self::of_path(rest) });
        }
        set
    }

    /// No field at all.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What is owned at an element.
    pub fn get(&self, element: &Element) -> Option<&Entry> {
        self.entries.get(element)
    }

    /// Puts an entry in, unless it is empty; what stood there is joined with it.
    pub fn put(&mut self, element: Element, entry: Entry) {
        if entry.is_empty() {
            return;
        }
        let place = self.entries.entry(element).or_default();
        place.member |= entry.member;
        place.below.add(entry.below);
    }

    /// Owns all that `other` owns, too.
    pub fn add(&mut self, other: Self) {
        if self.entries.is_empty() {
            self.entries = other.entries;
            return;
        }
        for (element, entry) in other.entries {
            self.put(element, entry);
        }
    }

    /// Owns none of what `other` owns; what is below an element of `other` stays.
    pub fn subtract(&mut self, other: &Self) {
        for (element, theirs) in &other.entries {
            self.change(element, |ours| {
                ours.member &= !theirs.member;
                ours.below.subtract(&theirs.below);
            });
        }
    }

    /// Owns none of what `other` owns, nor anything below that.
    pub fn subtract_whole(&mut self, other: &Self) {
        for (element, theirs) in &other.entries {
            self.change(element, |ours| {
                if theirs.member {
                    *ours = Entry::default();
                } else {
                    ours.below.subtract_whole(&theirs.below);
                }
            });
        }
    }

    fn change(&mut self, element: &Element, change: impl FnOnce(&mut Entry)) {
        if let Some(entry) = self.entries.get_mut(element) {
            change(entry);
            if entry.is_empty() {
                self.entries.remove(element);
            }
        }
    }

    /// What both own.
    pub fn common(&self, other: &Self) -> Self {
        let (small, large) =
            if self.entries.len() <= other.entries.len() { (self, other) } else { (other, self) };
        let mut out = Self::default();
        for (element, one) in &small.entries {
            if let Some(two) = large.entries.get(element) {
                let entry = Entry { member: one.member && two.member, below: one.below.common(&two.below) };
                out.put(element.clone(), entry);
            }
        }
        out
    }

    /// Every struct field on the way to something owned counts as owned; keys of maps do not.
    pub fn with_named_fields(&self, kind: Option<Type<'_>>) -> Self {
        let entries = self.entries.iter().map(|(element, entry)| {
            let named = |name: &str| kind.is_some_and(|kind| kind.declares(name));
            let member = entry.member
                || matches!(element, Element::Field(name) if !entry.below.is_empty() && named(name));
            let below = entry.below.with_named_fields(kind.and_then(|kind| kind.below(element)));
            (element.clone(), Entry { member, below })
        });
        Self { entries: entries.collect() }
    }

    /// The set as it would have been, had the shape always been what it is now: below what is atomic nothing is owned.
    pub fn reconciled(self, kind: Type<'_>) -> Self {
        let entries = self.entries.into_iter().map(|(element, entry)| {
            let Some(below) = kind.below(&element) else { return (element, entry) };
            if entry.below.is_empty() {
                return (element, entry);
            }
            if below.is_atomic() {
                return (element, Entry::leaf());
            }
            (element, Entry { member: entry.member, below: entry.below.reconciled(below) })
        });
        Self { entries: entries.collect() }
    }

    /// Paths of all that is owned: the nearer ones first.
    pub fn paths(&self) -> Vec<Vec<&Element>> {
        let mut out = Vec::new();
        self.collect(&mut Vec::new(), &mut out);
        out
    }

    fn collect<'a>(&'a self, path: &mut Vec<&'a Element>, out: &mut Vec<Vec<&'a Element>>) {
        for (element, _) in self.entries.iter().filter(|(_, entry)| entry.member) {
            out.push(path.iter().copied().chain([element]).collect());
        }
        for (element, entry) in &self.entries {
            path.push(element);
            entry.below.collect(path, out);
            path.pop();
        }
    }
}
