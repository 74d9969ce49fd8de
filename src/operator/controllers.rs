//! All controllers at once. If one ends, all do: a controller that is silently gone is worse than a restart.

use std::sync::Arc;

use anyhow::bail;
use tokio::{sync::mpsc, task::JoinSet};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    cluster_kind::ClusterKind,
    sandboxes::{Crew, outposts},
    settings::Settings,
};
use crate::{
    aws::{Cloud, Sessions},
    blueprint::{Key, Place},
    controllers::{
        captcluster,
        common::{self, outpost::Ground},
        controlplane, identity, standalone, template, workspace,
    },
    k8s::{Events, Fence, Kube, vault::Vault},
    runs::Runs,
};

/// What the controllers share.
pub(super) struct Team {
    pub(super) kube: Kube,
    pub(super) settings: Settings,
    pub(super) place: Place,
    pub(super) cloud: Cloud,
    pub(super) meter: Arc<dyn common::Meter>,
    pub(super) cluster: ClusterKind,
    pub(super) runs: Runs,
}

impl Team {
    /// Works until `stop`, or until a controller ends by itself.
    pub(super) async fn work(
        self,
        fence: Fence,
        told: mpsc::UnboundedReceiver<Key>,
        stop: CancellationToken,
    ) -> anyhow::Result<()> {
        let mut all = JoinSet::new();
        let sessions = Arc::new(Sessions::new(self.cloud.clone()));
        if self.cluster.standalone {
            all.spawn(standalone::run(self.common("capt/standalone"), stop.clone().cancelled_owned()));
        }
        all.spawn(captcluster::run(self.common("capt/cluster"), stop.clone().cancelled_owned()));
        all.spawn(controlplane::run(self.control_plane(&sessions), stop.clone().cancelled_owned()));
        all.spawn(workspace::run(Arc::new(self.workspace(fence)), told, stop.clone()));
        let (sandboxes, elsewhere) = (self.sandboxes(), TaskTracker::new());
        let ground = Ground::Home(outposts(&sandboxes, &elsewhere, &stop));
        all.spawn(sandboxes.work(ground, stop.clone()));
        all.spawn(template::run(Arc::new(self.template()), stop.clone()));
        all.spawn(identity::run(Arc::new(self.identity(&sessions)), stop.clone()));
        let outcome = tokio::select! {
            () = stop.cancelled() => Ok(()),
            ended = all.join_next() => match ended {
                Some(Err(broken)) => Err(anyhow::Error::from(broken).context("a controller broke")),
                _ if stop.is_cancelled() => Ok(()),
                _ => bail_ended(),
            },
        };
        // Nothing new from here on.
        self.runs.close();
        stop.cancel();
        while all.join_next().await.is_some() {}
        elsewhere.close();
        elsewhere.wait().await;
        // Without a successor on another disk, what runs goes on under its shims, and the next process follows it. A
        // successor would know nothing of it: it would work on the same EKS cluster, and make the same things again.
        if self.settings.leader_election.is_some() {
            tracing::info!(runs = self.runs.active(), "leading until the running terraforms have ended");
            self.runs.drain().await;
        }
        outcome
    }

    fn set(&self) -> common::Settings {
        common::Settings {
            watch_filter: self.settings.watch_filter.clone(),
            namespace: self.settings.namespace.clone(),
            preview_domain: self.settings.preview_domain.clone(),
            ..common::Settings::default()
        }
    }

    fn sandboxes(&self) -> Crew {
        Crew { kube: self.kube.clone(), settings: self.set(), meter: Arc::clone(&self.meter) }
    }

    /// What all controllers need; what they tell comes from this one.
    fn common(&self, controller: &str) -> Arc<common::Context> {
        let events = Events::new(self.kube.clone(), controller, "capt");
        let context = common::Context::new(self.kube.clone(), self.set(), events, &self.cluster.version);
        Arc::new(context.with_meter(Arc::clone(&self.meter)))
    }

    fn workspace(&self, fence: Fence) -> workspace::Context {
        workspace::Context {
            common: self.common("capt/workspace"),
            runs: self.runs.clone(),
            vault: Vault::new(self.kube.clone()),
            index: workspace::Index::default(),
            place: self.place.clone(),
            drift_interval: self.settings.drift_interval,
            fence,
        }
    }

    fn control_plane(&self, sessions: &Arc<Sessions>) -> Arc<controlplane::Context> {
        let cloud = Arc::new(controlplane::look::Aws::new(Arc::clone(sessions)));
        let context = controlplane::Context::new(self.common("capt/controlplane"), cloud);
        Arc::new(context.with_limits(self.settings.limits))
    }

    fn template(&self) -> template::Context {
        template::Context { common: self.common("capt/template"), runs: self.runs.clone() }
    }

    fn identity(&self, sessions: &Arc<Sessions>) -> identity::Context {
        identity::Context {
            common: self.common("capt/identity"),
            sessions: Arc::clone(sessions),
            region: self.place.default_region.clone(),
        }
    }
}

fn bail_ended() -> anyhow::Result<()> {
    bail!("a controller ended by itself; this is a bug in capt")
}
