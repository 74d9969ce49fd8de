//! The operator: controllers, runs, server and leadership as one future. `capt run` and `capt up` call it.

mod cluster_kind;
mod controllers;
mod meter;
pub mod sandboxes;
mod settings;
mod webhook;

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use tokio::net::TcpListener;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use self::settings::{Settings, Standalone, Surroundings};
use self::{
    controllers::Team,
    meter::{Calls, Gauge, Listener},
};
use crate::{
    api::crds,
    blueprint::Place,
    k8s::{Candidate, Ended, Fence, Kube, lead},
    runs::{Capacity, Runs},
    server::{Health, Server},
    telemetry::Metrics,
    work::{Belongs, Site},
};

/// Of this binary.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What one terraform with the AWS provider takes at its peak, in megabytes. Measured: 640 for the provider and 210 for
/// terraform.
const EACH: u64 = 850;

/// The same where providers are shared: terraform alone, and a share of the providers.
const EACH_SHARED: u64 = 250;

/// How long our kinds are waited for at a time, before the wait is told again.
const PATIENCE: Duration = Duration::from_secs(20);

/// Works until `stop` is cancelled, or something happens that it cannot go on with.
pub async fn run(
    surroundings: Surroundings,
    settings: Settings,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let metrics = Metrics::new(VERSION);
    let health = Health::new();
    health.waiting_for("the kinds");
    let tasks = TaskTracker::new();
    serve(&surroundings, &settings, (&metrics, &health, &stop), &tasks).await?;
    let kube = Kube::new(surroundings.client.clone()).with_tally(Arc::new(Calls(metrics.clone())));
    webhook::serve(&kube, &surroundings.data, &settings, (&stop, &tasks)).await?;
    let outcome = work(&kube, surroundings, &settings, (metrics, health, stop.clone())).await;
    stop.cancel();
    tasks.close();
    tasks.wait().await;
    outcome
}

/// Health and metrics, from the first moment on.
async fn serve(
    surroundings: &Surroundings,
    settings: &Settings,
    (metrics, health, stop): (&Metrics, &Health, &CancellationToken),
    tasks: &TaskTracker,
) -> anyhow::Result<()> {
    let Some(address) = settings.listen else { return Ok(()) };
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen at {address}; choose --listen"))?;
    let mut server = Server::new(health.clone(), metrics.clone(), VERSION);
    if let Some(level) = &surroundings.log_level {
        server = server.with_log_level(level.clone());
    }
    tasks.spawn(server.serve(listener, stop.clone()));
    Ok(())
}

async fn work(
    kube: &Kube,
    surroundings: Surroundings,
    settings: &Settings,
    (metrics, health, stop): (Metrics, Health, CancellationToken),
) -> anyhow::Result<()> {
    tokio::select! {
        there = kinds(kube) => there?,
        () = stop.cancelled() => return Ok(()),
    }
    health.ready("the kinds");
    let cluster = cluster_kind::find(kube, settings.standalone).await?;
    let (runs, told) = runs(&surroundings, settings, &metrics)?;
    let team = Team {
        kube: kube.clone(),
        settings: settings.clone(),
        place: place(&surroundings),
        cloud: surroundings.cloud.clone(),
        meter: Arc::new(Listener::new(metrics.clone())),
        cluster,
        runs,
    };
    let Some(namespace) = &settings.leader_election else {
        metrics.set_leader(true);
        return team.work(Fence(0), told, stop).await;
    };
    let host = surroundings.outer.var("HOSTNAME").unwrap_or("capt").to_owned();
    health.waiting_for("the lease");
    let ended = lead(kube, &Candidate::new(namespace, &host), &stop.clone(), |fence| {
        health.ready("the lease");
        metrics.set_leader(true);
        team.work(fence, told, stop)
    })
    .await;
    match ended {
        Ended::Done(outcome) => outcome,
        Ended::Stopped => Ok(()),
        // What this process spawned may still run, so it ends; terraform goes on under its shims.
        Ended::Lost => anyhow::bail!("the lease was lost; another operator leads now"),
    }
}

/// Waits for our kinds, and says which are missing.
async fn kinds(kube: &Kube) -> anyhow::Result<()> {
    let crds = crds();
    let names: Vec<&str> = crds.iter().filter_map(|crd| crd.metadata.name.as_deref()).collect();
    loop {
        let missing = kube.established(&names, PATIENCE).await?;
        if missing.is_empty() {
            return Ok(());
        }
        let missing = missing.join(", ");
        tracing::warn!(missing, "kinds are not installed yet (capt crds | kubectl apply --server-side -f -)");
    }
}

fn runs(
    surroundings: &Surroundings,
    settings: &Settings,
    metrics: &Metrics,
) -> anyhow::Result<(Runs, tokio::sync::mpsc::UnboundedReceiver<crate::blueprint::Key>)> {
    let Surroundings { outer, data, engine, cli_config, cloud, gateway, .. } = surroundings;
    let mut site = Site::open(outer, data, cloud.clone(), engine.clone(), cli_config)?;
    if matches!(cloud, crate::aws::Cloud::Local { .. }) {
        site.claim(&Belongs::Local)?;
    }
    site.gateway.clone_from(gateway);
    let each = if gateway.is_some() { EACH_SHARED } else { EACH };
    let capacity = Capacity { places: settings.parallel, memory: settings.memory_budget_mb, each };
    let (runs, told) = Runs::new(site, capacity, Arc::new(Gauge::new(metrics.clone())));
    let adopted = runs.adopt()?;
    if adopted > 0 {
        tracing::info!(adopted, "runs of an earlier process go on");
    }
    Ok((runs, told))
}

fn place(surroundings: &Surroundings) -> Place {
    Place {
        local_endpoint: match &surroundings.cloud {
            crate::aws::Cloud::Local { endpoint } => Some(endpoint.clone()),
            crate::aws::Cloud::Real => None,
        },
        default_region: surroundings.default_region.clone(),
    }
}
