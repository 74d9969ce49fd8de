//! Implements the metrics traits of `k8s`, `runs` and `controllers` with the Prometheus metrics of `telemetry`.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use capt_controllers::common::{self, ProvisionedResource};
use capt_engine::runs::{PhaseGuard, RunMetrics, RunPriority};
use capt_kinds::api::{RunOperation, RunPhase};
use capt_kube::k8s::{CallMetrics, CallOutcome};

use crate::telemetry::{Metrics, metrics::CallResult};

/// Metrics of terraform runs.
pub(super) struct RunMetricsBridge {
    metrics: Metrics,
}

impl RunMetricsBridge {
    pub(super) fn new(metrics: Metrics) -> Self {
        Self { metrics }
    }
}

impl RunMetrics for RunMetricsBridge {
    fn record_slot_wait(&self, lane: RunPriority, waited: Duration) {
        self.metrics.run_waited(lane.into(), waited);
    }

    fn record_cluster_lock_wait(&self, waited: Duration) {
        self.metrics.lock_waited(waited);
    }

    fn start_phase(&self, operation: RunOperation, phase: RunPhase) -> PhaseGuard {
        Box::new(self.metrics.run_phase(operation_label(operation), phase_label(phase)))
    }

    fn record_gateway_bypass(&self) {
        self.metrics.record_gateway_bypass();
    }

    fn record_state_lag(&self, lag: Duration) {
        self.metrics.state_lagged(lag);
    }

    fn record_journal_replication(&self, took: Duration) {
        self.metrics.journal_replicated(took);
    }

    fn record_journal_failure(&self) {
        self.metrics.journal_failed();
    }

    fn record_run(&self, operation: RunOperation, result: &'static str, _: Duration) {
        self.metrics.run_finished(operation_label(operation), result);
    }
}

const fn operation_label(operation: RunOperation) -> &'static str {
    match operation {
        RunOperation::Apply => "apply",
        RunOperation::Check => "check",
        RunOperation::Destroy => "destroy",
    }
}

const fn phase_label(phase: RunPhase) -> &'static str {
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

/// Metrics of API calls.
pub(super) struct ApiCallMetricsBridge(pub(super) Metrics);

impl CallMetrics for ApiCallMetricsBridge {
    fn record(&self, _: &'static str, outcome: CallOutcome) {
        self.0.api_call(match outcome {
            CallOutcome::Ok => CallResult::Ok,
            CallOutcome::Failed => CallResult::Failed,
            CallOutcome::TimedOut => CallResult::Timeout,
        });
    }
}

/// Metrics of the controllers.
pub(super) struct ReconcileMetricsBridge {
    metrics: Metrics,
    /// Enqueue times of waiting objects, by kind.
    waiting: Mutex<BTreeMap<&'static str, BTreeMap<String, Instant>>>,
    drifted: Mutex<BTreeSet<String>>,
    /// Profile states of each control plane.
    profiles: Mutex<BTreeMap<String, Vec<&'static str>>>,
    /// The phase of each Sandbox.
    sandboxes: Mutex<BTreeMap<String, &'static str>>,
}

/// Known EKS profile states. Unknown states count as `OTHER`, to bound the label values.
const PROFILE_STATES: [&str; 6] =
    ["ACTIVE", "CREATING", "CREATE_FAILED", "DELETING", "DELETE_FAILED", "OTHER"];

impl ReconcileMetricsBridge {
    pub(super) fn new(metrics: Metrics) -> Self {
        Self {
            metrics,
            waiting: Mutex::default(),
            drifted: Mutex::default(),
            profiles: Mutex::default(),
            sandboxes: Mutex::default(),
        }
    }

    /// Removes an object from the queue; returns how long it waited.
    fn dequeue(&self, kind: &'static str, object: &str) -> Option<Duration> {
        let mut waiting = lock(&self.waiting);
        let queue = waiting.entry(kind).or_default();
        let since = queue.remove(object);
        self.metrics.controller(kind).set_queue_depth(queue.len());
        since.map(|since| since.elapsed())
    }
}

impl common::ControllerMetricsSink for ReconcileMetricsBridge {
    fn enqueued(&self, kind: &'static str, object: &str) {
        let mut waiting = lock(&self.waiting);
        let queue = waiting.entry(kind).or_default();
        if !queue.contains_key(object) {
            queue.insert(object.to_owned(), Instant::now());
            self.metrics.controller(kind).set_queue_depth(queue.len());
        }
    }

    fn object_gone(&self, kind: &'static str, object: &str) {
        let _waited_for_nothing = self.dequeue(kind, object);
    }

    fn reconcile_started(
        &self,
        kind: &'static str,
        object: &str,
    ) -> Box<dyn FnOnce(common::ReconcileOutcome) + Send> {
        let controller = self.metrics.controller(kind);
        if let Some(waited) = self.dequeue(kind, object) {
            controller.queue_waited(waited);
        }
        let timer = controller.reconcile();
        Box::new(move |end| match end {
            common::ReconcileOutcome::Succeeded => timer.completed(),
            common::ReconcileOutcome::Failed(class) => timer.failed(class.as_str()),
        })
    }

    fn resource_created(&self, thing: ProvisionedResource, took: Duration) {
        match thing {
            ProvisionedResource::Cluster => self.metrics.cluster_created(took),
            ProvisionedResource::FargateProfile => self.metrics.profile_created(took),
        }
    }

