//! Dependencies of every reconcile: API client, settings, events, clock, metrics, error backoff.

use std::{sync::Arc, time::Duration};

use capt_kube::k8s::{KubeClient, events::EventPublisher};
use jiff::Timestamp;

use super::{ControllerMetricsSink, error_policy::ErrorBackoff, template_policy::TemplatePolicy};

/// Settings from the command line.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Reconcile only objects whose watch-filter label has this value.
    pub watch_filter: Option<String>,
    /// Watch only this namespace.
    pub namespace: Option<String>,
    /// Time after which a VPC that is not ready is reported as overdue; a control plane may override it.
    pub vpc_timeout: Duration,
    /// DNS domain of preview endpoint hosts, if the routers serve one.
    pub preview_domain: Option<String>,
    /// Whether the Sandbox controllers run, which have permissions that nothing else needs.
    pub sandboxes: bool,
    /// Concurrent reconciles per kind.
    pub concurrency: u16,
    /// Which templates a namespace without the label may use.
    pub templates: TemplatePolicy,
    /// Whether every workspace needs a `CAPTIdentity`; otherwise one without uses the operator's own credentials.
    pub require_identity: bool,
    /// Whether an EKS cluster made by a template needs the owner tag. Where all users trust each other, the state of the
    /// workspace is enough.
    pub require_owner_tag: bool,
    /// Why the runs of templates cannot be confined, although they should be: then no namespace may use any.
    pub isolation_problem: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            watch_filter: None,
            namespace: None,
            vpc_timeout: Duration::from_mins(15),
            preview_domain: None,
            sandboxes: true,
            concurrency: 16,
            templates: TemplatePolicy::default(),
            require_identity: false,
            require_owner_tag: true,
            isolation_problem: None,
        }
    }
}

/// Dependencies of every reconcile.
pub struct Context {
    /// Client of the API server.
    pub kube: KubeClient,
    /// Settings from the command line.
    pub settings: Settings,
    /// Publishes Kubernetes events.
    pub events: EventPublisher,
    /// The clock; tests replace it.
    pub clock: fn() -> Timestamp,
    /// The version in which the API server serves Clusters.
    pub cluster_version: String,
    /// Metrics hooks.
    pub metrics: Arc<dyn ControllerMetricsSink>,
    /// Backoff after consecutive failures, per object.
    pub backoff: ErrorBackoff,
}

impl std::fmt::Debug for Context {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Context").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Context {
    /// Uses the system clock and no metrics.
    pub fn new(
        kube: KubeClient,
        settings: Settings,
        events: EventPublisher,
        cluster_version: impl Into<String>,
    ) -> Self {
        Self {
            kube,
            settings,
            events,
            clock: terraform_driver::clock::now,
            cluster_version: cluster_version.into(),
            metrics: Arc::new(()),
            backoff: ErrorBackoff::default(),
        }
    }

    /// Sets the metrics hooks.
    #[must_use]
    pub fn with_metrics(mut self, meter: Arc<dyn ControllerMetricsSink>) -> Self {
        self.metrics = meter;
        self
    }

    /// Sets the clock.
    #[must_use]
    pub fn with_clock(mut self, clock: fn() -> Timestamp) -> Self {
        self.clock = clock;
        self
    }
}
