//! The steps of a run: settle what an earlier one left, init, plan, apply.
//!
//! Each step is one terraform command under its shim. Nothing here decides what should exist; it carries
//! out, and it never plans on a state that is not the newest one known.

use std::{fs, path::PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{
    driver::{Driver, Job, Phase, Planned, StepError},
    handle::Run,
    interrupted::last_apply,
    lend::Lender,
    listen::{borrow, failed, follow},
};
use crate::{
    command::{ArgsError, Commands, Invocation, LockFile, PLAN_FILE, PlanMode},
    exec::capture,
    hex::hex,
    plan::{Change, Plan},
    planfile::PlanFile,
    shim::dump,
    state::{Recovered, recover},
    workspace::{
        Workspace,
        files::{FileError, read_json, read_optional, remove_optional, write_atomic, write_json},
    },
};

/// `plan` has something to do.
const CHANGES: i32 = 2;

/// For what `init` was done last; in `.capt/init.json`.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
struct InitRecord {
    digest: String,
    /// Whether it left a `.terraform`; built-in providers need none.
    installed: bool,
}

/// What a configuration is, for two purposes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digests {
    /// Of everything that was rendered, variables included: part of the plan's hash.
    pub configuration: String,
    /// Of what `init` reads (the `.tf` files and where providers come from): decides whether to skip it.
    pub installation: String,
}

impl Driver {
    /// Waits for a command that an earlier caller left running, then brings the state to its newest version.
    pub async fn settle(&self, job: &Job<'_>) -> Result<Recovered, StepError> {
        if let Some(run) = Run::find_alive(job.workspace)? {
            follow(run, Phase::Resuming, job, job.stop).await?;
            if job.stop.is_cancelled() {
                return Err(StepError::Interrupted { phase: Phase::Resuming });
            }
        }
        // A plan that nobody applied holds every value.
        remove_optional(&plan_path(job.workspace))?;
        if job.workspace.has_remote_state() {
            // The backend keeps it, and keeps it safe.
            return Ok(Recovered::Fresh);
        }
        if let Some(last) = last_apply(job.workspace)?
            && last.exit()?.is_none()
            && let Some(spec) = last.spec()?
        {
            // Its shim was killed before it could look for the state among terraform's last words.
            dump::take_in(&last, &spec)?;
        }
        Ok(recover(job.workspace.root(), &job.workspace.snapshots())?)
    }

    /// Copies a state that is kept elsewhere to where it can be read. Needs an `init`.
    pub async fn pull(&self, job: &Job<'_>) -> Result<(), StepError> {
        if job.workspace.has_remote_state() {
            let said = self.ask(job, self.commands(job)?.state_pull()).await?;
            let path = job.workspace.state_path();
            if said.is_empty() { remove_optional(&path)? } else { write_atomic(&path, &said, true)? }
        }
        Ok(())
    }

    /// A command that only reads; what it prints.
    async fn ask(&self, job: &Job<'_>, mut question: Invocation) -> Result<Vec<u8>, StepError> {
        let loan = borrow(job, Phase::Planning, &mut question).await?;
        let outcome = self.hear(&question).await;
        if let (Some(lender), Some(loan)) = (job.lender, loan) {
            lender.give_back(loan).await;
        }
        outcome
    }

    async fn hear(&self, question: &Invocation) -> Result<Vec<u8>, StepError> {
        let args: Vec<&str> = question.args.iter().map(String::as_str).collect();
        let said = capture(&question.program, &args, &question.env, &question.cwd, self.limits.deadline)
            .await
            .map_err(|source| FileError::new("read", &question.cwd, source))?;
        if said.success {
            return Ok(said.stdout);
        }
        let tail = String::from_utf8_lossy(&said.stderr).into_owned();
        Err(StepError::Failed { phase: Phase::Planning, diagnostics: Vec::new(), tail })
    }

    /// `init`, unless the digest of everything that it depends on says that it was done.
    pub async fn init(&self, job: &Job<'_>, digests: &Digests) -> Result<(), StepError> {
        let path = job.workspace.meta().join("init.json");
        if let Some(done) = read_json::<InitRecord>(&path)?
            && done == self.init_record(job, digests)?
        {
            return Ok(());
        }
        remove_optional(&path)?;
        // Not read-only: the lock file is a product of an earlier init, and the providers may have to change.
        let init = self.commands(job)?.init(LockFile::Absent);
        let (code, heard) = self.command(job, Phase::Initialising, init).await?;
        if code != 0 {
            return Err(failed(Phase::Initialising, heard));
        }
        Ok(write_json(&path, &self.init_record(job, digests)?)?)
    }

    /// Makes the next `init` a real one, whatever the digests say: what it had installed does not work.
    pub fn forget_init(workspace: &Workspace) -> Result<(), FileError> {
        remove_optional(&workspace.meta().join("init.json"))
    }

