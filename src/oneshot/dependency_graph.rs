//! The order of the work. Pure.

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;

use crate::blueprint::Key;

/// Workspaces that wait for each other.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("these workspaces wait for each other, so none can begin: {}", names(.0))]
pub struct Circle(BTreeSet<Key>);

fn names(keys: &BTreeSet<Key>) -> String {
    keys.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Who waits for whom.
#[derive(Debug, Clone, Default)]
pub struct Graph {
    after: BTreeMap<Key, BTreeSet<Key>>,
}

impl Graph {
    /// From what each waits for. What is not part of the work is taken to be there already.
    pub fn new(nodes: impl IntoIterator<Item = (Key, BTreeSet<Key>)>) -> Result<Self, Circle> {
        let mut after: BTreeMap<Key, BTreeSet<Key>> = nodes.into_iter().collect();
        let known: BTreeSet<Key> = after.keys().cloned().collect();
        for needs in after.values_mut() {
            needs.retain(|need| known.contains(need));
        }
        let graph = Self { after };
        graph.check()?;
        Ok(graph)
    }

    /// The same work backwards: what others wait for goes last.
    #[must_use]
    pub fn reversed(&self) -> Self {
        let mut after: BTreeMap<Key, BTreeSet<Key>> =
            self.after.keys().map(|key| (key.clone(), BTreeSet::new())).collect();
        for (key, needs) in &self.after {
            for need in needs {
                after.entry(need.clone()).or_default().insert(key.clone());
            }
        }
        Self { after }
    }

    /// What `key` waits for.
    pub fn needs(&self, key: &Key) -> BTreeSet<Key> {
        self.after.get(key).cloned().unwrap_or_default()
    }

    /// Everything, in an order that can be followed.
    pub fn order(&self) -> Vec<Key> {
        let mut order = Vec::new();
        let mut done = BTreeSet::new();
        while let Some(next) = self.next(&done) {
            done.insert(next.clone());
            order.push(next);
        }
        order
    }

    fn next(&self, done: &BTreeSet<Key>) -> Option<Key> {
        let free = |(key, needs): &(&Key, &BTreeSet<Key>)| !done.contains(*key) && needs.is_subset(done);
        self.after.iter().find(free).map(|(key, _)| key.clone())
    }

    fn check(&self) -> Result<(), Circle> {
        let order: BTreeSet<Key> = self.order().into_iter().collect();
        let stuck: BTreeSet<Key> = self.after.keys().filter(|key| !order.contains(*key)).cloned().collect();
        if stuck.is_empty() { Ok(()) } else { Err(Circle(stuck)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key::new("default", name)
    }

    fn graph(edges: &[(&str, &[&str])]) -> Result<Graph, Circle> {
        Graph::new(
            edges.iter().map(|(name, needs)| (key(name), needs.iter().map(|need| key(need)).collect())),
        )
    }

    #[test]
    fn what_is_needed_comes_first_and_goes_last() {
        let graph = graph(&[("profile", &["eks", "vpc"]), ("eks", &["vpc"]), ("vpc", &[])]).unwrap();
        assert_eq!(graph.order(), [key("vpc"), key("eks"), key("profile")]);
        assert_eq!(graph.reversed().order(), [key("profile"), key("eks"), key("vpc")]);
    }

    #[test]
    fn a_circle_is_named_and_nothing_else_is() {
        let error = graph(&[("a", &["b"]), ("b", &["a"]), ("c", &[])]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "these workspaces wait for each other, so none can begin: default/a, default/b"
        );
    }

    #[test]
    fn what_is_not_part_of_the_work_is_not_waited_for() {
        let graph = graph(&[("a", &["elsewhere"])]).unwrap();
        assert_eq!(graph.order(), [key("a")]);
    }
}
