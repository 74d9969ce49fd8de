//! One workspace from what is asked to what is: restore, settle, repair, render, init, plan, guard, apply, keep.

use terraform_driver::{
    command::{PlanMode, UserArgs},
    plan::{Intent, Policy, Verdict, guard},
    render::Request,
    run::{Driver, Job, Lender, Planned, Run, StepError, interrupted_taints},
    state::Recovered,
    workspace::Workspace,
};
use tokio_util::sync::CancellationToken;

use super::{
    adopt,
    assignment::Assignment,
    check,
    error::WorkError,
    host::{Guard, Host},
    outcome::{Doom, Goal, Outcome},
    ready::Ready,
    record::Record,
    repair,
    site::Site,
};
use crate::{aws::Principal, blueprint::Key, gateway::RunLender};

/// Everything that the work on one workspace needs.
pub struct Worker<'a> {
    /// Where.
    pub site: &'a Site,
    /// Who waits, watches and is asked.
    pub host: &'a dyn Host,
    /// Cancelled when it should stop.
    pub stop: &'a CancellationToken,
}

/// How a workspace that exists is destroyed.
pub struct Destruction<'a> {
    /// Whether somebody asked for that, or whether it only follows from what is not in the files any more.
    pub intent: &'a Doom,
    /// The environment that its template had.
    pub env: &'a [(String, String)],
    /// As whom it is done; as the operator itself if as nobody else.
    pub principal: Option<&'a Principal>,
}

