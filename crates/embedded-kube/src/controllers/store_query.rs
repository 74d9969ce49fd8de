//! Reading the present state from the store: never older than the change that one was woken by.

use serde_json::Value;

use super::selector::Selector;
use crate::{
    object::Marks,
    store::{Mark, Page, Store},
};

/// All objects of a prefix, in the order of their keys.
pub fn list(store: &Store, prefix: &str) -> Vec<Value> {
    let snapshot = store.list(prefix, &Page::default());
    snapshot.into_iter().flat_map(|part| part.entries).map(|(_, entry)| entry.document.value()).collect()
}

fn find(
    store: &Store,
    prefix: &str,
    alternatives: &[Vec<Mark<'_>>],
    fits: impl Fn(&Marks) -> bool,
) -> Vec<Value> {
    let found = store.find(prefix, alternatives, fits).entries;
    found.into_iter().map(|(_, entry)| entry.document.value()).collect()
}

/// Those that a selector means.
pub fn selected(store: &Store, prefix: &str, selector: &Selector) -> Vec<Value> {
    find(store, prefix, &[selector.marks()], |marks| selector.selects(marks))
}

/// Those that one of these owners manages.
pub fn managed<'a>(store: &Store, prefix: &str, owners: impl IntoIterator<Item = &'a str>) -> Vec<Value> {
    let alternatives: Vec<_> = owners.into_iter().map(|uid| vec![Mark::Controller(uid)]).collect();
    find(store, prefix, &alternatives, |_| true)
}

/// Those that an owner manages, and those that it may take in: nobody manages them, and its selector means them.
pub fn claimable(store: &Store, prefix: &str, owner: &str, selector: &Selector) -> Vec<Value> {
    let alternatives = [vec![Mark::Controller(owner)], selector.marks()];
    find(store, prefix, &alternatives, |marks| {
        marks.is_controlled_by(owner) || (marks.controller().is_none() && selector.selects(marks))
    })
}

/// Nothing is there.
pub fn is_empty(store: &Store, prefix: &str) -> bool {
    let page = Page { limit: Some(1), ..Page::default() };
    store.list(prefix, &page).is_ok_and(|part| part.entries.is_empty())
}

/// One object.
pub fn get(store: &Store, key: &str) -> Option<Value> {
    store.get(key).map(|entry| entry.document.value())
}
