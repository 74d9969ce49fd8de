//! Shared execution of plan, apply and destroy: runs the task graph, shows progress, handles signals.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use capt_engine::{
    oneshot::{
        ConfirmPlan, DependencyGraph, OneShotPipeline, ProgressBoard, TaskResult, TaskRunner, WorkspaceTask,
    },
    pipeline::{WorkspaceRecord, list_workspaces, list_workspaces_with_resources},
};
use capt_model::{
    manifest::ValidatedManifests,
    workspaces::{AppliedOutputs, DesiredWorkspace, WorkspaceKey},
};
use futures::future::BoxFuture;
use indicatif::{MultiProgress, ProgressDrawTarget};
use terraform_driver::{output::Outputs, plan::PlanSummary};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::{Mutex, Semaphore},
};
use tokio_util::sync::CancellationToken;

use super::{
    OutputFormat,
    output::{self, ExitStatus},
    progress, report,
    run_setup::{RunArgs, RunEnvironment},
};

/// One run over a set of workspaces.
pub(super) struct WorkspacesRun<'a> {
    pub(super) environment: &'a RunEnvironment,
    pub(super) manifests: &'a ValidatedManifests,
    pub(super) blueprints: &'a [DesiredWorkspace],
    pub(super) tasks: BTreeMap<WorkspaceKey, WorkspaceTask>,
    pub(super) graph: DependencyGraph,
    pub(super) confirms: bool,
    pub(super) format: OutputFormat,
}

/// How the run ended.
pub(super) enum RunEnd {
    /// Every task has a result.
    Finished(BTreeMap<WorkspaceKey, TaskResult>),
    /// The user detached; terraform continues in the background.
    Detached,
}

impl WorkspacesRun<'_> {
    /// Runs all tasks and prints the report.
    pub(super) async fn run(self, setup: &RunArgs) -> anyhow::Result<ExitStatus> {
        let order = self.graph.topological_order();
        let bars =
            (self.format == OutputFormat::Text && output::is_stderr_terminal()).then(MultiProgress::new);
        let board = ProgressBoard::new(order.iter().cloned());
        let confirm: Box<dyn ConfirmPlan> = if self.confirms {
            Box::new(PromptConfirm { bars: bars.clone(), prompt_lock: Mutex::default() })
        } else {
            Box::new(AlwaysConfirm)
        };
        let stop = CancellationToken::new();
        let worker = OneShotPipeline {
            data_dir: &self.environment.data_dir,
            manifests: self.manifests,
            secret_producers: connection_secret_owners(self.blueprints),
            applied_outputs: Mutex::new(load_known_outputs(&self.environment.data_dir.path)?),
            board: board.clone(),
            stop: stop.clone(),
            provider_defaults: self.environment.place.clone(),
            slots: Arc::new(Semaphore::new(setup.parallel.max(1))),
            cluster_locks: Mutex::default(),
            confirm,
        };
        let runner = TaskRunner { pipeline: &worker, graph: self.graph.clone(), tasks: self.tasks };
        let end = tokio::select! {
            finished = runner.run() => RunEnd::Finished(finished),
            () = progress::show_progress(&board, bars.as_ref()) => RunEnd::Detached,
            left = wait_for_signals(&stop, bars.as_ref()) => { left?; RunEnd::Detached }
        };
        if let Some(bars) = &bars {
            bars.clear()?;
        }
        for note in board.notes() {
            output::print_warning(&note);
        }
        match end {
            RunEnd::Finished(finished) => {
                report::print_report(&finished, &order, &self.environment.data_dir.path, self.format)
            }
            RunEnd::Detached => {
                output::print_message(
                    "terraform continues in the background; run the same command again to reattach",
                );
                Ok(ExitStatus::Interrupted)
            }
        }
    }
}

