//! Whether a fork is ready, and if not, why, in the words of the pod that hangs.

use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::{ContainerStatus, Event, Pod},
    },
    jiff::Timestamp,
};
use kube::ResourceExt as _;

use crate::api::conditions::reasons;

/// What was seen of a fork.
#[derive(Debug, Clone, Copy)]
pub struct Sight<'a> {
    /// The fork.
    pub fork: &'a Deployment,
    /// Its pods.
    pub pods: &'a [Pod],
    /// What was said of the pods.
    pub events: &'a [Event],
    /// Whether its pods run on Fargate, which takes a minute to find a place for one.
    pub fargate: bool,
}

/// Whether a fork is ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Readiness {
    /// How many pods it should have.
    pub replicas: i32,
    /// How many of them are ready.
    pub ready_replicas: i32,
    /// Why it is not ready: a reason, and the cause in words. `None` if it is.
    pub trouble: Option<(&'static str, String)>,
}

/// Whether a fork is ready, and if not, why.
pub fn readiness(sight: Sight<'_>) -> Readiness {
    let status = sight.fork.status.clone().unwrap_or_default();
    let wanted = sight.fork.spec.as_ref().and_then(|it| it.replicas).unwrap_or(1);
    let (updated, available) = (status.updated_replicas.unwrap_or(0), status.available_replicas.unwrap_or(0));
    let is_seen = status.observed_generation >= sight.fork.metadata.generation;
    let is_ready = is_seen
        && updated >= wanted
        && available >= wanted
        && status.replicas.unwrap_or(0) <= updated
        && !deadline_exceeded(sight.fork);
    Readiness {
        replicas: wanted,
        ready_replicas: status.ready_replicas.unwrap_or(0),
        trouble: (!is_ready).then(|| trouble(sight, is_seen)),
    }
}

fn trouble(sight: Sight<'_>, is_seen: bool) -> (&'static str, String) {
    let cause = refused_pods(sight.fork).or_else(|| cause(sight));
    if is_seen && deadline_exceeded(sight.fork) {
        let cause = cause.unwrap_or_else(|| "its pods did not become ready in time".to_owned());
        return (reasons::PROGRESS_DEADLINE_EXCEEDED, cause);
    }
    if let Some(cause) = cause {
        return (reasons::POD_FAILING, cause);
    }
    let waits = sight.pods.iter().any(|pod| pod.spec.as_ref().is_none_or(|it| it.node_name.is_none()));
    if sight.fargate && waits {
        return (reasons::WAITING_FOR_FARGATE, "Fargate looks for a place for its pods".to_owned());
    }
    (reasons::PROGRESSING, "its pods are being started".to_owned())
}

/// What the pods say.
fn cause(sight: Sight<'_>) -> Option<String> {
    let mut pods: Vec<_> = sight.pods.iter().filter(|it| it.metadata.deletion_timestamp.is_none()).collect();
    // The youngest knows best; of several, one and always the same.
    pods.sort_by_key(|it| (std::cmp::Reverse(it.metadata.creation_timestamp.clone()), it.name_any()));
    pods.iter()
        .find_map(|pod| containers(pod).or_else(|| unscheduled(pod, sight.events)))
        .or_else(|| pods.iter().find_map(|pod| unready(pod, sight.events)))
}

fn deadline_exceeded(fork: &Deployment) -> bool {
    let conditions = fork.status.as_ref().and_then(|it| it.conditions.as_ref());
    conditions.into_iter().flatten().any(|it| {
        it.type_ == "Progressing"
            && it.status == "False"
            && it.reason.as_deref() == Some("ProgressDeadlineExceeded")
    })
}

/// Pods that the API server does not take: a quota, a policy.
fn refused_pods(fork: &Deployment) -> Option<String> {
    let conditions = fork.status.as_ref()?.conditions.as_ref()?;
    let failure = conditions.iter().find(|it| it.type_ == "ReplicaFailure" && it.status == "True")?;
    Some(said(failure.reason.as_deref(), failure.message.as_deref()))
}

/// A container that cannot start or does not stay.
fn containers(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let statuses = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    statuses.into_iter().find_map(|one| waiting(one).or_else(|| ended(one)))
}

fn waiting(one: &ContainerStatus) -> Option<String> {
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
            let exit = exit(&one.name, last.exit_code, last.reason.as_deref(), last.message.as_deref());
            Some(format!("{reason}: {exit}"))
        }
        None => Some(format!("{}: container {}", said(Some(reason), waiting.message.as_deref()), one.name)),
    }
}

fn ended(one: &ContainerStatus) -> Option<String> {
    let ended = one.state.as_ref()?.terminated.as_ref().filter(|it| it.exit_code != 0)?;
    Some(exit(&one.name, ended.exit_code, ended.reason.as_deref(), ended.message.as_deref()))
}

fn exit(container: &str, code: i32, reason: Option<&str>, message: Option<&str>) -> String {
    let reason = reason.map(|it| format!(" ({it})")).unwrap_or_default();
    let message = message.map(str::trim).filter(|it| !it.is_empty()).map(|it| format!(": {it}"));
    format!("container {container} exited with code {code}{reason}{}", message.unwrap_or_default())
}

/// A pod that has no place.
fn unscheduled(pod: &Pod, events: &[Event]) -> Option<String> {
    if pod.spec.as_ref().is_some_and(|it| it.node_name.is_some()) {
        return None;
    }
    if let Some(event) = newest(pod, events, "FailedScheduling") {
        return Some(said(Some("FailedScheduling"), event.message.as_deref()));
    }
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let scheduled = conditions.iter().find(|it| it.type_ == "PodScheduled" && it.status == "False")?;
    Some(said(scheduled.reason.as_deref(), scheduled.message.as_deref()))
}

/// A pod that runs and does not answer its probe.
fn unready(pod: &Pod, events: &[Event]) -> Option<String> {
    let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
    let one = statuses
        .iter()
        .find(|it| !it.ready && it.state.as_ref().is_some_and(|state| state.running.is_some()))?;
    let event = newest(pod, events, "Unhealthy")?;
    Some(format!(
        "container {} runs and is not ready: {}",
        one.name,
        event.message.as_deref().unwrap_or_default()
    ))
}

fn newest<'a>(pod: &Pod, events: &'a [Event], reason: &str) -> Option<&'a Event> {
    let about = |event: &&Event| {
        let object = &event.involved_object;
        event.reason.as_deref() == Some(reason)
            && object.name == pod.metadata.name
            && (object.uid.is_none() || object.uid == pod.metadata.uid)
    };
    events.iter().filter(about).max_by_key(|event| moment(event))
}

fn moment(event: &Event) -> Option<Timestamp> {
    let series = event.series.as_ref().and_then(|it| it.last_observed_time.as_ref()).map(|it| it.0);
    series
        .or_else(|| event.last_timestamp.as_ref().map(|it| it.0))
        .or_else(|| event.event_time.as_ref().map(|it| it.0))
}

fn said(reason: Option<&str>, message: Option<&str>) -> String {
    match (reason, message.map(str::trim).filter(|it| !it.is_empty())) {
        (Some(reason), Some(message)) => format!("{reason}: {message}"),
        (Some(one), None) | (None, Some(one)) => one.to_owned(),
        (None, None) => "nobody says why".to_owned(),
    }
}

#[cfg(test)]
mod tests;
