//! Cells of Pods: the state of all containers as one status word.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;

use super::{
    age_cell, age_since,
    cells::{NONE, condition, is_true, or_none},
    name_cell,
};
use crate::{
    kinds::common::{bool_at, has_path, int_at, list_at},
    object::{MetaAccessor, get_path, str_at},
};

/// Restarts, the time of the last one, and the status column.
#[derive(Default)]
struct PodState<'a> {
    ready: usize,
    restarts: i64,
    last_restart: &'a str,
    status: String,
}

impl<'a> PodState<'a> {
    fn count_restarts(&mut self, container: &'a Value) {
        self.restarts += int_at(container, &["restartCount"]).unwrap_or_default();
        let finished = str_at(container, &["lastState", "terminated", "finishedAt"]);
        // Both have the same format, which sorts as text.
        if finished > self.last_restart {
            self.last_restart = finished;
        }
    }
}

/// Cells of a Pod.
pub fn pod_cells(pod: &Value, now: Timestamp) -> Vec<Value> {
    let sidecars = sidecars(pod);
    let total = list_at(pod, &["spec", "containers"]).len() + sidecars.len();
    let state = pod_state(pod, &sidecars);
    let restarts = if state.restarts != 0 && !state.last_restart.is_empty() {
        format!("{} ({} ago)", state.restarts, age_since(state.last_restart, now))
    } else {
        state.restarts.to_string()
    };
    let address = list_at(pod, &["status", "podIPs"]).first().map_or("", |one| str_at(one, &["ip"]));
    vec![
        name_cell(pod),
        format!("{}/{total}", state.ready).into(),
        state.status.into(),
        restarts.into(),
        age_cell(pod, now),
        or_none(address).into(),
        or_none(str_at(pod, &["spec", "nodeName"])).into(),
        or_none(str_at(pod, &["status", "nominatedNodeName"])).into(),
        readiness_gates(pod).into(),
    ]
}

/// Restartable init containers.
fn sidecars(pod: &Value) -> BTreeSet<&str> {
    list_at(pod, &["spec", "initContainers"])
        .iter()
        .filter(|one| str_at(one, &["restartPolicy"]) == "Always")
        .map(|one| str_at(one, &["name"]))
        .collect()
}

fn pod_state<'a>(pod: &'a Value, sidecars: &BTreeSet<&str>) -> PodState<'a> {
    let phase = str_at(pod, &["status", "phase"]);
    let reason = str_at(pod, &["status", "reason"]);
    let mut state =
        PodState { status: if reason.is_empty() { phase } else { reason }.to_owned(), ..PodState::default() };
    if condition(pod, "PodScheduled").is_some_and(|one| str_at(one, &["reason"]) == "SchedulingGated") {
        "SchedulingGated".clone_into(&mut state.status);
    }
    let (initializing, side) = init_state(pod, sidecars, &mut state);
    if !initializing || is_true(pod, "Initialized") {
        state.restarts = side.restarts;
        state.last_restart = side.last_restart;
        main_state(pod, &mut state);
    }
    if pod.is_terminating() {
        if reason == "NodeLost" {
            "Unknown".clone_into(&mut state.status);
        } else if !matches!(phase, "Succeeded" | "Failed") {
            "Terminating".clone_into(&mut state.status);
        }
    }
    state
}

/// Whether init containers are still running, and the restarts of sidecars.
fn init_state<'a>(
    pod: &'a Value,
    sidecars: &BTreeSet<&str>,
    state: &mut PodState<'a>,
) -> (bool, PodState<'a>) {
    let mut side = PodState::default();
    let total = list_at(pod, &["spec", "initContainers"]).len();
    for (index, container) in list_at(pod, &["status", "initContainerStatuses"]).iter().enumerate() {
        state.count_restarts(container);
        let is_side = sidecars.contains(str_at(container, &["name"]));
        if is_side {
            side.count_restarts(container);
        }
        let ended = get_path(container, &["state", "terminated"]).filter(|ended| !ended.is_null());
        let waiting = str_at(container, &["state", "waiting", "reason"]);
        state.status = match ended {
            Some(ended) if int_at(ended, &["exitCode"]).unwrap_or_default() == 0 => continue,
            _ if is_side && bool_at(container, &["started"]) => {
                state.ready += usize::from(bool_at(container, &["ready"]));
                continue;
            }
            Some(ended) => format!("Init:{}", termination_reason(ended)),
            None if !matches!(waiting, "" | "PodInitializing") => format!("Init:{waiting}"),
            None => format!("Init:{index}/{total}"),
        };
        return (true, side);
    }
    (false, side)
}

fn termination_reason(ended: &Value) -> String {
    let number = |key: &str| int_at(ended, &[key]).unwrap_or_default();
    match (str_at(ended, &["reason"]), number("signal")) {
        ("", 0) => format!("ExitCode:{}", number("exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

fn main_state<'a>(pod: &'a Value, state: &mut PodState<'a>) {
    let (mut running, mut failed) = (false, None);
    for container in list_at(pod, &["status", "containerStatuses"]).iter().rev() {
        state.count_restarts(container);
        let waiting = str_at(container, &["state", "waiting", "reason"]);
        if !waiting.is_empty() {
            waiting.clone_into(&mut state.status);
        } else if let Some(ended) =
            get_path(container, &["state", "terminated"]).filter(|ended| !ended.is_null())
        {
            state.status = termination_reason(ended);
            if int_at(ended, &["exitCode"]).unwrap_or_default() != 0 {
                failed = Some(state.status.clone());
            }
        } else if bool_at(container, &["ready"]) && has_path(container, &["state", "running"]) {
            running = true;
            state.ready += 1;
        }
    }
    if state.status == "Completed" {
        if running && is_true(pod, "Ready") {
            "Running".clone_into(&mut state.status);
        } else if let Some(word) = failed {
            state.status = word;
        } else if running {
            "NotReady".clone_into(&mut state.status);
        }
    }
}

fn readiness_gates(pod: &Value) -> String {
    let gates = list_at(pod, &["spec", "readinessGates"]);
    if gates.is_empty() {
        return NONE.to_owned();
    }
    let open = gates.iter().filter(|gate| is_true(pod, str_at(gate, &["conditionType"]))).count();
    format!("{open}/{}", gates.len())
}
