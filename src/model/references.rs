//! References to other objects, with their namespace filled in.

use std::fmt;

use crate::api;

use super::{
    problem::{Path, Problems},
    text::{Namespace, ObjectName, Parse as _},
};

/// The namespace of objects that name none.
pub const DEFAULT_NAMESPACE: &str = "default";

/// A namespaced object by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// Its namespace.
    pub namespace: Namespace,
    /// Its name.
    pub name: ObjectName,
}

impl ObjectKey {
    /// Parses both parts.
    pub fn parse(namespace: &str, name: &str) -> Result<Self, super::text::Malformed> {
        Ok(Self { namespace: Namespace::parse(namespace)?, name: ObjectName::parse(name)? })
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// One key of a `ConfigMap` or Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataKey {
    /// The object.
    pub object: ObjectKey,
    /// The key in it.
    pub key: String,
}

pub(super) fn key(
    path: &Path<'_>,
    namespace: &str,
    name: &str,
    problems: &mut Problems,
) -> Option<ObjectKey> {
    let namespace = problems.parse(&path.field("namespace"), namespace);
    let name = problems.parse(&path.field("name"), name);
    Some(ObjectKey { namespace: namespace?, name: name? })
}

/// The template a reference names; `home` is the namespace of the referring object.
pub(super) fn template(
    path: &Path<'_>,
    reference: &api::TemplateRef,
    home: &Namespace,
    problems: &mut Problems,
) -> Option<ObjectKey> {
    // Go clients write an empty namespace where there is none.
    let namespace = reference.namespace.as_deref().filter(|it| !it.is_empty()).unwrap_or(home.as_str());
    key(path, namespace, &reference.name, problems)
}

pub(super) fn secret(
    path: &Path<'_>,
    reference: &api::SecretRef,
    problems: &mut Problems,
) -> Option<ObjectKey> {
    key(path, &reference.namespace, &reference.name, problems)
}

pub(super) fn data_key(path: &Path<'_>, reference: &api::KeyRef, problems: &mut Problems) -> Option<DataKey> {
    let object = key(path, &reference.namespace, &reference.name, problems);
    if reference.key.is_empty() {
        problems.add(&path.field("key"), "must not be empty", "name a key of the object");
        return None;
    }
    Some(DataKey { object: object?, key: reference.key.clone() })
}

pub(super) fn identity(
    path: &Path<'_>,
    reference: Option<&api::IdentityRef>,
    problems: &mut Problems,
) -> Option<ObjectName> {
    reference.and_then(|it| problems.parse(&path.field("name"), &it.name))
}
