//! Which objects carry a mark: the keys of all that have a label, or are managed by somebody.
//!
//! Without it, to find the three pods of one among a thousand owners would be to look at a thousand pods.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Bound,
    sync::Arc,
};

use super::words::{Entry, Mark};
use crate::object::{Document, Marks};

type Keys = BTreeSet<Arc<str>>;

/// See the module.
#[derive(Debug, Default)]
pub struct Marked {
    labels: HashMap<Box<str>, HashMap<Box<str>, Keys>>,
    controllers: HashMap<Box<str>, Keys>,
}

impl Marked {
    /// An object has become another one, or begun, or ended.
    pub fn change<'a>(&mut self, key: &Arc<str>, before: Option<&'a Document>, now: Option<&'a Document>) {
        let (before, now) = (before.map(Document::marks), now.map(Document::marks));
        let controller =
            |marks: Option<&'a Marks>| marks.and_then(Marks::controller).map(|owner| &*owner.uid);
        let (had, has) = (controller(before), controller(now));
        if had != has {
            if let Some(uid) = had {
                remove(&mut self.controllers, uid, key);
            }
            if let Some(uid) = has {
                self.controllers.entry(uid.into()).or_default().insert(Arc::clone(key));
            }
        }
        if before.and_then(Marks::labels) != now.and_then(Marks::labels) {
            self.relabel(key, before, now);
        }
    }

    fn relabel(&mut self, key: &Arc<str>, before: Option<&Marks>, now: Option<&Marks>) {
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

    fn keys(&self, mark: &Mark<'_>) -> Option<&Keys> {
        match *mark {
            Mark::Label(label, value) => self.labels.get(label)?.get(value),
            Mark::Controller(uid) => self.controllers.get(uid),
        }
    }

    /// Keys of a prefix, in their order, among which all objects are that carry all these marks, and few others.
    fn candidates(&self, prefix: &str, marks: &[Mark<'_>]) -> impl Iterator<Item = &Arc<str>> {
        let rarest =
            marks.iter().map(|mark| self.keys(mark)).min_by_key(|keys| keys.map_or(0, BTreeSet::len));
        let from =
            rarest.flatten().map(|keys| keys.range::<str, _>((Bound::Included(prefix), Bound::Unbounded)));
        from.into_iter().flatten().take_while(move |key| key.starts_with(prefix))
    }
}

/// What `present` has of a prefix, as far as it may carry all marks of one of the alternatives. No marks are all there is.
pub fn find<'a>(
    present: &'a BTreeMap<Arc<str>, Entry>,
    marked: &'a Marked,
    prefix: &str,
    alternatives: &[Vec<Mark<'_>>],
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

fn labels(marks: &Marks) -> impl Iterator<Item = (&str, &str)> {
    let labels = marks.labels().into_iter().flatten();
    labels.map(|(label, value)| (label.as_str(), value.as_str().unwrap_or_default()))
}

fn remove(all: &mut HashMap<Box<str>, Keys>, mark: &str, key: &Arc<str>) {
    if let Some(keys) = all.get_mut(mark) {
        keys.remove(key);
        if keys.is_empty() {
            all.remove(mark);
        }
    }
}
