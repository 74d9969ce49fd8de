//! Builders for what `decide` is given. All times are seconds before or after [`now`].

use std::{collections::BTreeSet, fmt::Display, time::Duration};

use capt_engine::{
    pipeline::WorkspaceJob,
    runs::{RunResult, RunSnapshot},
};
use capt_kinds::api::{
    LastError, PlanStatus, RunOperation, RunPhase, RunStatus, WorkspaceTemplateApplyStatus,
    conditions::reasons,
};
use capt_model::workspaces::{ResolvedWorkspace, WorkspaceKey, WorkspaceRole};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use terraform_driver::{
    command::UserArgs,
    render::{InlineFormat, RenderRequest, RootSource},
};

use crate::workspace::{
    decide::{Decision, decide},
    observation::{
        AllowedOperations, ConditionReason, DestroyIdentity, DriftMode, DriftSettings, ResolvedInputs,
        RunInputs, WorkspaceObservation,
    },
};

/// Inputs hash in the middle of the jitter: drift checks are exactly [`INTERVAL`] apart.
pub(super) const HASH: &str = "0521-inputs";
pub(super) const INTERVAL: Duration = Duration::from_secs(1000);
pub(super) const PLAN: &str = "plan-1";
/// Start and last drift check of a finished run; the next check is due at 600.
pub(super) const STARTED: i64 = -600;
pub(super) const CHECKED: i64 = -400;

pub(super) fn now() -> Timestamp {
    "2026-11-17T06:00:00Z".parse().unwrap()
}

pub(super) fn at(seconds: i64) -> Timestamp {
    now() + SignedDuration::from_secs(seconds)
}

/// An observation and a status.
pub(super) struct Scene {
    pub(super) facts: WorkspaceObservation,
    pub(super) status: WorkspaceTemplateApplyStatus,
}

impl Scene {
    pub(super) fn with(mut self, change: impl FnOnce(&mut WorkspaceObservation)) -> Self {
        change(&mut self.facts);
        self
    }

    pub(super) fn status(mut self, change: impl FnOnce(&mut WorkspaceTemplateApplyStatus)) -> Self {
        change(&mut self.status);
        self
    }

    pub(super) fn paused(self) -> Self {
        self.with(|facts| facts.paused = true)
    }

    pub(super) fn deleting(self) -> Self {
        self.with(|facts| facts.deleting = true)
    }

    pub(super) fn without_finalizer(self) -> Self {
        self.with(|facts| facts.has_finalizer = false)
    }

    pub(super) fn without_directory(self) -> Self {
        self.with(|facts| facts.has_directory = false)
    }

    pub(super) fn retained(self) -> Self {
        self.with(|facts| facts.retains_resources = true)
    }

    pub(super) fn dependents(self, names: &[&str]) -> Self {
        self.with(|facts| facts.dependents = names.iter().map(|it| (*it).to_owned()).collect())
    }

    pub(super) fn inputs(self, inputs: RunInputs) -> Self {
        self.with(|facts| facts.inputs = inputs)
    }

    pub(super) fn changed(self) -> Self {
        self.inputs(resolved("changed", true))
    }

    pub(super) fn observe_only(self) -> Self {
        self.inputs(resolved(HASH, false))
    }

    pub(super) fn drift(self, mode: DriftMode) -> Self {
        self.with(|facts| facts.drift.mode = mode)
    }

    pub(super) fn approved(self, plan: &str) -> Self {
        self.with(|facts| facts.approved_plan = Some(plan.to_owned()))
    }

    pub(super) fn requested(self, seconds: i64) -> Self {
        self.with(|facts| facts.run_requested_at = Some(at(seconds)))
    }

    pub(super) fn checked(self, seconds: Option<i64>) -> Self {
        self.status(|status| status.last_checked_time = seconds.map(|it| Time(at(it))))
    }

    /// The inputs of the last successful apply.
    pub(super) fn applied(self, hash: Option<&str>) -> Self {
        self.status(|status| status.inputs_hash = hash.map(str::to_owned))
    }

    /// A run of this process that is not finished.
    pub(super) fn running(self, operation: RunOperation, phase: RunPhase) -> Self {
        let mut run = RunSnapshot::new("2".to_owned(), operation, at(-60), HASH.to_owned());
        run.phase = phase;
        self.with(|facts| facts.run = Some(run))
    }

    /// A run of this process that is finished.
    pub(super) fn finished(self, operation: RunOperation, result: RunResult) -> Self {
        let mut run = RunSnapshot::new("1".to_owned(), operation, at(STARTED), HASH.to_owned());
        run.phase = result.phase();
        run.finished_at = Some(at(-500));
        run.result = Some(result);
        self.with(|facts| facts.run = Some(run))
    }
}

pub(super) fn resolved(hash: &str, apply: bool) -> RunInputs {
    let source = RootSource::Inline { format: InlineFormat::Hcl, text: String::new() };
    let job = WorkspaceJob {
        key: WorkspaceKey::new("team", "net"),
        role: WorkspaceRole::Custom,
        owner: "WorkspaceTemplateApply team/net-apply".to_owned(),
        eks_cluster: None,
        region: None,
        depends_on: BTreeSet::new(),
        retained: false,
        is_fargate_profile: false,
        resolved: ResolvedWorkspace {
            request: RenderRequest::new("team", "net", source),
            env: Vec::new(),
            args: UserArgs::default(),
            missing: Vec::new(),
        },
        principal: None,
    };
    let allowed = AllowedOperations { apply, destroy: true };
    let hash = hash.to_owned();
    RunInputs::Resolved(Box::new(ResolvedInputs {
        job,
        hash,
        allowed,
        connection_secret: None,
        identity: None,
    }))
}

