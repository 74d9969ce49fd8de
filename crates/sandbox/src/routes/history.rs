//! History of route tables.
//!
//! With frequent changes, the operator and a router rarely have the same table at the same time. A router with an older table in
//! which a Sandbox has its current routes still routes the requests of that Sandbox correctly.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use super::Routes;

/// Number of tables kept per namespace. A router is rarely more than two or three behind.
const MAX_TABLES: usize = 64;

/// Earlier tables by namespace, newest first.
#[derive(Debug, Clone, Default)]
pub struct TableHistory(BTreeMap<String, Arc<Vec<Arc<PastTable>>>>);

/// One table of a namespace.
#[derive(Debug)]
struct PastTable {
    revision: String,
    /// Digests of the routes of each key.
    key_digests: HashSet<u64>,
}

impl TableHistory {
    /// The history with this table added. Drops deleted namespaces.
    #[must_use]
    pub fn with(&self, routes: &Routes) -> Self {
        let one = |(namespace, revision): (&String, &String)| {
            let before = self.0.get(namespace).cloned().unwrap_or_default();
            let is_same = before.first().is_some_and(|it| it.revision == *revision);
            let now = if is_same { before } else { push_table(&before, namespace, revision, routes).into() };
            (namespace.clone(), now)
        };
        Self(routes.revisions.iter().map(one).collect())
    }

    /// Whether a table contained routes with this digest.
    pub(super) fn had_routes(&self, namespace: &str, revision: &str, part: u64) -> bool {
        let tables = self.0.get(namespace).into_iter().flat_map(|it| it.iter());
        tables.filter(|it| it.revision == revision).any(|it| it.key_digests.contains(&part))
    }
}

fn push_table(
    before: &[Arc<PastTable>],
    namespace: &str,
    revision: &str,
    routes: &Routes,
) -> Vec<Arc<PastTable>> {
    let parts =
        routes.owners.values().filter_map(|it| it.namespace_digests.get(namespace).copied()).collect();
    let newest = Arc::new(PastTable { revision: revision.to_owned(), key_digests: parts });
    let others = before.iter().filter(|it| it.revision != revision).take(MAX_TABLES - 1).cloned();
    [newest].into_iter().chain(others).collect()
}
