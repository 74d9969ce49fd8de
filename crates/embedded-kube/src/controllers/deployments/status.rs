//! Status of a Deployment: replica counts, availability and progress. No I/O.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{
    super::pod_state::int_at,
    conditions::DeploymentConditions,
    replica_set::{available_replicas, desired_replicas},
    rollout_limits::RolloutLimits,
};
use crate::object::{MetaAccessor, get_path, str_at};

const NEW_REPLICA_SET_AVAILABLE: &str = "NewReplicaSetAvailable";
/// Reason of a rollout that exceeded its progress deadline.
pub const PROGRESS_DEADLINE_EXCEEDED: &str = "ProgressDeadlineExceeded";
const NO_DEADLINE: i64 = i32::MAX as i64;

/// Whether a progress deadline is set.
pub fn has_deadline(deployment: &Value) -> bool {
    get_path(deployment, &["spec", "progressDeadlineSeconds"])
        .and_then(Value::as_i64)
        .is_some_and(|seconds| seconds != NO_DEADLINE)
}

fn sum(sets: &[Value], count: impl Fn(&Value) -> i64) -> i64 {
    sets.iter().map(count).sum()
}

/// Computes counts and the `Available` condition; other conditions are unchanged.
pub fn compute_counts(deployment: &Value, sets: &[Value], new: Option<&Value>, now: Timestamp) -> Value {
    let limits = RolloutLimits::from_deployment(deployment);
    let serving = sum(sets, available_replicas);
    let replicas = |set: &Value| int_at(set, &["status", "replicas"]);
    let counts = [
        ("observedGeneration", deployment.generation()),
        ("replicas", sum(sets, replicas)),
        ("updatedReplicas", new.map_or(0, replicas)),
        ("readyReplicas", sum(sets, |set| int_at(set, &["status", "readyReplicas"]))),
        ("availableReplicas", serving),
        ("unavailableReplicas", (sum(sets, desired_replicas) - serving).max(0)),
    ];
    let mut status = json!({});
    for (key, count) in counts.into_iter().filter(|(_, count)| *count != 0) {
        status[key] = count.into();
    }
    if let Some(terminating) = terminating_replicas(sets) {
        status["terminatingReplicas"] = terminating.into();
    }
    if let Some(collisions) = get_path(deployment, &["status", "collisionCount"]) {
        status["collisionCount"] = collisions.clone();
    }
    let mut conditions =
        DeploymentConditions::from_status(deployment.get("status").unwrap_or(&Value::Null), now);
    if serving >= limits.min_available() {
        conditions.set(
            "Available",
            "True",
            "MinimumReplicasAvailable",
            "Deployment has minimum availability.",
        );
    } else {
        let text = "Deployment does not have minimum availability.";
        conditions.set("Available", "False", "MinimumReplicasUnavailable", text);
    }
    conditions.write_into(&mut status);
    status
}

/// `None` unless every observed `ReplicaSet` reports it.
fn terminating_replicas(sets: &[Value]) -> Option<i64> {
    sets.iter().try_fold(0, |sum, set| {
        match get_path(set, &["status", "terminatingReplicas"]).and_then(Value::as_i64) {
            Some(count) => Some(sum + count),
            None if int_at(set, &["status", "observedGeneration"]) == 0 => Some(sum),
            None => None,
        }
    })
}

/// Whether all pods have the new template and are available.
pub fn is_complete(deployment: &Value, status: &Value) -> bool {
    let replicas = int_at(deployment, &["spec", "replicas"]);
    let is_full = |key: &&str| int_at(status, &[key]) == replicas;
    ["updatedReplicas", "replicas", "availableReplicas"].iter().all(is_full)
        && int_at(status, &["observedGeneration"]) >= deployment.generation()
}

fn is_progressing(old: &Value, new: &Value) -> bool {
    let count = |status: &Value, key: &str| int_at(status, &[key]);
    let outdated = |status: &Value| count(status, "replicas") - count(status, "updatedReplicas");
    count(new, "updatedReplicas") > count(old, "updatedReplicas")
        || outdated(new) < outdated(old)
        || count(new, "readyReplicas") > count(old, "readyReplicas")
        || count(new, "availableReplicas") > count(old, "availableReplicas")
}

