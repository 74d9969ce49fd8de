//! Who reads what: when a template, a Secret, a `ConfigMap` or an identity changes, the workspaces that read it are
//! looked at again.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, PoisonError, RwLock},
};

use crate::blueprint::Key;

/// Something that a workspace reads.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    /// Its kind.
    pub kind: TargetKind,
    /// Its namespace; empty for an identity.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// The kinds that workspaces read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TargetKind {
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
}

impl Target {
    /// Of its parts.
    pub fn new(kind: TargetKind, namespace: &str, name: &str) -> Self {
        Self { kind, namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

/// Readers by what they read. Keys are those of objects, not of workspaces.
#[derive(Debug, Clone, Default)]
pub struct Index {
    inner: Arc<RwLock<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    readers: BTreeMap<Target, BTreeSet<Key>>,
    reads: BTreeMap<Key, BTreeSet<Target>>,
}

impl Index {
    /// Adds to what an object is known to read.
    pub fn add(&self, reader: &Key, target: &Target) {
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        if inner.reads.entry(reader.clone()).or_default().insert(target.clone()) {
            inner.readers.entry(target.clone()).or_default().insert(reader.clone());
        }
    }

    /// Replaces what an object is known to read.
    pub fn set(&self, reader: &Key, reads: BTreeSet<Target>) {
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

    /// Forgets an object that is gone.
    pub fn remove(&self, reader: &Key) {
        self.set(reader, BTreeSet::new());
        self.inner.write().unwrap_or_else(PoisonError::into_inner).reads.remove(reader);
    }

    /// Who reads it.
    pub fn readers(&self, target: &Target) -> Vec<Key> {
        let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        inner.readers.get(target).map(|readers| readers.iter().cloned().collect()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(name: &str) -> Target {
        Target::new(TargetKind::Secret, "default", name)
    }

    #[test]
    fn readers_are_found_until_they_read_something_else() {
        let (index, reader) = (Index::default(), Key::new("default", "demo"));
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
