//! The likeness of a Sandbox: the object in another cluster that stands for it there. Pure.
//!
//! The controllers there look after it as after any other. Its time to live is counted here, and its key is the one that the
//! Sandbox has here.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{
    ResourceExt as _,
    core::{DynamicObject, ObjectMeta},
};
use sandbox::{
    api::{Sandbox, SandboxSpec, SandboxStatus, names},
    fork::without_marks,
    refusal::Refusal,
};

use super::{
    build::dynamic,
    status::{self, Moment},
};

/// Whose a Sandbox of that name there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    /// It stands for ours.
    Ours,
    /// It stands for one that had this name before.
    Stale,
    /// Somebody made it there.
    Theirs,
}

/// Whose a Sandbox of that name there is.
pub(super) fn whose(object: &Sandbox, there: &Sandbox) -> Whose {
    match there.labels().get(names::ORIGIN_LABEL) {
        Some(uid) if Some(uid) == object.uid().as_ref() => Whose::Ours,
        Some(_) => Whose::Stale,
        None => Whose::Theirs,
    }
}

/// What shall stand there. Labels come along, because groups choose by them; marks of tools do not.
pub(super) fn wanted(object: &Sandbox, key: &str) -> Result<DynamicObject, Refusal> {
    let mut labels = without_marks(object.labels().clone());
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
    dynamic(&Sandbox { metadata, spec, status: None })
}

/// What is to be said of the Sandbox: what is said of its likeness, once that is about the present spec.
pub(super) fn said(object: &Sandbox, there: &Sandbox, at: Moment) -> Option<SandboxStatus> {
    let said = there.status.clone()?;
    if said.observed_generation != there.metadata.generation {
        return None;
    }
    let own = |it: Condition| Condition { observed_generation: at.generation, ..it };
    Some(SandboxStatus {
        observed_generation: at.generation,
        scheduled_delete_time: at.end.map(Time),
        spec_changed_time: Some(Time(status::spec_changed(object, at.now))),
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
        let wanted = serde_json::to_value(wanted(&ours(), "k1").unwrap()).unwrap();
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
        assert_eq!(whose(&ours(), &there(&json!({origin: "u1"}))), Whose::Ours);
        assert_eq!(whose(&ours(), &there(&json!({origin: "u0"}))), Whose::Stale);
        assert_eq!(whose(&ours(), &there(&json!({}))), Whose::Theirs);
    }

    #[test]
    fn only_what_is_about_the_present_spec_is_said() {
        let condition = json!({"type": "Ready", "status": "True", "reason": "Ready", "message": "", "observedGeneration": 2,
            "lastTransitionTime": "2026-11-01T10:00:00Z"});
        let there = |generation: i64| {
            let status = json!({"observedGeneration": 2, "phase": "Ready", "readyForks": "1/1", "conditions": [condition]});
            sandbox(&json!({"name": "pr-1", "generation": generation}), &json!({}), &status)
        };
        let at = Moment { generation: Some(4), now: Timestamp::UNIX_EPOCH, end: Some(Timestamp::UNIX_EPOCH) };
        assert_eq!(said(&ours(), &there(3), at), None);
        let said = said(&ours(), &there(2), at).unwrap();
        assert_eq!((said.observed_generation, said.ready_forks.as_deref()), (Some(4), Some("1/1")));
        assert_eq!(said.conditions[0].observed_generation, Some(4));
        assert_eq!(said.scheduled_delete_time, Some(Time(Timestamp::UNIX_EPOCH)));
    }
}
