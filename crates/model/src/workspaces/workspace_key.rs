//! Namespace and name of a workspace.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Namespace and name of a workspace; its directory is `DATA/workspaces/<namespace>/<name>`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct WorkspaceKey {
    /// Namespace of its object.
    pub namespace: String,
    /// Name, derived as upstream does.
    pub name: String,
}

impl WorkspaceKey {
    /// Creates a key.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

impl fmt::Display for WorkspaceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
