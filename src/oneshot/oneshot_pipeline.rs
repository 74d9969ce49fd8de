//! The work of a command: its files say what each workspace is made from, its terminal shows how far it is.

use std::{collections::BTreeMap, sync::Arc};

use futures::future::BoxFuture;
use terraform_driver::{events::Progress, output::Outputs, plan::Summary, run::Phase, workspace::Workspace};
use tokio::sync::{Mutex, Semaphore};
use tokio_util::sync::CancellationToken;

use super::board::{Board, Stage};
use crate::{
    blueprint::{Blueprint, Key, Known, Place, ResolveError, Resolved, blueprints, resolve},
    manifest::ValidatedManifests,
    work::{self, Assignment, Destruction, Doom, Goal, Guard, Host, Outcome, Record, Site, WorkError},
};

/// Asks a person whether a plan may be applied.
pub trait Confirm: Send + Sync {
    /// Whether it may.
    fn confirm<'a>(&'a self, key: &'a Key, summary: &'a Summary) -> BoxFuture<'a, bool>;
}

/// Everything that the work on one workspace needs.
pub struct Worker<'a> {
    /// Where.
    pub site: &'a Site,
    /// What was asked for.
    pub manifests: &'a ValidatedManifests,
    /// Which workspace makes which Secret.
    pub secrets: BTreeMap<String, Key>,
    /// What is known so far.
    pub known: Mutex<Known>,
    /// Who watches.
    pub board: Board,
    /// Cancelled when it should stop.
    pub stop: CancellationToken,
    /// Which AWS, for the provider block.
    pub place: Place,
    /// How many terraforms at once.
    pub permits: Arc<Semaphore>,
    /// One change at a time for each EKS cluster.
    pub clusters: Mutex<BTreeMap<String, Arc<Mutex<()>>>>,
    /// Who is asked.
    pub confirm: Box<dyn Confirm>,
}

impl Worker<'_> {
    /// Brings one workspace to what its blueprint says, or tells what that would take.
    pub async fn bring(&self, blueprint: &Blueprint, goal: &Goal) -> Result<Outcome, WorkError> {
        let resolved = match self.resolve(blueprint).await {
            Ok(resolved) => resolved,
            Err(WorkError::Resolve(reason @ ResolveError::NotYet { .. })) if matches!(goal, Goal::Plan) => {
                return Ok(Outcome::Later { reason: reason.to_string() });
            }
            Err(error) => return Err(error),
        };
        let assignment = Assignment::of(blueprint, resolved);
        let outcome = self.work().bring(&assignment, goal).await?;
        self.collect(&blueprint.key).await?;
        Ok(outcome)
    }

    /// Destroys one workspace with nothing but what its directory holds. `intent` tells whether somebody asked
    /// for that, or whether it only follows from what is not in the files any more.
    pub async fn destroy(&self, key: &Key, record: &Record, intent: &Doom) -> Result<Outcome, WorkError> {
        let env = self.template_env(key, record).await?;
        let how = Destruction { intent, env: &env, principal: None };
        self.work().destroy(key, record, &how).await
    }

    fn work(&self) -> work::Worker<'_> {
        work::Worker { site: self.site, host: self, stop: &self.stop }
    }

    async fn resolve(&self, blueprint: &Blueprint) -> Result<Resolved, WorkError> {
        let known = self.known.lock().await;
        let mut resolved = resolve(blueprint, &known, self.manifests, &self.secrets, &self.place)?;
        match resolved.missing.pop() {
            Some(missing) => Err(missing.into()),
            None => Ok(resolved),
        }
    }

    /// A destroy needs the environment that the apply had: with other credentials it would look into another
    /// account, find nothing, and call that destroyed.
    async fn template_env(&self, key: &Key, record: &Record) -> Result<Vec<(String, String)>, WorkError> {
        let all = blueprints(self.manifests).unwrap_or_default();
        let env = match all.iter().find(|blueprint| blueprint.key == *key) {
            Some(blueprint) => self.resolve(blueprint).await.map(|resolved| resolved.env).unwrap_or_default(),
            None => Vec::new(),
        };
        match record.env.iter().find(|name| !env.iter().any(|(known, _)| known == *name)) {
            Some(name) => Err(WorkError::NoEnvironment { name: name.clone() }),
            None => Ok(env),
        }
    }

    /// Takes the outputs in for those that wait for them.
    async fn collect(&self, key: &Key) -> Result<(), WorkError> {
        let place = self.site.workspace(key);
        let Some(record) = Record::read(&place)? else { return Ok(()) };
        if let Some(bytes) = record.place(&self.site.data, key).state_bytes()? {
            let outputs = Outputs::from_state(&bytes)?;
            self.known.lock().await.outputs.insert(key.clone(), outputs);
        }
        Ok(())
    }
}

impl Host for Worker<'_> {
    fn hear(&self, key: &Key, phase: Phase, progress: &Progress) {
        self.board.hear(key, phase, progress);
    }

    fn note(&self, key: &Key, text: &str) {
        self.board.note(key, text);
    }

    fn place<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Guard> {
        Box::pin(async move {
            if self.permits.available_permits() == 0 {
                self.board.set(key, Stage::Queued { on: "a free place".to_owned() });
            }
            // Nobody closes the semaphore.
            Box::new(Arc::clone(&self.permits).acquire_owned().await.ok()) as Guard
        })
    }

    fn turn<'a>(&'a self, key: &'a Key, cluster: &'a str) -> BoxFuture<'a, Guard> {
        Box::pin(async move {
            let lock = Arc::clone(self.clusters.lock().await.entry(cluster.to_owned()).or_default());
            if let Ok(turn) = Arc::clone(&lock).try_lock_owned() {
                return Box::new(turn) as Guard;
            }
            self.board.set(key, Stage::Queued { on: format!("its turn on the EKS cluster {cluster}") });
            Box::new(lock.lock_owned().await) as Guard
        })
    }

    fn confirm<'a>(&'a self, key: &'a Key, summary: &'a Summary) -> BoxFuture<'a, bool> {
        self.confirm.confirm(key, summary)
    }

    /// The directory is all there is.
    fn restore<'a>(&'a self, _: &'a Key, _: &'a Workspace) -> BoxFuture<'a, Result<(), WorkError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// The directory is all there is.
    fn keep<'a>(
        &'a self,
        _: &'a Key,
        _: &'a Workspace,
        _: &'a Record,
    ) -> BoxFuture<'a, Result<(), WorkError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}
