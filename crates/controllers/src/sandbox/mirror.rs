//! The mirror of a Sandbox in its workload cluster. Pure.
//!
//! The controllers of that cluster reconcile it like any other Sandbox. It has the routing key of the original, and no TTL: that
//! is enforced by the original.

use capt_kinds::sandbox::{Sandbox, SandboxSpec, SandboxStatus, names};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{
    ResourceExt as _,
    core::{DynamicObject, ObjectMeta},
};
use sandbox::{fork::without_tool_metadata, rejection::Rejection};

use super::{
    build::to_dynamic,
    status::{self, StatusContext},
};

/// Who owns the Sandbox of that name in the workload cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MirrorOwnership {
    /// It is the mirror of this Sandbox.
    Ours,
    /// It is the mirror of an earlier Sandbox of this name.
    Stale,
    /// It was created in the workload cluster.
    Foreign,
}

/// Who owns the Sandbox of that name in the workload cluster, by its origin label.
pub(super) fn ownership(object: &Sandbox, there: &Sandbox) -> MirrorOwnership {
    match there.labels().get(names::ORIGIN_LABEL) {
        Some(uid) if Some(uid) == object.uid().as_ref() => MirrorOwnership::Ours,
        Some(_) => MirrorOwnership::Stale,
        None => MirrorOwnership::Foreign,
    }
}

/// The desired mirror. Labels are copied, because `RouteGroups` select by them; metadata of deployment tools is not.
pub(super) fn build_mirror(object: &Sandbox, key: &str) -> Result<DynamicObject, Rejection> {
    let mut labels = without_tool_metadata(object.labels().clone());
    labels.insert(names::ORIGIN_LABEL.to_owned(), object.uid().unwrap_or_default());
    let spec = SandboxSpec {
        cluster_ref: None,
        ttl: None,
        routing_key: Some(key.to_owned()),
        ..object.spec.clone()
    };
    let metadata = ObjectMeta {
        name: Some(object.name_any()),
        namespace: object.namespace(),
        labels: Some(labels),
        ..ObjectMeta::default()
    };
    to_dynamic(&Sandbox { metadata, spec, status: None })
}

/// The status of a Sandbox, copied from its mirror once that has observed the current spec.
pub(super) fn mirrored_status(object: &Sandbox, there: &Sandbox, at: StatusContext) -> Option<SandboxStatus> {
    let said = there.status.clone()?;
    if said.observed_generation != there.metadata.generation {
        return None;
    }
    let own = |it: Condition| Condition { observed_generation: at.generation, ..it };
    Some(SandboxStatus {
        observed_generation: at.generation,
        scheduled_delete_time: at.expires_at.map(Time),
        spec_changed_time: Some(Time(status::spec_changed_at(object, at.now))),
        conditions: said.conditions.into_iter().map(own).collect(),
        ..said
    })
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::{Value, json};

    use super::*;

    fn sandbox(metadata: &Value, spec: &Value, status: &Value) -> Sandbox {
        let group = "sandbox.capt.x-k8s.io/v1alpha1";
        let object = json!({"apiVersion": group, "kind": "Sandbox", "metadata": metadata, "spec": spec, "status": status});
        serde_json::from_value(object).unwrap()
    }

    fn ours() -> Sandbox {
        let labels = json!({"feature": "x", "argocd.argoproj.io/instance": "shop"});
        let spec = json!({"clusterRef": {"name": "dev"}, "ttl": {"duration": "2h"}, "forks": [{"forkOf": {"name": "cart"}}]});
        sandbox(
            &json!({"name": "pr-1", "namespace": "shop", "uid": "u1", "generation": 4, "labels": labels}),
            &spec,
            &json!(null),
        )
    }

    #[test]
    fn a_likeness_has_the_key_and_the_labels_and_neither_an_end_nor_a_cluster() {
        let wanted = serde_json::to_value(build_mirror(&ours(), "k1").unwrap()).unwrap();
        assert_eq!(wanted["spec"]["routingKey"], "k1");
        assert_eq!(wanted["spec"]["forks"][0]["forkOf"]["name"], "cart");
        assert!(wanted["spec"].get("clusterRef").is_none() && wanted["spec"].get("ttl").is_none());
        assert_eq!(
            wanted["metadata"]["labels"],
            json!({"feature": "x", "sandbox.capt.x-k8s.io/origin": "u1"})
        );
    }

    #[test]
    fn whose_it_is_stands_on_it() {
        let there =
            |labels: &Value| sandbox(&json!({"name": "pr-1", "labels": labels}), &json!({}), &json!(null));
        let origin = "sandbox.capt.x-k8s.io/origin";
        assert_eq!(ownership(&ours(), &there(&json!({origin: "u1"}))), MirrorOwnership::Ours);
        assert_eq!(ownership(&ours(), &there(&json!({origin: "u0"}))), MirrorOwnership::Stale);
        assert_eq!(ownership(&ours(), &there(&json!({}))), MirrorOwnership::Foreign);
    }

    #[test]
    fn only_what_is_about_the_present_spec_is_said() {
        let condition = json!({"type": "Ready", "status": "True", "reason": "Ready", "message": "", "observedGeneration": 2,
            "lastTransitionTime": "2026-11-01T10:00:00Z"});
        let there = |generation: i64| {
            let status = json!({"observedGeneration": 2, "phase": "Ready", "readyForks": "1/1", "conditions": [condition]});
            sandbox(&json!({"name": "pr-1", "generation": generation}), &json!({}), &status)
        };
        let at = StatusContext {
            generation: Some(4),
            now: Timestamp::UNIX_EPOCH,
            expires_at: Some(Timestamp::UNIX_EPOCH),
        };
        assert_eq!(mirrored_status(&ours(), &there(3), at), None);
        let said = mirrored_status(&ours(), &there(2), at).unwrap();
        assert_eq!((said.observed_generation, said.ready_forks.as_deref()), (Some(4), Some("1/1")));
        assert_eq!(said.conditions[0].observed_generation, Some(4));
        assert_eq!(said.scheduled_delete_time, Some(Time(Timestamp::UNIX_EPOCH)));
    }
}
