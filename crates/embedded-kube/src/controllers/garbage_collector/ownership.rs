//! What the collector wants to know of an object: where it is, who owns it, whether it goes.

use serde::Deserialize;
use serde_json::Value;

use crate::object::Document;

/// Waits until the dependents are gone.
pub const FOREGROUND: &str = "foregroundDeletion";
/// Waits until the dependents are let go.
pub const ORPHAN: &str = "orphan";

/// Where an object is, in the order in which claims about one uid are tried.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
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

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Where it is.
    pub identity: Identity,
    /// Its resourceVersion.
    pub resource_version: String,
    /// Who owns it.
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
    /// Where the owner is, if the reference is right and the owner lives in a namespace.
    pub fn claimed_in(&self, namespace: &str) -> Identity {
        Identity {
            kind: self.kind.clone(),
            api_version: self.api_version.clone(),
            namespace: namespace.to_owned(),
            name: self.name.clone(),
            uid: self.uid.clone(),
        }
    }

    /// All but the namespace, which a reference does not have.
    pub fn matches(&self, owner: &Identity) -> bool {
        self.uid == owner.uid
            && self.api_version == owner.api_version
            && self.kind == owner.kind
            && self.name == owner.name
    }
}

impl std::fmt::Display for Identity {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { kind, api_version, namespace, name, uid } = self;
        write!(out, "[{api_version}/{kind}, namespace: {namespace}, name: {name}, uid: {uid}]")
    }
}

impl Facts {
    /// Of a stored object; nothing but its type and metadata is looked at.
    pub fn of_document(document: &Document) -> Option<Self> {
        Self::from_stub(serde_json::from_slice(document.bytes()).ok()?)
    }

    /// Of an object that the API gave.
    pub fn of_value(object: &Value) -> Option<Self> {
        Self::from_stub(Stub::deserialize(object).ok()?)
    }

    fn from_stub(stub: Stub) -> Option<Self> {
        let Stub { api_version, kind, metadata } = stub;
        if metadata.uid.is_empty() {
            return None;
        }
        let has = |finalizer: &str| metadata.finalizers.iter().any(|one| one == finalizer);
        Some(Self {
            has_foreground_finalizer: has(FOREGROUND),
            has_orphan_finalizer: has(ORPHAN),
            is_terminating: metadata.deletion_timestamp.is_some(),
            owners: metadata.owner_references,
            resource_version: metadata.resource_version,
            identity: Identity {
                kind,
                api_version,
                namespace: metadata.namespace,
                name: metadata.name,
                uid: metadata.uid,
            },
        })
    }
}
