//! The steps of a run: recover the previous run, init, plan, apply.
//!
//! Each step is one terraform command under a shim. The steps make no policy decisions, and never plan on a state older than
//! the newest known one.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{
    approved_plan::ApprovedPlan,
    command_output::{acquire_reattach, check_lease, follow_run, step_failed},
    driver::{Driver, SavedPlan, StepContext, StepError, StepPhase},
    handle::RunHandle,
    interrupted::last_apply_run,
    reattach::ReattachSource,
    run_dir::RunProcesses,
};
use crate::{
    command::{ArgsError, CommandBuilder, Invocation, LockFileMode, PLAN_FILE, PlanMode},
    exec::start_captured,
    hex::hex,
    plan::{DetailedPlan, ObjectChange},
    planfile::{PlanFile, PlannedObjects},
    shim::emergency_state,
    state::{RecoveredState, StateRecovery, record_applied_objects, recover_state},
    workspace::{
        WorkspaceDir,
        files::{FileError, read_json, read_optional, remove_optional, write_atomic, write_json},
    },
};

/// Exit code of `plan -detailed-exitcode` with changes.
const EXIT_HAS_CHANGES: i32 = 2;

/// Inputs of the last `init`; stored in `.capt/init.json`.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
struct InitRecord {
    digest: String,
    /// Whether it created `.terraform`; built-in providers need none.
    installed: bool,
}

/// Digests of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigurationDigests {
    /// Of all rendered files, including variables: part of the plan hash.
    pub configuration: String,
    /// Of the files that `init` reads (`.tf` files, provider installation): decides whether `init` is skipped.
    pub installation: String,
}

impl Driver {
    /// Waits for a command that a previous caller left running, then recovers the newest state.
    pub async fn resume_and_recover(&self, job: &StepContext<'_>) -> Result<RecoveredState, StepError> {
        if let Some(run) = RunHandle::find_alive(job.workspace)? {
            follow_run(run, StepPhase::Resuming, job, job.stop).await?;
            if job.stop.is_cancelled() {
                return Err(StepError::Interrupted { phase: StepPhase::Resuming });
            }
        }
        // An unapplied plan contains every value, sensitive ones included.
        remove_optional(&plan_path(job.workspace))?;
        if job.workspace.has_remote_state() {
            // The backend stores the state.
            return Ok(RecoveredState { source: StateRecovery::NoState, set_aside: Vec::new() });
        }
        if let Some(last) = last_apply_run(job.workspace)?
            && last.exit()?.is_none_or(|exit| exit.code != Some(0))
            && let Some(spec) = last.spec()?
        {
            // Its shim may have been killed, or its disk full, before it could extract an emergency state from the log.
            emergency_state::extract_emergency_state(&last, &spec)?;
        }
        Ok(recover_state(job.workspace)?)
    }

    /// Pulls a remote state into the workspace directory. Requires `init`.
    pub async fn pull_state(&self, job: &StepContext<'_>) -> Result<(), StepError> {
        if job.workspace.has_remote_state() {
            let stdout = self.run_read_only(job, self.commands(job)?.state_pull()).await?;
            let path = job.workspace.state_path();
            if stdout.is_empty() { remove_optional(&path)? } else { write_atomic(&path, &stdout, true)? }
        }
        Ok(())
    }

    /// Runs a read-only command and returns its standard output.
    async fn run_read_only(
        &self,
        job: &StepContext<'_>,
        mut invocation: Invocation,
    ) -> Result<Vec<u8>, StepError> {
        // It has no run directory.
        let processes = job.workspace.meta_dir().join("read-only-process.json");
        remove_optional(&processes)?;
        let lease = acquire_reattach((job, StepPhase::Planning), &mut invocation, &processes).await?;
        let outcome = self.capture_stdout(&invocation, &processes).await;
        remove_optional(&processes)?;
        if let (Some(source_of_providers), Some(lease)) = (job.reattach, lease) {
            source_of_providers.release(lease).await;
        }
        outcome
    }

