//! Pod ownership, deletion order and status of a `ReplicaSet`. No I/O.

use std::{cmp::Ordering, collections::HashMap};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::{
    pod_state::{
        available_in, controller_of, controller_ref, int_at, is_active, is_ready, is_terminal, ready_since,
    },
    selector::Selector,
};
use crate::{
    clock,
    object::{MetaAccessor, get_path, str_at},
};

/// Maximum number of pods that one pass creates or deletes.
const BURST_REPLICAS: usize = 500;

/// Pods of a `ReplicaSet` by ownership.
#[derive(Debug, Default)]
pub struct PodClaim {
    /// Owned and active.
    pub active: Vec<Value>,
    /// Number of owned pods that are terminating.
    pub terminating: usize,
    /// Matching pods without a controller.
    pub adopt: Vec<Value>,
    /// Owned pods that no longer match.
    pub release: Vec<Value>,
}

/// Classifies pods; pods of other owners may be included.
pub fn claim_pods(set: &Value, selector: &Selector, pods: Vec<Value>) -> PodClaim {
    let mut claim = PodClaim::default();
    for pod in pods {
        let fits = selector.matches(&pod);
        match controller_of(&pod) {
            Some(owner) if owner.uid != set.uid() => {}
            Some(_) if is_active(&pod) && fits => claim.active.push(pod),
            Some(_) if is_active(&pod) && !set.is_terminating() => claim.release.push(pod),
            Some(_) if fits && pod.is_terminating() && !is_terminal(&pod) => claim.terminating += 1,
            None if fits && is_active(&pod) && !set.is_terminating() && !selector.is_empty() => {
                claim.adopt.push(pod);
            }
            _ => {}
        }
    }
    claim
}

/// Number of pods to create.
pub fn pods_to_create(set: &Value, active: usize) -> usize {
    desired_replicas(set).saturating_sub(active).min(BURST_REPLICAS)
}

fn desired_replicas(set: &Value) -> usize {
    usize::try_from(int_at(set, &["spec", "replicas"])).unwrap_or(0)
}

/// Whether there are too many pods.
pub fn has_surplus(set: &Value, active: usize) -> bool {
    active > desired_replicas(set)
}

/// Names of the pods to delete, least useful first.
pub fn pods_to_delete(set: &Value, mut active: Vec<Value>, related: &[Value]) -> Vec<String> {
    let count = active.len().saturating_sub(desired_replicas(set)).min(BURST_REPLICAS);
    let mut on_node: HashMap<&str, usize> = HashMap::new();
    for pod in related.iter().filter(|pod| is_active(pod)) {
        *on_node.entry(str_at(pod, &["spec", "nodeName"])).or_default() += 1;
    }
    let rank = |pod: &Value| on_node.get(str_at(pod, &["spec", "nodeName"])).copied().unwrap_or(0);
    active.sort_by(|one, other| {
        deletion_order(one, other)
            .then_with(|| rank(other).cmp(&rank(one)).then_with(|| youngest_first(one, other)))
    });
    active.iter().take(count).map(|pod| pod.name().to_owned()).collect()
}

fn deletion_order(one: &Value, other: &Value) -> Ordering {
    let is_bound = |pod: &Value| !str_at(pod, &["spec", "nodeName"]).is_empty();
    let phase = |pod: &Value| match str_at(pod, &["status", "phase"]) {
        "Pending" => 0,
        "Running" => 2,
        _ => 1,
    };
    let cost = |pod: &Value| {
        str_at(pod, &["metadata", "annotations", "controller.kubernetes.io/pod-deletion-cost"])
            .parse::<i32>()
            .unwrap_or(0)
    };
    (is_bound(one), phase(one), is_ready(one), cost(one)).cmp(&(
        is_bound(other),
        phase(other),
        is_ready(other),
        cost(other),
    ))
}

/// Ready for a shorter time, then more restarts, then created later.
fn youngest_first(one: &Value, other: &Value) -> Ordering {
    let restarts = |pod: &Value| {
        let containers = get_path(pod, &["status", "containerStatuses"]).and_then(Value::as_array);
        containers.into_iter().flatten().map(|one| int_at(one, &["restartCount"])).max().unwrap_or(0)
    };
    ready_since(other)
        .cmp(&ready_since(one))
        .then_with(|| restarts(other).cmp(&restarts(one)))
        .then_with(|| other.meta_str("creationTimestamp").cmp(one.meta_str("creationTimestamp")))
        .then_with(|| one.uid().cmp(other.uid()))
}

/// Builds a pod from the template.
pub fn new_pod(set: &Value) -> Value {
    let template = |key: &str| get_path(set, &["spec", "template", "metadata", key]).cloned();
    let mut metadata = json!({
        "generateName": format!("{}-", set.name()), "namespace": set.namespace(),
        "ownerReferences": [controller_ref(set, "apps/v1", "ReplicaSet")],
    });
    for key in ["labels", "annotations", "finalizers"] {
        if let Some(value) = template(key) {
            metadata[key] = value;
        }
    }
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": metadata,
        "spec": get_path(set, &["spec", "template", "spec"]).cloned().unwrap_or_default(),
    })
}

/// Status of a `ReplicaSet`, given its pods and the last error.
pub fn compute_status(set: &Value, claim: &PodClaim, failure: Option<(&str, &str)>, now: Timestamp) -> Value {
    let min_ready = int_at(set, &["spec", "minReadySeconds"]);
    let template =
        get_path(set, &["spec", "template", "metadata", "labels"]).and_then(Selector::from_match_labels);
    let labelled =
        claim.active.iter().filter(|pod| template.as_ref().is_some_and(|one| one.matches(pod))).count();
    let ready = claim.active.iter().filter(|pod| is_ready(pod)).count();
    let is_available = |pod: &&Value| available_in(pod, min_ready, now).is_some_and(|rest| rest.is_zero());
    let available = claim.active.iter().filter(is_available).count();
    let mut status = json!({"replicas": claim.active.len()});
    for (key, count) in
        [("fullyLabeledReplicas", labelled), ("readyReplicas", ready), ("availableReplicas", available)]
    {
        if count > 0 {
            status[key] = count.into();
        }
    }
    status["terminatingReplicas"] = claim.terminating.into();
    status["observedGeneration"] = set.generation().into();
    let conditions = conditions(set, failure, now);
    if !conditions.is_empty() {
        status["conditions"] = conditions.into();
    }
    status
}

fn conditions(set: &Value, failure: Option<(&str, &str)>, now: Timestamp) -> Vec<Value> {
    let old = get_path(set, &["status", "conditions"]).and_then(Value::as_array).cloned().unwrap_or_default();
    let is_failure = |condition: &Value| str_at(condition, &["type"]) == "ReplicaFailure";
    let Some((reason, message)) = failure else {
        return old.into_iter().filter(|condition| !is_failure(condition)).collect();
    };
    if old.iter().any(is_failure) {
        return old;
    }
    let mut new = old;
    new.push(json!({
        "type": "ReplicaFailure", "status": "True", "lastTransitionTime": clock::format_time(now),
        "reason": reason, "message": message,
    }));
    new
}

/// When the next ready pod becomes available.
pub fn next_available(set: &Value, active: &[Value], now: Timestamp) -> Option<std::time::Duration> {
    let min_ready = int_at(set, &["spec", "minReadySeconds"]);
    let rests = active.iter().filter_map(|pod| available_in(pod, min_ready, now));
    rests.filter(|rest| !rest.is_zero()).min().map(jiff::SignedDuration::unsigned_abs)
}
