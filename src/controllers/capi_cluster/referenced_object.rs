//! An object that a Cluster refers to, as the contract reads it. Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{
    ResourceExt as _,
    api::{ApiResource, DynamicObject},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::kind::{Cluster, Endpoint};
use crate::api::{FailureDomain, conditions::types, names};

/// Which of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Infrastructure,
    ControlPlane,
}

impl Role {
    /// The latch in the object's status.
    const fn latch(self) -> &'static str {
        match self {
            Self::Infrastructure => "/status/initialization/provisioned",
            Self::ControlPlane => "/status/initialization/controlPlaneInitialized",
        }
    }

    /// The condition that the Cluster reflects.
    pub(super) const fn source(self) -> &'static str {
        match self {
            Self::Infrastructure => types::READY,
            Self::ControlPlane => types::AVAILABLE,
        }
    }

    /// What was reached when the latch closed.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Infrastructure => "provisioned",
            Self::ControlPlane => "initialized",
        }
    }
}

/// What became of a reference.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Part {
    /// The Cluster names none.
    NotNamed,
    /// It is not there.
    Missing {
        kind: String,
    },
    /// Its kind cannot be worked with.
    Unusable {
        why: String,
    },
    Found(Box<Thing>),
}

/// An object that is there.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Thing {
    pub(super) role: Role,
    pub(super) kind: ApiResource,
    pub(super) object: DynamicObject,
}

impl Part {
    pub(super) fn thing(&self) -> Option<&Thing> {
        match self {
            Self::Found(thing) => Some(thing),
            Self::NotNamed | Self::Missing { .. } | Self::Unusable { .. } => None,
        }
    }
}

impl Thing {
    pub(super) fn is_going(&self) -> bool {
        self.object.metadata.deletion_timestamp.is_some()
    }

    /// The latch. A value that is no truth is an error.
    pub(super) fn latch(&self) -> Result<bool, String> {
        match self.object.data.pointer(self.role.latch()) {
            None | Some(Value::Null) => Ok(false),
            Some(Value::Bool(closed)) => Ok(*closed),
            Some(other) => {
                let path = self.role.latch().trim_start_matches('/').replace('/', ".");
                Err(format!("{} has {path} = {other}, which is neither true nor false", self.kind.kind))
            }
        }
    }

    /// Where the cluster's API answers, if it says so.
    pub(super) fn endpoint(&self) -> Option<Endpoint> {
        self.read::<Endpoint>("/spec/controlPlaneEndpoint").filter(Endpoint::is_valid)
    }

    /// The zones of the network.
    pub(super) fn failure_domains(&self) -> Vec<FailureDomain> {
        self.read("/status/failureDomains").unwrap_or_default()
    }

    /// The condition that the Cluster reflects; an error if it makes no sense.
    pub(super) fn condition(&self) -> Option<Result<Condition, String>> {
        let all = self.object.data.pointer("/status/conditions")?.as_array()?;
        let type_ = self.role.source();
        let one = all.iter().find(|it| it["type"] == type_)?;
        let known =
            one["status"].as_str().is_some_and(|status| matches!(status, "True" | "False" | "Unknown"));
        let read = serde_json::from_value::<Condition>(one.clone()).map_err(|error| error.to_string());
        Some(match read {
            Ok(condition) if known => Ok(condition),
            Ok(_) => Err(format!("the condition {type_} of {} has no status", self.kind.kind)),
            Err(error) => Err(format!("the condition {type_} of {} makes no sense: {error}", self.kind.kind)),
        })
    }

    /// The failure that it tells to people.
    pub(super) fn failure(&self) -> Option<Value> {
        let at = |path: &str| self.object.data.pointer(path).cloned();
        let (reason, message) = (at("/status/failureReason"), at("/status/failureMessage"));
        (reason.is_some() || message.is_some())
            .then(|| json!({"failureReason": reason, "failureMessage": message}))
    }

