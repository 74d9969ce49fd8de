//! A fake terraform and fake hooks for unit tests of the pipeline and of runs. Both write into one journal, so that a test sees
//! the order of commands, locks and backups.

mod fake_hooks;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use capt_model::workspaces::{ResolvedWorkspace, WorkspaceKey, WorkspaceRole};
pub(crate) use fake_hooks::{BackupView, FakeHooks, HookScript};
use serde_json::{Value, json};
use tempfile::TempDir;
use terraform_driver::{
    command::{PLAN_FILE, PlanMode, UserArgs},
    engine::{Engine, EngineKind, OLDEST},
    events::TerraformProgress,
    plan::{DetailedPlan, PlanHash, PlanSummary},
    render::{InlineFormat, ProviderBlock, RenderRequest, RootSource},
    run::{ApprovedPlan, ConfigurationDigests, SavedPlan, StepContext, StepError, StepPhase},
    state::{RecoveredState, StateRecovery, recover_state},
    workspace::WorkspaceDir,
};
use tokio::sync::Semaphore;

use super::{DataDirectory, StepFuture, TerraformSteps, WorkspaceJob};
use crate::{aws::Cloud, process_env::ProcessEnv};

/// What happened, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Journal(Arc<Mutex<Vec<String>>>);

impl Journal {
    pub(crate) fn note(&self, entry: impl Into<String>) {
        self.0.lock().unwrap().push(entry.into());
    }

    /// All entries so far, which are removed.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    pub(crate) fn has(&self, entry: &str) -> bool {
        self.0.lock().unwrap().iter().any(|it| it == entry)
    }
}

/// Makes an error of a step.
pub(crate) type MakeError = fn() -> StepError;

/// What the fake terraform does.
#[derive(Clone)]
pub(crate) struct Script {
    /// Actions and resource types of the plan, `("create", "aws_vpc")`.
    pub(crate) changes: Vec<(&'static str, &'static str)>,
    /// Distinguishes the hashes of plans.
    pub(crate) plan: u8,
    /// Steps that fail.
    pub(crate) failing: BTreeMap<&'static str, MakeError>,
    /// What the recovery found; otherwise it restores the newest snapshot.
    pub(crate) recovery: Option<fn() -> StateRecovery>,
    /// The state that an apply writes.
    pub(crate) state: Option<String>,
    /// A step that waits until the semaphore has a permit, or until it is stopped.
    pub(crate) gate: Option<(&'static str, Arc<Semaphore>)>,
    /// A step that panics.
    pub(crate) panicking: Option<&'static str>,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            changes: vec![("create", "aws_vpc")],
            plan: 1,
            failing: BTreeMap::new(),
            recovery: None,
            state: Some(state(1, &[("aws_vpc", "ok")])),
            gate: None,
            panicking: None,
        }
    }
}

/// A terraform that follows its script.
pub(crate) struct FakeTerraform {
    engine: Engine,
    journal: Journal,
    script: Arc<Mutex<Script>>,
}

impl FakeTerraform {
    fn script(&self) -> Script {
        self.script.lock().unwrap().clone()
    }

    async fn step(&self, name: &'static str, job: &StepContext<'_>) -> Result<(), StepError> {
        self.journal.note(name);
        let script = self.script();
        let phase = match name {
            "init" => StepPhase::Initialising,
            "plan" => StepPhase::Planning,
            "apply" => StepPhase::Applying,
            "destroy" => StepPhase::Destroying,
            "recover" => StepPhase::Resuming,
            _ => StepPhase::Settling,
        };
        if let Some(lease) = job.lease {
            self.journal.note(format!("{name} with fence {}", lease.fence));
        }
        (job.on_progress)(phase, &TerraformProgress::default());
        assert!(script.panicking != Some(name), "the script says so");
        if let Some((_, gate)) = script.gate.filter(|(step, _)| *step == name) {
            tokio::select! {
                permit = gate.acquire() => permit.unwrap().forget(),
                () = job.stop.cancelled() => return Err(StepError::Interrupted { phase }),
            }
        }
        script.failing.get(name).map_or(Ok(()), |error| Err(error()))
    }
}

