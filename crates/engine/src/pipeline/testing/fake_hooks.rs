//! Hooks that write into the journal, stop the run, or fail.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Mutex,
};

use capt_model::workspaces::WorkspaceKey;
use futures::future::BoxFuture;
use terraform_driver::{
    events::TerraformProgress, plan::PlanSummary, run::StepPhase, workspace::WorkspaceDir,
};
use tokio_util::sync::CancellationToken;

use super::Journal;
use crate::pipeline::{HookGuard, PipelineError, RunHooks, WorkspaceRecord};

/// What the hooks do. Numbers count the calls of a hook, from one.
#[derive(Clone, Default)]
pub(crate) struct HookScript {
    /// The run is stopped while this call waits: `("slot", 2)`.
    pub(crate) stop_while: Option<(&'static str, usize)>,
    /// The user declines the plan.
    pub(crate) declines: bool,
    /// This call fails: `("back up", 1)`.
    pub(crate) fails: Option<(&'static str, usize)>,
}

/// What a backup would have stored.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct BackupView {
    pub(crate) begun: bool,
    pub(crate) sealed: bool,
    pub(crate) records_creates: bool,
    pub(crate) has_state: bool,
}

/// Hooks that write into the journal.
pub(crate) struct FakeHooks {
    pub(crate) journal: Journal,
    pub(crate) script: HookScript,
    pub(crate) stop: CancellationToken,
    pub(crate) backups: Mutex<Vec<BackupView>>,
    calls: Mutex<BTreeMap<&'static str, usize>>,
    phases: Mutex<BTreeSet<String>>,
}

impl FakeHooks {
    pub(crate) fn new(journal: &Journal, script: HookScript) -> Self {
        Self {
            journal: journal.clone(),
            script,
            stop: CancellationToken::new(),
            backups: Mutex::default(),
            calls: Mutex::default(),
            phases: Mutex::default(),
        }
    }

    /// The phases that were reported.
    pub(crate) fn phases(&self) -> Vec<String> {
        self.phases.lock().unwrap().iter().cloned().collect()
    }

    fn count(&self, name: &'static str) -> usize {
        let mut calls = self.calls.lock().unwrap();
        let count = calls.entry(name).or_insert(0);
        *count += 1;
        *count
    }

    async fn guard(&self, name: &'static str) -> HookGuard {
        let call = self.count(name);
        if self.script.stop_while == Some((name, call)) {
            self.stop.cancel();
            std::future::pending::<()>().await;
        }
        self.journal.note(name);
        Box::new(Release(self.journal.clone(), name))
    }

    fn outcome(&self, name: &'static str) -> Result<(), PipelineError> {
        self.journal.note(name);
        if self.script.fails == Some((name, self.count(name))) {
            return Err(PipelineError::StateBackup { doing: name, source: "no route to host".into() });
        }
        Ok(())
    }
}

/// Notes the end of a slot or a lock.
struct Release(Journal, &'static str);

impl Drop for Release {
    fn drop(&mut self) {
        self.0.note(format!("{} ends", self.1));
    }
}

impl RunHooks for FakeHooks {
    fn on_progress(&self, _: &WorkspaceKey, phase: StepPhase, _: &TerraformProgress) {
        self.phases.lock().unwrap().insert(phase.to_string());
    }

    fn add_note(&self, _: &WorkspaceKey, text: &str) {
        self.journal.note(format!("note: {text}"));
    }

    fn set_waiting_for(&self, _: &WorkspaceKey, what: Option<String>) {
        self.journal.note(format!("waiting for {what:?}"));
    }

    fn acquire_slot<'a>(&'a self, _: &'a WorkspaceKey) -> BoxFuture<'a, HookGuard> {
        Box::pin(self.guard("slot"))
    }

    fn lock_cluster<'a>(&'a self, _: &'a WorkspaceKey, _: &'a str) -> BoxFuture<'a, HookGuard> {
        Box::pin(self.guard("cluster lock"))
    }

    fn confirm_plan<'a>(&'a self, _: &'a WorkspaceKey, _: &'a PlanSummary) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            self.journal.note("confirm");
            if self.script.stop_while == Some(("confirm", self.count("confirm"))) {
                self.stop.cancel();
                std::future::pending::<()>().await;
            }
            !self.script.declines
        })
    }

    fn restore_state<'a>(
        &'a self,
        _: &'a WorkspaceKey,
        _: &'a WorkspaceDir,
    ) -> BoxFuture<'a, Result<(), PipelineError>> {
        Box::pin(std::future::ready(self.outcome("restore")))
    }

    fn back_up_state<'a>(
        &'a self,
        _: &'a WorkspaceKey,
        workspace: &'a WorkspaceDir,
        _: &'a WorkspaceRecord,
    ) -> BoxFuture<'a, Result<(), PipelineError>> {
        let record = WorkspaceRecord::read(workspace).unwrap().unwrap();
        let there = |name: &str| workspace.meta_dir().join(name).exists();
        self.backups.lock().unwrap().push(BackupView {
            begun: record.begun,
            sealed: there("sealed.json"),
            records_creates: there("creating.json"),
            has_state: workspace.state_path().exists(),
        });
        Box::pin(std::future::ready(self.outcome("back up")))
    }
}
