//! Runs all controllers. If one stops unexpectedly, all stop: a restart is better than a silently missing controller.

use std::sync::Arc;

use anyhow::bail;
use capt_controllers::{
    capi_cluster, captcluster, common, controlplane, identity, sandbox_common::remote_target::SandboxScope,
    template, workspace,
};
use capt_engine::{
    aws::{Cloud, SdkConfigCache},
    runs::RunManager,
};
use capt_kube::k8s::{EventPublisher, FencingToken, KubeClient, state_store::KubeStateStore};
use capt_model::workspaces::{ProviderDefaults, WorkspaceKey};
use tokio::{sync::mpsc, task::JoinSet};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    cluster_kind::ClusterKind,
    sandbox_controllers::{SandboxControllers, remote_starter},
    settings::OperatorSettings,
};

/// Shared dependencies of the controllers.
pub(super) struct Controllers {
    pub(super) kube: KubeClient,
    pub(super) settings: OperatorSettings,
    pub(super) provider_defaults: ProviderDefaults,
    pub(super) cloud: Cloud,
    pub(super) metrics: Arc<dyn common::ControllerMetricsSink>,
    pub(super) cluster_kind: ClusterKind,
    pub(super) runs: RunManager,
    pub(super) isolation_problem: Option<String>,
}

impl Controllers {
    /// Runs until `stop` is cancelled or a controller stops unexpectedly.
    pub(super) async fn run(
        self,
        fence: FencingToken,
        told: mpsc::UnboundedReceiver<WorkspaceKey>,
        stop: CancellationToken,
    ) -> anyhow::Result<()> {
        let mut all = JoinSet::new();
        let sessions = Arc::new(SdkConfigCache::new(self.cloud.clone()));
        if self.cluster_kind.standalone {
            all.spawn(capi_cluster::run(self.context("capt/standalone"), stop.clone().cancelled_owned()));
        }
        all.spawn(captcluster::run(self.context("capt/cluster"), stop.clone().cancelled_owned()));
        all.spawn(controlplane::run(self.control_plane(&sessions), stop.clone().cancelled_owned()));
        all.spawn(workspace::run(Arc::new(self.workspace(fence)), told, stop.clone()));
        let elsewhere = TaskTracker::new();
        if self.settings.sandboxes {
            let sandboxes = self.sandboxes();
            let ground = SandboxScope::ManagementCluster(remote_starter(&sandboxes, &elsewhere, &stop));
            all.spawn(sandboxes.run(ground, stop.clone()));
        }
        all.spawn(template::run(Arc::new(self.template()), stop.clone()));
        all.spawn(identity::run(Arc::new(self.identity(&sessions)), stop.clone()));
        let outcome = tokio::select! {
            () = stop.cancelled() => Ok(()),
            ended = all.join_next() => match ended {
                Some(Err(broken)) => Err(anyhow::Error::from(broken).context("a controller panicked")),
                _ if stop.is_cancelled() => Ok(()),
                _ => controller_ended(),
            },
        };
        // No new runs from here on.
        self.runs.close();
        stop.cancel();
        while all.join_next().await.is_some() {}
        elsewhere.close();
        elsewhere.wait().await;
        // Without leader election the next process shares this data directory and adopts the running shims. A new leader on
        // another disk cannot see them and would start concurrent runs on the same EKS clusters, so they are drained first.
        if self.settings.leader_election.is_some() {
            tracing::info!(
                runs = self.runs.active_count(),
                "holding the Lease until running terraform processes finish"
            );
            self.runs.drain().await;
        }
        outcome
    }

    fn common_settings(&self) -> common::Settings {
        common::Settings {
            watch_filter: self.settings.watch_filter.clone(),
            namespace: self.settings.namespace.clone(),
            preview_domain: self.settings.preview_domain.clone(),
            sandboxes: self.settings.sandboxes,
            templates: self.settings.templates,
            require_identity: self.settings.require_identity,
            require_owner_tag: self.settings.require_owner_tag,
            isolation_problem: self.isolation_problem.clone(),
            ..common::Settings::default()
        }
    }

    fn sandboxes(&self) -> SandboxControllers {
        SandboxControllers {
            kube: self.kube.clone(),
            settings: self.common_settings(),
            metrics: Arc::clone(&self.metrics),
        }
    }

    /// The shared context, with events reported by this controller.
    fn context(&self, controller: &str) -> Arc<common::Context> {
        let events = EventPublisher::new(self.kube.clone(), controller, "capt");
        let context = common::Context::new(
            self.kube.clone(),
            self.common_settings(),
            events,
            &self.cluster_kind.version,
        );
        Arc::new(context.with_metrics(Arc::clone(&self.metrics)))
    }

    fn workspace(&self, fence: FencingToken) -> workspace::WorkspaceContext {
        workspace::WorkspaceContext {
            common: self.context("capt/workspace"),
            runs: self.runs.clone(),
            state_store: KubeStateStore::new(self.kube.clone()),
            reference_index: workspace::ReferenceIndex::default(),
            provider_defaults: self.provider_defaults.clone(),
            drift_interval: self.settings.drift_interval,
            fence,
        }
    }

    fn control_plane(&self, sessions: &Arc<SdkConfigCache>) -> Arc<controlplane::Context> {
        let cloud = Arc::new(controlplane::eks_poll::AwsBackend::new(Arc::clone(sessions)));
        let context = controlplane::Context::new(self.context("capt/controlplane"), cloud);
        Arc::new(context.with_limits(self.settings.limits))
    }

    fn template(&self) -> template::TemplateContext {
        template::TemplateContext { common: self.context("capt/template"), runs: self.runs.clone() }
    }

    fn identity(&self, sessions: &Arc<SdkConfigCache>) -> identity::IdentityContext {
        identity::IdentityContext {
            common: self.context("capt/identity"),
            sessions: Arc::clone(sessions),
            region: self.provider_defaults.default_region.clone(),
        }
    }
}

fn controller_ended() -> anyhow::Result<()> {
    bail!("a controller stopped unexpectedly; this is a bug in capt")
}
