//! The background task of one run: registers it, executes it, backs up its state and records its result.

use std::{
    sync::{Arc, Mutex, atomic::AtomicBool},
    time::Instant,
};

use capt_model::workspaces::WorkspaceKey;
use terraform_driver::{classify::FailureClass, clock, run::Driver, workspace::WorkspaceDir};
use tokio_util::sync::CancellationToken;

use super::{
    Inner, RunEntry, WorkspaceMemory,
    run_hooks::OperatorRunHooks,
    run_request::{RunKind, RunRequest},
    run_snapshot::{RunResult, RunSnapshot},
    state_backup,
};
use crate::pipeline::{
    DestroyReason, DestroyRequest, PipelineError, WorkspaceOutcome, WorkspacePipeline, WorkspaceRecord,
    destroy_bundle,
};

/// Spawns the run. Returns false if the workspace already has an active run.
pub(super) fn spawn_run(inner: &Arc<Inner>, request: RunRequest) -> bool {
    let stop = CancellationToken::new();
    let Some(seen) = register_run(inner, &request, &stop) else { return false };
    inner.notify(&request.key);
    let inner = Arc::clone(inner);
    let tasks = inner.tasks.clone();
    tasks.spawn(async move {
        let (key, begun, operation) = (request.key.clone(), Instant::now(), request.kind.operation());
        // A panic must not leave the workspace marked as busy, so the pipeline runs in its own task.
        let work = tokio::spawn(execute_run(Arc::clone(&inner), request, seen, stop));
        let end = match work.await {
            Ok(end) => end,
            Err(broken) => RunResult::from_outcome(Err(PipelineError::StateBackup {
                doing: "finish the run; this is a bug in capt",
                source: broken.into(),
            })),
        };
        inner.metrics.record_run(operation, end.metric_label(), begun.elapsed());
        record_result(&inner, &key, end);
    });
    true
}

/// Registers the run. Returns none if the workspace already has an active run.
fn register_run(
    inner: &Inner,
    request: &RunRequest,
    stop: &CancellationToken,
) -> Option<Arc<WorkspaceMemory>> {
    let mut runs = inner.lock();
    let before = runs.get(&request.key);
    if before.is_some_and(|entry| !entry.snapshot.is_finished()) {
        return None;
    }
    let seen = before.map(|entry| Arc::clone(&entry.memory)).unwrap_or_default();
    let now = clock::now();
    let id = now.strftime("%Y%m%dT%H%M%S%3fZ").to_string();
    let view = RunSnapshot::new(id, request.kind.operation(), now, request.inputs_hash.clone());
    let mut entry = RunEntry {
        snapshot: view,
        object: request.object.clone(),
        cancel: stop.clone(),
        memory: Arc::clone(&seen),
        last_notified: Instant::now(),
        phase_guard: None,
    };
    entry.restart_phase_timer(inner.metrics.as_ref());
    runs.insert(request.key.clone(), entry);
    Some(seen)
}

fn record_result(inner: &Inner, key: &WorkspaceKey, end: RunResult) {
    inner.update(key, true, |view| {
        view.phase = end.phase();
        view.finished_at = Some(clock::now());
        view.waiting_for = None;
        view.progress = None;
        view.result = Some(end);
    });
}

async fn execute_run(
    inner: Arc<Inner>,
    request: RunRequest,
    seen: Arc<WorkspaceMemory>,
    stop: CancellationToken,
) -> RunResult {
    let (env, region) = env_and_region(&inner, &request);
    let hooks = OperatorRunHooks {
        inner: Arc::clone(&inner),
        priority: request.priority,
        backup_store: Arc::clone(&request.backup_store),
        memory: Arc::clone(&seen),
        env,
        region,
        cancelled: stop.clone(),
        bundle_saved: AtomicBool::new(false),
        journal_task: Mutex::default(),
    };
    let pipeline = WorkspacePipeline { data_dir: &inner.data_dir, hooks: &hooks, stop: &stop };
    let outcome = match &request.kind {
        RunKind::Converge { job: assignment, goal } => pipeline.run(assignment, goal).await,
        RunKind::Destroy { .. } => destroy_from_bundle(&pipeline, &hooks, &request).await,
    };
    seen.stop_backup_task();
    let workspace = inner.data_dir.workspace_dir(&request.key);
    if let Err(PipelineError::Failed(failure)) = &outcome
        && failure.class == FailureClass::Provider
        && let Err(error) = Driver::invalidate_init(&workspace)
    {
        tracing::warn!(key = %request.key, %error, "failed to invalidate cached init");
    }
    let kept = back_up_final_state(&request, &workspace, &inner, &seen).await;
    hooks.finish_journal(&request.key).await;
    RunResult::from_outcome(outcome.and_then(|outcome| kept.map(|()| outcome)))
}

/// Backs up the last state, whatever the outcome of the run.
async fn back_up_final_state(
    request: &RunRequest,
    workspace: &WorkspaceDir,
    inner: &Inner,
    seen: &WorkspaceMemory,
) -> Result<(), PipelineError> {
    let Some(record) = WorkspaceRecord::read(workspace)? else { return Ok(()) };
    let place = record.workspace_dir(&inner.data_dir.path, &request.key);
    state_backup::back_up_with_retries(request.backup_store.as_ref(), &place, seen, None).await
}

/// Destroys with the sealed bundle of the last apply, restored from the backup if the directory lacks it.
async fn destroy_from_bundle(
    pipeline: &WorkspacePipeline<'_>,
    hooks: &OperatorRunHooks,
    request: &RunRequest,
) -> Result<WorkspaceOutcome, PipelineError> {
    let workspace = pipeline.data_dir.workspace_dir(&request.key);
    crate::pipeline::RunHooks::restore_state(hooks, &request.key, &workspace).await?;
    let Some(record) = WorkspaceRecord::read(&workspace)? else {
        return match &request.kind {
            RunKind::Destroy { expects_state: true, .. } => Err(PipelineError::StateLost),
            _ => Ok(WorkspaceOutcome::Destroyed { objects: 0 }),
        };
    };
    // On an empty disk the owner is known only after the restore.
    if record.owner != super::owner_name(&request.object) {
        return Err(PipelineError::OwnedByOther { owner: record.owner });
    }
    let env = destroy_bundle::sealed_env(&workspace)?;
    if let Some(name) = record.env.iter().find(|name| !env.iter().any(|(known, _)| known == *name)) {
        return Err(PipelineError::MissingEnvironment { name: name.clone() });
    }
    let principal = match &request.kind {
        RunKind::Destroy { principal, .. } => principal.as_ref(),
        RunKind::Converge { .. } => None,
    };
    let how = DestroyRequest { reason: &DestroyReason::Requested, env: &env, principal };
    pipeline.destroy(&request.key, &record, &how).await
}

/// The environment to seal into the bundle, and the region that is part of the cluster lock's name.
fn env_and_region(inner: &Inner, request: &RunRequest) -> (Vec<(String, String)>, Option<String>) {
    match &request.kind {
        RunKind::Converge { job: assignment, .. } => {
            (assignment.resolved.env.clone(), assignment.region.clone())
        }
        RunKind::Destroy { .. } => {
            let workspace = inner.data_dir.workspace_dir(&request.key);
            let record = WorkspaceRecord::read(&workspace).ok().flatten();
            let env = destroy_bundle::sealed_env(&workspace).unwrap_or_default();
            (env, record.and_then(|record| record.region))
        }
    }
}
