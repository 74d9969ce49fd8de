//! Runs the tasks of all workspaces in dependency order, concurrently. A failure skips only the dependents.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use capt_model::workspaces::{DesiredWorkspace, WorkspaceKey};
use futures::{StreamExt, stream::FuturesUnordered};
use terraform_driver::{
    classify::{FailureClass, RetryAdvice},
    run::{Driver, StepError},
};

use super::{dependency_graph::DependencyGraph, oneshot_pipeline::OneShotPipeline, progress::WorkspaceStage};
use crate::pipeline::{DestroyReason, Goal, PipelineError, WorkspaceOutcome, WorkspaceRecord};

/// Maximum number of attempts for transient failures.
const MAX_ATTEMPTS: u32 = 8;
/// Maximum number of attempts while the EKS cluster is busy: at least twenty minutes.
const MAX_BUSY_ATTEMPTS: u32 = 120;

/// Result of one task.
#[derive(Debug)]
pub enum TaskResult {
    /// The task succeeded.
    Succeeded(WorkspaceOutcome),
    /// The task failed.
    Failed(PipelineError),
    /// Not started because a dependency failed.
    Skipped {
        /// The dependency.
        blocked_by: WorkspaceKey,
    },
}

/// Task for one workspace.
#[derive(Debug, Clone)]
pub enum WorkspaceTask {
    /// Run the pipeline up to a goal.
    Run(Box<DesiredWorkspace>, Goal),
    /// Destroy it.
    Destroy(Box<WorkspaceRecord>, DestroyReason),
    /// Retain it, although a destroy selects it.
    Retain,
}

/// Runs the tasks of a command.
pub struct TaskRunner<'a> {
    /// Pipeline of the tasks.
    pub pipeline: &'a OneShotPipeline<'a>,
    /// Dependencies between the tasks.
    pub graph: DependencyGraph,
    /// Tasks by workspace.
    pub tasks: BTreeMap<WorkspaceKey, WorkspaceTask>,
}

impl TaskRunner<'_> {
    /// Runs all tasks; returns when every task is finished or skipped.
    pub async fn run(&self) -> BTreeMap<WorkspaceKey, TaskResult> {
        let mut finished: BTreeMap<WorkspaceKey, TaskResult> = BTreeMap::new();
        let mut begun: BTreeSet<WorkspaceKey> = BTreeSet::new();
        let mut running = FuturesUnordered::new();
        loop {
            self.skip_blocked(&mut finished, &begun);
            for key in self.graph.topological_order() {
                if !begun.contains(&key) && !finished.contains_key(&key) && self.is_ready(&key, &finished) {
                    begun.insert(key.clone());
                    running.push(async move { (key.clone(), Box::pin(self.run_task(&key)).await) });
                }
            }
            let Some((key, outcome)) = running.next().await else { return finished };
            self.pipeline.board.set_stage(&key, final_stage(&outcome));
            let end = outcome.map_or_else(TaskResult::Failed, TaskResult::Succeeded);
            finished.insert(key, end);
        }
    }

    fn is_ready(&self, key: &WorkspaceKey, finished: &BTreeMap<WorkspaceKey, TaskResult>) -> bool {
        let waits: Vec<WorkspaceKey> =
            self.graph.dependencies_of(key).into_iter().filter(|need| !finished.contains_key(need)).collect();
        let free = waits.is_empty();
        if !free {
            self.pipeline.board.set_stage(key, WorkspaceStage::Waiting { on: waits });
        }
        free
    }

    /// Skips tasks whose dependencies failed or were skipped.
    fn skip_blocked(
        &self,
        finished: &mut BTreeMap<WorkspaceKey, TaskResult>,
        begun: &BTreeSet<WorkspaceKey>,
    ) {
        for key in self.graph.topological_order() {
            if begun.contains(&key) || finished.contains_key(&key) {
                continue;
            }
            let bad =
                |need: &WorkspaceKey| !matches!(finished.get(need), None | Some(TaskResult::Succeeded(_)));
            if let Some(because) = self.graph.dependencies_of(&key).into_iter().find(bad) {
                self.pipeline.board.set_stage(
                    &key,
                    WorkspaceStage::Failed { reason: format!("skipped because of {because}") },
                );
                finished.insert(key, TaskResult::Skipped { blocked_by: because });
            }
        }
    }

    async fn run_task(&self, key: &WorkspaceKey) -> Result<WorkspaceOutcome, PipelineError> {
        let mut attempt = 0;
        loop {
            let outcome = match self.tasks.get(key) {
                Some(WorkspaceTask::Run(blueprint, goal)) => {
                    Box::pin(self.pipeline.run(blueprint, goal)).await
                }
                Some(WorkspaceTask::Destroy(record, doom)) => self.pipeline.destroy(key, record, doom).await,
                Some(WorkspaceTask::Retain) | None => Ok(WorkspaceOutcome::Retained),
            };
            attempt += 1;
            let error = match outcome {
                Ok(outcome) => return Ok(outcome),
                // An error caused by the stop is not a failure: the next command continues.
                Err(error) if self.pipeline.stop.is_cancelled() && is_caused_by_stop(&error) => {
                    PipelineError::Interrupted
                }
                Err(error) => error,
            };
            if matches!(&error, PipelineError::Failed(failure) if failure.class == FailureClass::Provider) {
                // The installed provider is missing or replaced, which the init digest cannot detect.
                Driver::invalidate_init(&self.pipeline.data_dir.workspace_dir(key))?;
            }
            let Some(pause) = retry_delay(&error, attempt) else { return Err(error) };
            self.pipeline.board.set_stage(key, WorkspaceStage::Retrying { reason: error.to_string() });
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.pipeline.stop.cancelled() => return Err(PipelineError::Interrupted),
            }
        }
    }
}

/// Whether an error may be a consequence of the stop.
fn is_caused_by_stop(error: &PipelineError) -> bool {
    match error {
        PipelineError::Failed(failure) => failure.class == FailureClass::Interrupted,
        PipelineError::InterruptedResource(_) | PipelineError::Step(StepError::Killed { .. }) => true,
        _ => false,
    }
}

/// Delay before the next attempt; `None` if a retry does not help.
fn retry_delay(error: &PipelineError, attempt: u32) -> Option<Duration> {
    let PipelineError::Failed(failure) = error else { return None };
    let most = if failure.class == FailureClass::Wait { MAX_BUSY_ATTEMPTS } else { MAX_ATTEMPTS };
    if attempt >= most {
        return None;
    }
    if failure.class == FailureClass::Provider {
        return (attempt < 2).then_some(Duration::ZERO);
    }
    // An unclassified failure is reported at once: a user waits at the terminal.
    if failure.class == FailureClass::Unknown {
        return None;
    }
    match failure.advice() {
        RetryAdvice::RetryWithin { least, .. } => Some(least / 3),
        RetryAdvice::ShortRetries { span } => (attempt < 4).then_some(span / 12),
        RetryAdvice::Backoff => Some(Duration::from_secs(2_u64.pow(attempt.min(6)))),
        RetryAdvice::Replan => (attempt < 3).then_some(Duration::ZERO),
        RetryAdvice::SlowRetry | RetryAdvice::OperatorBackoff => None,
    }
}

fn final_stage(outcome: &Result<WorkspaceOutcome, PipelineError>) -> WorkspaceStage {
    match outcome {
        Ok(outcome) => WorkspaceStage::Done { what: outcome.to_string() },
        Err(error) => WorkspaceStage::Failed { reason: error.to_string() },
    }
}
