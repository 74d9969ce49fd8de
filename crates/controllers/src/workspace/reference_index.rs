//! Reverse index of references: maps a template, Secret, `ConfigMap`, identity or workspace to the objects that read it,
//! so that a change triggers their reconcile.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, PoisonError, RwLock},
};

use capt_model::workspaces::WorkspaceKey;

/// An object that workspaces reference.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReferenceTarget {
    /// Its kind.
    pub kind: ReferenceKind,
    /// Its namespace; empty for an identity and for a namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// Kinds of referenced objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReferenceKind {
    /// A `WorkspaceTemplate`.
    Template,
    /// A Secret.
    Secret,
    /// A `ConfigMap`.
    ConfigMap,
    /// A `CAPTIdentity`.
    Identity,
    /// Another `WorkspaceTemplateApply`.
    Workspace,
    /// A Namespace, whose labels permit something.
    Namespace,
}

impl ReferenceTarget {
    /// Creates a target.
    pub fn new(kind: ReferenceKind, namespace: &str, name: &str) -> Self {
        Self { kind, namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

/// Readers by referenced object. The keys name `WorkspaceTemplateApply` objects, not workspaces.
#[derive(Debug, Clone, Default)]
pub struct ReferenceIndex {
    inner: Arc<RwLock<IndexState>>,
}

#[derive(Debug, Default)]
struct IndexState {
    readers: BTreeMap<ReferenceTarget, BTreeSet<WorkspaceKey>>,
    reads: BTreeMap<WorkspaceKey, BTreeSet<ReferenceTarget>>,
}

impl ReferenceIndex {
    /// Adds a reference of an object.
    pub fn add(&self, reader: &WorkspaceKey, target: &ReferenceTarget) {
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        if inner.reads.entry(reader.clone()).or_default().insert(target.clone()) {
            inner.readers.entry(target.clone()).or_default().insert(reader.clone());
        }
    }

    /// Replaces all references of an object.
    pub fn set(&self, reader: &WorkspaceKey, reads: BTreeSet<ReferenceTarget>) {
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        if inner.reads.get(reader) == Some(&reads) {
            return;
        }
        for gone in inner.reads.insert(reader.clone(), reads.clone()).unwrap_or_default() {
            if let Some(readers) = inner.readers.get_mut(&gone) {
                readers.remove(reader);
                if readers.is_empty() {
                    inner.readers.remove(&gone);
                }
            }
        }
        for target in reads {
            inner.readers.entry(target).or_default().insert(reader.clone());
        }
    }

    /// Removes a deleted object.
    pub fn remove(&self, reader: &WorkspaceKey) {
        self.set(reader, BTreeSet::new());
        self.inner.write().unwrap_or_else(PoisonError::into_inner).reads.remove(reader);
    }

    /// Objects that reference the target.
    pub fn readers(&self, target: &ReferenceTarget) -> Vec<WorkspaceKey> {
        let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        inner.readers.get(target).map(|readers| readers.iter().cloned().collect()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(name: &str) -> ReferenceTarget {
        ReferenceTarget::new(ReferenceKind::Secret, "default", name)
    }

    #[test]
    fn readers_are_found_until_they_read_something_else() {
        let (index, reader) = (ReferenceIndex::default(), WorkspaceKey::new("default", "demo"));
        index.set(&reader, BTreeSet::from([secret("a"), secret("b")]));
        assert_eq!(index.readers(&secret("a")), std::slice::from_ref(&reader));
        index.set(&reader, BTreeSet::from([secret("b")]));
        assert!(index.readers(&secret("a")).is_empty());
        assert_eq!(index.readers(&secret("b")), std::slice::from_ref(&reader));
        index.add(&reader, &secret("c"));
        assert_eq!(index.readers(&secret("c")), std::slice::from_ref(&reader));
        index.set(&reader, BTreeSet::from([secret("b")]));
        assert!(index.readers(&secret("c")).is_empty());
        index.remove(&reader);
        assert!(index.readers(&secret("b")).is_empty());
        assert!(index.inner.read().unwrap().readers.is_empty());
    }
}