impl TerraformSteps for FakeTerraform {
    fn engine(&self) -> &Engine {
        &self.engine
    }

    fn resume_and_recover<'a>(&'a self, job: &'a StepContext<'_>) -> StepFuture<'a, RecoveredState> {
        Box::pin(async move {
            self.step("recover", job).await?;
            match self.script().recovery {
                Some(found) => Ok(RecoveredState { source: found(), set_aside: Vec::new() }),
                None => Ok(recover_state(job.workspace)?),
            }
        })
    }

    fn init<'a>(&'a self, job: &'a StepContext<'_>, _: &'a ConfigurationDigests) -> StepFuture<'a, ()> {
        Box::pin(self.step("init", job))
    }

    fn pull_state<'a>(&'a self, job: &'a StepContext<'_>) -> StepFuture<'a, ()> {
        Box::pin(async move {
            if job.workspace.has_remote_state() { self.step("pull", job).await } else { Ok(()) }
        })
    }

    fn plan<'a>(
        &'a self,
        job: &'a StepContext<'_>,
        mode: PlanMode,
        _: &'a ConfigurationDigests,
    ) -> StepFuture<'a, SavedPlan> {
        Box::pin(async move {
            self.step("plan", job).await?;
            let script = self.script();
            std::fs::write(job.workspace.root().join(PLAN_FILE), "plan").unwrap();
            let summary = plan_summary(&script.changes, script.plan);
            Ok(SavedPlan { summary, mode, has_changes: !script.changes.is_empty() })
        })
    }

    fn load_attribute_changes<'a>(
        &'a self,
        job: &'a StepContext<'_>,
        _: &'a mut SavedPlan,
    ) -> StepFuture<'a, ()> {
        Box::pin(self.step("show", job))
    }

    fn apply<'a>(&'a self, job: &'a StepContext<'_>, plan: ApprovedPlan) -> StepFuture<'a, ()> {
        Box::pin(async move {
            let name = if plan.mode == PlanMode::Destroy { "destroy" } else { "apply" };
            let outcome = self.step(name, job).await;
            if let Some(state) = self.script().state {
                std::fs::write(job.workspace.state_path(), state).unwrap();
            }
            outcome
        })
    }

    fn untaint<'a>(&'a self, job: &'a StepContext<'_>, _: &'a str) -> StepFuture<'a, ()> {
        Box::pin(self.step("untaint", job))
    }

    fn move_state_address<'a>(
        &'a self,
        job: &'a StepContext<'_>,
        _: &'a str,
        _: &'a str,
    ) -> StepFuture<'a, ()> {
        Box::pin(self.step("state mv", job))
    }

    fn replace_state<'a>(&'a self, job: &'a StepContext<'_>, bytes: &'a [u8]) -> StepFuture<'a, ()> {
        Box::pin(async move {
            self.step("replace state", job).await?;
            std::fs::write(job.workspace.state_path(), bytes).unwrap();
            Ok(())
        })
    }

    fn import<'a>(&'a self, job: &'a StepContext<'_>, _: &'a str, _: &'a str) -> StepFuture<'a, ()> {
        Box::pin(self.step("import", job))
    }
}

/// Summary of a plan with these actions and resource types.
pub(crate) fn plan_summary(changes: &[(&str, &str)], plan: u8) -> PlanSummary {
    let change = |(action, kind): &(&str, &str)| {
        let actions: Vec<&str> = if *action == "replace" { vec!["delete", "create"] } else { vec![*action] };
        json!({"address": format!("{kind}.this"), "mode": "managed", "type": kind, "change": {"actions": actions}})
    };
    let all: Vec<Value> = changes.iter().map(change).collect();
    let shown = json!({"format_version": "1.2", "resource_changes": all});
    let parsed = DetailedPlan::parse(shown.to_string().as_bytes()).unwrap();
    parsed.summary(PlanHash::new(&[plan; 32]))
}

/// The hash of a plan.
pub(crate) fn plan_hash(plan: u8) -> String {
    PlanHash::new(&[plan; 32]).as_str().to_owned()
}

