//! Reading the present state from the store: never older than the change that one was woken by.

use serde_json::Value;

use crate::store::{Page, Store};

/// All objects of a prefix, in the order of their keys.
pub fn list(store: &Store, prefix: &str) -> Vec<Value> {
    let snapshot = store.list(prefix, &Page::default());
    snapshot.into_iter().flat_map(|part| part.entries).map(|(_, entry)| entry.document.value()).collect()
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