pub(super) fn missing_secret() -> ConditionReason {
    ConditionReason::new(reasons::WAITING_FOR_SECRETS, "waiting for Secret team/keys")
}

pub(super) fn invalid_spec() -> ConditionReason {
    ConditionReason::new(reasons::INVALID_SPEC, "region is missing")
}

/// An object with its finalizer and its inputs; nothing has run.
pub(super) fn fresh() -> Scene {
    let facts = WorkspaceObservation {
        paused: false,
        deleting: false,
        has_finalizer: true,
        run: None,
        is_run_recorded: true,
        inputs: resolved(HASH, true),
        dependents: Vec::new(),
        destroy_identity: DestroyIdentity::Available(None),
        other_owner: None,
        retains_resources: false,
        has_directory: false,
        drift: DriftSettings { mode: DriftMode::Correct, interval: INTERVAL },
        approved_plan: None,
        approved_by: None,
        run_requested_at: None,
    };
    Scene { facts, status: WorkspaceTemplateApplyStatus::default() }
}

/// The last run ended in this phase, as the status remembers it. Its inputs are applied if it succeeded.
pub(super) fn ended(operation: RunOperation, phase: RunPhase) -> Scene {
    let hash = if operation == RunOperation::Destroy { "destroy" } else { HASH };
    let applied = if phase == RunPhase::Succeeded { hash } else { "before" };
    let run = RunStatus {
        id: "1".to_owned(),
        operation,
        phase,
        started_at: Some(Time(at(STARTED))),
        finished_at: Some(Time(at(-500))),
        inputs_hash: Some(hash.to_owned()),
        waiting_for: None,
        without_gateway: None,
        notes: Vec::new(),
    };
    let plan = PlanStatus { hash: PLAN.to_owned(), ..PlanStatus::default() };
    let scene = fresh().with(|facts| facts.has_directory = true);
    scene.applied(Some(applied)).checked(Some(CHECKED)).status(|status| {
        status.applied = Some(true);
        status.run = Some(run);
        status.plan = Some(plan);
    })
}

pub(super) fn settled() -> Scene {
    ended(RunOperation::Apply, RunPhase::Succeeded)
}

pub(super) fn interrupted() -> Scene {
    ended(RunOperation::Apply, RunPhase::Interrupted)
}

pub(super) fn blocked() -> Scene {
    ended(RunOperation::Apply, RunPhase::AwaitingApproval)
}

/// The last run failed and is retried at this time.
pub(super) fn failed(operation: RunOperation, retry: Timestamp) -> Scene {
    let message = "no route to host".to_owned();
    let error = LastError { message, retry_at: Some(Time(retry)), ..LastError::default() };
    ended(operation, RunPhase::Failed).status(|status| status.last_error = Some(error))
}

pub(super) fn failed_apply(retry: i64) -> Scene {
    failed(RunOperation::Apply, at(retry))
}

pub(super) fn failed_destroy(retry: i64) -> Scene {
    failed(RunOperation::Destroy, at(retry))
}

/// One of each kind, to be crossed with what must not depend on it.
pub(super) fn all_scenes() -> Vec<(&'static str, Scene)> {
    vec![
        ("new", fresh()),
        ("no finalizer", fresh().without_finalizer()),
        ("inputs not read", fresh().inputs(RunInputs::NotRead)),
        ("inputs missing", fresh().inputs(RunInputs::Waiting(missing_secret()))),
        ("inputs invalid", fresh().inputs(RunInputs::Invalid(invalid_spec()))),
        ("up to date", settled()),
        ("inputs changed", settled().changed()),
        ("drift check due", settled().checked(None)),
        ("no drift checks", settled().drift(DriftMode::Off)),
        ("no directory", settled().without_directory()),
        ("observe only", settled().observe_only()),
        ("failed", failed_apply(30)),
        ("retry due", failed_apply(-30)),
        ("interrupted", interrupted()),
        ("blocked", blocked()),
        ("approved", blocked().approved(PLAN)),
        ("rerun requested", settled().requested(-10)),
        ("dependents", settled().dependents(&["nodes"])),
        ("retained", settled().retained()),
        ("destroy failed", failed_destroy(30)),
    ]
}

/// Checks every row. `Decision` has no equality, so what it prints is compared.
pub(super) fn check<N: Display>(rows: impl IntoIterator<Item = (N, Scene, Decision)>) {
    let mut count = 0;
    let mut wrong = Vec::new();
    for (name, Scene { facts, status }, expected) in rows {
        let (found, expected) = (format!("{:?}", decide(&facts, &status, now())), format!("{expected:?}"));
        if found != expected {
            wrong.push(format!("{name}: {found} instead of {expected}"));
        }
        count += 1;
    }
    assert!(count > 0 && wrong.is_empty(), "{} of {count} rows:\n{}", wrong.len(), wrong.join("\n"));
}
