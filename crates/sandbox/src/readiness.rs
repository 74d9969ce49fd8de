//! Readiness of a fork, with the cause from its pods and their events.

use capt_kinds::sandbox::conditions::reasons;
use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::{ContainerStatus, Event, Pod},
    },
    jiff::Timestamp,
};
use kube::ResourceExt as _;

/// The observed objects of a fork.
#[derive(Debug, Clone, Copy)]
pub struct ForkObservation<'a> {
    /// Its Deployment.
    pub fork: &'a Deployment,
    /// Its pods.
    pub pods: &'a [Pod],
    /// Events of its pods.
    pub events: &'a [Event],
    /// Whether its pods run on Fargate, which takes a minute to schedule one.
    pub on_fargate: bool,
}

/// Readiness of a fork.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForkReadiness {
    /// Desired replicas.
    pub replicas: i32,
    /// Ready replicas.
    pub ready_replicas: i32,
    /// Why it is not ready: reason and message. `None` if it is.
    pub problem: Option<(&'static str, String)>,
}

/// Determines the readiness of a fork.
pub fn fork_readiness(sight: ForkObservation<'_>) -> ForkReadiness {
    let status = sight.fork.status.clone().unwrap_or_default();
    let wanted = sight.fork.spec.as_ref().and_then(|it| it.replicas).unwrap_or(1);
    let (updated, available) = (status.updated_replicas.unwrap_or(0), status.available_replicas.unwrap_or(0));
    let is_seen = status.observed_generation >= sight.fork.metadata.generation;
    let is_ready = is_seen
        && updated >= wanted
        && available >= wanted
        && status.replicas.unwrap_or(0) <= updated
        && !is_deadline_exceeded(sight.fork);
    ForkReadiness {
        replicas: wanted,
        ready_replicas: status.ready_replicas.unwrap_or(0),
        problem: (!is_ready).then(|| diagnose(sight, is_seen)),
    }
}

fn diagnose(sight: ForkObservation<'_>, is_seen: bool) -> (&'static str, String) {
    let cause = replica_failure(sight.fork).or_else(|| pod_problem(sight));
    if is_seen && is_deadline_exceeded(sight.fork) {
        let cause = cause.unwrap_or_else(|| "the pods did not become ready in time".to_owned());
        return (reasons::PROGRESS_DEADLINE_EXCEEDED, cause);
    }
    if let Some(cause) = cause {
        return (reasons::POD_FAILING, cause);
    }
    let waits = sight.pods.iter().any(|pod| pod.spec.as_ref().is_none_or(|it| it.node_name.is_none()));
    if sight.on_fargate && waits {
        return (reasons::WAITING_FOR_FARGATE, "waiting for Fargate to schedule the pods".to_owned());
    }
    (reasons::PROGRESSING, "the pods are starting".to_owned())
}

/// The problem of the newest failing pod.
fn pod_problem(sight: ForkObservation<'_>) -> Option<String> {
    let mut pods: Vec<_> = sight.pods.iter().filter(|it| it.metadata.deletion_timestamp.is_none()).collect();
    // Newest first; ties are broken by name, so that the message is stable.
    pods.sort_by_key(|it| (std::cmp::Reverse(it.metadata.creation_timestamp.clone()), it.name_any()));
    pods.iter()
        .find_map(|pod| container_problem(pod).or_else(|| scheduling_problem(pod, sight.events)))
        .or_else(|| pods.iter().find_map(|pod| probe_problem(pod, sight.events)))
}

fn is_deadline_exceeded(fork: &Deployment) -> bool {
    let conditions = fork.status.as_ref().and_then(|it| it.conditions.as_ref());
    conditions.into_iter().flatten().any(|it| {
        it.type_ == "Progressing"
            && it.status == "False"
            && it.reason.as_deref() == Some("ProgressDeadlineExceeded")
    })
}

/// Pods that the API server rejects: a quota, a policy.
fn replica_failure(fork: &Deployment) -> Option<String> {
    let conditions = fork.status.as_ref()?.conditions.as_ref()?;
    let failure = conditions.iter().find(|it| it.type_ == "ReplicaFailure" && it.status == "True")?;
    Some(join_reason(failure.reason.as_deref(), failure.message.as_deref()))
}

