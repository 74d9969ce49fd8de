//! The store and the verbs, as `front` and `auth` want to see them.

use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::Value;

use crate::{
    auth::Objects,
    failure::Answer,
    front::Backend,
    object::Document,
    registry::Registry,
    request::{Reply, Request},
    store::{Page, Store},
    verbs::Server,
};

impl Backend for Server {
    fn handle(&self, request: Request) -> BoxFuture<'_, Answer<Reply>> {
        Box::pin(Self::handle(self, request))
    }

    fn registry(&self) -> &Registry {
        Self::registry(self)
    }
}

impl Objects for Store {
    fn get(&self, key: &str) -> Option<Value> {
        Self::get(self, key).map(|entry| entry.document.value())
    }

    fn list(&self, prefix: &str) -> Vec<(Arc<str>, u64, Document)> {
        // Without an older revision to ask for, nothing can have expired.
        let snapshot = Self::list(self, prefix, &Page::default());
        let entries = snapshot.map(|snapshot| snapshot.entries).unwrap_or_default();
        entries.into_iter().map(|(key, entry)| (key, entry.revision, entry.document)).collect()
    }

    fn revision(&self) -> u64 {
        Self::revision(self)
    }
}