impl Worker<'_> {
    /// Brings one workspace to what its task says, or tells what that would take.
    pub async fn bring(&self, task: &Assignment, goal: &Goal) -> Result<Outcome, WorkError> {
        let (key, workspace) = (&task.key, self.site.workspace(&task.key));
        let _ours = workspace.lock("another run of capt")?;
        self.host.restore(key, &workspace).await?;
        let before = Record::read(&workspace)?;
        let environment = self.site.environment(&task.resolved.env, task.principal.as_ref())?;
        let workspace = before.as_ref().map_or(workspace, |it| it.place(&self.site.data, key));
        let turn = self.turn_for_leftovers(key, task.eks_cluster.as_deref(), &workspace).await?;
        let place = self.place(key).await?;
        let hear = |phase, progress: &_| self.host.hear(key, phase, progress);
        let (args, stop) = (task.resolved.args.clone(), self.stop);
        let tell = |text: &str| self.host.plain(key, text);
        let lender = self.lender(key, task.principal.as_ref(), &tell);
        let job = Job {
            workspace: &workspace,
            environment: &environment,
            args: &args,
            hear: &hear,
            stop,
            lender: lender.as_ref().map(|it| it as &dyn Lender),
        };
        self.settle(key, &job, (task.region.as_deref(), task.principal.as_ref())).await?;
        drop(turn);
        let Ready { workspace, record, request, lost } = self.render(task, &job, before.as_ref()).await?;
        let (job, digests) = (Job { workspace: &workspace, ..job }, record.digests());
        self.site.driver.init(&job, &digests).await?;
        adopt::make_room(self.site, &job, &lost).await?;
        self.site.driver.pull(&job).await?;
        if let (Goal::Check | Goal::Correct, Some(lender)) = (goal, &lender) {
            match check::is_unchanged(lender, &job, &digests).await? {
                Ok(()) => return Ok(Outcome::Unchanged),
                Err(why) => tracing::debug!(%key, %why, "a plan decides"),
            }
        }
        let planned = self.site.driver.plan(&job, PlanMode::Change, &digests).await?;
        if let (false, false, Some(lender)) = (planned.has_work, *goal == Goal::Plan, &lender) {
            check::remember(lender, &job, &digests).await?;
        }
        let outcome = self.carry_out((task, &request), goal, &job, (planned, record, place)).await?;
        self.site.driver.pull(&job).await?;
        Ok(outcome)
    }

    /// What the goal asks to do with a plan.
    async fn carry_out(
        &self,
        (task, request): (&Assignment, &Request),
        goal: &Goal,
        job: &Job<'_>,
        (mut planned, mut record, place): (Planned, Record, Guard),
    ) -> Result<Outcome, WorkError> {
        match goal {
            Goal::Plan | Goal::Check if planned.has_work => {
                // A plan that only makes things needs no details.
                let counts = planned.summary.counts;
                if matches!(goal, Goal::Plan) && counts.change + counts.replace > 0 {
                    self.site.driver.details(job, &mut planned).await?;
                }
                Driver::discard_plan(job.workspace)?;
                Ok(Outcome::Planned(Box::new(planned.summary)))
            }
            Goal::Apply { .. } | Goal::Correct if planned.has_work => {
                let approved = match goal {
                    Goal::Apply { approved } => approved.as_deref(),
                    _ => None,
                };
                self.check(&task.key, &planned, approved, job.workspace).await?;
                // Others may plan while this one waits for its turn on the cluster.
                drop(place);
                job.workspace.seal()?;
                record.begun = true;
                record.write(job.workspace)?;
                adopt::note(job.workspace, &planned.summary, request)?;
                self.host.keep(&task.key, job.workspace, &record).await?;
                let counts = planned.summary.counts;
                let done = self.mutate(&task.key, task.eks_cluster.as_deref(), job, &planned).await;
                if !matches!(done, Err(WorkError::Step(StepError::Killed { .. }))) {
                    adopt::forget(job.workspace)?;
                }
                self.host.keep(&task.key, job.workspace, &record).await?;
                done.map(|()| Outcome::Applied(counts))
            }
            Goal::Plan | Goal::Check | Goal::Correct | Goal::Apply { .. } => {
                adopt::forget(job.workspace)?;
                Ok(Outcome::Unchanged)
            }
        }
    }

    /// Destroys one workspace with nothing but what its directory holds.
    pub async fn destroy(
        &self,
        key: &Key,
        record: &Record,
        how: &Destruction<'_>,
    ) -> Result<Outcome, WorkError> {
        let workspace = record.place(&self.site.data, key);
        let _ours = workspace.lock("another run of capt")?;
        let environment = self.site.environment(how.env, how.principal)?;
        let args = UserArgs::from(&record.args);
        let turn = self.turn_for_leftovers(key, record.eks_cluster.as_deref(), &workspace).await?;
        let place = self.place(key).await?;
        let hear = |phase, progress: &_| self.host.hear(key, phase, progress);
        let stop = self.stop;
        let tell = |text: &str| self.host.plain(key, text);
        let lender = self.lender(key, how.principal, &tell);
        let job = Job {
            workspace: &workspace,
            environment: &environment,
            args: &args,
            hear: &hear,
            stop,
            lender: lender.as_ref().map(|it| it as &dyn Lender),
        };
        self.settle(key, &job, (record.region.as_deref(), how.principal)).await?;
        drop(turn);
        workspace.unseal()?;
        let digests = record.digests();
        let asking = (how.principal, self.stop);
        let lost = adopt::find(self.site, &workspace, record.region.as_deref(), asking).await?;
        if workspace.has_remote_state() || !lost.is_empty() {
            self.site.driver.init(&job, &digests).await?;
            adopt::take_in(self.site, &job, &lost).await?;
            self.site.driver.pull(&job).await?;
        }
        let objects = count(&workspace)?;
        if objects > 0 {
            self.site.driver.init(&job, &digests).await?;
            let planned = self.site.driver.plan(&job, PlanMode::Destroy, &digests).await?;
            match how.intent {
                Doom::Dropped { approved } => {
                    self.check(key, &planned, approved.as_deref(), &workspace).await?;
                }
                Doom::Asked => self.ask(key, &planned, &workspace).await?,
            }
            drop(place);
            let done = self.mutate(key, record.eks_cluster.as_deref(), &job, &planned).await;
            self.host.keep(key, &workspace, record).await?;
            done?;
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

    /// Who lends running providers to the commands of a workspace.
    fn lender<'b>(
        &'b self,
        key: &Key,
        principal: Option<&Principal>,
        tell: &'b (dyn Fn(&str) + Send + Sync),
    ) -> Option<RunLender<'b>> {
        let gateway = self.site.gateway.as_ref()?;
        let tenant = principal.map_or_else(|| Principal::own().digest(), Principal::digest);
        Some(RunLender::new(gateway, key.to_string(), tenant, tell))
    }

    async fn place(&self, key: &Key) -> Result<Guard, WorkError> {
        self.unless_stopped(self.host.place(key)).await
    }

    async fn turn(&self, key: &Key, cluster: &str) -> Result<Guard, WorkError> {
        self.unless_stopped(self.host.turn(key, cluster)).await
    }

    async fn unless_stopped(&self, wait: impl Future<Output = Guard>) -> Result<Guard, WorkError> {
        tokio::select! {
            guard = wait => Ok(guard),
            () = self.stop.cancelled() => Err(WorkError::Interrupted),
        }
    }

    /// Work that an earlier caller left on an EKS cluster is work on that cluster.
    async fn turn_for_leftovers(
        &self,
        key: &Key,
        cluster: Option<&str>,
        workspace: &Workspace,
    ) -> Result<Option<Guard>, WorkError> {
        let left = Run::find_alive(workspace)?.is_some()
            || !interrupted_taints(workspace).unwrap_or_default().is_empty();
        match cluster.filter(|_| left) {
            Some(cluster) => Ok(Some(self.turn(key, cluster).await?)),
            None => Ok(None),
        }
    }

    /// Ends what an earlier run left: a command that still runs, a torn state, a taint that only we caused.
    async fn settle(
        &self,
        key: &Key,
        job: &Job<'_>,
        asking: (Option<&str>, Option<&Principal>),
    ) -> Result<(), WorkError> {
        match self.site.driver.settle(job).await? {
            Recovered::Fresh | Recovered::Intact(_) => {}
            Recovered::FromSnapshot { serial, was } => {
                self.host.note(key, &format!("the state was {was} and was restored from its copy {serial}"));
            }
            Recovered::FromErrored(serial) => {
                self.host
                    .note(key, &format!("the state that terraform could not save was taken in ({serial})"));
            }
        }
        repair::interrupted(self.site, job, asking).await?;
        Ok(())
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
            yes = self.host.confirm(key, &planned.summary) => {
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
        let place = self.place(key).await?;
        let outcome = self.site.driver.apply(job, planned).await;
        drop((turn, place));
        if outcome.is_err() && job.workspace.has_remote_state() {
            // What was made is in the backend; the next command wants to see it. If it cannot be read now, it is
            // read then.
            let _read_later = self.site.driver.pull(job).await;
        }
        Ok(outcome?)
    }
}

/// How many objects a workspace manages, as far as its state tells.
pub(super) fn count(workspace: &Workspace) -> Result<usize, WorkError> {
    Ok(workspace.state()?.map_or(0, |state| state.managed().count()))
}
