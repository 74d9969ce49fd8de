//! The few stored objects that decisions rest on, read without a verb.

use std::sync::Arc;

use serde_json::Value;

use crate::object::Document;

/// Where service accounts and RBAC objects come from.
pub trait Objects: Send + Sync {
    /// One object by its key in the store.
    fn get(&self, key: &str) -> Option<Value>;
    /// Every object under a prefix: key, revision, bytes.
    fn list(&self, prefix: &str) -> Vec<(Arc<str>, u64, Document)>;
    /// Newest revision: while it stands still, nothing has changed.
    fn revision(&self) -> u64;
}
