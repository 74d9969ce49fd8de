//! The run pipeline of one workspace, shared by the command line and the operator: prepare, init, plan, guard, apply,
//! destroy.
//!
//! Scheduling, progress and confirmation differ between the two; they are injected as [`RunHooks`]. The pipeline knows nothing
//! of Kubernetes.

mod confinement;
mod data_directory;
pub mod destroy_bundle;
mod drift_probe;
mod engine;
mod error;
mod fetch;
mod hooks;
mod inflight_barrier;
mod journal_replay;
mod lost_creates;
mod orphaned_creates;
mod outcome;
mod prepare;
mod scratch_dirs;
mod sealed_configuration;
mod size_limits;
mod terraform_steps;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod untaint;
mod validate;
mod workspace_job;
mod workspace_pipeline;
mod workspace_record;

use std::{fs, path::Path};

pub use data_directory::{
    CloudBinding, DataDirectory, DataDirectoryError, RunHome, lock_data_dir, workspace_dir,
};
pub use engine::find_engine;
pub use error::PipelineError;
pub use fetch::set_fetched_root;
pub use hooks::{HookGuard, RunHooks};
pub use outcome::{DestroyReason, Goal, WorkspaceOutcome};
pub use size_limits::SizeLimits;
use terraform_driver::{
    render::{FileMode, RenderedWorkspace},
    workspace::{FileToWrite, files::FileError},
};
pub use terraform_steps::{StepFuture, TerraformSteps};
pub use validate::validate_configuration;
pub use workspace_job::WorkspaceJob;
pub use workspace_pipeline::{DestroyRequest, WorkspacePipeline};
pub use workspace_record::{RecordedArgs, WorkspaceRecord, list_workspaces, list_workspaces_with_resources};

/// Removes all workspaces below a data directory and returns their number. For a local AWS whose state was lost.
pub fn remove_all_workspaces(data: &Path) -> Result<usize, FileError> {
    let root = data.join("workspaces");
    if !root.exists() {
        return Ok(0);
    }
    let fail = |source| FileError::new("list", &root, source);
    let mut count = 0;
    for namespace in fs::read_dir(&root).map_err(fail)? {
        count += fs::read_dir(namespace.map_err(fail)?.path()).map_err(fail)?.count();
    }
    scratch_dirs::remove_all(data)?;
    fs::remove_dir_all(&root).map_err(|source| FileError::new("remove", &root, source))?;
    Ok(count)
}

/// Files of a workspace; a rendered file takes precedence over a fetched file of the same path.
pub fn workspace_files<'a>(
    rendered: &'a RenderedWorkspace,
    fetched: &'a [(String, Vec<u8>)],
) -> impl Iterator<Item = FileToWrite<'a>> {
    let own = rendered.files.iter().map(|(path, contents)| FileToWrite {
        path,
        bytes: &contents.bytes,
        secret: contents.mode == FileMode::Secret,
    });
    let others = fetched.iter().filter(|(path, _)| !rendered.files.contains_key(path));
    own.chain(others.map(|(path, bytes)| FileToWrite { path, bytes, secret: false }))
}
