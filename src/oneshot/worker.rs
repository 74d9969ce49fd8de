//! One workspace from what is asked to what is: settle, repair, render, init, plan, guard, apply, collect.

use std::{collections::BTreeMap, fmt, sync::Arc};

use terraform_driver::{
    classify::{self, Class, Failure},
    command::{PlanMode, UserArgs},
    output::{OutputError, Outputs},
    plan::{Counts, Intent, Policy, Reason, Summary, Verdict, guard},
    render::{self, RenderError},
    run::{Job, Planned, StepError},
    state::Recovered,
    workspace::{LockError, Workspace, WorkspaceError, files::FileError},
};
use thiserror::Error;
use tokio::sync::{Mutex, Semaphore};
use tokio_util::sync::CancellationToken;

use super::{
    board::{Board, Stage},
    fetch::{self, FetchError},
    record::Record,
    repair::{self, RepairError},
    site::{Site, SiteError},
};
use crate::{
    blueprint::{
        Blueprint, Existing, Key, Known, Place, ResolveError, Resolved, Role, Shape, profile_name, resolve,
    },
    manifest::ValidatedManifests,
};

/// Why a workspace is not as it should be.
#[derive(Debug, Error)]
pub enum WorkError {
    /// Terraform or AWS said no.
    #[error("{}", said(.0))]
    Failed(Failure),
    /// We were asked to stop.
    #[error("interrupted; the same command continues")]
    Interrupted,
    /// The plan would harm what is protected.
    #[error("{}; if that is meant: --approve {hash}", reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Blocked {
        /// What it would do.
        reasons: Vec<Reason>,
        /// The plan's hash.
        hash: String,
    },
    /// A person said no.
    #[error("not confirmed; nothing was changed")]
    NotConfirmed,
    /// Something still exists after a destroy.
    #[error("{left} resource(s) are still in the state after the destroy; run the same command again")]
    NotEmpty {
        /// How many.
        left: usize,
    },
    /// A value is missing.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// It cannot be rendered.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// Its source cannot be had.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// Another step of the driver.
    #[error(transparent)]
    Step(StepError),
    /// What was interrupted cannot be looked at.
    #[error(transparent)]
    Repair(#[from] RepairError),
    /// The environment of its commands.
    #[error(transparent)]
    Site(#[from] SiteError),
    /// Its outputs make no sense.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// Another process works on it.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// Its directory.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// A file.
    #[error(transparent)]
    File(#[from] FileError),
}

fn said(failure: &Failure) -> String {
    let address = failure.address.as_ref().map(|address| format!("{address}: ")).unwrap_or_default();
    format!("{address}{}", failure.message)
}

impl From<StepError> for WorkError {
    fn from(error: StepError) -> Self {
        match error {
            StepError::Interrupted { .. } => Self::Interrupted,
            StepError::Failed { ref diagnostics, ref tail, .. } => {
                let failure = classify::primary(diagnostics).unwrap_or_else(|| classify::classify_text(tail));
                if failure.class == Class::Interrupted { Self::Interrupted } else { Self::Failed(failure) }
            }
            other => Self::Step(other),
        }
    }
}

/// What became of a workspace.
#[derive(Debug)]
pub enum Outcome {
    /// It was as it should be.
    Unchanged,
    /// A plan only.
    Planned(Box<Summary>),
    /// It can only be planned when another one is there.
    Later {
        /// Why.
        reason: String,
    },
    /// It was changed.
    Applied(Counts),
    /// It is gone.
    Destroyed {
        /// How many objects were.
        objects: usize,
    },
    /// It was to stay.
    Kept,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unchanged => f.write_str("no changes"),
            Self::Planned(summary) => write!(f, "{}", summary.counts),
            Self::Later { reason } => write!(f, "later: {reason}"),
            Self::Applied(Counts { add, change, replace, destroy, .. }) => {
                write!(f, "{add} added, {change} changed, {replace} replaced, {destroy} destroyed")
            }
            Self::Destroyed { objects: 0 } => f.write_str("nothing was there"),
            Self::Destroyed { objects } => write!(f, "{objects} destroyed"),
            Self::Kept => f.write_str("kept"),
        }
    }
}