/// A container that cannot start or exits.
fn container_problem(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let statuses = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    statuses.into_iter().find_map(|one| waiting_problem(one).or_else(|| exit_problem(one)))
}

fn waiting_problem(one: &ContainerStatus) -> Option<String> {
    let waiting = one.state.as_ref()?.waiting.as_ref()?;
    let reason = waiting.reason.as_deref()?;
    if matches!(reason, "ContainerCreating" | "PodInitializing") {
        return None;
    }
    if reason.contains("Image") {
        let message = waiting.message.as_deref().unwrap_or("cannot be pulled");
        return Some(format!("{reason}: {}: {}", one.image, message.trim()));
    }
    let last = one.last_state.as_ref().and_then(|it| it.terminated.as_ref());
    match last {
        Some(last) => {
            let exit =
                describe_exit(&one.name, last.exit_code, last.reason.as_deref(), last.message.as_deref());
            Some(format!("{reason}: {exit}"))
        }
        None => {
            Some(format!("{}: container {}", join_reason(Some(reason), waiting.message.as_deref()), one.name))
        }
    }
}

fn exit_problem(one: &ContainerStatus) -> Option<String> {
    let ended = one.state.as_ref()?.terminated.as_ref().filter(|it| it.exit_code != 0)?;
    Some(describe_exit(&one.name, ended.exit_code, ended.reason.as_deref(), ended.message.as_deref()))
}

fn describe_exit(container: &str, code: i32, reason: Option<&str>, message: Option<&str>) -> String {
    let reason = reason.map(|it| format!(" ({it})")).unwrap_or_default();
    let message = message.map(str::trim).filter(|it| !it.is_empty()).map(|it| format!(": {it}"));
    format!("container {container} exited with code {code}{reason}{}", message.unwrap_or_default())
}

/// A pod that is not scheduled.
fn scheduling_problem(pod: &Pod, events: &[Event]) -> Option<String> {
    if pod.spec.as_ref().is_some_and(|it| it.node_name.is_some()) {
        return None;
    }
    if let Some(event) = newest_event(pod, events, "FailedScheduling") {
        return Some(join_reason(Some("FailedScheduling"), event.message.as_deref()));
    }
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let scheduled = conditions.iter().find(|it| it.type_ == "PodScheduled" && it.status == "False")?;
    Some(join_reason(scheduled.reason.as_deref(), scheduled.message.as_deref()))
}

/// A running pod that fails its readiness probe.
fn probe_problem(pod: &Pod, events: &[Event]) -> Option<String> {
    let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
    let one = statuses
        .iter()
        .find(|it| !it.ready && it.state.as_ref().is_some_and(|state| state.running.is_some()))?;
    let event = newest_event(pod, events, "Unhealthy")?;
    Some(format!(
        "container {} runs and is not ready: {}",
        one.name,
        event.message.as_deref().unwrap_or_default()
    ))
}

fn newest_event<'a>(pod: &Pod, events: &'a [Event], reason: &str) -> Option<&'a Event> {
    let about = |event: &&Event| {
        let object = &event.involved_object;
        event.reason.as_deref() == Some(reason)
            && object.name == pod.metadata.name
            && (object.uid.is_none() || object.uid == pod.metadata.uid)
    };
    events.iter().filter(about).max_by_key(|event| event_time(event))
}

fn event_time(event: &Event) -> Option<Timestamp> {
    let series = event.series.as_ref().and_then(|it| it.last_observed_time.as_ref()).map(|it| it.0);
    series
        .or_else(|| event.last_timestamp.as_ref().map(|it| it.0))
        .or_else(|| event.event_time.as_ref().map(|it| it.0))
}

fn join_reason(reason: Option<&str>, message: Option<&str>) -> String {
    match (reason, message.map(str::trim).filter(|it| !it.is_empty())) {
        (Some(reason), Some(message)) => format!("{reason}: {message}"),
        (Some(one), None) | (None, Some(one)) => one.to_owned(),
        (None, None) => "no reason reported".to_owned(),
    }
}

#[cfg(test)]
mod tests;
