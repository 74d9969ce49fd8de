//! The tables of before.
//!
//! Where sandboxes come and go all the time, the operator and a router never have the same table at the same moment. But a
//! router that has an older one, in which a sandbox has the routes that it has now, sends its requests where they belong.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use super::Routes;

/// How many tables of a namespace are remembered. A router is hardly more than two or three behind.
const MOST: usize = 64;

/// The tables of before, by namespace, the newest first.
#[derive(Debug, Clone, Default)]
pub struct History(BTreeMap<String, Arc<Vec<Arc<Past>>>>);

/// One table of a namespace.
#[derive(Debug)]
struct Past {
    revision: String,
    /// Digests of the routes of each key.
    parts: HashSet<u64>,
}

impl History {
    /// The same with this table. Namespaces that are gone are forgotten.
    #[must_use]
    pub fn with(&self, routes: &Routes) -> Self {
        let one = |(namespace, revision): (&String, &String)| {
            let before = self.0.get(namespace).cloned().unwrap_or_default();
            let is_same = before.first().is_some_and(|it| it.revision == *revision);
            let now = if is_same { before } else { next(&before, namespace, revision, routes).into() };
            (namespace.clone(), now)
        };
        Self(routes.revisions.iter().map(one).collect())
    }

    /// Whether a key had these routes in a table.
    pub(super) fn had(&self, namespace: &str, revision: &str, part: u64) -> bool {
        let tables = self.0.get(namespace).into_iter().flat_map(|it| it.iter());
        tables.filter(|it| it.revision == revision).any(|it| it.parts.contains(&part))
    }
}

fn next(before: &[Arc<Past>], namespace: &str, revision: &str, routes: &Routes) -> Vec<Arc<Past>> {
    let parts = routes.owners.values().filter_map(|it| it.parts.get(namespace).copied()).collect();
    let newest = Arc::new(Past { revision: revision.to_owned(), parts });
    let others = before.iter().filter(|it| it.revision != revision).take(MOST - 1).cloned();
    [newest].into_iter().chain(others).collect()
}
