//! Dependency graph of workspaces. Pure: no I/O.

use std::collections::{BTreeMap, BTreeSet};

use capt_model::workspaces::WorkspaceKey;
use thiserror::Error;

/// Workspaces that form a dependency cycle.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("dependency cycle between workspaces: {}", names(.0))]
pub struct DependencyCycle(BTreeSet<WorkspaceKey>);

fn names(keys: &BTreeSet<WorkspaceKey>) -> String {
    keys.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Dependencies by workspace; acyclic.
#[derive(Debug, Clone, Default)]
pub struct DependencyGraph {
    dependencies: BTreeMap<WorkspaceKey, BTreeSet<WorkspaceKey>>,
}

impl DependencyGraph {
    /// Builds the graph. A dependency that is not a node counts as satisfied.
    pub fn new(
        nodes: impl IntoIterator<Item = (WorkspaceKey, BTreeSet<WorkspaceKey>)>,
    ) -> Result<Self, DependencyCycle> {
        let mut after: BTreeMap<WorkspaceKey, BTreeSet<WorkspaceKey>> = nodes.into_iter().collect();
        let known: BTreeSet<WorkspaceKey> = after.keys().cloned().collect();
        for needs in after.values_mut() {
            needs.retain(|need| known.contains(need));
        }
        let graph = Self { dependencies: after };
        graph.check_acyclic()?;
        Ok(graph)
    }

    /// The graph with all edges reversed, for a destroy.
    #[must_use]
    pub fn reversed(&self) -> Self {
        let mut after: BTreeMap<WorkspaceKey, BTreeSet<WorkspaceKey>> =
            self.dependencies.keys().map(|key| (key.clone(), BTreeSet::new())).collect();
        for (key, needs) in &self.dependencies {
            for need in needs {
                after.entry(need.clone()).or_default().insert(key.clone());
            }
        }
        Self { dependencies: after }
    }

    /// Direct dependencies of `key`.
    pub fn dependencies_of(&self, key: &WorkspaceKey) -> BTreeSet<WorkspaceKey> {
        self.dependencies.get(key).cloned().unwrap_or_default()
    }

    /// All workspaces in topological order.
    pub fn topological_order(&self) -> Vec<WorkspaceKey> {
        let mut order = Vec::new();
        let mut done = BTreeSet::new();
        while let Some(next) = self.next_ready(&done) {
            done.insert(next.clone());
            order.push(next);
        }
        order
    }

    fn next_ready(&self, done: &BTreeSet<WorkspaceKey>) -> Option<WorkspaceKey> {
        let free = |(key, needs): &(&WorkspaceKey, &BTreeSet<WorkspaceKey>)| {
            !done.contains(*key) && needs.is_subset(done)
        };
        self.dependencies.iter().find(free).map(|(key, _)| key.clone())
    }

    fn check_acyclic(&self) -> Result<(), DependencyCycle> {
        let order: BTreeSet<WorkspaceKey> = self.topological_order().into_iter().collect();
        let stuck: BTreeSet<WorkspaceKey> =
            self.dependencies.keys().filter(|key| !order.contains(*key)).cloned().collect();
        if stuck.is_empty() { Ok(()) } else { Err(DependencyCycle(stuck)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> WorkspaceKey {
        WorkspaceKey::new("default", name)
    }

    fn graph(edges: &[(&str, &[&str])]) -> Result<DependencyGraph, DependencyCycle> {
        DependencyGraph::new(
            edges.iter().map(|(name, needs)| (key(name), needs.iter().map(|need| key(need)).collect())),
        )
    }

    #[test]
    fn what_is_needed_comes_first_and_goes_last() {
        let graph = graph(&[("profile", &["eks", "vpc"]), ("eks", &["vpc"]), ("vpc", &[])]).unwrap();
        assert_eq!(graph.topological_order(), [key("vpc"), key("eks"), key("profile")]);
        assert_eq!(graph.reversed().topological_order(), [key("profile"), key("eks"), key("vpc")]);
    }

    #[test]
    fn a_circle_is_named_and_nothing_else_is() {
        let error = graph(&[("a", &["b"]), ("b", &["a"]), ("c", &[])]).unwrap_err();
        assert_eq!(error.to_string(), "dependency cycle between workspaces: default/a, default/b");
    }

    #[test]
    fn what_is_not_part_of_the_work_is_not_waited_for() {
        let graph = graph(&[("a", &["elsewhere"])]).unwrap();
        assert_eq!(graph.topological_order(), [key("a")]);
    }
}
