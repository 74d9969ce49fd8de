//! The metrics by name: what each one is, its buckets, and the sentence that explains it.

use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram, info::Info},
    registry::{Registry, Unit},
};

/// One label and its value.
pub(super) type One = [(&'static str, &'static str); 1];
/// Two labels and their values.
pub(super) type Two = [(&'static str, &'static str); 2];

/// Work in our own process: from a millisecond to a minute.
const SHORT: [f64; 15] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];
/// Work of terraform and AWS: from a second to two hours.
const LONG: [f64; 15] =
    [1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1200.0, 1800.0, 3600.0, 7200.0];

pub(super) fn short() -> Histogram {
    Histogram::new(SHORT)
}

pub(super) fn long() -> Histogram {
    Histogram::new(LONG)
}

type Counters<Labels> = Family<Labels, Counter>;
type Gauges = Family<One, Gauge>;
type Histograms<Labels> = Family<Labels, Histogram>;

pub(super) struct Families {
    pub(super) reconciles: Counters<Two>,
    pub(super) reconcile_errors: Counters<Two>,
    pub(super) reconcile_duration: Histograms<One>,
    pub(super) queue_depth: Gauges,
    pub(super) queue_latency: Histograms<One>,
    pub(super) runs: Gauges,
    pub(super) runs_finished: Counters<Two>,
    pub(super) run_duration: Histograms<Two>,
    pub(super) run_wait: Histograms<One>,
    pub(super) lock_wait: Histogram,
    pub(super) drifted: Gauge,
    pub(super) plain_runs: Counter,
    pub(super) state_replication: Histogram,
    pub(super) profiles: Gauges,
    pub(super) sandboxes: Gauges,
    pub(super) route_propagation: Histogram,
    pub(super) profile_creation: Histogram,
    pub(super) profile_deletion: Histogram,
    pub(super) cluster_creation: Histogram,
    pub(super) cluster_deletion: Histogram,
    pub(super) api_calls: Counters<One>,
    pub(super) leader: Gauge,
}

impl Default for Families {
    fn default() -> Self {
        Self {
            reconciles: Family::default(),
            reconcile_errors: Family::default(),
            reconcile_duration: Family::new_with_constructor(short),
            queue_depth: Family::default(),
            queue_latency: Family::new_with_constructor(short),
            runs: Family::default(),
            runs_finished: Family::default(),
            run_duration: Family::new_with_constructor(long),
            run_wait: Family::new_with_constructor(long),
            lock_wait: long(),
            drifted: Gauge::default(),
            plain_runs: Counter::default(),
            state_replication: short(),
            profiles: Family::default(),
            sandboxes: Family::default(),
            route_propagation: short(),
            profile_creation: long(),
            profile_deletion: long(),
            cluster_creation: long(),
            cluster_deletion: long(),
            api_calls: Family::default(),
            leader: Gauge::default(),
        }
    }
}

impl Families {
    /// Gives every metric its name. A counter's name gets `_total`, an info's `_info` and a unit its own from the library.
    pub(super) fn register(&self, registry: &mut Registry, version: &'static str) {
        self.register_controllers(registry);
        self.register_runs(registry);
        self.register_clusters(registry);
        registry.register(
            "capt_api_calls",
            "Calls to the API server, by how they ended",
            self.api_calls.clone(),
        );
        registry.register("capt_leader", "1 if this process leads, 0 if it stands by", self.leader.clone());
        registry.register("capt_build", "What runs", Info::new([("version", version)]));
    }

    fn register_controllers(&self, registry: &mut Registry) {
        registry.register("reconcile", "Reconciles, by how they ended", self.reconciles.clone());
        registry.register(
            "reconcile_errors",
            "Reconciles that failed, by the class of the error",
            self.reconcile_errors.clone(),
        );
        registry.register("work_queue_depth", "Objects that wait for a reconcile", self.queue_depth.clone());
        seconds(
            registry,
            [
                ("reconcile_duration", "Time a reconcile takes", &self.reconcile_duration),
                ("work_queue_latency", "Time an object waits for its reconcile", &self.queue_latency),
            ],
        );
    }

    fn register_runs(&self, registry: &mut Registry) {
        registry.register("capt_runs", "Runs of terraform at present, by phase", self.runs.clone());
        registry.register(
            "capt_runs_finished",
            "Runs of terraform that ended, by result",
            self.runs_finished.clone(),
        );
        registry.register(
            "capt_drifted_workspaces",
            "Workspaces that differ from reality",
            self.drifted.clone(),
        );
        registry.register(
            "capt_plain_runs",
            "Commands of terraform that had to do without the gateway",
            self.plain_runs.clone(),
        );
        seconds(registry, [("capt_run_duration", "Time a run spends in a phase", &self.run_duration)]);
        seconds(
            registry,
            [("capt_run_queue_wait", "Time a run waits for a slot of its lane", &self.run_wait)],
        );
        seconds(
            registry,
            [
                (
                    "capt_cluster_lock_wait",
                    "Time a run waits for the lock of its EKS cluster",
                    &self.lock_wait,
                ),
                ("capt_state_replication", "Time to copy a state to the API server", &self.state_replication),
            ],
        );
    }

    fn register_clusters(&self, registry: &mut Registry) {
        registry.register("sandbox_phase", "Sandboxes, by phase", self.sandboxes.clone());
        seconds(
            registry,
            [("route_propagation", "Time until all routers have routes", &self.route_propagation)],
        );
        registry.register(
            "capt_fargate_profiles",
            "Fargate profiles, by state in EKS",
            self.profiles.clone(),
        );
        seconds(
            registry,
            [
                ("capt_fargate_profile_creation", "Time to make a Fargate profile", &self.profile_creation),
                ("capt_fargate_profile_deletion", "Time to delete a Fargate profile", &self.profile_deletion),
                ("capt_cluster_creation", "Time until a cluster is ready", &self.cluster_creation),
                ("capt_cluster_deletion", "Time until a cluster is gone", &self.cluster_deletion),
            ],
        );
    }
}

fn seconds<M, const N: usize>(registry: &mut Registry, metrics: [(&str, &str, &M); N])
where
    M: prometheus_client::registry::Metric + Clone,
{
    for (name, help, metric) in metrics {
        registry.register_with_unit(name, help, Unit::Seconds, metric.clone());
    }
}
