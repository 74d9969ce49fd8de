//! Implements the interfaces of `http_server` and `auth` on the request handler and the store.

use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::Value;

use crate::{
    auth::ObjectReader,
    handlers::RequestHandler,
    http_server::Backend,
    object::Document,
    registry::Registry,
    request::{Reply, Request},
    status_error::ApiResult,
    store::{ListOptions, Store},
};

impl Backend for RequestHandler {
    fn handle(&self, request: Request) -> BoxFuture<'_, ApiResult<Reply>> {
        Box::pin(Self::handle(self, request))
    }

    fn registry(&self) -> &Registry {
        Self::registry(self)
    }
}

impl ObjectReader for Store {
    fn get(&self, key: &str) -> Option<Value> {
        Self::get(self, key).map(|entry| entry.document.value())
    }

    fn list(&self, prefix: &str) -> Vec<(Arc<str>, u64, Document)> {
        // A list of the current state cannot expire.
        let snapshot = Self::list(self, prefix, &ListOptions::default());
        let entries = snapshot.map(|snapshot| snapshot.entries).unwrap_or_default();
        entries.into_iter().map(|(key, entry)| (key, entry.revision, entry.document)).collect()
    }

    fn revision(&self) -> u64 {
        Self::revision(self)
    }
}
