//! Secondary index: keys of objects by label and by controller.
//!
//! Without it, finding the three pods of one among a thousand owners would scan all pods.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Bound,
    sync::Arc,
};

use super::types::{Entry, IndexTerm};
use crate::object::{Document, IndexedMeta};

type KeySet = BTreeSet<Arc<str>>;

/// Keys by label and by controller uid.
#[derive(Debug, Default)]
pub struct SecondaryIndex {
    labels: HashMap<Box<str>, HashMap<Box<str>, KeySet>>,
    controllers: HashMap<Box<str>, KeySet>,
}

impl SecondaryIndex {
    /// Updates the index for a created, changed or deleted object.
    pub fn update<'a>(&mut self, key: &Arc<str>, before: Option<&'a Document>, now: Option<&'a Document>) {
        let (before, now) = (before.map(Document::indexed_meta), now.map(Document::indexed_meta));
        let controller =
            |marks: Option<&'a IndexedMeta>| marks.and_then(IndexedMeta::controller).map(|owner| &*owner.uid);
        let (had, has) = (controller(before), controller(now));
        if had != has {
            if let Some(uid) = had {
                remove(&mut self.controllers, uid, key);
            }
            if let Some(uid) = has {
                self.controllers.entry(uid.into()).or_default().insert(Arc::clone(key));
            }
        }
        if before.and_then(IndexedMeta::labels) != now.and_then(IndexedMeta::labels) {
            self.update_labels(key, before, now);
        }
    }

    fn update_labels(&mut self, key: &Arc<str>, before: Option<&IndexedMeta>, now: Option<&IndexedMeta>) {
        for (label, value) in before.into_iter().flat_map(labels) {
            if let Some(values) = self.labels.get_mut(label) {
                remove(values, value, key);
                if values.is_empty() {
                    self.labels.remove(label);
                }
            }
        }
        for (label, value) in now.into_iter().flat_map(labels) {
            let values = self.labels.entry(label.into()).or_default();
            values.entry(value.into()).or_default().insert(Arc::clone(key));
        }
    }

    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.controllers.is_empty()
    }

    fn keys(&self, mark: &IndexTerm<'_>) -> Option<&KeySet> {
        match *mark {
            IndexTerm::Label(label, value) => self.labels.get(label)?.get(value),
            IndexTerm::Controller(uid) => self.controllers.get(uid),
        }
    }

    /// Keys under a prefix, in order: a superset of the objects with all these terms.
    fn candidates(&self, prefix: &str, marks: &[IndexTerm<'_>]) -> impl Iterator<Item = &Arc<str>> {
        let rarest =
            marks.iter().map(|mark| self.keys(mark)).min_by_key(|keys| keys.map_or(0, BTreeSet::len));
        let from =
            rarest.flatten().map(|keys| keys.range::<str, _>((Bound::Included(prefix), Bound::Unbounded)));
        from.into_iter().flatten().take_while(move |key| key.starts_with(prefix))
    }
}

/// Objects of `present` under a prefix that may match one of the alternatives. An empty alternative matches everything.
pub fn find_indexed<'a>(
    present: &'a BTreeMap<Arc<str>, Entry>,
    marked: &'a SecondaryIndex,
    prefix: &str,
    alternatives: &[Vec<IndexTerm<'_>>],
) -> Vec<(&'a Arc<str>, &'a Entry)> {
    if alternatives.iter().any(Vec::is_empty) {
        let all = present.range::<str, _>((Bound::Included(prefix), Bound::Unbounded));
        return all.take_while(|(key, _)| key.starts_with(prefix)).collect();
    }
    let mut found: Vec<&Arc<str>> =
        alternatives.iter().flat_map(|marks| marked.candidates(prefix, marks)).collect();
    if alternatives.len() > 1 {
        found.sort_unstable();
        found.dedup();
    }
    found.into_iter().filter_map(|key| present.get_key_value(key)).collect()
}

fn labels(marks: &IndexedMeta) -> impl Iterator<Item = (&str, &str)> {
    let labels = marks.labels().into_iter().flatten();
    labels.map(|(label, value)| (label.as_str(), value.as_str().unwrap_or_default()))
}

fn remove(all: &mut HashMap<Box<str>, KeySet>, mark: &str, key: &Arc<str>) {
    if let Some(keys) = all.get_mut(mark) {
        keys.remove(key);
        if keys.is_empty() {
            all.remove(mark);
        }
    }
}
