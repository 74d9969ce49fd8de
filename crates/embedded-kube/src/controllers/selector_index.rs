//! Reverse selector index: finds the objects whose selectors match a given object. No I/O.
//!
//! A pod changes many times, and each change must be mapped to the few of possibly a thousand services that select it.

use std::collections::{BTreeSet, HashMap};

use serde::Deserialize;
use serde_json::Value;

use super::selector::Selector;
use crate::object::{Document, IndexedMeta};

/// Namespace and name of the selecting object.
pub type NamespacedName = (String, String);

/// Selectors by namespace and label.
#[derive(Debug, Default)]
pub struct SelectorIndex {
    namespaces: HashMap<String, NamespaceIndex>,
}

#[derive(Debug, Default)]
struct NamespaceIndex {
    selectors: HashMap<String, (Selector, IndexLabel)>,
    by_label: HashMap<Label, BTreeSet<String>>,
    /// Names whose selector requires no label value.
    unlabelled: BTreeSet<String>,
}

type Label = (String, String);

/// The label under which a name is indexed: one label per selector, so that it is found once.
type IndexLabel = Option<Label>;

impl SelectorIndex {
    /// Sets the selector of an object; `None` removes it.
    pub fn set(&mut self, (namespace, name): &NamespacedName, selector: Option<Selector>) {
        let place = self.namespaces.entry(namespace.clone()).or_default();
        place.remove(name);
        match selector {
            Some(selector) => place.insert(name, selector),
            None if place.selectors.is_empty() => drop(self.namespaces.remove(namespace)),
            None => {}
        }
    }

    /// Objects whose selector matches an object of this namespace.
    pub fn selecting(&self, namespace: &str, marks: &IndexedMeta) -> Vec<NamespacedName> {
        let Some(place) = self.namespaces.get(namespace) else { return Vec::new() };
        let labels = marks.labels().into_iter().flatten();
        let labels = labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
        let listed = labels.filter_map(|label| place.by_label.get(&label)).flatten();
        listed
            .chain(&place.unlabelled)
            .filter(|name| {
                place.selectors.get(*name).is_some_and(|(selector, _)| selector.matches_meta(marks))
            })
            .map(|name| (namespace.to_owned(), name.clone()))
            .collect()
    }

    /// All indexed objects.
    pub fn all_keys(&self) -> Vec<NamespacedName> {
        let names = |(namespace, place): (&String, &NamespaceIndex)| {
            place.selectors.keys().map(|name| (namespace.clone(), name.clone())).collect::<Vec<_>>()
        };
        self.namespaces.iter().flat_map(names).collect()
    }

    /// Removes everything.
    pub fn clear(&mut self) {
        self.namespaces.clear();
    }
}

impl NamespaceIndex {
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
            Some((_, None)) => drop(self.unlabelled.remove(name)),
            None => {}
        }
    }

    /// Indexes by the rarest label: a label that all selectors share does not discriminate.
    fn insert(&mut self, name: &str, selector: Selector) {
        let labels = selector.required_labels().map(|(key, value)| (key.to_owned(), value.to_owned()));
        let place = labels.min_by_key(|label| self.by_label.get(label).map_or(0, BTreeSet::len));
        let names = match &place {
            Some(label) => self.by_label.entry(label.clone()).or_default(),
            None => &mut self.unlabelled,
        };
        names.insert(name.to_owned());
        self.selectors.insert(name.to_owned(), (selector, place));
    }
}

/// `spec.selector` of a workload: a `LabelSelector` that is not empty.
pub fn workload_selector(document: &Document) -> Option<Selector> {
    #[derive(Deserialize)]
    struct Stub {
        spec: Spec,
    }
    #[derive(Deserialize)]
    struct Spec {
        selector: Option<Value>,
    }
    let stub: Stub = serde_json::from_slice(document.bytes()).ok()?;
    stub.spec.selector.as_ref().and_then(Selector::from_value).filter(|selector| !selector.is_empty())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    fn key(name: &str) -> NamespacedName {
        ("a".to_owned(), name.to_owned())
    }

    fn of(selecting: &SelectorIndex, labels: &Value) -> Vec<String> {
        let marks = IndexedMeta::from_value(&json!({"metadata": {"labels": labels}}));
        let mut names: Vec<_> = selecting.selecting("a", &marks).into_iter().map(|(_, name)| name).collect();
        names.sort();
        names
    }

    fn with(selectors: &[(&str, Value)]) -> SelectorIndex {
        let mut selecting = SelectorIndex::default();
        for (name, selector) in selectors {
            selecting.set(&key(name), Selector::from_value(selector));
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
        assert_eq!(selecting.selecting("b", &IndexedMeta::default()), []);
        assert_eq!(selecting.all_keys().len(), 5);
    }

    #[test]
    fn a_selector_that_changes_is_found_by_its_new_labels_only() {
        let mut selecting = with(&[("web", json!({"matchLabels": {"app": "web"}}))]);
        selecting.set(&key("web"), Selector::from_value(&json!({"matchLabels": {"app": "db"}})));
        assert!(of(&selecting, &json!({"app": "web"})).is_empty());
        assert_eq!(of(&selecting, &json!({"app": "db"})), ["web"]);
        selecting.set(&key("web"), Selector::from_value(&json!({})));
        assert_eq!(of(&selecting, &json!({"app": "web"})), ["web"]);
        selecting.set(&key("web"), None);
        assert!(selecting.all_keys().is_empty() && selecting.namespaces.is_empty());
    }
}
