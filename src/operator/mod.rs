//! The operator: wires controllers, runs, servers and leader election into one future, for `capt run` and `capt up`.

mod cluster_kind;
mod controllers;
mod metrics_bridge;
pub mod sandbox_controllers;
mod settings;
mod webhook;

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use capt_engine::{
    pipeline::{CloudBinding, DataDirectory, RunHome},
    runs::{NamespaceShares, RunCapacity, RunManager},
};
use capt_kinds::api::crds;
use capt_kube::k8s::{FencingToken, KubeClient, LeaderCandidate, LeadershipEnd, run_as_leader};
use capt_model::workspaces::ProviderDefaults;
use tokio::net::TcpListener;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use self::settings::{
    Dependencies, OperatorSettings, SchedulingSettings, StandaloneMode, TemplatePolicy,
};
use self::{
    controllers::Controllers,
    metrics_bridge::{ApiCallMetricsBridge, ReconcileMetricsBridge, RunMetricsBridge},
};
use crate::{
    server::{Health, StatusServer},
    telemetry::Metrics,
};

/// Version of this binary.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Peak memory of one terraform with its own AWS provider, in megabytes. Measured: 640 for the provider, 210 for terraform.
const MEMORY_PER_RUN_MB: u64 = 850;

/// Peak memory with shared providers, in megabytes: terraform, and a share of the providers.
const MEMORY_PER_SHARED_RUN_MB: u64 = 250;

/// How long to wait for the CRDs before the missing ones are logged again.
const CRD_WAIT: Duration = Duration::from_secs(20);

/// Runs the operator until `stop` is cancelled or a fatal error occurs.
pub async fn run(
    dependencies: Dependencies,
    settings: OperatorSettings,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let metrics = Metrics::new(VERSION);
    let health = Health::new();
    health.add_pending("CRDs");
    let tasks = TaskTracker::new();
    serve_status(&dependencies, &settings, (&metrics, &health, &stop), &tasks).await?;
    let kube = KubeClient::new(dependencies.client.clone())
        .with_metrics(Arc::new(ApiCallMetricsBridge(metrics.clone())));
    webhook::serve(&kube, &dependencies.data, &settings, (&stop, &tasks)).await?;
    let outcome = run_controllers(&kube, dependencies, &settings, (metrics, health, stop.clone())).await;
    stop.cancel();
    tasks.close();
    tasks.wait().await;
    outcome
}

/// Serves health and metrics, before anything else starts.
async fn serve_status(
    dependencies: &Dependencies,
    settings: &OperatorSettings,
    (metrics, health, stop): (&Metrics, &Health, &CancellationToken),
    tasks: &TaskTracker,
) -> anyhow::Result<()> {
    let Some(address) = settings.listen else { return Ok(()) };
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen at {address}; choose --listen"))?;
    let mut server = StatusServer::new(health.clone(), metrics.clone(), VERSION);
    if let Some(level) = &dependencies.log_level {
        server = server.with_log_level(level.clone());
    }
    tasks.spawn(server.serve(listener, stop.clone()));
    Ok(())
}

async fn run_controllers(
    kube: &KubeClient,
    dependencies: Dependencies,
    settings: &OperatorSettings,
    (metrics, health, stop): (Metrics, Health, CancellationToken),
) -> anyhow::Result<()> {
    tracing::info!(
        templates = %settings.templates,
        "namespaces without the label capt.x-k8s.io/templates may use these WorkspaceTemplates"
    );
    tokio::select! {
        there = wait_for_crds(kube) => there?,
        () = stop.cancelled() => return Ok(()),
    }
    health.mark_ready("CRDs");
    let cluster = cluster_kind::detect(kube, settings.standalone).await?;
    let (runs, told) = open_runs(&dependencies, settings, &metrics)?;
    let controllers = Controllers {
        kube: kube.clone(),
        settings: settings.clone(),
        provider_defaults: provider_defaults(&dependencies),
        cloud: dependencies.cloud.clone(),
        metrics: Arc::new(ReconcileMetricsBridge::new(metrics.clone())),
        cluster_kind: cluster,
        isolation_problem: find_isolation_problem(dependencies.is_isolated),
        runs,
    };
    let Some(namespace) = &settings.leader_election else {
        metrics.set_leader(true);
        return controllers.run(FencingToken(0), told, stop).await;
    };
    let host = dependencies.process_env.var("HOSTNAME").unwrap_or("capt").to_owned();
    // Readiness does not depend on leadership: a rolling update stops the leader only after the new pod is ready.
    let candidate = LeaderCandidate::new(namespace, &host).with_data_directory(&dependencies.data);
    let ended = run_as_leader(kube, &candidate, &stop.clone(), |fence| {
        metrics.set_leader(true);
        if let Some(lease) = candidate.run_lease(fence) {
            controllers.runs.set_lease(lease);
        }
        controllers.run(fence, told, stop)
    })
    .await;
    match ended {
        LeadershipEnd::Done(outcome) => outcome,
        LeadershipEnd::Stopped => Ok(()),
        // Spawned tasks may still run, so the process must exit. Its terraforms begin nothing more: shims and gateway know
        // until when the Lease was held.
        LeadershipEnd::Lost => {
            anyhow::bail!("lost the leader election Lease; another operator may be the leader now")
        }
    }
}