/// The first signal stops terraform gracefully; the second returns, which detaches from it.
async fn wait_for_signals(stop: &CancellationToken, bars: Option<&MultiProgress>) -> std::io::Result<()> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
    let tell = || {
        output::print_message(
            "stopping: terraform finishes operations in progress (press Ctrl-C again to detach)",
        );
    };
    match bars {
        Some(bars) => bars.suspend(tell),
        None => tell(),
    }
    stop.cancel();
    tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
    Ok(())
}

/// The outputs of all workspaces that were applied before.
pub(super) fn load_known_outputs(data: &std::path::Path) -> anyhow::Result<AppliedOutputs> {
    let mut known = AppliedOutputs::default();
    for (key, record) in list_workspaces(data)? {
        let place = record.workspace_dir(data, &key);
        // A damaged state is restored before its workspace is planned, and read again then.
        let outputs = place.state_bytes()?.and_then(|bytes| Outputs::from_state(&bytes).ok());
        // A destroyed workspace has a state without outputs; it counts as absent.
        if let Some(outputs) = outputs.filter(|outputs| !outputs.is_empty()) {
            known.by_workspace.insert(key, outputs);
        }
    }
    Ok(known)
}

/// The workspace that writes each connection Secret.
pub(super) fn connection_secret_owners(blueprints: &[DesiredWorkspace]) -> BTreeMap<String, WorkspaceKey> {
    blueprints
        .iter()
        .filter_map(|it| Some((it.connection_secret.as_ref()?.to_string(), it.key.clone())))
        .collect()
}

/// Existing workspaces of the same owners that the manifests no longer contain.
pub(super) fn dropped_workspaces(
    ready: &RunEnvironment,
    blueprints: &[DesiredWorkspace],
) -> anyhow::Result<Vec<(WorkspaceKey, WorkspaceRecord)>> {
    let asked: BTreeSet<&WorkspaceKey> = blueprints.iter().map(|blueprint| &blueprint.key).collect();
    let owners: BTreeSet<&str> = blueprints.iter().map(|blueprint| blueprint.owner.as_str()).collect();
    let mut all = list_workspaces_with_resources(&ready.data_dir.path)?;
    all.retain(|(key, record)| !asked.contains(key) && owners.contains(record.owner.as_str()));
    Ok(all)
}

struct AlwaysConfirm;

impl ConfirmPlan for AlwaysConfirm {
    fn confirm<'a>(&'a self, _: &'a WorkspaceKey, _: &'a PlanSummary) -> BoxFuture<'a, bool> {
        Box::pin(std::future::ready(true))
    }
}

struct PromptConfirm {
    bars: Option<MultiProgress>,
    prompt_lock: Mutex<()>,
}

impl ConfirmPlan for PromptConfirm {
    fn confirm<'a>(&'a self, key: &'a WorkspaceKey, summary: &'a PlanSummary) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            let mut text = format!("{key}: {}\n", summary.counts);
            if report::push_plan(summary, &mut text).is_err() {
                return false;
            }
            // Concurrent prompts would share one answer.
            let _alone = self.prompt_lock.lock().await;
            if let Some(bars) = &self.bars {
                bars.set_draw_target(ProgressDrawTarget::hidden());
            }
            let yes = prompt_for_yes(&format!("{text}Apply this plan to {key}?")).await;
            if let Some(bars) = &self.bars {
                bars.set_draw_target(ProgressDrawTarget::stderr());
            }
            yes
        })
    }
}

/// Prompts for `yes`; anything else is a no. Reads on a blocking thread, so that Ctrl-C is handled meanwhile.
pub(super) async fn prompt_for_yes(question: &str) -> bool {
    output::print_message(&format!("{question} Only `yes` confirms:"));
    let answer = tokio::task::spawn_blocking(|| {
        let mut answer = String::new();
        std::io::stdin().read_line(&mut answer).map(|_| answer)
    });
    matches!(answer.await, Ok(Ok(answer)) if answer.trim() == "yes")
}
