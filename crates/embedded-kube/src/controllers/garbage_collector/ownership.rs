//! Ownership data of an object: its identity, owner references and deletion state.

use serde::Deserialize;
use serde_json::Value;

use crate::object::Document;

/// Finalizer that waits until the dependents are deleted.
pub const FOREGROUND_FINALIZER: &str = "foregroundDeletion";
/// Finalizer that waits until the dependents are orphaned.
pub const ORPHAN_FINALIZER: &str = "orphan";

/// Identity of an object. The order defines in which order conflicting claims about one uid are tried.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectIdentity {
    /// Kind.
    pub kind: String,
    /// `group/version`.
    pub api_version: String,
    /// Namespace; empty if it has none.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Uid.
    pub uid: String,
}

/// An entry of `metadata.ownerReferences`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnerRef {
    /// `group/version`.
    #[serde(default)]
    pub api_version: String,
    /// Kind.
    #[serde(default)]
    pub kind: String,
    /// Name.
    #[serde(default)]
    pub name: String,
    /// Uid.
    #[serde(default)]
    pub uid: String,
    /// `blockOwnerDeletion`.
    #[serde(default, rename = "blockOwnerDeletion")]
    pub is_blocking: bool,
    /// `controller`.
    #[serde(default, rename = "controller")]
    pub is_controller: bool,
}

/// Ownership data of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectOwnership {
    /// Identity.
    pub identity: ObjectIdentity,
    /// Its resourceVersion.
    pub resource_version: String,
    /// Owner references.
    pub owners: Vec<OwnerRef>,
    /// It is being deleted.
    pub is_terminating: bool,
    /// It has the finalizer [`FOREGROUND`].
    pub has_foreground_finalizer: bool,
    /// It has the finalizer [`ORPHAN`].
    pub has_orphan_finalizer: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stub {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    metadata: StubMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StubMeta {
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    uid: String,
    #[serde(default)]
    resource_version: String,
    #[serde(default)]
    deletion_timestamp: Option<String>,
    #[serde(default)]
    finalizers: Vec<String>,
    #[serde(default)]
    owner_references: Vec<OwnerRef>,
}

impl OwnerRef {
    /// Identity of the owner, assuming that the reference is valid and the owner is namespaced.
    pub fn identity_in(&self, namespace: &str) -> ObjectIdentity {
        ObjectIdentity {
            kind: self.kind.clone(),
            api_version: self.api_version.clone(),
            namespace: namespace.to_owned(),
            name: self.name.clone(),
            uid: self.uid.clone(),
        }
    }

    /// Compares everything but the namespace, which a reference does not have.
    pub fn matches(&self, owner: &ObjectIdentity) -> bool {
        self.uid == owner.uid
            && self.api_version == owner.api_version
            && self.kind == owner.kind
            && self.name == owner.name
    }
}

impl std::fmt::Display for ObjectIdentity {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { kind, api_version, namespace, name, uid } = self;
        write!(out, "[{api_version}/{kind}, namespace: {namespace}, name: {name}, uid: {uid}]")
    }
}

impl ObjectOwnership {
    /// From a stored object; only its type and metadata are parsed.
    pub fn from_document(document: &Document) -> Option<Self> {
        Self::from_stub(serde_json::from_slice(document.bytes()).ok()?)
    }

    /// From an API response.
    pub fn from_value(object: &Value) -> Option<Self> {
        Self::from_stub(Stub::deserialize(object).ok()?)
    }

    fn from_stub(stub: Stub) -> Option<Self> {
        let Stub { api_version, kind, metadata } = stub;
        if metadata.uid.is_empty() {
            return None;
        }
        let has = |finalizer: &str| metadata.finalizers.iter().any(|one| one == finalizer);
        Some(Self {
            has_foreground_finalizer: has(FOREGROUND_FINALIZER),
            has_orphan_finalizer: has(ORPHAN_FINALIZER),
            is_terminating: metadata.deletion_timestamp.is_some(),
            owners: metadata.owner_references,
            resource_version: metadata.resource_version,
            identity: ObjectIdentity {
                kind,
                api_version,
                namespace: metadata.namespace,
                name: metadata.name,
                uid: metadata.uid,
            },
        })
    }
}
