//! One workspace from what is asked to what is: settle, repair, render, init, plan, guard, apply, collect.

use std::{collections::BTreeMap, sync::Arc};

use terraform_driver::{
    command::{PlanMode, UserArgs},
    output::Outputs,
    plan::{Intent, Policy, Verdict, guard},
    render,
    run::{Driver, Job, Planned, Run, interrupted_taints},
    state::Recovered,
    workspace::Workspace,
};
use tokio::sync::{Mutex, OwnedMutexGuard, Semaphore};
use tokio_util::sync::CancellationToken;

use super::{
    board::{Board, Stage},
    error::WorkError,
    fetch,
    outcome::{Confirm, Doom, Goal, Outcome},
    record::Record,
    repair,
    site::Site,
};
use crate::{
    blueprint::{
        Blueprint, Body, Existing, Key, Known, Place, ResolveError, Resolved, Shape, blueprints,
        profile_name, resolve,
    },
    manifest::ValidatedManifests,
    modules::Builtin,
};

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
    pub permits: Semaphore,
    /// One change at a time for each EKS cluster.
    pub clusters: Mutex<BTreeMap<String, Arc<Mutex<()>>>>,
    /// Who is asked.
    pub confirm: Box<dyn Confirm>,
}

impl Worker<'_> {
    /// Brings one workspace to what its blueprint says, or tells what that would take.
    pub async fn bring(&self, blueprint: &Blueprint, goal: &Goal) -> Result<Outcome, WorkError> {
        let workspace = self.site.workspace(&blueprint.key);
        let _ours = workspace.lock("another run of capt")?;
        let before = Record::read(&workspace)?;
        let resolved = match self.resolve(blueprint).await {
            Ok(resolved) => resolved,
            Err(WorkError::Resolve(reason @ ResolveError::NotYet { .. })) if matches!(goal, Goal::Plan) => {
                return Ok(Outcome::Later { reason: reason.to_string() });
            }
            Err(error) => return Err(error),
        };
        let environment = self.site.environment(&resolved.env)?;
        let workspace = before.as_ref().map_or(workspace, |it| it.place(&self.site.data, &blueprint.key));
        let turn =
            self.turn_for_leftovers(&blueprint.key, blueprint.eks_cluster.as_deref(), &workspace).await?;
        let permit = self.permit(&blueprint.key).await?;
        let hear = |phase, progress: &_| self.board.hear(&blueprint.key, phase, progress);
        let (args, stop) = (resolved.args.clone(), &self.stop);
        let job = Job { workspace: &workspace, environment: &environment, args: &args, hear: &hear, stop };
        self.settle(&blueprint.key, &job, blueprint.region.as_deref()).await?;
        drop(turn);
        let (workspace, mut record) = self.render(blueprint, resolved, &job, before.as_ref()).await?;
        let (job, digests) = (Job { workspace: &workspace, ..job }, record.digests());
        self.site.driver.init(&job, &digests).await?;
        self.site.driver.pull(&job).await?;
        let mut planned = self.site.driver.plan(&job, PlanMode::Change, &digests).await?;
        let outcome = match goal {
            Goal::Plan if planned.has_work => {
                // A plan that only makes things needs no details.
                if planned.summary.counts.change + planned.summary.counts.replace > 0 {
                    self.site.driver.details(&job, &mut planned).await?;
                }
                Driver::discard_plan(&workspace)?;
                Outcome::Planned(Box::new(planned.summary))
            }
            Goal::Apply { approved } if planned.has_work => {
                self.check(&blueprint.key, &planned, approved.as_deref(), &workspace).await?;
                // Others may plan while this one waits for its turn on the cluster.
                drop(permit);
                workspace.seal()?;
                record.begun = true;
                record.write(&workspace)?;
                let counts = planned.summary.counts;
                self.mutate(&blueprint.key, blueprint.eks_cluster.as_deref(), &job, &planned).await?;
                Outcome::Applied(counts)
            }
            Goal::Plan | Goal::Apply { .. } => Outcome::Unchanged,
        };
        self.site.driver.pull(&job).await?;
        self.collect(&blueprint.key, &workspace).await?;
        Ok(outcome)
    }

    /// Destroys one workspace with nothing but what its directory holds. `intent` tells whether somebody asked
    /// for that, or whether it only follows from what is not in the files any more.
    pub async fn destroy(&self, key: &Key, record: &Record, intent: &Doom) -> Result<Outcome, WorkError> {
        let workspace = record.place(&self.site.data, key);
        let _ours = workspace.lock("another run of capt")?;
        let environment = self.site.environment(&self.template_env(key, record).await?)?;
        let args = UserArgs::from(&record.args);
        let turn = self.turn_for_leftovers(key, record.eks_cluster.as_deref(), &workspace).await?;
        let permit = self.permit(key).await?;
        let hear = |phase, progress: &_| self.board.hear(key, phase, progress);
        let stop = &self.stop;
        let job = Job { workspace: &workspace, environment: &environment, args: &args, hear: &hear, stop };
        self.settle(key, &job, record.region.as_deref()).await?;
        drop(turn);
        workspace.unseal()?;
        let digests = record.digests();
        if workspace.has_remote_state() {
            self.site.driver.init(&job, &digests).await?;
            self.site.driver.pull(&job).await?;
        }
        let objects = count(&workspace)?;
        if objects > 0 {
            self.site.driver.init(&job, &digests).await?;
            let planned = self.site.driver.plan(&job, PlanMode::Destroy, &digests).await?;
            match intent {
                Doom::Dropped { approved } => {
                    self.check(key, &planned, approved.as_deref(), &workspace).await?;
                }
                Doom::Asked => self.ask(key, &planned, &workspace).await?,
            }
            drop(permit);
            self.mutate(key, record.eks_cluster.as_deref(), &job, &planned).await?;
            self.site.driver.pull(&job).await?;
        }
        match count(&workspace)? {
            0 => {
                Record { begun: false, ..record.clone() }.write(&workspace)?;
                Ok(Outcome::Destroyed { objects })
            }
            left => Err(WorkError::NotEmpty { left }),
        }
    }

    async fn permit(&self, key: &Key) -> Result<Option<tokio::sync::SemaphorePermit<'_>>, WorkError> {
        if self.permits.available_permits() == 0 {
            self.board.set(key, Stage::Queued { on: "a free place".to_owned() });
        }
        tokio::select! {
            permit = self.permits.acquire() => Ok(permit.ok()),
            () = self.stop.cancelled() => Err(WorkError::Interrupted),
        }
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

    /// Work that an earlier caller left on an EKS cluster is work on that cluster.
    async fn turn_for_leftovers(
        &self,
        key: &Key,
        cluster: Option<&str>,
        workspace: &Workspace,
    ) -> Result<Option<OwnedMutexGuard<()>>, WorkError> {
        let left = Run::find_alive(workspace)?.is_some()
            || !interrupted_taints(workspace).unwrap_or_default().is_empty();
        match cluster.filter(|_| left) {
            Some(cluster) => Ok(Some(self.turn(key, cluster).await?)),
            None => Ok(None),
        }
    }

    /// Ends what an earlier run left: a command that still runs, a torn state, a taint that only we caused.
    async fn settle(&self, key: &Key, job: &Job<'_>, region: Option<&str>) -> Result<(), WorkError> {
        match self.site.driver.settle(job).await? {
            Recovered::Fresh | Recovered::Intact(_) => {}
            Recovered::FromSnapshot { serial, was } => {
                self.board.note(key, &format!("the state was {was} and was restored from its copy {serial}"));
            }
            Recovered::FromErrored(serial) => {
                self.board
                    .note(key, &format!("the state that terraform could not save was taken in ({serial})"));
            }
        }
        repair::interrupted(self.site, job, region).await?;
        Ok(())
    }

    /// Brings the directory to what the blueprint says.
    async fn render(
        &self,
        blueprint: &Blueprint,
        mut resolved: Resolved,
        job: &Job<'_>,
        before: Option<&Record>,
    ) -> Result<(Workspace, Record), WorkError> {
        if matches!(blueprint.body, Body::Module { module: Builtin::Fargate, .. }) {
            name_profile(&mut resolved, job.workspace)?;
        }
        let mut rendered = render::render(&resolved.request)?;
        let mut fetched = Vec::new();
        if let Some(wanted) = rendered.fetch.clone() {
            fetched = fetch::fetch(self.site, &wanted, job.workspace, job.environment).await?;
            fetch::show(&mut resolved.request, &fetched, &wanted.entrypoint);
            rendered = render::render(&resolved.request)?;
        }
        let digests = self.site.digests(&rendered, &fetched);
        let mut record = Record::new(blueprint, &digests, &rendered, before);
        record.args = (&resolved.args).into();
        record.env = resolved.env.iter().map(|(name, _)| name.clone()).collect();
        record.region = resolved.request.provider.as_ref().map(|provider| provider.region.clone());
        if let Some(before) = before.filter(|_| count(job.workspace).is_ok_and(|objects| objects > 0)) {
            stays_in_place(before, &record)?;
        }
        let workspace = record.place(&self.site.data, &blueprint.key);
        workspace.write(super::files(&rendered, &fetched))?;
        record.write(&workspace)?;
        Ok((workspace, record))
    }

    /// Refuses what is harmful and not approved, and asks where a person wants to be asked.
    async fn check(
        &self,
        key: &Key,
        planned: &Planned,
        approved: Option<&str>,
        workspace: &Workspace,
    ) -> Result<(), WorkError> {
        let verdict = guard(&planned.summary, &Policy::default(), Intent::Change, approved);
        if let Verdict::Refused { reasons } = verdict {
            Driver::discard_plan(workspace)?;
            return Err(WorkError::Blocked { reasons, hash: planned.summary.hash.short().to_owned() });
        }
        self.ask(key, planned, workspace).await
    }

    /// Shows a plan to whoever wants to be asked.
    async fn ask(&self, key: &Key, planned: &Planned, workspace: &Workspace) -> Result<(), WorkError> {
        let refusal = tokio::select! {
            yes = self.confirm.confirm(key, &planned.summary) => {
                if yes {
                    return Ok(());
                }
                WorkError::NotConfirmed
            }
            () = self.stop.cancelled() => WorkError::Interrupted,
        };
        Driver::discard_plan(workspace)?;
        Err(refusal)
    }

    /// Applies a plan, alone on its EKS cluster: EKS refuses two changes of Fargate profiles at once.
    async fn mutate(
        &self,
        key: &Key,
        cluster: Option<&str>,
        job: &Job<'_>,
        planned: &Planned,
    ) -> Result<(), WorkError> {
        let turn = match cluster {
            Some(cluster) => Some(self.turn(key, cluster).await?),
            None => None,
        };
        let permit = self.permit(key).await?;
        let outcome = self.site.driver.apply(job, planned).await;
        drop((turn, permit));
        if outcome.is_err() && job.workspace.has_remote_state() {
            // What was made is in the backend; the next command wants to see it. If it cannot be read now, it is
            // read then.
            let _read_later = self.site.driver.pull(job).await;
        }
        Ok(outcome?)
    }

    async fn turn(&self, key: &Key, cluster: &str) -> Result<OwnedMutexGuard<()>, WorkError> {
        let lock = Arc::clone(self.clusters.lock().await.entry(cluster.to_owned()).or_default());
        if let Ok(turn) = Arc::clone(&lock).try_lock_owned() {
            return Ok(turn);
        }
        self.board.set(key, Stage::Queued { on: format!("its turn on the EKS cluster {cluster}") });
        tokio::select! {
            turn = lock.lock_owned() => Ok(turn),
            () = self.stop.cancelled() => Err(WorkError::Interrupted),
        }
    }

    /// Takes the outputs in for those that wait for them.
    async fn collect(&self, key: &Key, workspace: &Workspace) -> Result<(), WorkError> {
        if let Some(bytes) = workspace.state_bytes()? {
            let outputs = Outputs::from_state(&bytes)?;
            self.known.lock().await.outputs.insert(key.clone(), outputs);
        }
        Ok(())
    }
}

