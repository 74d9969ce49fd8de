//! Reads the current state from the store: never older than the change that triggered the reconcile.

use serde_json::Value;

use super::selector::Selector;
use crate::{
    object::IndexedMeta,
    store::{IndexTerm, ListOptions, Store},
};

/// All objects under a prefix, in key order.
pub fn list_objects(store: &Store, prefix: &str) -> Vec<Value> {
    let snapshot = store.list(prefix, &ListOptions::default());
    snapshot.into_iter().flat_map(|part| part.entries).map(|(_, entry)| entry.document.value()).collect()
}

fn find_objects(
    store: &Store,
    prefix: &str,
    alternatives: &[Vec<IndexTerm<'_>>],
    fits: impl Fn(&IndexedMeta) -> bool,
) -> Vec<Value> {
    let found = store.find(prefix, alternatives, fits).entries;
    found.into_iter().map(|(_, entry)| entry.document.value()).collect()
}

/// Objects that a selector matches.
pub fn list_selected(store: &Store, prefix: &str, selector: &Selector) -> Vec<Value> {
    find_objects(store, prefix, &[selector.index_terms()], |marks| selector.matches_meta(marks))
}

/// Objects that one of these owners controls.
pub fn list_controlled<'a>(
    store: &Store,
    prefix: &str,
    owners: impl IntoIterator<Item = &'a str>,
) -> Vec<Value> {
    let alternatives: Vec<_> = owners.into_iter().map(|uid| vec![IndexTerm::Controller(uid)]).collect();
    find_objects(store, prefix, &alternatives, |_| true)
}

/// Objects that an owner controls, and those it may adopt: they match its selector and have no controller.
pub fn list_claimable(store: &Store, prefix: &str, owner: &str, selector: &Selector) -> Vec<Value> {
    let alternatives = [vec![IndexTerm::Controller(owner)], selector.index_terms()];
    find_objects(store, prefix, &alternatives, |marks| {
        marks.is_controlled_by(owner) || (marks.controller().is_none() && selector.matches_meta(marks))
    })
}

/// Whether there are no objects.
pub fn has_no_objects(store: &Store, prefix: &str) -> bool {
    let page = ListOptions { limit: Some(1), ..ListOptions::default() };
    store.list(prefix, &page).is_ok_and(|part| part.entries.is_empty())
}

/// Reads one object.
pub fn get_object(store: &Store, key: &str) -> Option<Value> {
    store.get(key).map(|entry| entry.document.value())
}