    async fn capture_stdout(&self, invocation: &Invocation, processes: &Path) -> Result<Vec<u8>, StepError> {
        let (program, args) = invocation.command_line();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let fail = |source| FileError::new("read", &invocation.cwd, source);
        let started = start_captured(&program, &args, &invocation.env, &invocation.cwd);
        let started = started.map_err(fail)?;
        write_json(processes, &RunProcesses { shim: None, engine: started.process() })?;
        let stdout = started.finish(self.limits.deadlines.plan).await.map_err(fail)?;
        if stdout.success {
            return Ok(stdout.stdout);
        }
        let tail = String::from_utf8_lossy(&stdout.stderr).into_owned();
        Err(StepError::Failed { phase: StepPhase::Planning, diagnostics: Vec::new(), tail })
    }

    /// Runs `init`, unless the digest of its inputs is unchanged.
    pub async fn init(&self, job: &StepContext<'_>, digests: &ConfigurationDigests) -> Result<(), StepError> {
        let path = job.workspace.meta_dir().join("init.json");
        if let Some(done) = read_json::<InitRecord>(&path)?
            && done == self.init_record(job, digests)?
        {
            return Ok(());
        }
        remove_optional(&path)?;
        // Not read-only: the lock file was written by an earlier init, and the providers may have to change.
        let mut init = self.commands(job)?.init(LockFileMode::Absent);
        for (path, contents) in init.move_backend_settings(&job.workspace.meta_dir()) {
            write_atomic(&path, &contents, true)?;
        }
        let (code, output) = self.run_command(job, StepPhase::Initialising, init).await?;
        if code != 0 {
            return Err(step_failed(StepPhase::Initialising, output));
        }
        Ok(write_json(&path, &self.init_record(job, digests)?)?)
    }

    /// Forces the next `init` to run, because the installed providers do not work.
    pub fn invalidate_init(workspace: &WorkspaceDir) -> Result<(), FileError> {
        remove_optional(&workspace.meta_dir().join("init.json"))
    }

    /// Removes a saved plan that will not be applied.
    pub fn discard_plan(workspace: &WorkspaceDir) -> Result<(), FileError> {
        remove_optional(&plan_path(workspace))
    }

    /// Creates a saved plan and summarises it without another terraform process.
    pub async fn plan(
        &self,
        job: &StepContext<'_>,
        mode: PlanMode,
        digests: &ConfigurationDigests,
    ) -> Result<SavedPlan, StepError> {
        let plan = self.commands(job)?.plan(mode);
        let (mut code, mut output) = self.run_command(job, StepPhase::Planning, plan.clone()).await?;
        if !is_plan_exit_code(code)
            && output.is_missing_schema()
            && job.reattach.is_some_and(ReattachSource::request_all_schemas)
        {
            // The gateway's type filter was incomplete; retry with all schemas.
            (code, output) = self.run_command(job, StepPhase::Planning, plan).await?;
        }
        if !is_plan_exit_code(code) {
            return Err(step_failed(StepPhase::Planning, output));
        }
        let path = plan_path(job.workspace);
        let bytes = fs::read(&path).map_err(|source| FileError::new("read", &path, source))?;
        let state = job.workspace.state()?.map(|state| state.version);
        let summary = PlanFile::parse(&bytes)?.summary(state.as_ref(), &digests.configuration);
        // The destroy plan of objects that are already gone deletes nothing, but applying it removes them from the state.
        let forgets = mode == PlanMode::Destroy && job.workspace.state()?.is_some_and(|it| !it.is_empty());
        let has_changes = code == EXIT_HAS_CHANGES || forgets;
        if !has_changes {
            // An empty plan is not applied, and it contains every value, sensitive ones included.
            remove_optional(&path)?;
        }
        Ok(SavedPlan { summary, mode, has_changes })
    }

    /// What the saved plan creates, and what was read for it; nothing for an empty plan.
    pub fn planned_objects(workspace: &WorkspaceDir) -> Result<PlannedObjects, StepError> {
        let Some(bytes) = read_optional(&plan_path(workspace))? else { return Ok(PlannedObjects::default()) };
        Ok(PlannedObjects::parse(&bytes)?)
    }

    /// Replaces the state by its next version: the file and its snapshot, or the state in the backend.
    pub async fn replace_state(&self, job: &StepContext<'_>, bytes: &[u8]) -> Result<(), StepError> {
        check_lease(job, StepPhase::Settling)?;
        if job.workspace.has_remote_state() {
            let path = job.workspace.meta_dir().join("replayed.tfstate");
            write_atomic(&path, bytes, true)?;
            let push = self.commands(job)?.state_push(&path.display().to_string())?;
            let pushed = self.run_read_only(job, push).await;
            remove_optional(&path)?;
            pushed?;
            return self.pull_state(job).await;
        }
        write_atomic(&job.workspace.state_path(), bytes, true)?;
        job.workspace.snapshots().store_if_newer(bytes)?;
        Ok(())
    }

