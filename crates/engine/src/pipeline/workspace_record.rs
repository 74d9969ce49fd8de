//! The record in a workspace directory, with which it can be destroyed without its manifests.

use std::{collections::BTreeSet, fs, path::Path};

use capt_model::workspaces::{WorkspaceKey, WorkspaceRole};
use serde::{Deserialize, Serialize};
use terraform_driver::{
    command::UserArgs,
    render::{EffectiveBackend, RenderedWorkspace},
    run::{ConfigurationDigests, RunHandle},
    state::State,
    workspace::{
        WorkspaceDir,
        files::{FileError, read_json, write_json},
    },
};

use super::{data_directory::workspace_dir, workspace_job::WorkspaceJob};

/// Metadata of a workspace; stored in `.capt/workspace.json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WorkspaceRecord {
    /// The object that it belongs to.
    pub owner: String,
    /// Purpose of the workspace.
    pub role: WorkspaceRole,
    /// The EKS cluster that it changes.
    pub eks_cluster: Option<String>,
    /// AWS region.
    pub region: Option<String>,
    /// Workspaces that it depends on; they must not be destroyed before it.
    pub after: BTreeSet<WorkspaceKey>,
    /// Directory of the root module, relative to the workspace.
    pub root: String,
    /// Whether its state is in a remote backend.
    #[serde(default)]
    pub remote_state: bool,
    /// Whether an apply started and no destroy completed since; the only evidence of a state in a remote backend.
    #[serde(default)]
    pub begun: bool,
    /// Extra arguments of its template.
    #[serde(default)]
    pub args: RecordedArgs,
    /// Names of the environment variables of its template. Their values are not recorded.
    #[serde(default)]
    pub env: Vec<String>,
    /// Part of the tag on its resources; tells it from workspaces of the same name in other installations. `None` if it was
    /// applied by a version without these tags.
    #[serde(default)]
    pub id: Option<String>,
    /// Whether its resources are retained when its object is deleted.
    #[serde(default)]
    pub retained: bool,
    /// Digest of all rendered files.
    pub configuration: String,
    /// Digest of the files that `init` reads.
    pub installation: String,
}

/// Extra arguments of a template for each terraform command.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedArgs {
    init: Vec<String>,
    plan: Vec<String>,
    apply: Vec<String>,
    destroy: Vec<String>,
}

impl From<&UserArgs> for RecordedArgs {
    fn from(args: &UserArgs) -> Self {
        let UserArgs { init, plan, apply, destroy } = args.clone();
        Self { init, plan, apply, destroy }
    }
}

impl From<&RecordedArgs> for UserArgs {
    fn from(args: &RecordedArgs) -> Self {
        let RecordedArgs { init, plan, apply, destroy } = args.clone();
        Self { init, plan, apply, destroy }
    }
}

impl WorkspaceRecord {
    /// Creates the record of a rendered job; `before` is the previous record.
    pub fn new(
        task: &WorkspaceJob,
        digests: &ConfigurationDigests,
        rendered: &RenderedWorkspace,
        before: Option<&Self>,
    ) -> Self {
        Self {
            owner: task.owner.clone(),
            role: task.role.clone(),
            eks_cluster: task.eks_cluster.clone(),
            region: task.region.clone(),
            after: task.depends_on.clone(),
            root: rendered.root.clone(),
            remote_state: is_remote_backend(&rendered.backend),
            begun: before.is_some_and(|before| before.begun),
            args: RecordedArgs::default(),
            env: Vec::new(),
            id: None,
            retained: task.retained,
            configuration: digests.configuration.clone(),
            installation: digests.installation.clone(),
        }
    }

    /// Reads the record of a workspace; `None` if it was never rendered.
    pub fn read(workspace: &WorkspaceDir) -> Result<Option<Self>, FileError> {
        read_json(&workspace.meta_dir().join("workspace.json"))
    }

    /// Writes the record.
    pub fn write(&self, workspace: &WorkspaceDir) -> Result<(), FileError> {
        write_json(&workspace.meta_dir().join("workspace.json"), self)
    }

    /// The workspace directory with its root module and backend kind.
    pub fn workspace_dir(&self, data: &Path, key: &WorkspaceKey) -> WorkspaceDir {
        workspace_dir(data, key).with_root(&self.root).with_remote_state(self.remote_state)
    }

    /// Digests of its configuration.
    pub fn digests(&self) -> ConfigurationDigests {
        ConfigurationDigests {
            configuration: self.configuration.clone(),
            installation: self.installation.clone(),
        }
    }
}

/// Whether a backend is not the default local state file, whose snapshots and recovery are handled here.
fn is_remote_backend(backend: &EffectiveBackend) -> bool {
    match backend {
        EffectiveBackend::Local { path } => Path::new(path).file_name() != Some("terraform.tfstate".as_ref()),
        EffectiveBackend::Other { .. } => true,
    }
}

/// All workspaces below a data directory that were ever rendered.
pub fn list_workspaces(data: &Path) -> Result<Vec<(WorkspaceKey, WorkspaceRecord)>, FileError> {
    let mut found = Vec::new();
    for key in workspace_keys(data)? {
        if let Some(record) = WorkspaceRecord::read(&workspace_dir(data, &key))? {
            found.push((key, record));
        }
    }
    Ok(found)
}

/// Workspaces that hold resources or may hold some.
pub fn list_workspaces_with_resources(
    data: &Path,
) -> Result<Vec<(WorkspaceKey, WorkspaceRecord)>, FileError> {
    let mut found = list_workspaces(data)?;
    let mut failed = None;
    found.retain(|(key, record)| {
        may_hold_resources(data, key, record).unwrap_or_else(|error| {
            failed = Some(error);
            true
        })
    });
    failed.map_or(Ok(found), Err)
}

fn may_hold_resources(data: &Path, key: &WorkspaceKey, record: &WorkspaceRecord) -> Result<bool, FileError> {
    let place = record.workspace_dir(data, key);
    if record.remote_state && record.begun {
        return Ok(true);
    }
    // Assume resources where the state is unreadable, a run is still alive, terraform could not save the state, or a
    // snapshot is newer than the file.
    let unknown = RunHandle::find_alive(&place)?.is_some() || place.root().join("errored.tfstate").exists();
    let holds = |state: &State| !state.is_empty();
    let (Ok(file), copy) = (place.state(), place.snapshots().newest_state()?) else { return Ok(true) };
    let behind = |copy: &State| file.as_ref().is_none_or(|file| file.version.serial < copy.version.serial);
    Ok(unknown
        || file.as_ref().is_some_and(holds)
        || copy.as_ref().is_some_and(|copy| holds(copy) && behind(copy)))
}

fn workspace_keys(data: &Path) -> Result<Vec<WorkspaceKey>, FileError> {
    let root = data.join("workspaces");
    let mut keys = Vec::new();
    for namespace in entry_names(&root)? {
        keys.extend(
            entry_names(&root.join(&namespace))?.iter().map(|name| WorkspaceKey::new(&namespace, name)),
        );
    }
    keys.sort();
    Ok(keys)
}

fn entry_names(dir: &Path) -> Result<Vec<String>, FileError> {
    if !dir.exists() {
        return Ok(Vec::new());
    }
    let fail = |source| FileError::new("list", dir, source);
    let mut names = Vec::new();
    for entry in fs::read_dir(dir).map_err(fail)? {
        names.push(entry.map_err(fail)?.file_name().to_string_lossy().into_owned());
    }
    Ok(names)
}
