//! What every reconcile gets: the way to the API server, the settings, the clock.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;

use super::{Meter, policy::Attempts};
use crate::k8s::{Kube, events::Events};

/// What people set.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Only objects whose watch-filter label says this.
    pub watch_filter: Option<String>,
    /// Only objects of this namespace.
    pub namespace: Option<String>,
    /// How long a VPC may take before somebody should look; a control plane may say otherwise.
    pub vpc_timeout: Duration,
    /// The domain of the hosts of endpoints, if routers serve one.
    pub preview_domain: Option<String>,
    /// Objects of one kind that are looked at at the same time.
    pub concurrency: u16,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            watch_filter: None,
            namespace: None,
            vpc_timeout: Duration::from_mins(15),
            preview_domain: None,
            concurrency: 16,
        }
    }
}

/// What every reconcile gets.
pub struct Context {
    /// The API server.
    pub kube: Kube,
    /// What people set.
    pub settings: Settings,
    /// What is told about objects.
    pub events: Events,
    /// The time.
    pub clock: fn() -> Timestamp,
    /// The version in which the API server serves Clusters.
    pub cluster_version: String,
    /// Counts reconciles.
    pub meter: Arc<dyn Meter>,
    /// Failures in a row.
    pub attempts: Attempts,
}

impl std::fmt::Debug for Context {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Context").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Context {
    /// With the clock of the process, and counted by nobody.
    pub fn new(kube: Kube, settings: Settings, events: Events, cluster_version: impl Into<String>) -> Self {
        Self {
            kube,
            settings,
            events,
            clock: terraform_driver::clock::now,
            cluster_version: cluster_version.into(),
            meter: Arc::new(()),
            attempts: Attempts::default(),
        }
    }

    /// Counted by this one.
    #[must_use]
    pub fn with_meter(mut self, meter: Arc<dyn Meter>) -> Self {
        self.meter = meter;
        self
    }

    /// With another clock.
    #[must_use]
    pub fn with_clock(mut self, clock: fn() -> Timestamp) -> Self {
        self.clock = clock;
        self
    }
}
