//! All workspaces in their order: what waits for nothing begins, what fails holds up only those behind it.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use futures::{StreamExt, stream::FuturesUnordered};
use terraform_driver::{
    classify::{Advice, Class},
    run::{Driver, StepError},
};

use super::{board::Stage, graph::Graph, worker::Worker};
use crate::{
    blueprint::{Blueprint, Key},
    work::{Doom, Goal, Outcome, Record, WorkError},
};

/// How often a passing trouble is waited out.
const ATTEMPTS: u32 = 8;
/// How often a cluster that is busy is asked again: twenty minutes at least.
const TURNS: u32 = 120;

/// What became of one workspace.
#[derive(Debug)]
pub enum Finished {
    /// It is as it should be.
    Well(Outcome),
    /// It is not.
    Badly(WorkError),
    /// It was not begun because another one is not well.
    Skipped {
        /// Which.
        because: Key,
    },
}

/// What is to be done with one workspace.
#[derive(Debug, Clone)]
pub enum Task {
    /// Bring it to what its blueprint says.
    Bring(Box<Blueprint>, Goal),
    /// Destroy it.
    Destroy(Box<Record>, Doom),
    /// Leave it alone, although it was to be destroyed.
    Keep,
}

/// Does the tasks.
pub struct Runner<'a> {
    /// How each is done.
    pub worker: &'a Worker<'a>,
    /// In which order.
    pub graph: Graph,
    /// What.
    pub tasks: BTreeMap<Key, Task>,
}

impl Runner<'_> {
    /// Does everything that can be done.
    pub async fn run(&self) -> BTreeMap<Key, Finished> {
        let mut finished: BTreeMap<Key, Finished> = BTreeMap::new();
        let mut begun: BTreeSet<Key> = BTreeSet::new();
        let mut running = FuturesUnordered::new();
        loop {
            self.skip(&mut finished, &begun);
            for key in self.graph.order() {
                if !begun.contains(&key) && !finished.contains_key(&key) && self.is_free(&key, &finished) {
                    begun.insert(key.clone());
                    running.push(async move { (key.clone(), Box::pin(self.one(&key)).await) });
                }
            }
            let Some((key, outcome)) = running.next().await else { return finished };
            self.worker.board.set(&key, stage(&outcome));
            let end = outcome.map_or_else(Finished::Badly, Finished::Well);
            finished.insert(key, end);
        }
    }

    fn is_free(&self, key: &Key, finished: &BTreeMap<Key, Finished>) -> bool {
        let waits: Vec<Key> =
            self.graph.needs(key).into_iter().filter(|need| !finished.contains_key(need)).collect();
        let free = waits.is_empty();
        if !free {
            self.worker.board.set(key, Stage::Waiting { on: waits });
        }
        free
    }

    /// What waits for something that ended badly is not begun.
    fn skip(&self, finished: &mut BTreeMap<Key, Finished>, begun: &BTreeSet<Key>) {
        for key in self.graph.order() {
            if begun.contains(&key) || finished.contains_key(&key) {
                continue;
            }
            let bad = |need: &Key| !matches!(finished.get(need), None | Some(Finished::Well(_)));
            if let Some(because) = self.graph.needs(&key).into_iter().find(bad) {
                self.worker
                    .board
                    .set(&key, Stage::Failed { reason: format!("not begun because of {because}") });
                finished.insert(key, Finished::Skipped { because });
            }
        }
    }

    async fn one(&self, key: &Key) -> Result<Outcome, WorkError> {
        let mut attempt = 0;
        loop {
            let outcome = match self.tasks.get(key) {
                Some(Task::Bring(blueprint, goal)) => self.worker.bring(blueprint, goal).await,
                Some(Task::Destroy(record, doom)) => self.worker.destroy(key, record, doom).await,
                Some(Task::Keep) | None => Ok(Outcome::Kept),
            };
            attempt += 1;
            let error = match outcome {
                Ok(outcome) => return Ok(outcome),
                // Whatever a stop broke off is continued by the next command.
                Err(error) if self.worker.stop.is_cancelled() && is_broken_off(&error) => {
                    WorkError::Interrupted
                }
                Err(error) => error,
            };
            if matches!(&error, WorkError::Failed(failure) if failure.class == Class::Provider) {
                // What `init` installed is gone or replaced; the digest cannot know that.
                Driver::forget_init(&self.worker.site.workspace(key))?;
            }
            let Some(pause) = pause(&error, attempt) else { return Err(error) };
            self.worker.board.set(key, Stage::Retrying { reason: error.to_string() });
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.worker.stop.cancelled() => return Err(WorkError::Interrupted),
            }
        }
    }
}

/// Whether an error may be nothing but the consequence of a stop.
fn is_broken_off(error: &WorkError) -> bool {
    match error {
        WorkError::Failed(failure) => failure.class == Class::Interrupted,
        WorkError::Repair(_) | WorkError::Step(StepError::Killed { .. }) => true,
        _ => false,
    }
}

/// How long to wait before trying again; `None` if that would not help.
fn pause(error: &WorkError, attempt: u32) -> Option<Duration> {
    let WorkError::Failed(failure) = error else { return None };
    let most = if failure.class == Class::Wait { TURNS } else { ATTEMPTS };
    if attempt >= most {
        return None;
    }
    if failure.class == Class::Provider {
        return (attempt < 2).then_some(Duration::ZERO);
    }
    // A failure that nobody understands is shown at once: at a terminal a person is waiting for it.
    if failure.class == Class::Unknown {
        return None;
    }
    match failure.advice() {
        Advice::RetryWithin { least, .. } => Some(least / 3),
        Advice::ShortRetries { span } => (attempt < 4).then_some(span / 12),
        Advice::Backoff => Some(Duration::from_secs(2_u64.pow(attempt.min(6)))),
        Advice::Replan => (attempt < 3).then_some(Duration::ZERO),
        Advice::SlowRetry
        | Advice::AwaitChange
        | Advice::CleanUp
        | Advice::ProveLockDead
        | Advice::RefreshCredentials => None,
    }
}

fn stage(outcome: &Result<Outcome, WorkError>) -> Stage {
    match outcome {
        Ok(outcome) => Stage::Done { what: outcome.to_string() },
        Err(error) => Stage::Failed { reason: error.to_string() },
    }
}
