//! Joins what the rooms count with the metrics.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use crate::{
    api::{RunOperation, RunPhase},
    controllers::common::{self, Thing},
    k8s::{Outcome, Tally},
    runs::{Lane, Meter, Timer},
    telemetry::{Metrics, metrics::CallResult},
};

/// Measures runs and calls.
pub(super) struct Gauge {
    metrics: Metrics,
}

impl Gauge {
    pub(super) fn new(metrics: Metrics) -> Self {
        Self { metrics }
    }
}

impl Meter for Gauge {
    fn waited_for_place(&self, lane: Lane, waited: Duration) {
        self.metrics.run_waited(lane.into(), waited);
    }

    fn waited_for_turn(&self, waited: Duration) {
        self.metrics.lock_waited(waited);
    }

    fn phase(&self, operation: RunOperation, phase: RunPhase) -> Timer {
        Box::new(self.metrics.run_phase(word(operation), stage(phase)))
    }

    fn plain(&self) {
        self.metrics.plain_run();
    }

    fn ended(&self, operation: RunOperation, result: &'static str, _: Duration) {
        self.metrics.run_finished(word(operation), result);
    }
}

const fn word(operation: RunOperation) -> &'static str {
    match operation {
        RunOperation::Apply => "apply",
        RunOperation::Check => "check",
        RunOperation::Destroy => "destroy",
    }
}

const fn stage(phase: RunPhase) -> &'static str {
    match phase {
        RunPhase::Pending => "pending",
        RunPhase::Initializing => "initializing",
        RunPhase::Planning => "planning",
        RunPhase::AwaitingApproval => "awaiting_approval",
        RunPhase::Applying => "applying",
        RunPhase::Destroying => "destroying",
        RunPhase::Collecting => "collecting",
        RunPhase::Succeeded => "succeeded",
        RunPhase::Failed => "failed",
        RunPhase::Interrupted => "interrupted",
    }
}

/// Counts calls of the API server.
pub(super) struct Calls(pub(super) Metrics);

impl Tally for Calls {
    fn count(&self, _: &'static str, outcome: Outcome) {
        self.0.api_call(match outcome {
            Outcome::Ok => CallResult::Ok,
            Outcome::Failed => CallResult::Failed,
            Outcome::TimedOut => CallResult::Timeout,
        });
    }
}

/// Listens to the controllers.
pub(super) struct Listener {
    metrics: Metrics,
    /// Since when objects wait for their reconcile, by kind.
    waiting: Mutex<BTreeMap<&'static str, BTreeMap<String, Instant>>>,
    drifted: Mutex<BTreeSet<String>>,
    /// The states of the profiles of each control plane.
    profiles: Mutex<BTreeMap<String, Vec<&'static str>>>,
    /// The phase of each Sandbox.
    sandboxes: Mutex<BTreeMap<String, &'static str>>,
}

/// What EKS says of profiles. A state that a later EKS invents is counted as another one, so that labels stay few.
const STATES: [&str; 6] = ["ACTIVE", "CREATING", "CREATE_FAILED", "DELETING", "DELETE_FAILED", "OTHER"];

impl Listener {
    pub(super) fn new(metrics: Metrics) -> Self {
        Self {
            metrics,
            waiting: Mutex::default(),
            drifted: Mutex::default(),
            profiles: Mutex::default(),
            sandboxes: Mutex::default(),
        }
    }

    /// Takes an object out of the queue; how long it was in there.
    fn leave(&self, kind: &'static str, object: &str) -> Option<Duration> {
        let mut waiting = lock(&self.waiting);
        let queue = waiting.entry(kind).or_default();
        let since = queue.remove(object);
        self.metrics.controller(kind).set_queue_depth(queue.len());
        since.map(|since| since.elapsed())
    }
}

impl common::Meter for Listener {
    fn told(&self, kind: &'static str, object: &str) {
        let mut waiting = lock(&self.waiting);
        let queue = waiting.entry(kind).or_default();
        if !queue.contains_key(object) {
            queue.insert(object.to_owned(), Instant::now());
            self.metrics.controller(kind).set_queue_depth(queue.len());
        }
    }

    fn vanished(&self, kind: &'static str, object: &str) {
        let _waited_for_nothing = self.leave(kind, object);
    }

    fn begin(&self, kind: &'static str, object: &str) -> Box<dyn FnOnce(common::End) + Send> {
        let controller = self.metrics.controller(kind);
        if let Some(waited) = self.leave(kind, object) {
            controller.queue_waited(waited);
        }
        let timer = controller.reconcile();
        Box::new(move |end| match end {
            common::End::Done => timer.completed(),
            common::End::Failed(class) => timer.failed(class.as_str()),
        })
    }

    fn made(&self, thing: Thing, took: Duration) {
        match thing {
            Thing::Cluster => self.metrics.cluster_created(took),
            Thing::FargateProfile => self.metrics.profile_created(took),
        }
    }