    /// Removes a saved plan that will not be applied.
    pub fn discard_plan(workspace: &Workspace) -> Result<(), FileError> {
        remove_optional(&plan_path(workspace))
    }

    /// Makes and saves a plan. Says what it would do without starting terraform a second time.
    pub async fn plan(&self, job: &Job<'_>, mode: PlanMode, digests: &Digests) -> Result<Planned, StepError> {
        let plan = self.commands(job)?.plan(mode);
        let (mut code, mut heard) = self.command(job, Phase::Planning, plan.clone()).await?;
        if !is_plan(code) && heard.misses_a_schema() && job.lender.is_some_and(Lender::lend_everything) {
            // Our list of types was wrong, which is no fault of the configuration.
            (code, heard) = self.command(job, Phase::Planning, plan).await?;
        }
        if !is_plan(code) {
            return Err(failed(Phase::Planning, heard));
        }
        let path = plan_path(job.workspace);
        let bytes = fs::read(&path).map_err(|source| FileError::new("read", &path, source))?;
        let state = job.workspace.state()?.map(|state| state.version);
        let summary = PlanFile::parse(&bytes)?.summary(state.as_ref(), &digests.configuration);
        if code == 0 {
            // It holds every value, sensitive ones included, and nobody will apply it.
            remove_optional(&path)?;
        }
        Ok(Planned { summary, mode, has_work: code == CHANGES })
    }

    /// Adds to a plan's summary what differs in each object. Costs a start of the provider, so it is for people
    /// who want to look.
    pub async fn details(&self, job: &Job<'_>, planned: &mut Planned) -> Result<(), StepError> {
        let said = self.ask(job, self.commands(job)?.show_plan()).await?;
        let shown = Plan::parse(&said)?.summary(planned.summary.hash.clone());
        for change in &mut planned.summary.changes {
            let same = |other: &&Change| other.address == change.address && other.deposed == change.deposed;
            if let Some(detailed) = shown.changes.iter().find(same) {
                change.attributes.clone_from(&detailed.attributes);
            }
        }
        Ok(())
    }

    /// Applies the saved plan, and nothing else.
    pub async fn apply(&self, job: &Job<'_>, planned: &Planned) -> Result<(), StepError> {
        let phase = match planned.mode {
            PlanMode::Destroy => Phase::Destroying,
            PlanMode::Change | PlanMode::RefreshOnly => Phase::Applying,
        };
        let apply = self.commands(job)?.apply(planned.mode);
        let outcome = self.command(job, phase, apply).await;
        remove_optional(&plan_path(job.workspace))?;
        let (code, heard) = outcome?;
        if code == 0 { Ok(()) } else { Err(failed(phase, heard)) }
    }

    /// Takes the taint off an object.
    pub async fn untaint(&self, job: &Job<'_>, address: &str) -> Result<(), StepError> {
        let untaint = self.commands(job)?.untaint(address)?;
        let (code, heard) = self.command(job, Phase::Settling, untaint).await?;
        if code == 0 { Ok(()) } else { Err(failed(Phase::Settling, heard)) }
    }

    /// Gives an object of the state another address; one that the configuration does not know is destroyed by the next
    /// apply.
    pub async fn readdress(&self, job: &Job<'_>, from: &str, to: &str) -> Result<(), StepError> {
        let moving = self.commands(job)?.state_mv(from, to)?;
        let (code, heard) = self.command(job, Phase::Settling, moving).await?;
        if code == 0 { Ok(()) } else { Err(failed(Phase::Settling, heard)) }
    }

    /// Takes an object that exists into the state.
    pub async fn import(&self, job: &Job<'_>, address: &str, id: &str) -> Result<(), StepError> {
        let import = self.commands(job)?.import(address, id)?;
        let (code, heard) = self.command(job, Phase::Settling, import).await?;
        if code == 0 { Ok(()) } else { Err(failed(Phase::Settling, heard)) }
    }

    fn init_record(&self, job: &Job<'_>, digests: &Digests) -> Result<InitRecord, FileError> {
        let root = job.workspace.root();
        let lock = read_optional(&root.join(".terraform.lock.hcl"))?.unwrap_or_default();
        let mut hash = Sha256::new();
        hash.update(format!("{} {}\n{}\n", self.engine.kind, self.engine.version, digests.installation));
        hash.update(lock);
        let digest = hex(&hash.finalize());
        Ok(InitRecord { digest, installed: root.join(".terraform").is_dir() })
    }

    fn commands<'a>(&'a self, job: &'a Job<'_>) -> Result<Commands<'a>, ArgsError> {
        let root = job.workspace.root();
        Commands::new(&self.engine, root, job.environment, job.args.clone(), self.limits.lock_timeout)
    }
}

fn is_plan(code: i32) -> bool {
    code == 0 || code == CHANGES
}

fn plan_path(workspace: &Workspace) -> PathBuf {
    workspace.root().join(PLAN_FILE)
}
