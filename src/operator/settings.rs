//! Settings and dependencies of the operator.

use std::{collections::BTreeMap, net::SocketAddr, path::PathBuf, time::Duration};

pub use capt_controllers::common::template_policy::TemplatePolicy;
use capt_engine::{aws::Cloud, gateway::GatewayHandle, pipeline::SizeLimits, process_env::ProcessEnv};
use capt_model::model::Limits;
use terraform_driver::{engine::Engine, run::PhaseDeadlines};

use crate::telemetry::LogLevel;

/// Settings of the operator.
#[derive(Debug, Clone)]
pub struct OperatorSettings {
    /// The only namespace to reconcile; all if `None`.
    pub namespace: Option<String>,
    /// Reconcile only objects with this value of the watch-filter label.
    pub watch_filter: Option<String>,
    /// Whether to run the Sandbox controllers.
    pub sandboxes: bool,
    /// Namespace of the leader election Lease; no leader election if `None`.
    pub leader_election: Option<String>,
    /// Listen address for health and metrics.
    pub listen: Option<SocketAddr>,
    /// Listen address of the admission webhook.
    pub webhook_listen: Option<SocketAddr>,
    /// Whether to act as the Cluster API core controller.
    pub standalone: StandaloneMode,
    /// Maximum concurrent terraform processes.
    pub parallel: usize,
    /// Memory budget of all terraform processes.
    pub memory_budget_mb: u64,
    /// How runs share slots, and for how long.
    pub scheduling: SchedulingSettings,
    /// Default drift detection interval.
    pub drift_interval: Duration,
    /// Domain of preview hosts, if the routers have one.
    pub preview_domain: Option<String>,
    /// Which templates a namespace without the label may use.
    pub templates: TemplatePolicy,
    /// Whether every workspace needs a `CAPTIdentity`, so that none uses the operator's own credentials.
    pub require_identity: bool,
    /// Whether an EKS cluster made by a template needs the owner tag, and not only its ARN in the state.
    pub require_owner_tag: bool,
    /// Limits on the sizes of sources, bundles, states and logs.
    pub size_limits: SizeLimits,
    /// Quotas of the AWS account.
    pub limits: Limits,
}

/// How runs share slots, and for how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchedulingSettings {
    /// The most slots that one namespace may have; all of them if `None`.
    pub max_per_namespace: Option<usize>,
    /// Weights of namespaces; 1 for all others.
    pub weights: BTreeMap<String, u32>,
    /// Deadlines of the commands of a run.
    pub deadlines: PhaseDeadlines,
}

/// An apply that takes longer than the slowest objects of AWS has stopped working.
const APPLY_DEADLINE: Duration = Duration::from_hours(2);

impl Default for SchedulingSettings {
    fn default() -> Self {
        let deadlines = PhaseDeadlines { apply: Some(APPLY_DEADLINE), ..PhaseDeadlines::default() };
        Self { max_per_namespace: None, weights: BTreeMap::new(), deadlines }
    }
}

/// Whether to act as the Cluster API core controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum StandaloneMode {
    /// If Cluster API is absent.
    #[default]
    Auto,
    /// Always.
    On,
    /// Never.
    Off,
}

/// Dependencies of the operator.
pub struct Dependencies {
    /// Client of the Kubernetes API.
    pub client: kube::Client,
    /// The process environment.
    pub process_env: ProcessEnv,
    /// The data directory.
    pub data: PathBuf,
    /// The terraform engine.
    pub engine: Engine,
    /// Content of the terraform CLI configuration.
    pub cli_config: String,
    /// The provider gateway; `None` if every terraform starts its own providers.
    pub gateway: Option<GatewayHandle>,
    /// Whether runs are confined.
    pub is_isolated: bool,
    /// Target AWS.
    pub cloud: Cloud,
    /// Region of objects without one.
    pub default_region: String,
    /// Handle of the log filter, if it can be changed at run time.
    pub log_level: Option<LogLevel>,
}
