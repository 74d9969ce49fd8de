//! Cells of Pods: many containers, one word.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;

use super::{
    age, ago,
    cells::{NONE, condition, is_true, or_none},
    name,
};
use crate::{
    kinds::common::{flag, has, int, list},
    object::{Meta, at, text},
};

/// Restarts, the moment of the last one, and the state in one word.
#[derive(Default)]
struct PodState<'a> {
    ready: usize,
    restarts: i64,
    last_restart: &'a str,
    word: String,
}

impl<'a> PodState<'a> {
    fn restarted(&mut self, container: &'a Value) {
        self.restarts += int(container, &["restartCount"]).unwrap_or_default();
        let finished = text(container, &["lastState", "terminated", "finishedAt"]);
        // Both are in the one form that sorts as text.
        if finished > self.last_restart {
            self.last_restart = finished;
        }
    }
}

/// Cells of a Pod.
pub fn pod_cells(pod: &Value, now: Timestamp) -> Vec<Value> {
    let sidecars = sidecars(pod);
    let total = list(pod, &["spec", "containers"]).len() + sidecars.len();
    let state = pod_state(pod, &sidecars);
    let restarts = if state.restarts != 0 && !state.last_restart.is_empty() {
        format!("{} ({} ago)", state.restarts, ago(state.last_restart, now))
    } else {
        state.restarts.to_string()
    };
    let address = list(pod, &["status", "podIPs"]).first().map_or("", |one| text(one, &["ip"]));
    vec![
        name(pod),
        format!("{}/{total}", state.ready).into(),
        state.word.into(),
        restarts.into(),
        age(pod, now),
        or_none(address).into(),
        or_none(text(pod, &["spec", "nodeName"])).into(),
        or_none(text(pod, &["status", "nominatedNodeName"])).into(),
        gates(pod).into(),
    ]
}

/// Init containers that keep running.
fn sidecars(pod: &Value) -> BTreeSet<&str> {
    list(pod, &["spec", "initContainers"])
        .iter()
        .filter(|one| text(one, &["restartPolicy"]) == "Always")
        .map(|one| text(one, &["name"]))
        .collect()
}

fn pod_state<'a>(pod: &'a Value, sidecars: &BTreeSet<&str>) -> PodState<'a> {
    let phase = text(pod, &["status", "phase"]);
    let reason = text(pod, &["status", "reason"]);
    let mut state =
        PodState { word: if reason.is_empty() { phase } else { reason }.to_owned(), ..PodState::default() };
    if condition(pod, "PodScheduled").is_some_and(|one| text(one, &["reason"]) == "SchedulingGated") {
        "SchedulingGated".clone_into(&mut state.word);
    }
    let (initializing, side) = init_state(pod, sidecars, &mut state);
    if !initializing || is_true(pod, "Initialized") {
        state.restarts = side.restarts;
        state.last_restart = side.last_restart;
        main_state(pod, &mut state);
    }
    if pod.is_terminating() {
        if reason == "NodeLost" {
            "Unknown".clone_into(&mut state.word);
        } else if !matches!(phase, "Succeeded" | "Failed") {
            "Terminating".clone_into(&mut state.word);
        }
    }
    state
}

/// Whether init containers are still at work, and what those that keep running have restarted.
fn init_state<'a>(
    pod: &'a Value,
    sidecars: &BTreeSet<&str>,
    state: &mut PodState<'a>,
) -> (bool, PodState<'a>) {
    let mut side = PodState::default();
    let total = list(pod, &["spec", "initContainers"]).len();
    for (index, container) in list(pod, &["status", "initContainerStatuses"]).iter().enumerate() {
        state.restarted(container);
        let is_side = sidecars.contains(text(container, &["name"]));
        if is_side {
            side.restarted(container);
        }
        let ended = at(container, &["state", "terminated"]).filter(|ended| !ended.is_null());
        let waiting = text(container, &["state", "waiting", "reason"]);
        state.word = match ended {
            Some(ended) if int(ended, &["exitCode"]).unwrap_or_default() == 0 => continue,
            _ if is_side && flag(container, &["started"]) => {
                state.ready += usize::from(flag(container, &["ready"]));
                continue;
            }
            Some(ended) => format!("Init:{}", end_word(ended)),
            None if !matches!(waiting, "" | "PodInitializing") => format!("Init:{waiting}"),
            None => format!("Init:{index}/{total}"),
        };
        return (true, side);
    }
    (false, side)
}

fn end_word(ended: &Value) -> String {
    let number = |key: &str| int(ended, &[key]).unwrap_or_default();
    match (text(ended, &["reason"]), number("signal")) {
        ("", 0) => format!("ExitCode:{}", number("exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

fn main_state<'a>(pod: &'a Value, state: &mut PodState<'a>) {
    let (mut running, mut failed) = (false, None);
    for container in list(pod, &["status", "containerStatuses"]).iter().rev() {
        state.restarted(container);
        let waiting = text(container, &["state", "waiting", "reason"]);
        if !waiting.is_empty() {
            waiting.clone_into(&mut state.word);
        } else if let Some(ended) = at(container, &["state", "terminated"]).filter(|ended| !ended.is_null()) {
            state.word = end_word(ended);
            if int(ended, &["exitCode"]).unwrap_or_default() != 0 {
                failed = Some(state.word.clone());
            }
        } else if flag(container, &["ready"]) && has(container, &["state", "running"]) {
            running = true;
            state.ready += 1;
        }
    }
    if state.word == "Completed" {
        if running && is_true(pod, "Ready") {
            "Running".clone_into(&mut state.word);
        } else if let Some(word) = failed {
            state.word = word;
        } else if running {
            "NotReady".clone_into(&mut state.word);
        }
    }
}

fn gates(pod: &Value) -> String {
    let gates = list(pod, &["spec", "readinessGates"]);
    if gates.is_empty() {
        return NONE.to_owned();
    }
    let open = gates.iter().filter(|gate| is_true(pod, text(gate, &["conditionType"]))).count();
    format!("{open}/{}", gates.len())
}