    /// Adds the attribute changes to a plan's summary. Starts the provider, so it is only for display.
    pub async fn load_attribute_changes(
        &self,
        job: &StepContext<'_>,
        planned: &mut SavedPlan,
    ) -> Result<(), StepError> {
        let stdout = self.run_read_only(job, self.commands(job)?.show_plan()).await?;
        let shown = DetailedPlan::parse(&stdout)?.summary(planned.summary.hash.clone());
        for change in &mut planned.summary.changes {
            let same =
                |other: &&ObjectChange| other.address == change.address && other.deposed == change.deposed;
            if let Some(detailed) = shown.changes.iter().find(same) {
                change.attributes.clone_from(&detailed.attributes);
            }
        }
        Ok(())
    }

    /// Applies the saved plan, and nothing else. The plan file is removed whatever the result is.
    pub async fn apply(&self, job: &StepContext<'_>, plan: ApprovedPlan) -> Result<(), StepError> {
        let mode = plan.mode;
        let phase = match mode {
            PlanMode::Destroy => StepPhase::Destroying,
            PlanMode::Change | PlanMode::RefreshOnly => StepPhase::Applying,
        };
        let apply = self.commands(job)?.apply(mode);
        let outcome = self.run_command(job, phase, apply).await;
        remove_optional(&plan_path(job.workspace))?;
        let (code, output) = outcome?;
        if !job.workspace.has_remote_state() {
            record_applied_objects(job.workspace)?;
        }
        if code == 0 { Ok(()) } else { Err(step_failed(phase, output)) }
    }

    /// Untaints a resource.
    pub async fn untaint(&self, job: &StepContext<'_>, address: &str) -> Result<(), StepError> {
        let untaint = self.commands(job)?.untaint(address)?;
        let (code, output) = self.run_command(job, StepPhase::Settling, untaint).await?;
        if code == 0 { Ok(()) } else { Err(step_failed(StepPhase::Settling, output)) }
    }

    /// Moves a resource of the state to another address; the next apply destroys it if the configuration lacks that address.
    pub async fn move_state_address(
        &self,
        job: &StepContext<'_>,
        from: &str,
        to: &str,
    ) -> Result<(), StepError> {
        let moving = self.commands(job)?.state_mv(from, to)?;
        let (code, output) = self.run_command(job, StepPhase::Settling, moving).await?;
        if code == 0 { Ok(()) } else { Err(step_failed(StepPhase::Settling, output)) }
    }

    /// Imports an existing resource into the state.
    pub async fn import(&self, job: &StepContext<'_>, address: &str, id: &str) -> Result<(), StepError> {
        let import = self.commands(job)?.import(address, id)?;
        let (code, output) = self.run_command(job, StepPhase::Settling, import).await?;
        if code == 0 { Ok(()) } else { Err(step_failed(StepPhase::Settling, output)) }
    }

    fn init_record(
        &self,
        job: &StepContext<'_>,
        digests: &ConfigurationDigests,
    ) -> Result<InitRecord, FileError> {
        let root = job.workspace.root();
        let lock = read_optional(&root.join(".terraform.lock.hcl"))?.unwrap_or_default();
        let mut hash = Sha256::new();
        hash.update(format!("{} {}\n{}\n", self.engine.kind, self.engine.version, digests.installation));
        hash.update(lock);
        let digest = hex(hash.finalize());
        Ok(InitRecord { digest, installed: root.join(".terraform").is_dir() })
    }

    fn commands<'a>(&'a self, job: &'a StepContext<'_>) -> Result<CommandBuilder<'a>, ArgsError> {
        let root = job.workspace.root();
        CommandBuilder::new(&self.engine, root, job.environment, job.args.clone(), self.limits.lock_timeout)
    }
}

fn is_plan_exit_code(code: i32) -> bool {
    code == 0 || code == EXIT_HAS_CHANGES
}

fn plan_path(workspace: &WorkspaceDir) -> PathBuf {
    workspace.root().join(PLAN_FILE)
}
