//! Whose selectors mean an object: a selector the other way round. No I/O.
//!
//! A pod changes many times, and each time it has to be known which of a thousand services it belongs to.

use std::collections::{BTreeSet, HashMap};

use serde::Deserialize;
use serde_json::Value;

use super::selector::Selector;
use crate::object::{Document, Marks};

/// Namespace and name of whoever selects.
pub type Key = (String, String);

/// See the module.
#[derive(Debug, Default)]
pub struct Selecting {
    namespaces: HashMap<String, Namespace>,
}

#[derive(Debug, Default)]
struct Namespace {
    selectors: HashMap<String, (Selector, Place)>,
    by_label: HashMap<Label, BTreeSet<String>>,
    /// Those that ask for no label with a value.
    others: BTreeSet<String>,
}

type Label = (String, String);

/// Where a name is kept: at one label of its selector, so that it is found once.
type Place = Option<Label>;

impl Selecting {
    /// What somebody selects now; `None` for nothing, or if there is nobody any more.
    pub fn set(&mut self, (namespace, name): &Key, selector: Option<Selector>) {
        let place = self.namespaces.entry(namespace.clone()).or_default();
        place.remove(name);
        match selector {
            Some(selector) => place.insert(name, selector),
            None if place.selectors.is_empty() => drop(self.namespaces.remove(namespace)),
            None => {}
        }
    }

    /// Whoever selects an object of a namespace.
    pub fn of(&self, namespace: &str, marks: &Marks) -> Vec<Key> {
        let Some(place) = self.namespaces.get(namespace) else { return Vec::new() };
        let labels = marks.labels().into_iter().flatten();
        let labels = labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
        let listed = labels.filter_map(|label| place.by_label.get(&label)).flatten();
        listed
            .chain(&place.others)
            .filter(|name| place.selectors.get(*name).is_some_and(|(selector, _)| selector.selects(marks)))
            .map(|name| (namespace.to_owned(), name.clone()))
            .collect()
    }

    /// Whoever selects anything.
    pub fn all(&self) -> Vec<Key> {
        let names = |(namespace, place): (&String, &Namespace)| {
            place.selectors.keys().map(|name| (namespace.clone(), name.clone())).collect::<Vec<_>>()
        };
        self.namespaces.iter().flat_map(names).collect()
    }

    /// Forgets everybody.
    pub fn clear(&mut self) {
        self.namespaces.clear();
    }
}

impl Namespace {
    fn remove(&mut self, name: &str) {
        match self.selectors.remove(name) {
            Some((_, Some(label))) => {
                if let Some(names) = self.by_label.get_mut(&label) {
                    names.remove(name);
                    if names.is_empty() {
                        self.by_label.remove(&label);
                    }
                }
            }
            Some((_, None)) => drop(self.others.remove(name)),
            None => {}
        }
    }

    /// At the label that fewest others are kept at: one that all have in common tells nothing.
    fn insert(&mut self, name: &str, selector: Selector) {
        let labels = selector.labels().map(|(key, value)| (key.to_owned(), value.to_owned()));
        let place = labels.min_by_key(|label| self.by_label.get(label).map_or(0, BTreeSet::len));
        let names = match &place {
            Some(label) => self.by_label.entry(label.clone()).or_default(),
            None => &mut self.others,
        };
        names.insert(name.to_owned());
        self.selectors.insert(name.to_owned(), (selector, place));
    }
}

/// `spec.selector` of a workload: a `LabelSelector` that is not empty.
pub fn selector_in(document: &Document) -> Option<Selector> {
    #[derive(Deserialize)]
    struct Stub {
        spec: Spec,
    }
    #[derive(Deserialize)]
    struct Spec {
        selector: Option<Value>,
    }
    let stub: Stub = serde_json::from_slice(document.bytes()).ok()?;
    stub.spec.selector.as_ref().and_then(Selector::of).filter(|selector| !selector.is_empty())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    fn key(name: &str) -> Key {
        ("a".to_owned(), name.to_owned())
    }

    fn of(selecting: &Selecting, labels: &Value) -> Vec<String> {
        let marks = Marks::of(&json!({"metadata": {"labels": labels}}));
        let mut names: Vec<_> = selecting.of("a", &marks).into_iter().map(|(_, name)| name).collect();
        names.sort();
        names
    }

    fn with(selectors: &[(&str, Value)]) -> Selecting {
        let mut selecting = Selecting::default();
        for (name, selector) in selectors {
            selecting.set(&key(name), Selector::of(selector));
        }
        selecting
    }

    #[test]
    fn an_object_is_selected_by_those_all_of_whose_labels_it_has() {
        let selecting = with(&[
            ("web", json!({"matchLabels": {"all": "yes", "app": "web"}})),
            ("db", json!({"matchLabels": {"all": "yes", "app": "db"}})),
            (
                "both",
                json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "db"]}]}),
            ),
            (
                "old",
                json!({"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "old", "operator": "Exists"}]}),
            ),
            ("any", json!({})),
        ]);
        assert_eq!(of(&selecting, &json!({"all": "yes", "app": "web"})), ["any", "both", "web"]);
        assert_eq!(of(&selecting, &json!({"all": "no", "app": "db"})), ["any", "both"]);
        assert_eq!(of(&selecting, &Value::Null), ["any"]);
        assert_eq!(selecting.of("b", &Marks::default()), []);
        assert_eq!(selecting.all().len(), 5);
    }

    #[test]
    fn a_selector_that_changes_is_found_by_its_new_labels_only() {
        let mut selecting = with(&[("web", json!({"matchLabels": {"app": "web"}}))]);
        selecting.set(&key("web"), Selector::of(&json!({"matchLabels": {"app": "db"}})));
        assert!(of(&selecting, &json!({"app": "web"})).is_empty());
        assert_eq!(of(&selecting, &json!({"app": "db"})), ["web"]);
        selecting.set(&key("web"), Selector::of(&json!({})));
        assert_eq!(of(&selecting, &json!({"app": "web"})), ["web"]);
        selecting.set(&key("web"), None);
        assert!(selecting.all().is_empty() && selecting.namespaces.is_empty());
    }
}
