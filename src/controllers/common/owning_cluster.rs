//! Which objects belong to one Cluster. Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::cluster::{label, owner};

/// The Cluster that an object belongs to, whether or not it still exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Family {
    /// Namespace of all of them.
    pub namespace: String,
    /// Name of the Cluster.
    pub name: String,
    /// Its uid, if an owner reference tells.
    uid: Option<String>,
}

impl Family {
    /// Of an object, by its owner or else by its label.
    pub fn of(meta: &ObjectMeta) -> Option<Self> {
        let namespace = meta.namespace.clone().unwrap_or_default();
        if let Some(owner) = owner(meta) {
            return Some(Self { namespace, name: owner.name.clone(), uid: Some(owner.uid.clone()) });
        }
        label(meta).map(|name| Self { namespace, name: name.to_owned(), uid: None })
    }

    /// Whether another object belongs to the same Cluster.
    pub fn has(&self, meta: &ObjectMeta) -> bool {
        if meta.namespace.as_deref() != Some(&self.namespace) {
            return false;
        }
        let by_owner =
            owner(meta).is_some_and(|it| self.uid.as_ref() == Some(&it.uid) || it.name == self.name);
        by_owner || label(meta) == Some(&self.name)
    }

    /// Whether this is the Cluster itself.
    pub fn is(&self, cluster: &ObjectMeta) -> bool {
        cluster.namespace.as_deref() == Some(&self.namespace) && cluster.name.as_deref() == Some(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn meta(rest: &Value) -> ObjectMeta {
        let mut whole = json!({"name": "x", "namespace": "team"});
        whole.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        serde_json::from_value(whole).unwrap()
    }

    fn owned(name: &str, uid: &str) -> Value {
        json!({"ownerReferences": [{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": name, "uid": uid}]})
    }

    fn labelled(name: &str) -> Value {
        json!({"labels": {"cluster.x-k8s.io/cluster-name": name}})
    }

    #[test]
    fn owner_and_label_both_tell_the_family() {
        let family = Family::of(&meta(&owned("demo", "u1"))).unwrap();
        assert!(family.has(&meta(&owned("demo", "u1"))));
        assert!(family.has(&meta(&labelled("demo"))));
        assert!(family.has(&meta(&owned("demo", "u0"))), "a Cluster that was restored has another uid");
        assert!(!family.has(&meta(&owned("other", "u2"))));
        assert!(!family.has(&meta(&labelled("other"))));
        assert!(!family.has(&meta(&json!({}))));
        assert_eq!(Family::of(&meta(&labelled("demo"))).unwrap().name, "demo");
        assert_eq!(Family::of(&meta(&json!({}))), None);
    }

    #[test]
    fn the_same_name_in_another_namespace_is_another_cluster() {
        let family = Family::of(&meta(&labelled("demo"))).unwrap();
        let mut there = meta(&labelled("demo"));
        there.namespace = Some("other".to_owned());
        assert!(!family.has(&there));
    }
}