/// A profile that must become another one gets another name.
fn name_profile(resolved: &mut Resolved, workspace: &Workspace) -> Result<(), WorkError> {
    let request = &mut resolved.request;
    let value = |name| request.variables.get(name).or_else(|| request.upstream.get(name));
    let wanted = Shape::new(value("selectors"), value("private_subnets"), value("pod_execution_role_arn"));
    let Some(plain) = request.variables.get("profile_name").and_then(|name| name.as_str()) else {
        return Ok(());
    };
    let existing = workspace.state()?.as_ref().and_then(Existing::of);
    let name = profile_name(plain, &wanted, existing.as_ref());
    request.variables.insert("profile_name".to_owned(), name.into());
    Ok(())
}

/// Whether what exists will be looked for where it is.
fn stays_in_place(before: &Record, now: &Record) -> Result<(), WorkError> {
    let moved = |what, from: String, to: String| Err(WorkError::Moved { what, from, to });
    let place =
        |remote: bool| if remote { "a backend of its own" } else { "the workspace's directory" }.to_owned();
    if let (Some(from), Some(to)) = (&before.region, &now.region)
        && from != to
    {
        return moved("region", from.clone(), to.clone());
    }
    if before.root != now.root {
        return moved("root directory", format!("{:?}", before.root), format!("{:?}", now.root));
    }
    if before.remote_state != now.remote_state {
        return moved("backend", place(before.remote_state), place(now.remote_state));
    }
    Ok(())
}

/// How many objects a workspace manages, as far as its state tells.
fn count(workspace: &Workspace) -> Result<usize, WorkError> {
    Ok(workspace.state()?.map_or(0, |state| state.managed().count()))
}