/// Why runs that should be confined cannot be.
fn find_isolation_problem(is_isolated: bool) -> Option<String> {
    let support = isolation::probe();
    let problem = support.problem().filter(|_| is_isolated);
    match &problem {
        Some(problem) => {
            tracing::warn!(%problem, "WorkspaceTemplates are refused: this kernel cannot confine their runs");
        }
        None => tracing::info!(%support, is_isolated, "isolation of runs"),
    }
    problem
}

/// Waits for the CRDs and logs the missing ones.
async fn wait_for_crds(kube: &KubeClient) -> anyhow::Result<()> {
    let crds = crds();
    let names: Vec<&str> = crds.iter().filter_map(|crd| crd.metadata.name.as_deref()).collect();
    loop {
        let missing = kube.wait_for_crds(&names, CRD_WAIT).await?;
        if missing.is_empty() {
            return Ok(());
        }
        let missing = missing.join(", ");
        tracing::warn!(
            missing,
            "waiting for CRDs to be installed (capt crds | kubectl apply --server-side -f -)"
        );
    }
}

fn open_runs(
    dependencies: &Dependencies,
    settings: &OperatorSettings,
    metrics: &Metrics,
) -> anyhow::Result<(RunManager, tokio::sync::mpsc::UnboundedReceiver<capt_model::workspaces::WorkspaceKey>)>
{
    let Dependencies { process_env, data, engine, cli_config, cloud, gateway, .. } = dependencies;
    let mut data_dir = DataDirectory::open(process_env, data, cloud.clone(), engine.clone(), cli_config)?;
    if matches!(cloud, capt_engine::aws::Cloud::Local { .. }) {
        data_dir.bind_cloud(&CloudBinding::Local)?;
    }
    data_dir.gateway.clone_from(gateway);
    data_dir.set_deadlines(engine.clone(), settings.scheduling.deadlines);
    // Objects of different authors must not find each other's files.
    data_dir.home = RunHome::Workspace;
    data_dir.is_isolated = dependencies.is_isolated;
    data_dir.set_size_limits(settings.size_limits);
    let each = if gateway.is_some() { MEMORY_PER_SHARED_RUN_MB } else { MEMORY_PER_RUN_MB };
    let capacity = RunCapacity {
        max_processes: settings.parallel,
        memory_mb: settings.memory_budget_mb,
        memory_per_run_mb: each,
        shares: NamespaceShares {
            max_per_namespace: settings.scheduling.max_per_namespace,
            weights: settings.scheduling.weights.clone(),
        },
    };
    let (runs, told) = RunManager::new(data_dir, capacity, Arc::new(RunMetricsBridge::new(metrics.clone())));
    let adopted = runs.adopt_surviving_runs()?;
    if adopted > 0 {
        tracing::info!(adopted, "adopted terraform runs of a previous process");
    }
    Ok((runs, told))
}

fn provider_defaults(dependencies: &Dependencies) -> ProviderDefaults {
    ProviderDefaults {
        local_endpoint: match &dependencies.cloud {
            capt_engine::aws::Cloud::Local { endpoint } => Some(endpoint.clone()),
            capt_engine::aws::Cloud::Real => None,
        },
        default_region: dependencies.default_region.clone(),
    }
}
