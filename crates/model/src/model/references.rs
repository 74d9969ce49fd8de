//! References to other objects, with defaulted namespaces.

use std::fmt;

use capt_kinds::api;

use super::{
    newtypes::{Namespace, ObjectName, Parse as _},
    problem::{FieldPath, Problems},
};

/// Namespace of objects without one.
pub const DEFAULT_NAMESPACE: &str = "default";

/// Namespace and name of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// Its namespace.
    pub namespace: Namespace,
    /// Its name.
    pub name: ObjectName,
}

impl ObjectKey {
    /// Parses both parts.
    pub fn parse(namespace: &str, name: &str) -> Result<Self, super::newtypes::MalformedText> {
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

pub(super) fn check_key(
    path: &FieldPath<'_>,
    namespace: &str,
    name: &str,
    problems: &mut Problems,
) -> Option<ObjectKey> {
    let namespace = problems.parse(&path.field("namespace"), namespace);
    let name = problems.parse(&path.field("name"), name);
    Some(ObjectKey { namespace: namespace?, name: name? })
}

/// Resolves a template reference; `home` is the namespace of the referring object.
pub(super) fn check_template(
    path: &FieldPath<'_>,
    reference: &api::TemplateRef,
    home: &Namespace,
    problems: &mut Problems,
) -> Option<ObjectKey> {
    // Go clients send an empty namespace instead of omitting it.
    let namespace = reference.namespace.as_deref().filter(|it| !it.is_empty()).unwrap_or(home.as_str());
    check_key(path, namespace, &reference.name, problems)
}

pub(super) fn check_secret(
    path: &FieldPath<'_>,
    reference: &api::SecretRef,
    problems: &mut Problems,
) -> Option<ObjectKey> {
    check_key(path, &reference.namespace, &reference.name, problems)
}

pub(super) fn check_data_key(
    path: &FieldPath<'_>,
    reference: &api::KeyRef,
    problems: &mut Problems,
) -> Option<DataKey> {
    let object = check_key(path, &reference.namespace, &reference.name, problems);
    if reference.key.is_empty() {
        problems.add(&path.field("key"), "must not be empty", "use a key of the object");
        return None;
    }
    Some(DataKey { object: object?, key: reference.key.clone() })
}

pub(super) fn check_identity(
    path: &FieldPath<'_>,
    reference: Option<&api::IdentityRef>,
    problems: &mut Problems,
) -> Option<ObjectName> {
    reference.and_then(|it| problems.parse(&path.field("name"), &it.name))
}
