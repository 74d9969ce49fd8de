//! The name of a workspace.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The name of a workspace; also its place: `DATA/workspaces/<namespace>/<name>`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Key {
    /// The namespace of its object.
    pub namespace: String,
    /// Its own name, as upstream derives it.
    pub name: String,
}

impl Key {
    /// A key from its two parts.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
