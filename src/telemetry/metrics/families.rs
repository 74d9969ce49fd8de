//! Metric families: types, buckets and help texts.

use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram, info::Info},
    registry::{Registry, Unit},
};

/// One label and its value.
pub(super) type OneLabel = [(&'static str, &'static str); 1];
/// Two labels and their values.
pub(super) type TwoLabels = [(&'static str, &'static str); 2];

/// Buckets for in-process work: a millisecond to a minute.
const SHORT_BUCKETS: [f64; 15] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];
/// Buckets for terraform and AWS operations: a second to two hours.
const LONG_BUCKETS: [f64; 15] =
    [1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1200.0, 1800.0, 3600.0, 7200.0];

pub(super) fn short_histogram() -> Histogram {
    Histogram::new(SHORT_BUCKETS)
}

pub(super) fn long_histogram() -> Histogram {
    Histogram::new(LONG_BUCKETS)
}

type Counters<Labels> = Family<Labels, Counter>;
type Gauges = Family<OneLabel, Gauge>;
type Histograms<Labels> = Family<Labels, Histogram>;

pub(super) struct Families {
    pub(super) reconciles: Counters<TwoLabels>,
    pub(super) reconcile_errors: Counters<TwoLabels>,
    pub(super) reconcile_duration: Histograms<OneLabel>,
    pub(super) queue_depth: Gauges,
    pub(super) queue_latency: Histograms<OneLabel>,
    pub(super) runs: Gauges,
    pub(super) runs_finished: Counters<TwoLabels>,
    pub(super) run_duration: Histograms<TwoLabels>,
    pub(super) run_wait: Histograms<OneLabel>,
    pub(super) lock_wait: Histogram,
    pub(super) drifted: Gauge,
    pub(super) gateway_bypasses: Counter,
    pub(super) state_replication: Histogram,
    pub(super) state_replication_lag: Histogram,
    pub(super) journal_replication: Histogram,
    pub(super) journal_failures: Counter,
    pub(super) profiles: Gauges,
    pub(super) sandboxes: Gauges,
    pub(super) route_propagation: Histogram,
    pub(super) profile_creation: Histogram,
    pub(super) profile_deletion: Histogram,
    pub(super) cluster_creation: Histogram,
    pub(super) cluster_deletion: Histogram,
    pub(super) api_calls: Counters<OneLabel>,
    pub(super) leader: Gauge,
}

impl Default for Families {
    fn default() -> Self {
        Self {
            reconciles: Family::default(),
            reconcile_errors: Family::default(),
            reconcile_duration: Family::new_with_constructor(short_histogram),
            queue_depth: Family::default(),
            queue_latency: Family::new_with_constructor(short_histogram),
            runs: Family::default(),
            runs_finished: Family::default(),
            run_duration: Family::new_with_constructor(long_histogram),
            run_wait: Family::new_with_constructor(long_histogram),
            lock_wait: long_histogram(),
            drifted: Gauge::default(),
            gateway_bypasses: Counter::default(),
            state_replication: short_histogram(),
            state_replication_lag: short_histogram(),
            journal_replication: short_histogram(),
            journal_failures: Counter::default(),
            profiles: Family::default(),
            sandboxes: Family::default(),
            route_propagation: short_histogram(),
            profile_creation: long_histogram(),
            profile_deletion: long_histogram(),
            cluster_creation: long_histogram(),
            cluster_deletion: long_histogram(),
            api_calls: Family::default(),
            leader: Gauge::default(),
        }
    }
}

impl Families {
    /// Registers every metric. The library appends `_total` to counters, `_info` to infos, and the unit.
    pub(super) fn register(&self, registry: &mut Registry, version: &'static str) {
        self.register_controllers(registry);
        self.register_runs(registry);
        self.register_clusters(registry);
        registry.register("capt_api_calls", "API server calls, by result", self.api_calls.clone());
        registry.register(
            "capt_leader",
            "1 if this process is the leader, 0 if it is on standby",
            self.leader.clone(),
        );
        registry.register("capt_build", "Build information", Info::new([("version", version)]));
    }

    fn register_controllers(&self, registry: &mut Registry) {
        registry.register("reconcile", "Reconciles, by outcome", self.reconciles.clone());
        registry.register(
            "reconcile_errors",
            "Failed reconciles, by error class",
            self.reconcile_errors.clone(),
        );
        registry.register("work_queue_depth", "Objects waiting for a reconcile", self.queue_depth.clone());
        register_seconds(
            registry,
            [
                ("reconcile_duration", "Duration of a reconcile", &self.reconcile_duration),
                ("work_queue_latency", "Time an object waits in the queue", &self.queue_latency),
            ],
        );
    }

    fn register_runs(&self, registry: &mut Registry) {
        registry.register("capt_runs", "Current terraform runs, by phase", self.runs.clone());
        registry.register(
            "capt_runs_finished",
            "Finished terraform runs, by operation and result",
            self.runs_finished.clone(),
        );
        registry.register("capt_drifted_workspaces", "Workspaces with drift", self.drifted.clone());
        registry.register(
            "capt_plain_runs",
            "Terraform commands that bypassed the provider gateway",
            self.gateway_bypasses.clone(),
        );
        registry.register(
            "capt_journal_replication_failures",
            "Attempts to save journal entries to the API server that failed",
            self.journal_failures.clone(),
        );
        register_seconds(registry, [("capt_run_duration", "Duration of a run phase", &self.run_duration)]);
        register_seconds(
            registry,
            [("capt_run_queue_wait", "Time a run waits for a scheduler slot", &self.run_wait)],
        );
        register_seconds(
            registry,
            [
                (
                    "capt_cluster_lock_wait",
                    "Time a run waits for the lock of its EKS cluster",
                    &self.lock_wait,
                ),
                ("capt_state_replication", "Time to save a state to the API server", &self.state_replication),
                (
                    "capt_state_replication_lag",
                    "Time from the write of a state version until the API server has it",
                    &self.state_replication_lag,
                ),
                (
                    "capt_journal_replication",
                    "Time to save journal entries to the API server",
                    &self.journal_replication,
                ),
            ],
        );
    }

    fn register_clusters(&self, registry: &mut Registry) {
        registry.register("sandbox_phase", "Sandboxes, by phase", self.sandboxes.clone());
        register_seconds(
            registry,
            [("route_propagation", "Time until all routers have the routes", &self.route_propagation)],
        );
        registry.register(
            "capt_fargate_profiles",
            "Fargate profiles, by state in EKS",
            self.profiles.clone(),
        );
        register_seconds(
            registry,
            [
                ("capt_fargate_profile_creation", "Time to create a Fargate profile", &self.profile_creation),
                ("capt_fargate_profile_deletion", "Time to delete a Fargate profile", &self.profile_deletion),
                ("capt_cluster_creation", "Time to create a cluster", &self.cluster_creation),
                ("capt_cluster_deletion", "Time to delete a cluster", &self.cluster_deletion),
            ],
        );
    }
}

fn register_seconds<M, const N: usize>(registry: &mut Registry, metrics: [(&str, &str, &M); N])
where
    M: prometheus_client::registry::Metric + Clone,
{
    for (name, help, metric) in metrics {
        registry.register_with_unit(name, help, Unit::Seconds, metric.clone());
    }
}
