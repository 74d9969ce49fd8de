//! An object that a Cluster references, read by the rules of the Cluster API contract. Pure: no I/O.

use capt_kinds::api::{FailureDomain, conditions::types, names};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{
    ResourceExt as _,
    api::{ApiResource, DynamicObject},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::cluster_types::{Cluster, ClusterEndpoint};

/// Which reference of the Cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReferenceRole {
    Infrastructure,
    ControlPlane,
}

impl ReferenceRole {
    /// JSON pointer to the latch in the object's status.
    const fn latch_path(self) -> &'static str {
        match self {
            Self::Infrastructure => "/status/initialization/provisioned",
            Self::ControlPlane => "/status/initialization/controlPlaneInitialized",
        }
    }

    /// The condition that the Cluster reflects.
    pub(super) const fn source_condition(self) -> &'static str {
        match self {
            Self::Infrastructure => types::READY,
            Self::ControlPlane => types::AVAILABLE,
        }
    }

    /// Word for a set latch, as Cluster API uses it in messages.
    pub(super) const fn latch_word(self) -> &'static str {
        match self {
            Self::Infrastructure => "provisioned",
            Self::ControlPlane => "initialized",
        }
    }
}

/// Result of resolving a reference.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ResolvedReference {
    /// The Cluster's spec has no such reference.
    NotSet,
    /// The referenced object does not exist.
    Missing {
        kind: String,
    },
    /// The kind is not installed or does not support the contract.
    UnsupportedKind {
        why: String,
    },
    Found(Box<ReferencedObject>),
}

/// A referenced object that exists.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ReferencedObject {
    pub(super) role: ReferenceRole,
    pub(super) resource: ApiResource,
    pub(super) object: DynamicObject,
}

impl ResolvedReference {
    pub(super) fn found(&self) -> Option<&ReferencedObject> {
        match self {
            Self::Found(thing) => Some(thing),
            Self::NotSet | Self::Missing { .. } | Self::UnsupportedKind { .. } => None,
        }
    }
}

impl ReferencedObject {
    pub(super) fn is_deleting(&self) -> bool {
        self.object.metadata.deletion_timestamp.is_some()
    }

    /// Value of the latch; an error if it is not a boolean.
    pub(super) fn read_latch(&self) -> Result<bool, String> {
        match self.object.data.pointer(self.role.latch_path()) {
            None | Some(Value::Null) => Ok(false),
            Some(Value::Bool(closed)) => Ok(*closed),
            Some(other) => {
                let path = self.role.latch_path().trim_start_matches('/').replace('/', ".");
                Err(format!("{} has {path} = {other}, which is not a boolean", self.resource.kind))
            }
        }
    }

    /// The API endpoint in the object's spec, if it is valid.
    pub(super) fn endpoint(&self) -> Option<ClusterEndpoint> {
        self.read_field::<ClusterEndpoint>("/spec/controlPlaneEndpoint").filter(ClusterEndpoint::is_valid)
    }

    /// Failure domains in the object's status.
    pub(super) fn failure_domains(&self) -> Vec<FailureDomain> {
        self.read_field("/status/failureDomains").unwrap_or_default()
    }

    /// The condition that the Cluster reflects; an error if it is malformed.
    pub(super) fn condition(&self) -> Option<Result<Condition, String>> {
        let all = self.object.data.pointer("/status/conditions")?.as_array()?;
        let type_ = self.role.source_condition();
        let one = all.iter().find(|it| it["type"] == type_)?;
        let known =
            one["status"].as_str().is_some_and(|status| matches!(status, "True" | "False" | "Unknown"));
        let read = serde_json::from_value::<Condition>(one.clone()).map_err(|error| error.to_string());
        Some(match read {
            Ok(condition) if known => Ok(condition),
            Ok(_) => Err(format!("condition {type_} of {} has no valid status", self.resource.kind)),
            Err(error) => Err(format!("condition {type_} of {} is malformed: {error}", self.resource.kind)),
        })
    }

    /// `failureReason` and `failureMessage` of contract v1beta1.
    pub(super) fn legacy_failure(&self) -> Option<Value> {
        let at = |path: &str| self.object.data.pointer(path).cloned();
        let (reason, message) = (at("/status/failureReason"), at("/status/failureMessage"));
        (reason.is_some() || message.is_some())
            .then(|| json!({"failureReason": reason, "failureMessage": message}))
    }

