//! All controllers at once. If one ends, all do: a controller that is silently gone is worse than a restart.

use std::sync::Arc;

use anyhow::bail;
use tokio::{sync::mpsc, task::JoinSet};
use tokio_util::sync::CancellationToken;

use super::{cluster_kind::ClusterKind, settings::Settings};
use crate::{
    aws::{Cloud, Sessions},
    blueprint::{Key, Place},
    controllers::{identity, template, workspace},
    k8s::{Events, Fence, Kube, vault::Vault},
    runs::Runs,
    telemetry::Metrics,
};

/// What the controllers share.
pub(super) struct Team {
    pub(super) kube: Kube,
    pub(super) settings: Settings,
    pub(super) place: Place,
    pub(super) cloud: Cloud,
    pub(super) metrics: Metrics,
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
        all.spawn(workspace::run(Arc::new(self.workspace(fence)), told, stop.clone()));
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
        // Nothing new from here on; what runs goes on under its shims.
        self.runs.close();
        stop.cancel();
        while all.join_next().await.is_some() {}
        outcome
    }

    fn events(&self, controller: &str) -> Events {
        Events::new(self.kube.clone(), controller, "capt")
    }

    fn workspace(&self, fence: Fence) -> workspace::Context {
        workspace::Context {
            kube: self.kube.clone(),
            runs: self.runs.clone(),
            vault: Vault::new(self.kube.clone()),
            events: self.events("capt/workspace"),
            index: workspace::Index::default(),
            metrics: self.metrics.clone(),
            place: self.place.clone(),
            namespace: self.settings.namespace.clone(),
            watch_filter: self.settings.watch_filter.clone(),
            drift_interval: self.settings.drift_interval,
            cluster_version: self.cluster.version.clone(),
            fence,
        }
    }

    fn template(&self) -> template::Context {
        template::Context {
            kube: self.kube.clone(),
            runs: self.runs.clone(),
            events: self.events("capt/template"),
            metrics: self.metrics.clone(),
            namespace: self.settings.namespace.clone(),
            watch_filter: self.settings.watch_filter.clone(),
        }
    }

    fn identity(&self, sessions: &Arc<Sessions>) -> identity::Context {
        identity::Context {
            kube: self.kube.clone(),
            sessions: Arc::clone(sessions),
            region: self.place.default_region.clone(),
            events: self.events("capt/identity"),
            metrics: self.metrics.clone(),
            namespace: self.settings.namespace.clone(),
        }
    }
}

fn bail_ended() -> anyhow::Result<()> {
    bail!("a controller ended by itself; this is a bug in capt")
}
