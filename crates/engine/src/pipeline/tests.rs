//! The pipeline of one workspace with a fake terraform and fake hooks.

mod apply;
mod destroy;
mod directory;
mod failures;
mod guard;
mod leftovers;
mod records;

use std::sync::Arc;

use super::{
    DestroyReason, DestroyRequest, Goal, PipelineError, WorkspaceJob, WorkspaceOutcome, WorkspacePipeline,
    WorkspaceRecord,
    testing::{FakeHooks, FakeSite, HookScript, job, key, state},
};

type Outcome = Result<WorkspaceOutcome, PipelineError>;

/// One run up to `goal`, and the hooks that it called.
async fn run_with(
    site: &FakeSite,
    job: &WorkspaceJob,
    goal: Goal,
    script: HookScript,
) -> (Outcome, Arc<FakeHooks>) {
    let data_dir = site.open();
    let hooks = Arc::new(FakeHooks::new(&site.journal, script));
    let pipeline = WorkspacePipeline { data_dir: &data_dir, hooks: hooks.as_ref(), stop: &hooks.stop };
    let outcome = Box::pin(pipeline.run(job, &goal)).await;
    (outcome, hooks)
}

async fn run(site: &FakeSite, goal: Goal) -> Outcome {
    run_with(site, &job(), goal, HookScript::default()).await.0
}

fn apply() -> Goal {
    Goal::Apply { approved: None }
}

fn approve(hash: &str) -> Goal {
    Goal::Apply { approved: Some(hash.to_owned()) }
}

/// Destroys what the last run left.
async fn destroy_with(
    site: &FakeSite,
    reason: DestroyReason,
    script: HookScript,
) -> (Outcome, Arc<FakeHooks>) {
    let data_dir = site.open();
    let hooks = Arc::new(FakeHooks::new(&site.journal, script));
    let pipeline = WorkspacePipeline { data_dir: &data_dir, hooks: hooks.as_ref(), stop: &hooks.stop };
    let record = WorkspaceRecord::read(&site.workspace()).unwrap().unwrap();
    let how = DestroyRequest { reason: &reason, env: &[], principal: None };
    let outcome = Box::pin(pipeline.destroy(&key(), &record, &how)).await;
    (outcome, hooks)
}

/// A site whose workspace was applied, with these resources in its state.
async fn applied(resources: &[(&str, &str)]) -> FakeSite {
    applied_as(&job(), resources).await
}

async fn applied_as(job: &WorkspaceJob, resources: &[(&str, &str)]) -> FakeSite {
    let site = FakeSite::new();
    let after = state(3, resources);
    site.with(|script| script.state = Some(after));
    let (outcome, _) = run_with(&site, job, apply(), HookScript::default()).await;
    assert!(matches!(outcome, Ok(WorkspaceOutcome::Applied(_))), "{outcome:?}");
    site.journal.take();
    site
}

/// A job that changes an EKS cluster.
fn cluster_job() -> WorkspaceJob {
    WorkspaceJob { eks_cluster: Some("demo".to_owned()), ..job() }
}

fn plan_file(site: &FakeSite) -> bool {
    site.workspace().root().join(terraform_driver::command::PLAN_FILE).exists()
}

fn record(site: &FakeSite) -> WorkspaceRecord {
    WorkspaceRecord::read(&site.workspace()).unwrap().unwrap()
}