    /// Patch that sets the Cluster's owner reference and label; none if both are set.
    pub(super) fn ownership_patch(&self, cluster: &Cluster) -> Option<Value> {
        let uid = cluster.metadata.uid.clone().unwrap_or_default();
        let mut owners = self.object.metadata.owner_references.clone().unwrap_or_default();
        let mut before = owners.clone();
        owners.retain(|it| it.uid != uid);
        let owner = serde_json::from_value(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": cluster.name_any(), "uid": uid,
            "controller": false,
        }));
        owners.extend(owner.ok());
        // The order of owner references is irrelevant, and an absent `controller` means false.
        for one in &mut before {
            one.controller = Some(one.controller == Some(true));
        }
        let same_owner = owners.last().is_some_and(|owner| before.contains(owner));
        let label = self.object.labels().get(names::CLUSTER_NAME_LABEL) == cluster.metadata.name.as_ref();
        (!same_owner || !label).then(|| {
            json!({"metadata": {
                "resourceVersion": self.object.metadata.resource_version,
                "ownerReferences": owners,
                "labels": {names::CLUSTER_NAME_LABEL: cluster.name_any()},
            }})
        })
    }

    fn read_field<T: DeserializeOwned>(&self, path: &str) -> Option<T> {
        serde_json::from_value(self.object.data.pointer(path)?.clone()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capi_cluster::fixtures::{cluster, referenced_object};

    #[test]
    fn a_latch_that_is_no_truth_is_an_error() {
        let of = |latch: Value| {
            referenced_object(
                ReferenceRole::Infrastructure,
                json!({"status": {"initialization": {"provisioned": latch}}}),
            )
            .read_latch()
        };
        assert_eq!(of(json!(true)), Ok(true));
        assert_eq!(of(json!(false)), Ok(false));
        assert_eq!(of(Value::Null), Ok(false));
        assert!(of(json!("true")).is_err_and(|why| why.contains("status.initialization.provisioned")));
        assert_eq!(referenced_object(ReferenceRole::ControlPlane, json!({})).read_latch(), Ok(false));
    }

    #[test]
    fn an_endpoint_of_zeroes_is_none() {
        let of = |endpoint: Value| {
            referenced_object(
                ReferenceRole::ControlPlane,
                json!({"spec": {"controlPlaneEndpoint": endpoint}}),
            )
            .endpoint()
        };
        assert_eq!(of(json!({"host": "", "port": 0})), None);
        assert_eq!(
            of(json!({"host": "h", "port": 443})),
            Some(ClusterEndpoint { host: "h".to_owned(), port: 443 })
        );
        assert_eq!(of(json!("h:443")), None);
    }

    #[test]
    fn an_object_is_claimed_once_and_keeps_its_other_owners() {
        let stranger = json!({"apiVersion": "v1", "kind": "Secret", "name": "shim", "uid": "s1"});
        let free = referenced_object(
            ReferenceRole::Infrastructure,
            json!({"metadata": {"ownerReferences": [stranger], "labels": {"a": "b"}}}),
        );
        let claim = free.ownership_patch(&cluster(json!({}))).unwrap();
        let owners = claim["metadata"]["ownerReferences"].as_array().unwrap();
        assert_eq!(
            (owners.len(), &owners[1]["uid"], &owners[1]["controller"]),
            (2, &json!("u1"), &json!(false))
        );
        assert_eq!(claim["metadata"]["labels"], json!({"cluster.x-k8s.io/cluster-name": "demo"}));
        let claimed =
            referenced_object(ReferenceRole::Infrastructure, json!({"metadata": claim["metadata"]}));
        assert_eq!(claimed.ownership_patch(&cluster(json!({}))), None);
    }

    #[test]
    fn an_older_version_and_a_lost_label_are_put_right() {
        let owner = |version: &str| json!([{"apiVersion": format!("cluster.x-k8s.io/{version}"), "kind": "Cluster", "name": "demo", "uid": "u1"}]);
        let label = json!({"cluster.x-k8s.io/cluster-name": "demo"});
        let of = |owners: Value, labels: Value| {
            referenced_object(
                ReferenceRole::Infrastructure,
                json!({"metadata": {"ownerReferences": owners, "labels": labels}}),
            )
            .ownership_patch(&cluster(json!({})))
        };
        assert_eq!(of(owner("v1beta2"), label.clone()), None);
        assert!(of(owner("v1beta1"), label).is_some());
        assert!(of(owner("v1beta2"), json!({})).is_some());
    }

    #[test]
    fn a_condition_without_sense_is_told_as_such() {
        let of = |one: Value| {
            referenced_object(ReferenceRole::ControlPlane, json!({"status": {"conditions": [one]}}))
                .condition()
        };
        let whole = json!({"type": "Available", "status": "True", "reason": "Ok", "message": "", "lastTransitionTime": "2026-11-01T10:00:00Z"});
        assert!(of(whole).is_some_and(|it| it.is_ok_and(|it| it.reason == "Ok")));
        assert!(of(json!({"type": "Available", "reason": "Ok"})).is_some_and(|it| it.is_err()));
        assert!(of(json!({"type": "Ready", "status": "True"})).is_none());
    }
}