    fn resource_deleted(&self, thing: ProvisionedResource, took: Duration) {
        match thing {
            ProvisionedResource::Cluster => self.metrics.cluster_deleted(took),
            ProvisionedResource::FargateProfile => self.metrics.profile_deleted(took),
        }
    }

    fn fargate_profile_states(&self, control_plane: &str, states: &[&str]) {
        let known = |state: &&str| PROFILE_STATES.into_iter().find(|it| it == state).unwrap_or("OTHER");
        let mut all = lock(&self.profiles);
        if states.is_empty() {
            all.remove(control_plane);
        } else {
            all.insert(control_plane.to_owned(), states.iter().map(known).collect());
        }
        for state in PROFILE_STATES {
            self.metrics.set_profiles(state, all.values().flatten().filter(|it| **it == state).count());
        }
    }

    fn set_drift(&self, workspace: &str, is: bool) {
        let mut drifted = lock(&self.drifted);
        if is {
            drifted.insert(workspace.to_owned());
        } else {
            drifted.remove(workspace);
        }
        self.metrics.set_drifted(drifted.len());
    }

    fn sandbox_phase(&self, sandbox: &str, phase: Option<&'static str>) {
        let mut all = lock(&self.sandboxes);
        let before = match phase {
            Some(phase) => all.insert(sandbox.to_owned(), phase),
            None => all.remove(sandbox),
        };
        for phase in [before, phase].into_iter().flatten() {
            self.metrics.set_sandboxes(phase, all.values().filter(|it| **it == phase).count());
        }
    }

    fn routes_propagated(&self, took: Duration) {
        self.metrics.routes_propagated(took);
    }

    fn state_backed_up(&self, took: Duration) {
        self.metrics.state_replicated(took);
    }
}

fn lock<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use capt_controllers::common::ControllerMetricsSink as _;

    fn listener() -> (ReconcileMetricsBridge, Metrics) {
        let metrics = Metrics::new("test");
        (ReconcileMetricsBridge::new(metrics.clone()), metrics)
    }

    fn has(metrics: &Metrics, line: &str) -> bool {
        metrics.encode().unwrap().lines().any(|it| it == line)
    }

    #[test]
    fn an_object_waits_from_the_first_word_until_its_reconcile() {
        let (listener, metrics) = listener();
        for object in ["a/x", "a/x", "a/y", "a/gone"] {
            listener.enqueued("Kind", object);
        }
        assert!(has(&metrics, r#"work_queue_depth{controller="Kind"} 3"#));
        listener.object_gone("Kind", "a/gone");
        listener.reconcile_started("Kind", "a/x")(common::ReconcileOutcome::Succeeded);
        // By a timer, without a word.
        listener.reconcile_started("Kind", "a/z")(common::ReconcileOutcome::Succeeded);
        assert!(has(&metrics, r#"work_queue_depth{controller="Kind"} 1"#));
        assert!(has(&metrics, r#"work_queue_latency_seconds_count{controller="Kind"} 1"#));
        assert!(has(&metrics, r#"reconcile_total{controller="Kind",outcome="completed"} 2"#));
    }

    #[test]
    fn profiles_are_counted_over_all_control_planes() {
        let (listener, metrics) = listener();
        listener.fargate_profile_states("a/one", &["ACTIVE", "CREATING"]);
        listener.fargate_profile_states("a/two", &["ACTIVE", "NEVER_HEARD"]);
        assert!(has(&metrics, r#"capt_fargate_profiles{state="ACTIVE"} 2"#));
        assert!(has(&metrics, r#"capt_fargate_profiles{state="OTHER"} 1"#));
        listener.fargate_profile_states("a/one", &[]);
        assert!(has(&metrics, r#"capt_fargate_profiles{state="ACTIVE"} 1"#));
        assert!(has(&metrics, r#"capt_fargate_profiles{state="CREATING"} 0"#));
    }

    #[test]
    fn a_sandbox_is_counted_in_the_phase_that_it_is_in() {
        let (listener, metrics) = listener();
        listener.sandbox_phase("shop/one", Some("Progressing"));
        listener.sandbox_phase("shop/two", Some("Progressing"));
        assert!(has(&metrics, r#"sandbox_phase{phase="Progressing"} 2"#));
        listener.sandbox_phase("shop/one", Some("Ready"));
        assert!(has(&metrics, r#"sandbox_phase{phase="Progressing"} 1"#));
        assert!(has(&metrics, r#"sandbox_phase{phase="Ready"} 1"#));
        listener.routes_propagated(Duration::from_millis(80));
        assert!(has(&metrics, "route_propagation_seconds_count 1"));
        listener.sandbox_phase("shop/one", None);
        assert!(has(&metrics, r#"sandbox_phase{phase="Ready"} 0"#));
    }

    #[test]
    fn a_workspace_drifts_once_however_often_it_is_said() {
        let (listener, metrics) = listener();
        listener.set_drift("a/x", true);
        listener.set_drift("a/x", true);
        assert!(has(&metrics, "capt_drifted_workspaces 1"));
        listener.set_drift("a/x", false);
        assert!(has(&metrics, "capt_drifted_workspaces 0"));
    }
}
