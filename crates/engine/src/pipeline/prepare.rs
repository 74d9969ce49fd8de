//! Prepares a workspace directory for terraform: resolves the profile name, finds orphaned creates, renders and writes the
//! files.

use capt_model::workspaces::{ExistingProfile, ResolvedWorkspace, Shape, choose_profile_name};
use serde_json::json;
use terraform_driver::{
    render::{self, FileContents, RenderRequest, RootSource},
    run::StepContext,
    workspace::WorkspaceDir,
};

use super::{
    error::PipelineError,
    fetch,
    lost_creates::WORKSPACE_TAG,
    orphaned_creates::{self, OrphanedResource},
    workspace_job::WorkspaceJob,
    workspace_pipeline::{WorkspacePipeline, count_managed_objects},
    workspace_record::WorkspaceRecord,
};

/// Tags that a built-in module accepts.
const MAX_MODULE_TAGS: usize = 45;

/// A workspace directory that is rendered and written.
pub(super) struct PreparedDir {
    pub(super) workspace: WorkspaceDir,
    pub(super) record: WorkspaceRecord,
    pub(super) request: RenderRequest,
    pub(super) orphans: Vec<OrphanedResource>,
}

impl WorkspacePipeline<'_> {
    /// Renders the job and writes its files into the directory.
    pub(super) async fn prepare(
        &self,
        task: &WorkspaceJob,
        job: &StepContext<'_>,
        before: Option<&WorkspaceRecord>,
    ) -> Result<PreparedDir, PipelineError> {
        let mut resolved = task.resolved.clone();
        if task.is_fargate_profile {
            set_profile_name(&mut resolved, job.workspace)?;
        }
        let id = workspace_id(before);
        if let Some(id) = &id {
            tag_resources(&mut resolved.request, &format!("{}/{id}", task.key));
        }
        let asking = (task.principal.as_ref(), self.stop);
        let region = resolved.request.provider.as_ref().map(|provider| provider.region.as_str());
        let mut lost = orphaned_creates::find_orphans(self.data_dir, job.workspace, region, asking).await?;
        // A failed resource is not imported. If its name blocks a new one, terraform reports that.
        lost.retain(|it| it.is_healthy);
        for OrphanedResource { address, id, .. } in &lost {
            let text = format!("{address} ({id}) was being created when terraform was killed; importing it");
            self.hooks.add_note(&task.key, &text);
        }
        if let Some(file) = import_blocks(&lost) {
            resolved.request.extra_files.insert("capt-imports.tf.json".to_owned(), file);
        }
        let state = job.workspace.state()?;
        resolved.request.state_uses_aws =
            state.is_some_and(|state| state.resources.iter().any(|it| it.kind.starts_with("aws_")));
        let mut rendered = render::render(&resolved.request)?;
        let mut fetched = Vec::new();
        if let Some(wanted) = rendered.fetch.clone() {
            let tree = fetch::fetch_module(self.data_dir, &wanted, job.workspace, job.environment).await?;
            for note in fetch::fetch_notes(&wanted, &tree) {
                self.hooks.add_note(&task.key, &note);
            }
            fetched = tree.files;
            fetch::set_fetched_root(&mut resolved.request, &fetched, &wanted.entrypoint);
            rendered = render::render(&resolved.request)?;
        }
        let digests = self.data_dir.digests(&rendered, &fetched);
        let mut record = WorkspaceRecord::new(task, &digests, &rendered, before);
        record.id = id;
        record.args = (&resolved.args).into();
        record.env = resolved.env.iter().map(|(name, _)| name.clone()).collect();
        record.region = resolved.request.provider.as_ref().map(|provider| provider.region.clone());
        if let Some(before) =
            before.filter(|_| count_managed_objects(job.workspace).is_ok_and(|objects| objects > 0))
        {
            check_location_unchanged(before, &record)?;
        }
        let workspace = record.workspace_dir(&self.data_dir.path, &task.key);
        workspace.sync_files(super::workspace_files(&rendered, &fetched))?;
        record.write(&workspace)?;
        Ok(PreparedDir { workspace, record, request: resolved.request, orphans: lost })
    }
}

/// The id in the tag on the workspace's resources. Resources of a version without the tag do not get it: a plan would change
/// all of them.
fn workspace_id(before: Option<&WorkspaceRecord>) -> Option<String> {
    match before {
        Some(before) if before.begun || before.id.is_some() => before.id.clone(),
        _ => uuid::Uuid::new_v4().simple().to_string().get(..8).map(str::to_owned),
    }
}

/// Adds the tag of the workspace to the resources of a built-in module, by which they are found after a kill.
fn tag_resources(request: &mut RenderRequest, value: &str) {
    if !matches!(request.source, RootSource::Module(_)) {
        return;
    }
    let tags = request.variables.entry("tags").or_insert_with(|| json!({}));
    // The modules allow no more: AWS has a limit of 50, and they add their own.
    if let Some(tags) = tags.as_object_mut().filter(|tags| tags.len() < MAX_MODULE_TAGS) {
        tags.insert(WORKSPACE_TAG.to_owned(), value.into());
    }
}

/// Sets the profile name; a profile whose immutable fields changed gets a new one.
fn set_profile_name(resolved: &mut ResolvedWorkspace, workspace: &WorkspaceDir) -> Result<(), PipelineError> {
    let request = &mut resolved.request;
    let value = |name| request.variables.get(name).or_else(|| request.upstream_outputs.get(name));
    let wanted = Shape::new(value("selectors"), value("private_subnets"), value("pod_execution_role_arn"));
    let Some(plain) = request.variables.get("profile_name").and_then(|name| name.as_str()) else {
        return Ok(());
    };
    let existing = workspace.state()?.as_ref().and_then(ExistingProfile::from_state);
    let name = choose_profile_name(plain, &wanted, existing.as_ref());
    request.variables.insert("profile_name".to_owned(), name.into());
    Ok(())
}

/// Rejects a change of region, root directory or backend while the workspace holds resources.
fn check_location_unchanged(before: &WorkspaceRecord, now: &WorkspaceRecord) -> Result<(), PipelineError> {
    let moved = |what, from: String, to: String| Err(PipelineError::LocationChanged { what, from, to });
    let place = |remote: bool| if remote { "a remote backend" } else { "the workspace directory" }.to_owned();
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

/// `import` blocks for resources that exist and are not in the state.
fn import_blocks(lost: &[OrphanedResource]) -> Option<FileContents> {
    let blocks: Vec<_> = lost.iter().map(|it| json!({ "to": it.address, "id": it.id })).collect();
    let text = json!({ "import": blocks }).to_string();
    (!lost.is_empty()).then(|| FileContents::plain(text.into_bytes()))
}