/// Why a workspace is destroyed.
#[derive(Debug, Clone)]
pub enum Doom {
    /// Somebody asked for it.
    Asked,
    /// It is not in the files any more; what is protected needs an approval.
    Dropped {
        /// A plan that may do harm.
        approved: Option<String>,
    },
}

/// How far to go.
#[derive(Debug, Clone)]
pub enum Goal {
    /// Only look.
    Plan,
    /// Make it so.
    Apply {
        /// A plan that may do harm.
        approved: Option<String>,
    },
}

/// Asks a person whether a plan may be applied.
pub trait Confirm: Send + Sync {
    /// Whether it may.
    fn confirm(&self, key: &Key, summary: &Summary) -> bool;
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
        let permit = self.permit(&blueprint.key).await?;
        let hear = |phase, progress: &_| self.board.hear(&blueprint.key, phase, progress);
        let (args, stop) = (resolved.args.clone(), &self.stop);
        let job = Job { workspace: &workspace, environment: &environment, args: &args, hear: &hear, stop };
        self.settle(&blueprint.key, &job, blueprint.region.as_deref()).await?;
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
                Outcome::Planned(Box::new(planned.summary))
            }
            Goal::Apply { approved } if planned.has_work => {
                self.check(&blueprint.key, &planned, approved.as_deref())?;
                // Others may plan while this one waits for its turn on the cluster.
                drop(permit);
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
        let environment = self.site.environment(&self.template_env(key).await)?;
        let args = UserArgs::from(&record.args);
        let permit = self.permit(key).await?;
        let hear = |phase, progress: &_| self.board.hear(key, phase, progress);
        let stop = &self.stop;
        let job = Job { workspace: &workspace, environment: &environment, args: &args, hear: &hear, stop };
        self.settle(key, &job, record.region.as_deref()).await?;
        let digests = record.digests();
        if workspace.has_remote_state() {
            self.site.driver.init(&job, &digests).await?;
            self.site.driver.pull(&job).await?;
        }
        let objects = count(&workspace)?;
        if objects > 0 {
            self.site.driver.init(&job, &digests).await?;
            let planned = self.site.driver.plan(&job, PlanMode::Destroy, &digests).await?;
            if let Doom::Dropped { approved } = intent {
                self.check(key, &planned, approved.as_deref())?;
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

    /// A destroy needs the template's environment if it had one and the files still say it.
    async fn template_env(&self, key: &Key) -> Vec<(String, String)> {
        let Ok(all) = crate::blueprint::blueprints(self.manifests) else { return Vec::new() };
        let Some(blueprint) = all.iter().find(|blueprint| blueprint.key == *key) else { return Vec::new() };
        self.resolve(blueprint).await.map(|resolved| resolved.env).unwrap_or_default()
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
        if matches!(blueprint.role, Role::Fargate { .. }) {
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
        let workspace = record.place(&self.site.data, &blueprint.key);
        workspace.write(super::files(&rendered, &fetched))?;
        record.write(&workspace)?;
        Ok((workspace, record))
    }

    /// Refuses what is harmful and not approved, and asks where a person wants to be asked.
    fn check(&self, key: &Key, planned: &Planned, approved: Option<&str>) -> Result<(), WorkError> {
        let verdict = guard(&planned.summary, &Policy::default(), Intent::Change, approved);
        if let Verdict::Refused { reasons } = verdict {
            return Err(WorkError::Blocked { reasons, hash: planned.summary.hash.short().to_owned() });
        }
        if self.confirm.confirm(key, &planned.summary) { Ok(()) } else { Err(WorkError::NotConfirmed) }
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
        Ok(outcome?)
    }

    async fn turn(&self, key: &Key, cluster: &str) -> Result<tokio::sync::OwnedMutexGuard<()>, WorkError> {
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

/// How many objects a workspace manages, as far as its state tells.
fn count(workspace: &Workspace) -> Result<usize, WorkError> {
    Ok(workspace.state()?.map_or(0, |state| state.managed().count()))
}
