//! Membership of objects in a Cluster, by owner reference or cluster name label. Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::cluster::{cluster_name_label, owner_cluster_ref};

/// The Cluster that an object belongs to. It need not exist any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwningCluster {
    /// Namespace of the Cluster and its objects.
    pub namespace: String,
    /// Name of the Cluster.
    pub name: String,
    /// UID, known only from an owner reference.
    uid: Option<String>,
}

impl OwningCluster {
    /// From the owner reference of an object, else from its cluster name label.
    pub fn from_metadata(meta: &ObjectMeta) -> Option<Self> {
        let namespace = meta.namespace.clone().unwrap_or_default();
        if let Some(owner) = owner_cluster_ref(meta) {
            return Some(Self { namespace, name: owner.name.clone(), uid: Some(owner.uid.clone()) });
        }
        cluster_name_label(meta).map(|name| Self { namespace, name: name.to_owned(), uid: None })
    }

    /// Whether another object belongs to the same Cluster.
    pub fn owns(&self, meta: &ObjectMeta) -> bool {
        if meta.namespace.as_deref() != Some(&self.namespace) {
            return false;
        }
        let by_owner = owner_cluster_ref(meta)
            .is_some_and(|it| self.uid.as_ref() == Some(&it.uid) || it.name == self.name);
        by_owner || cluster_name_label(meta) == Some(&self.name)
    }

    /// Whether `cluster` is this Cluster.
    pub fn refers_to(&self, cluster: &ObjectMeta) -> bool {
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
        let family = OwningCluster::from_metadata(&meta(&owned("demo", "u1"))).unwrap();
        assert!(family.owns(&meta(&owned("demo", "u1"))));
        assert!(family.owns(&meta(&labelled("demo"))));
        assert!(family.owns(&meta(&owned("demo", "u0"))), "a Cluster that was restored has another uid");
        assert!(!family.owns(&meta(&owned("other", "u2"))));
        assert!(!family.owns(&meta(&labelled("other"))));
        assert!(!family.owns(&meta(&json!({}))));
        assert_eq!(OwningCluster::from_metadata(&meta(&labelled("demo"))).unwrap().name, "demo");
        assert_eq!(OwningCluster::from_metadata(&meta(&json!({}))), None);
    }

    #[test]
    fn the_same_name_in_another_namespace_is_another_cluster() {
        let family = OwningCluster::from_metadata(&meta(&labelled("demo"))).unwrap();
        let mut there = meta(&labelled("demo"));
        there.namespace = Some("other".to_owned());
        assert!(!family.owns(&there));
    }
}
