//! Read access to the stored objects that authentication and authorization depend on.

use std::sync::Arc;

use serde_json::Value;

use crate::object::Document;

/// Source of service accounts and RBAC objects.
pub trait ObjectReader: Send + Sync {
    /// Reads one object by its storage key.
    fn get(&self, key: &str) -> Option<Value>;
    /// Lists the objects under a prefix: key, revision, bytes.
    fn list(&self, prefix: &str) -> Vec<(Arc<str>, u64, Document)>;
    /// Newest revision: unchanged means that no object has changed.
    fn revision(&self) -> u64;
}