    /// What must be written so that it belongs to a Cluster, exactly; none if it does.
    pub(super) fn claim(&self, cluster: &Cluster) -> Option<Value> {
        let uid = cluster.metadata.uid.clone().unwrap_or_default();
        let mut owners = self.object.metadata.owner_references.clone().unwrap_or_default();
        let mut before = owners.clone();
        owners.retain(|it| it.uid != uid);
        let owner = serde_json::from_value(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": cluster.name_any(), "uid": uid,
            "controller": false,
        }));
        owners.extend(owner.ok());
        // The order of others does not matter, and an absent word means no.
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

    fn read<T: DeserializeOwned>(&self, path: &str) -> Option<T> {
        serde_json::from_value(self.object.data.pointer(path)?.clone()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::standalone::fixtures::{cluster, thing};

    #[test]
    fn a_latch_that_is_no_truth_is_an_error() {
        let of = |latch: Value| {
            thing(Role::Infrastructure, json!({"status": {"initialization": {"provisioned": latch}}})).latch()
        };
        assert_eq!(of(json!(true)), Ok(true));
        assert_eq!(of(json!(false)), Ok(false));
        assert_eq!(of(Value::Null), Ok(false));
        assert!(of(json!("true")).is_err_and(|why| why.contains("status.initialization.provisioned")));
        assert_eq!(thing(Role::ControlPlane, json!({})).latch(), Ok(false));
    }

    #[test]
    fn an_endpoint_of_zeroes_is_none() {
        let of = |endpoint: Value| {
            thing(Role::ControlPlane, json!({"spec": {"controlPlaneEndpoint": endpoint}})).endpoint()
        };
        assert_eq!(of(json!({"host": "", "port": 0})), None);
        assert_eq!(of(json!({"host": "h", "port": 443})), Some(Endpoint { host: "h".to_owned(), port: 443 }));
        assert_eq!(of(json!("h:443")), None);
    }

    #[test]
    fn an_object_is_claimed_once_and_keeps_its_other_owners() {
        let stranger = json!({"apiVersion": "v1", "kind": "Secret", "name": "shim", "uid": "s1"});
        let free = thing(
            Role::Infrastructure,
            json!({"metadata": {"ownerReferences": [stranger], "labels": {"a": "b"}}}),
        );
        let claim = free.claim(&cluster(json!({}))).unwrap();
        let owners = claim["metadata"]["ownerReferences"].as_array().unwrap();
        assert_eq!(
            (owners.len(), &owners[1]["uid"], &owners[1]["controller"]),
            (2, &json!("u1"), &json!(false))
        );
        assert_eq!(claim["metadata"]["labels"], json!({"cluster.x-k8s.io/cluster-name": "demo"}));
        let claimed = thing(Role::Infrastructure, json!({"metadata": claim["metadata"]}));
        assert_eq!(claimed.claim(&cluster(json!({}))), None);
    }

    #[test]
    fn an_older_version_and_a_lost_label_are_put_right() {
        let owner = |version: &str| json!([{"apiVersion": format!("cluster.x-k8s.io/{version}"), "kind": "Cluster", "name": "demo", "uid": "u1"}]);
        let label = json!({"cluster.x-k8s.io/cluster-name": "demo"});
        let of = |owners: Value, labels: Value| {
            thing(Role::Infrastructure, json!({"metadata": {"ownerReferences": owners, "labels": labels}}))
                .claim(&cluster(json!({})))
        };
        assert_eq!(of(owner("v1beta2"), label.clone()), None);
        assert!(of(owner("v1beta1"), label).is_some());
        assert!(of(owner("v1beta2"), json!({})).is_some());
    }

    #[test]
    fn a_condition_without_sense_is_told_as_such() {
        let of = |one: Value| thing(Role::ControlPlane, json!({"status": {"conditions": [one]}})).condition();
        let whole = json!({"type": "Available", "status": "True", "reason": "Ok", "message": "", "lastTransitionTime": "2026-11-01T10:00:00Z"});
        assert!(of(whole).is_some_and(|it| it.is_ok_and(|it| it.reason == "Ok")));
        assert!(of(json!({"type": "Available", "reason": "Ok"})).is_some_and(|it| it.is_err()));
        assert!(of(json!({"type": "Ready", "status": "True"})).is_none());
    }
}
