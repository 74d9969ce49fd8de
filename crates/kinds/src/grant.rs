//! Access across namespaces: the only place that grants it.
//!
//! A reference makes the operator act with its own permissions on behalf of the reference's author, so the target decides who may
//! refer to it. Within a namespace that is everybody. An object of another namespace, or that namespace, must list the author's
//! namespace in the annotation [`ALLOW_REFERENCES_ANNOTATION`]. Nothing grants the right to write a Secret of another namespace.
//!
//! A [`Granted`] value is the proof of such a check. It has no other constructor than the functions of this module, and whoever
//! uses a referenced object takes a [`Granted`] one, so that a missing check does not compile. Check the final reference, after
//! placeholders are filled.

use std::{collections::BTreeMap, ops::Deref};

use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{Resource, ResourceExt as _};

use crate::api::{
    SecretRef,
    names::{ALLOW_REFERENCES_ANNOTATION, ALLOW_WRITE_ANNOTATION},
};

type Annotations = BTreeMap<String, String>;

/// Something that its reader or writer was granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Granted<T>(T);

impl<T> Granted<T> {
    /// Gives up the proof.
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> Deref for Granted<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// Grants the use of an object to objects in namespace `from`. `home` is the namespace of the target, if it could be read.
pub fn reference<K>(from: &str, target: K, home: Option<&Namespace>) -> Option<Granted<K>>
where
    K: Resource,
{
    is_granted(from, &target, home).then_some(Granted(target))
}

/// Like [`reference`], for a borrowed object.
pub fn borrowed_reference<'a, K>(
    from: &str,
    target: &'a K,
    home: Option<&Namespace>,
) -> Option<Granted<&'a K>>
where
    K: Resource,
{
    is_granted(from, target, home).then_some(Granted(target))
}

fn is_granted<K: Resource>(from: &str, target: &K, home: Option<&Namespace>) -> bool {
    let Some(namespace) = target.meta().namespace.as_deref() else { return false };
    allows(target.meta().annotations.as_ref(), from) || is_namespace_granted(from, namespace, home)
}

/// Whether everything in a namespace is granted to objects in namespace `from`: it is the same, or is annotated so. Only then
/// `from` may learn that an object does not exist there.
pub fn is_namespace_granted(from: &str, namespace: &str, home: Option<&Namespace>) -> bool {
    let described = home.filter(|home| home.meta().name.as_deref() == Some(namespace));
    (from == namespace && !from.is_empty())
        || described.is_some_and(|home| allows(home.meta().annotations.as_ref(), from))
}

/// Whether these annotations, of an object or of its namespace, grant references from namespace `from`.
pub fn allows(annotations: Option<&Annotations>, from: &str) -> bool {
    lists(annotations, ALLOW_REFERENCES_ANNOTATION, from)
}

fn lists(annotations: Option<&Annotations>, name: &str, wanted: &str) -> bool {
    let list = annotations.and_then(|all| all.get(name));
    !wanted.is_empty()
        && list.is_some_and(|list| list.split(',').map(str::trim).any(|one| one == "*" || one == wanted))
}

/// Grants a workspace in namespace `from` to write a connection Secret: in its own namespace only. A workspace that may read
/// another namespace must not overwrite the credentials there.
pub fn connection_secret(from: &str, to: SecretRef) -> Option<Granted<SecretRef>> {
    (to.namespace == from && !from.is_empty()).then_some(Granted(to))
}

/// What an existing Secret allows a writer to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretClaim {
    /// The writer made it: its owner reference has the writer's uid.
    Owned,
    /// Its annotation lets the writer set keys. It keeps its owners, and does not get the writer as another one: it would be
    /// deleted together with the writer.
    Allowed,
}

/// What an existing Secret allows the writer with this name and uid to do; nothing if it was made by somebody else.
pub fn claim_secret(found: &Secret, (name, uid): (&str, &str)) -> Option<SecretClaim> {
    if found.owner_references().iter().any(|owner| owner.uid == uid && !uid.is_empty()) {
        return Some(SecretClaim::Owned);
    }
    lists(found.meta().annotations.as_ref(), ALLOW_WRITE_ANNOTATION, name).then_some(SecretClaim::Allowed)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn secret(metadata: &Value) -> Secret {
        serde_json::from_value(json!({ "metadata": metadata })).unwrap()
    }

    fn namespace(name: &str, list: &str) -> Namespace {
        let annotations = json!({ ALLOW_REFERENCES_ANNOTATION: list });
        serde_json::from_value(json!({"metadata": {"name": name, "annotations": annotations}})).unwrap()
    }

    fn allowing(list: &str) -> Secret {
        let annotations = json!({ ALLOW_REFERENCES_ANNOTATION: list });
        secret(&json!({"name": "it", "namespace": "team-b", "annotations": annotations}))
    }

    #[test]
    fn a_namespace_is_granted_by_its_name_or_by_a_star() {
        for (list, expected) in [
            ("team-a", true),
            ("team-b, team-a ,team-c", true),
            ("*", true),
            ("team-b,*", true),
            ("", false),
            ("team-b", false),
            ("team-ab", false),
            ("team-*", false),
            (",", false),
        ] {
            assert_eq!(reference("team-a", allowing(list), None).is_some(), expected, "{list:?}");
            let home = namespace("team-b", list);
            assert_eq!(reference("team-a", allowing(""), Some(&home)).is_some(), expected, "{list:?}");
        }
        assert!(reference("", allowing("*"), None).is_none(), "nobody is not somebody");
    }

    #[test]
    fn the_own_namespace_needs_no_grant_and_another_namespace_gives_none() {
        assert!(reference("team-b", allowing(""), None).is_some());
        let other = namespace("team-c", "*");
        assert!(reference("team-a", allowing(""), Some(&other)).is_none());
        assert!(reference("team-a", secret(&json!({"name": "nowhere"})), Some(&other)).is_none());
    }

    #[test]
    fn c3_no_grant_lets_a_secret_of_another_namespace_be_written() {
        let to = |namespace: &str| SecretRef { name: "aws-keys".into(), namespace: namespace.into() };
        assert!(connection_secret("team-a", to("team-a")).is_some());
        assert!(connection_secret("team-a", to("team-b")).is_none());
        assert!(connection_secret("", to("")).is_none());
    }

    #[test]
    fn l1_a_secret_without_an_owner_is_not_the_writers() {
        let table = [
            (json!({}), None),
            (json!({"ownerReferences": [owner("1")]}), Some(SecretClaim::Owned)),
            (json!({"ownerReferences": [owner("2")]}), None),
            (json!({"annotations": {ALLOW_WRITE_ANNOTATION: "vpc, other"}}), Some(SecretClaim::Allowed)),
            (json!({"annotations": {ALLOW_WRITE_ANNOTATION: "*"}}), Some(SecretClaim::Allowed)),
            (json!({"annotations": {ALLOW_WRITE_ANNOTATION: "vpc2"}}), None),
            (json!({"annotations": {ALLOW_REFERENCES_ANNOTATION: "*"}}), None),
        ];
        for (metadata, expected) in table {
            assert_eq!(claim_secret(&secret(&metadata), ("vpc", "1")), expected, "{metadata}");
        }
        assert_eq!(claim_secret(&secret(&json!({"ownerReferences": [owner("")]})), ("vpc", "")), None);
    }

    fn owner(uid: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "vpc", "uid": uid})
    }
}
