//! `LabelSelector` objects: `matchLabels` and `matchExpressions`. No I/O.

use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

use crate::{
    object::{IndexedMeta, MetaAccessor},
    store::IndexTerm,
};

/// A parsed `LabelSelector`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Selector {
    match_labels: BTreeMap<String, String>,
    match_expressions: Vec<Expression>,
}

#[derive(Debug, Clone, Deserialize)]
struct Expression {
    key: String,
    operator: Operator,
    #[serde(default)]
    values: Vec<String>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

impl Selector {
    /// `None` if the value is not a selector.
    pub fn from_value(selector: &Value) -> Option<Self> {
        Self::deserialize(selector).ok()
    }

    /// From plain labels, as Services have them.
    pub fn from_match_labels(labels: &Value) -> Option<Self> {
        let match_labels = BTreeMap::deserialize(labels).ok()?;
        Some(Self { match_labels, match_expressions: Vec::new() })
    }

    /// Requires these labels.
    pub fn with_labels(labels: &[(&str, &str)]) -> Self {
        let owned = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        Self { match_labels: owned.collect(), match_expressions: Vec::new() }
    }

    /// Whether it matches everything, which controllers treat as a mistake.
    pub fn is_empty(&self) -> bool {
        self.match_labels.is_empty() && self.match_expressions.is_empty()
    }

    /// Whether the labels of an object match.
    pub fn matches(&self, object: &Value) -> bool {
        self.matches_labels(|key| object.label(key))
    }

    /// As `matches`, for the indexed metadata of a stored object.
    pub fn matches_meta(&self, marks: &IndexedMeta) -> bool {
        self.matches_labels(|key| marks.label(key))
    }

    fn matches_labels<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.match_labels.iter().all(|(key, value)| label(key) == Some(value))
            && self.match_expressions.iter().all(|expression| expression.matches(label(&expression.key)))
    }

    /// Labels that every matching object has.
    pub fn required_labels(&self) -> impl Iterator<Item = (&str, &str)> {
        let named = self.match_labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let listed = self.match_expressions.iter().filter_map(|expression| {
            match (expression.operator, expression.values.as_slice()) {
                (Operator::In, [only]) => Some((expression.key.as_str(), only.as_str())),
                _ => None,
            }
        });
        named.chain(listed)
    }

    /// Index terms that every matching object has.
    pub fn index_terms(&self) -> Vec<IndexTerm<'_>> {
        self.required_labels().map(|(key, value)| IndexTerm::Label(key, value)).collect()
    }
}

impl Expression {
    fn matches(&self, value: Option<&str>) -> bool {
        let is_listed = value.is_some_and(|value| self.values.iter().any(|one| one == value));
        match self.operator {
            Operator::In => is_listed,
            Operator::NotIn => !is_listed,
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn labels_and_expressions_must_all_hold() {
        let selector = Selector::from_value(&json!({
            "matchLabels": {"app": "web"},
            "matchExpressions": [
                {"key": "tier", "operator": "In", "values": ["a", "b"]},
                {"key": "zone", "operator": "NotIn", "values": ["z"]},
                {"key": "old", "operator": "DoesNotExist"},
                {"key": "tier", "operator": "Exists"},
            ],
        }))
        .unwrap();
        let object = |labels: Value| json!({"metadata": {"labels": labels}});
        assert!(selector.matches(&object(json!({"app": "web", "tier": "b"}))));
        assert!(!selector.matches(&object(json!({"app": "web"}))));
        assert!(!selector.matches(&object(json!({"app": "web", "tier": "b", "zone": "z"}))));
        assert!(!selector.matches(&object(json!({"app": "web", "tier": "b", "old": ""}))));
        assert!(
            Selector::from_value(&json!({"matchExpressions": [{"key": "a", "operator": "Near"}]})).is_none()
        );
        assert!(Selector::from_value(&json!({})).unwrap().is_empty());
    }

    #[test]
    fn what_everything_selected_must_have_is_told() {
        let selector = Selector::from_value(&json!({
            "matchLabels": {"app": "web"},
            "matchExpressions": [
                {"key": "tier", "operator": "In", "values": ["a"]},
                {"key": "zone", "operator": "In", "values": ["a", "b"]},
                {"key": "old", "operator": "NotIn", "values": ["a"]},
            ],
        }))
        .unwrap();
        assert_eq!(selector.required_labels().collect::<Vec<_>>(), [("app", "web"), ("tier", "a")]);
    }
}
