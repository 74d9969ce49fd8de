//! Which pods are a set's own, which go first, and what its status is. No I/O.

use std::{cmp::Ordering, collections::HashMap};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::{
    pods::{
        available_in, controller_of, controller_ref, is_active, is_ready, is_terminal, number, ready_since,
    },
    selector::Selector,
};
use crate::{
    clock,
    object::{Meta, at, text},
};

/// The most pods that one pass creates or deletes.
const BURST: usize = 500;

/// The pods around a set.
#[derive(Debug, Default)]
pub struct Claim {
    /// Its own, active.
    pub active: Vec<Value>,
    /// Its own, on their way out.
    pub terminating: usize,
    /// Nobody's, but they fit.
    pub adopt: Vec<Value>,
    /// Its own, but they do not fit any more.
    pub release: Vec<Value>,
}

/// Sorts the pods of a namespace; those of other owners may be left out.
pub fn claim(set: &Value, selector: &Selector, pods: Vec<Value>) -> Claim {
    let mut claim = Claim::default();
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

/// How many pods to create.
pub fn missing(set: &Value, active: usize) -> usize {
    wished(set).saturating_sub(active).min(BURST)
}

fn wished(set: &Value) -> usize {
    usize::try_from(number(set, &["spec", "replicas"])).unwrap_or(0)
}

/// There are too many pods.
pub fn has_surplus(set: &Value, active: usize) -> bool {
    active > wished(set)
}

/// Names of pods to delete: those that are missed least.
pub fn surplus(set: &Value, mut active: Vec<Value>, related: &[Value]) -> Vec<String> {
    let count = active.len().saturating_sub(wished(set)).min(BURST);
    let mut on_node: HashMap<&str, usize> = HashMap::new();
    for pod in related.iter().filter(|pod| is_active(pod)) {
        *on_node.entry(text(pod, &["spec", "nodeName"])).or_default() += 1;
    }
    let rank = |pod: &Value| on_node.get(text(pod, &["spec", "nodeName"])).copied().unwrap_or(0);
    active.sort_by(|one, other| {
        least_missed(one, other).then_with(|| rank(other).cmp(&rank(one)).then_with(|| youngest(one, other)))
    });
    active.iter().take(count).map(|pod| pod.name().to_owned()).collect()
}

fn least_missed(one: &Value, other: &Value) -> Ordering {
    let is_bound = |pod: &Value| !text(pod, &["spec", "nodeName"]).is_empty();
    let phase = |pod: &Value| match text(pod, &["status", "phase"]) {
        "Pending" => 0,
        "Running" => 2,
        _ => 1,
    };
    let cost = |pod: &Value| {
        text(pod, &["metadata", "annotations", "controller.kubernetes.io/pod-deletion-cost"])
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

/// Ready for a shorter time, restarted more often, created later.
fn youngest(one: &Value, other: &Value) -> Ordering {
    let restarts = |pod: &Value| {
        let containers = at(pod, &["status", "containerStatuses"]).and_then(Value::as_array);
        containers.into_iter().flatten().map(|one| number(one, &["restartCount"])).max().unwrap_or(0)
    };
    ready_since(other)
        .cmp(&ready_since(one))
        .then_with(|| restarts(other).cmp(&restarts(one)))
        .then_with(|| other.meta("creationTimestamp").cmp(one.meta("creationTimestamp")))
        .then_with(|| one.uid().cmp(other.uid()))
}

/// A pod of the template.
pub fn new_pod(set: &Value) -> Value {
    let template = |key: &str| at(set, &["spec", "template", "metadata", key]).cloned();
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
        "spec": at(set, &["spec", "template", "spec"]).cloned().unwrap_or_default(),
    })
}

/// A set's status, given its pods and what went wrong.
pub fn status(set: &Value, claim: &Claim, failure: Option<(&str, &str)>, now: Timestamp) -> Value {
    let min_ready = number(set, &["spec", "minReadySeconds"]);
    let template = at(set, &["spec", "template", "metadata", "labels"]).and_then(Selector::of_labels);
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
    let old = at(set, &["status", "conditions"]).and_then(Value::as_array).cloned().unwrap_or_default();
    let is_failure = |condition: &Value| text(condition, &["type"]) == "ReplicaFailure";
    let Some((reason, message)) = failure else {
        return old.into_iter().filter(|condition| !is_failure(condition)).collect();
    };
    if old.iter().any(is_failure) {
        return old;
    }
    let mut new = old;
    new.push(json!({
        "type": "ReplicaFailure", "status": "True", "lastTransitionTime": clock::seconds(now),
        "reason": reason, "message": message,
    }));
    new
}

/// When the next pod that serves becomes available.
pub fn next_available(set: &Value, active: &[Value], now: Timestamp) -> Option<std::time::Duration> {
    let min_ready = number(set, &["spec", "minReadySeconds"]);
    let rests = active.iter().filter_map(|pod| available_in(pod, min_ready, now));
    rests.filter(|rest| !rest.is_zero()).min().map(jiff::SignedDuration::unsigned_abs)
}