    fn removed(&self, thing: Thing, took: Duration) {
        match thing {
            Thing::Cluster => self.metrics.cluster_deleted(took),
            Thing::FargateProfile => self.metrics.profile_deleted(took),
        }
    }

    fn profiles(&self, control_plane: &str, states: &[&str]) {
        let known = |state: &&str| STATES.into_iter().find(|it| it == state).unwrap_or("OTHER");
        let mut all = lock(&self.profiles);
        if states.is_empty() {
            all.remove(control_plane);
        } else {
            all.insert(control_plane.to_owned(), states.iter().map(known).collect());
        }
        for state in STATES {
            self.metrics.set_profiles(state, all.values().flatten().filter(|it| **it == state).count());
        }
    }

    fn drifted(&self, workspace: &str, is: bool) {
        let mut drifted = lock(&self.drifted);
        if is {
            drifted.insert(workspace.to_owned());
        } else {
            drifted.remove(workspace);
        }
        self.metrics.set_drifted(drifted.len());
    }

    fn sandbox(&self, sandbox: &str, phase: Option<&'static str>) {
        let mut all = lock(&self.sandboxes);
        let before = match phase {
            Some(phase) => all.insert(sandbox.to_owned(), phase),
            None => all.remove(sandbox),
        };
        for phase in [before, phase].into_iter().flatten() {
            self.metrics.set_sandboxes(phase, all.values().filter(|it| **it == phase).count());
        }
    }

    fn propagated(&self, took: Duration) {
        self.metrics.routes_propagated(took);
    }

    fn replicated(&self, took: Duration) {
        self.metrics.state_replicated(took);
    }
}

fn lock<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::common::Meter as _;

    fn listener() -> (Listener, Metrics) {
        let metrics = Metrics::new("test");
        (Listener::new(metrics.clone()), metrics)
    }

    fn has(metrics: &Metrics, line: &str) -> bool {
        metrics.encode().unwrap().lines().any(|it| it == line)
    }

    #[test]
    fn an_object_waits_from_the_first_word_until_its_reconcile() {
        let (listener, metrics) = listener();
        for object in ["a/x", "a/x", "a/y", "a/gone"] {
            listener.told("Kind", object);
        }
        assert!(has(&metrics, r#"work_queue_depth{controller="Kind"} 3"#));
        listener.vanished("Kind", "a/gone");
        listener.begin("Kind", "a/x")(common::End::Done);
        // By a timer, without a word.
        listener.begin("Kind", "a/z")(common::End::Done);
        assert!(has(&metrics, r#"work_queue_depth{controller="Kind"} 1"#));
        assert!(has(&metrics, r#"work_queue_latency_seconds_count{controller="Kind"} 1"#));
        assert!(has(&metrics, r#"reconcile_total{controller="Kind",outcome="completed"} 2"#));
    }

    #[test]
    fn profiles_are_counted_over_all_control_planes() {
        let (listener, metrics) = listener();
        listener.profiles("a/one", &["ACTIVE", "CREATING"]);
        listener.profiles("a/two", &["ACTIVE", "NEVER_HEARD"]);
        assert!(has(&metrics, r#"capt_fargate_profiles{state="ACTIVE"} 2"#));
        assert!(has(&metrics, r#"capt_fargate_profiles{state="OTHER"} 1"#));
        listener.profiles("a/one", &[]);
        assert!(has(&metrics, r#"capt_fargate_profiles{state="ACTIVE"} 1"#));
        assert!(has(&metrics, r#"capt_fargate_profiles{state="CREATING"} 0"#));
    }

    #[test]
    fn a_sandbox_is_counted_in_the_phase_that_it_is_in() {
        let (listener, metrics) = listener();
        listener.sandbox("shop/one", Some("Progressing"));
        listener.sandbox("shop/two", Some("Progressing"));
        assert!(has(&metrics, r#"sandbox_phase{phase="Progressing"} 2"#));
        listener.sandbox("shop/one", Some("Ready"));
        assert!(has(&metrics, r#"sandbox_phase{phase="Progressing"} 1"#));
        assert!(has(&metrics, r#"sandbox_phase{phase="Ready"} 1"#));
        listener.propagated(Duration::from_millis(80));
        assert!(has(&metrics, "route_propagation_seconds_count 1"));
        listener.sandbox("shop/one", None);
        assert!(has(&metrics, r#"sandbox_phase{phase="Ready"} 0"#));
    }

    #[test]
    fn a_workspace_drifts_once_however_often_it_is_said() {
        let (listener, metrics) = listener();
        listener.drifted("a/x", true);
        listener.drifted("a/x", true);
        assert!(has(&metrics, "capt_drifted_workspaces 1"));
        listener.drifted("a/x", false);
        assert!(has(&metrics, "capt_drifted_workspaces 0"));
    }
}
