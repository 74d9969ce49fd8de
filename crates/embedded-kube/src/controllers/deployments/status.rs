//! A deployment's status: counts of its sets, and whether it is available and making progress. No I/O.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{
    super::pods::number,
    conditions::Conditions,
    limits::Limits,
    set::{available, size},
};
use crate::object::{Meta, at, text};

const DONE: &str = "NewReplicaSetAvailable";
/// Reason of a rollout that makes no progress.
pub const TIMED_OUT: &str = "ProgressDeadlineExceeded";
const FOREVER: i64 = i32::MAX as i64;

/// Lack of progress is told after some time.
pub fn has_deadline(deployment: &Value) -> bool {
    at(deployment, &["spec", "progressDeadlineSeconds"])
        .and_then(Value::as_i64)
        .is_some_and(|seconds| seconds != FOREVER)
}

fn sum(sets: &[Value], count: impl Fn(&Value) -> i64) -> i64 {
    sets.iter().map(count).sum()
}

/// Counts and availability; the other conditions are as they were.
pub fn counted(deployment: &Value, sets: &[Value], new: Option<&Value>, now: Timestamp) -> Value {
    let limits = Limits::of(deployment);
    let serving = sum(sets, available);
    let replicas = |set: &Value| number(set, &["status", "replicas"]);
    let counts = [
        ("observedGeneration", deployment.generation()),
        ("replicas", sum(sets, replicas)),
        ("updatedReplicas", new.map_or(0, replicas)),
        ("readyReplicas", sum(sets, |set| number(set, &["status", "readyReplicas"]))),
        ("availableReplicas", serving),
        ("unavailableReplicas", (sum(sets, size) - serving).max(0)),
    ];
    let mut status = json!({});
    for (key, count) in counts.into_iter().filter(|(_, count)| *count != 0) {
        status[key] = count.into();
    }
    if let Some(terminating) = terminating(sets) {
        status["terminatingReplicas"] = terminating.into();
    }
    if let Some(collisions) = at(deployment, &["status", "collisionCount"]) {
        status["collisionCount"] = collisions.clone();
    }
    let mut conditions = Conditions::of(deployment.get("status").unwrap_or(&Value::Null), now);
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

/// Known only if every set that has been looked at says so.
fn terminating(sets: &[Value]) -> Option<i64> {
    sets.iter().try_fold(0, |sum, set| {
        match at(set, &["status", "terminatingReplicas"]).and_then(Value::as_i64) {
            Some(count) => Some(sum + count),
            None if number(set, &["status", "observedGeneration"]) == 0 => Some(sum),
            None => None,
        }
    })
}

/// All pods are of the new template and serve.
pub fn is_complete(deployment: &Value, status: &Value) -> bool {
    let replicas = number(deployment, &["spec", "replicas"]);
    let is_full = |key: &&str| number(status, &[key]) == replicas;
    ["updatedReplicas", "replicas", "availableReplicas"].iter().all(is_full)
        && number(status, &["observedGeneration"]) >= deployment.generation()
}

fn is_progressing(old: &Value, new: &Value) -> bool {
    let count = |status: &Value, key: &str| number(status, &[key]);
    let outdated = |status: &Value| count(status, "replicas") - count(status, "updatedReplicas");
    count(new, "updatedReplicas") > count(old, "updatedReplicas")
        || outdated(new) < outdated(old)
        || count(new, "readyReplicas") > count(old, "readyReplicas")
        || count(new, "availableReplicas") > count(old, "availableReplicas")
}

/// When the deadline is, counted from the last progress.
fn deadline(deployment: &Value, conditions: &Conditions) -> Option<Timestamp> {
    let from: Timestamp = text(conditions.get("Progressing")?, &["lastUpdateTime"]).parse().ok()?;
    let seconds = at(deployment, &["spec", "progressDeadlineSeconds"])?.as_i64()?;
    from.checked_add(SignedDuration::from_secs(seconds)).ok()
}

/// [`counted`], and what there is to say about the rollout. `stored` is the status that clients see now.
pub fn rolling(
    deployment: &Value,
    stored: &Value,
    sets: &[Value],
    new: Option<&Value>,
    now: Timestamp,
) -> Value {
    let mut status = counted(deployment, sets, new, now);
    let mut conditions = Conditions::of(&status, now);
    let is_over = number(&status, &["replicas"]) == number(&status, &["updatedReplicas"])
        && conditions.reason("Progressing") == DONE;
    if !has_deadline(deployment) {
        conditions.remove("Progressing");
    } else if !is_over {
        let subject = match new {
            Some(set) => format!("ReplicaSet \"{}\"", set.name()),
            None => format!("Deployment \"{}\"", deployment.name()),
        };
        if is_complete(deployment, &status) {
            conditions.set("Progressing", "True", DONE, &format!("{subject} has successfully progressed."));
        } else if is_progressing(stored, &status) {
            conditions.renew(
                "Progressing",
                "True",
                "ReplicaSetUpdated",
                &format!("{subject} is progressing."),
            );
        } else if is_timed_out(deployment, &conditions, now) {
            conditions.set(
                "Progressing",
                "False",
                TIMED_OUT,
                &format!("{subject} has timed out progressing."),
            );
        }
    }
    match replica_failure(sets, new) {
        Some(failure) => {
            let [status, reason, message] = ["status", "reason", "message"].map(|key| text(failure, &[key]));
            conditions.set("ReplicaFailure", status, reason, message);
        }
        None => conditions.remove("ReplicaFailure"),
    }
    conditions.write_into(&mut status);
    status
}

fn is_timed_out(deployment: &Value, conditions: &Conditions, now: Timestamp) -> bool {
    match conditions.reason("Progressing") {
        DONE => false,
        TIMED_OUT => true,
        _ => deadline(deployment, conditions).is_some_and(|deadline| deadline < now),
    }
}

fn replica_failure<'a>(sets: &'a [Value], new: Option<&'a Value>) -> Option<&'a Value> {
    new.into_iter().chain(sets).find_map(|set| {
        let conditions = at(set, &["status", "conditions"])?.as_array()?;
        conditions.iter().find(|condition| text(condition, &["type"]) == "ReplicaFailure")
    })
}

/// When to look whether the deadline has passed; `None` if there is nothing to wait for.
pub fn next_check(deployment: &Value, now: Timestamp) -> Option<std::time::Duration> {
    let status = deployment.get("status")?;
    let conditions = Conditions::of(status, now);
    let is_settled =
        is_complete(deployment, status) || matches!(conditions.reason("Progressing"), DONE | TIMED_OUT);
    if !has_deadline(deployment) || is_settled {
        return None;
    }
    let rest = deadline(deployment, &conditions)?.duration_since(now).max(SignedDuration::ZERO);
    // The times are whole seconds: a second more, so as not to come just before.
    Some(rest.unsigned_abs() + std::time::Duration::from_secs(1))
}