/// A state with these resource types, each `ok` or `tainted`.
pub(crate) fn state(serial: u64, resources: &[(&str, &str)]) -> String {
    let one = |(kind, condition): &(&str, &str)| {
        let mut instance = json!({"attributes": {"id": "id-1"}});
        if *condition == "tainted" {
            instance["status"] = json!("tainted");
        }
        json!({"mode": "managed", "type": kind, "name": "this", "instances": [instance],
               "provider": "provider[\"registry.terraform.io/hashicorp/aws\"]"})
    };
    let all: Vec<Value> = resources.iter().map(one).collect();
    json!({"version": 4, "terraform_version": "1.11.4", "serial": serial, "lineage": "line", "outputs": {}, "resources": all})
        .to_string()
}

/// A data directory with a fake terraform.
pub(crate) struct FakeSite {
    pub(crate) dir: TempDir,
    pub(crate) journal: Journal,
    pub(crate) script: Arc<Mutex<Script>>,
}

impl FakeSite {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), journal: Journal::default(), script: Arc::default() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Opens the data directory, which stays locked as long as the value lives.
    pub(crate) fn open(&self) -> DataDirectory {
        let engine = engine();
        let cloud = Cloud::Local { endpoint: "http://127.0.0.1:1".to_owned() };
        let mut site = DataDirectory::open(&process_env(), self.path(), cloud, engine.clone(), "").unwrap();
        site.driver = Box::new(FakeTerraform {
            engine,
            journal: self.journal.clone(),
            script: Arc::clone(&self.script),
        });
        site
    }

    /// Changes what terraform does.
    pub(crate) fn with(&self, change: impl FnOnce(&mut Script)) -> &Self {
        change(&mut self.script.lock().unwrap());
        self
    }

    pub(crate) fn workspace(&self) -> WorkspaceDir {
        super::workspace_dir(self.path(), &key())
    }

    /// Writes the state of the workspace.
    pub(crate) fn put_state(&self, text: &str) {
        std::fs::create_dir_all(self.workspace().root()).unwrap();
        std::fs::write(self.workspace().state_path(), text).unwrap();
    }
}

pub(crate) fn engine() -> Engine {
    Engine { kind: EngineKind::Terraform, path: PathBuf::from("/nonexistent/terraform"), version: OLDEST }
}

pub(crate) fn process_env() -> ProcessEnv {
    ProcessEnv {
        env: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
        cwd: PathBuf::from("/"),
        exe: PathBuf::from("/nonexistent/capt"),
    }
}

pub(crate) fn key() -> WorkspaceKey {
    WorkspaceKey::new("team", "demo")
}

/// A job with an inline configuration. It changes no EKS cluster.
pub(crate) fn job() -> WorkspaceJob {
    let text = "resource \"aws_vpc\" \"this\" {}\n".to_owned();
    let source = RootSource::Inline { format: InlineFormat::Hcl, text };
    let mut request = RenderRequest::new("team", "demo", source);
    request.provider = Some(ProviderBlock { region: "eu-central-1".to_owned(), ..ProviderBlock::default() });
    WorkspaceJob {
        key: key(),
        role: WorkspaceRole::Custom,
        owner: "WorkspaceTemplateApply team/demo-apply".to_owned(),
        eks_cluster: None,
        region: Some("eu-central-1".to_owned()),
        depends_on: BTreeSet::new(),
        retained: false,
        is_fargate_profile: false,
        resolved: ResolvedWorkspace {
            request,
            env: Vec::new(),
            args: UserArgs::default(),
            missing: Vec::new(),
        },
        principal: None,
    }
}

/// An error that terraform printed.
pub(crate) fn terraform_failed() -> StepError {
    let tail = "InvalidParameterException: the subnets are in one zone".to_owned();
    StepError::Failed { phase: StepPhase::Applying, diagnostics: Vec::new(), tail }
}

pub(crate) fn terraform_killed() -> StepError {
    StepError::Killed { phase: StepPhase::Applying }
}

pub(crate) fn terraform_interrupted() -> StepError {
    StepError::Interrupted { phase: StepPhase::Applying }
}
