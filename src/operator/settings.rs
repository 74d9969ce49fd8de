//! How the operator works, and what it works with.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use terraform_driver::engine::Engine;

use crate::{aws::Cloud, config::Outer, gateway::Gateway, model::Limits, telemetry::LogLevel};

/// How it works.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The one namespace that is looked at; all if left out.
    pub namespace: Option<String>,
    /// Only objects with this value of the watch-filter label.
    pub watch_filter: Option<String>,
    /// The namespace of the lease that makes one of several the leader.
    pub leader_election: Option<String>,
    /// Where health and metrics are served.
    pub listen: Option<SocketAddr>,
    /// Where the admission webhook is served.
    pub webhook_listen: Option<SocketAddr>,
    /// Whether we play the part of Cluster API's core.
    pub standalone: Standalone,
    /// How many terraform processes may run at once.
    pub parallel: usize,
    /// How much memory they may use together.
    pub memory_budget_mb: u64,
    /// How often drift is looked for.
    pub drift_interval: Duration,
    /// The domain of the hosts of endpoints, if routers serve one.
    pub preview_domain: Option<String>,
    /// Quotas of the account.
    pub limits: Limits,
}

/// Whether we play the part of Cluster API's core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Standalone {
    /// Where Cluster API is absent.
    #[default]
    Auto,
    /// Always.
    On,
    /// Never.
    Off,
}

/// What it works with.
pub struct Surroundings {
    /// The Kubernetes API.
    pub client: kube::Client,
    /// What the process was started in.
    pub outer: Outer,
    /// The data directory.
    pub data: PathBuf,
    /// Terraform.
    pub engine: Engine,
    /// The text of our own terraform CLI configuration.
    pub cli_config: String,
    /// Runs the providers; nothing if every terraform shall start its own.
    pub gateway: Option<Gateway>,
    /// Which AWS.
    pub cloud: Cloud,
    /// For objects that name no region.
    pub default_region: String,
    /// The log, if its level can be changed while we run.
    pub log_level: Option<LogLevel>,
}