/// The deadline, counted from the last progress.
fn progress_deadline(deployment: &Value, conditions: &DeploymentConditions) -> Option<Timestamp> {
    let from: Timestamp = str_at(conditions.get("Progressing")?, &["lastUpdateTime"]).parse().ok()?;
    let seconds = get_path(deployment, &["spec", "progressDeadlineSeconds"])?.as_i64()?;
    from.checked_add(SignedDuration::from_secs(seconds)).ok()
}

/// [`counted`] plus the `Progressing` condition. `stored` is the status that clients currently see.
pub fn compute_progress(
    deployment: &Value,
    stored: &Value,
    sets: &[Value],
    new: Option<&Value>,
    now: Timestamp,
) -> Value {
    let mut status = compute_counts(deployment, sets, new, now);
    let mut conditions = DeploymentConditions::from_status(&status, now);
    let is_over = int_at(&status, &["replicas"]) == int_at(&status, &["updatedReplicas"])
        && conditions.reason("Progressing") == NEW_REPLICA_SET_AVAILABLE;
    if !has_deadline(deployment) {
        conditions.remove("Progressing");
    } else if !is_over {
        let subject = match new {
            Some(set) => format!("ReplicaSet \"{}\"", set.name()),
            None => format!("Deployment \"{}\"", deployment.name()),
        };
        if is_complete(deployment, &status) {
            conditions.set(
                "Progressing",
                "True",
                NEW_REPLICA_SET_AVAILABLE,
                &format!("{subject} has successfully progressed."),
            );
        } else if is_progressing(stored, &status) {
            conditions.replace(
                "Progressing",
                "True",
                "ReplicaSetUpdated",
                &format!("{subject} is progressing."),
            );
        } else if is_timed_out(deployment, &conditions, now) {
            conditions.set(
                "Progressing",
                "False",
                PROGRESS_DEADLINE_EXCEEDED,
                &format!("{subject} has timed out progressing."),
            );
        }
    }
    match replica_failure(sets, new) {
        Some(failure) => {
            let [status, reason, message] =
                ["status", "reason", "message"].map(|key| str_at(failure, &[key]));
            conditions.set("ReplicaFailure", status, reason, message);
        }
        None => conditions.remove("ReplicaFailure"),
    }
    conditions.write_into(&mut status);
    status
}

fn is_timed_out(deployment: &Value, conditions: &DeploymentConditions, now: Timestamp) -> bool {
    match conditions.reason("Progressing") {
        NEW_REPLICA_SET_AVAILABLE => false,
        PROGRESS_DEADLINE_EXCEEDED => true,
        _ => progress_deadline(deployment, conditions).is_some_and(|deadline| deadline < now),
    }
}

fn replica_failure<'a>(sets: &'a [Value], new: Option<&'a Value>) -> Option<&'a Value> {
    new.into_iter().chain(sets).find_map(|set| {
        let conditions = get_path(set, &["status", "conditions"])?.as_array()?;
        conditions.iter().find(|condition| str_at(condition, &["type"]) == "ReplicaFailure")
    })
}

/// When to check the deadline; `None` if there is none pending.
pub fn next_check(deployment: &Value, now: Timestamp) -> Option<std::time::Duration> {
    let status = deployment.get("status")?;
    let conditions = DeploymentConditions::from_status(status, now);
    let is_settled = is_complete(deployment, status)
        || matches!(conditions.reason("Progressing"), NEW_REPLICA_SET_AVAILABLE | PROGRESS_DEADLINE_EXCEEDED);
    if !has_deadline(deployment) || is_settled {
        return None;
    }
    let rest = progress_deadline(deployment, &conditions)?.duration_since(now).max(SignedDuration::ZERO);
    // Times have whole seconds: add one, so that the check is not early.
    Some(rest.unsigned_abs() + std::time::Duration::from_secs(1))
}
