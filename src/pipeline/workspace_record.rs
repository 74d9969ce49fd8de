//! What a workspace's directory says about itself, so that it can be destroyed without the files that made it.

use std::{collections::BTreeSet, fs, path::Path};

use serde::{Deserialize, Serialize};
use terraform_driver::{
    command::UserArgs,
    render::{EffectiveBackend, Rendered},
    run::{Digests, Run},
    state::State,
    workspace::{
        Workspace,
        files::{FileError, read_json, write_json},
    },
};

use super::{assignment::Assignment, site::workspace};
use crate::blueprint::{Key, Role};

/// In `.capt/workspace.json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    /// The object that it was made for.
    pub owner: String,
    /// What it is for.
    pub role: Role,
    /// The EKS cluster that it changes.
    pub eks_cluster: Option<String>,
    /// Where.
    pub region: Option<String>,
    /// What had to be there first, and therefore has to stay until it is gone.
    pub after: BTreeSet<Key>,
    /// Where terraform runs, below the workspace.
    pub root: String,
    /// Whether its state is in a backend that the user chose.
    #[serde(default)]
    pub remote_state: bool,
    /// Whether an apply was begun and no destroy has ended it; only this tells of a state that is elsewhere.
    #[serde(default)]
    pub begun: bool,
    /// What its template adds to the commands.
    #[serde(default)]
    pub args: Args,
    /// Names of the variables that its template adds to the environment. Their values are not kept.
    #[serde(default)]
    pub env: Vec<String>,
    /// Stays when its object goes.
    #[serde(default)]
    pub retained: bool,
    /// Of everything that was rendered.
    pub configuration: String,
    /// Of what `init` reads.
    pub installation: String,
}

/// What a template adds to terraform's commands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Args {
    init: Vec<String>,
    plan: Vec<String>,
    apply: Vec<String>,
    destroy: Vec<String>,
}

impl From<&UserArgs> for Args {
    fn from(args: &UserArgs) -> Self {
        let UserArgs { init, plan, apply, destroy } = args.clone();
        Self { init, plan, apply, destroy }
    }
}

impl From<&Args> for UserArgs {
    fn from(args: &Args) -> Self {
        let Args { init, plan, apply, destroy } = args.clone();
        Self { init, plan, apply, destroy }
    }
}

impl Record {
    /// Of a task that was rendered, with what was known of it before.
    pub fn new(task: &Assignment, digests: &Digests, rendered: &Rendered, before: Option<&Self>) -> Self {
        Self {
            owner: task.owner.clone(),
            role: task.role.clone(),
            eks_cluster: task.eks_cluster.clone(),
            region: task.region.clone(),
            after: task.after.clone(),
            root: rendered.root.clone(),
            remote_state: is_remote(&rendered.backend),
            begun: before.is_some_and(|before| before.begun),
            args: Args::default(),
            env: Vec::new(),
            retained: task.retained,
            configuration: digests.configuration.clone(),
            installation: digests.installation.clone(),
        }
    }

    /// What the workspace says, if it says anything.
    pub fn read(workspace: &Workspace) -> Result<Option<Self>, FileError> {
        read_json(&workspace.meta().join("workspace.json"))
    }

    /// Writes it down.
    pub fn write(&self, workspace: &Workspace) -> Result<(), FileError> {
        write_json(&workspace.meta().join("workspace.json"), self)
    }

    /// The workspace's directory, as terraform uses it.
    pub fn place(&self, data: &Path, key: &Key) -> Workspace {
        workspace(data, key).running_in(&self.root).with_remote_state(self.remote_state)
    }

    /// The digests of its configuration.
    pub fn digests(&self) -> Digests {
        Digests { configuration: self.configuration.clone(), installation: self.installation.clone() }
    }
}

/// The state file that we guard ourselves; any other is the business of whoever chose its backend.
fn is_remote(backend: &EffectiveBackend) -> bool {
    match backend {
        EffectiveBackend::Local { path } => Path::new(path).file_name() != Some("terraform.tfstate".as_ref()),
        EffectiveBackend::Other { .. } => true,
    }
}

/// Every workspace below a data directory that was ever rendered there.
pub fn all(data: &Path) -> Result<Vec<(Key, Record)>, FileError> {
    let mut found = Vec::new();
    for key in keys(data)? {
        if let Some(record) = Record::read(&workspace(data, &key))? {
            found.push((key, record));
        }
    }
    Ok(found)
}

/// Those that hold resources, or might.
pub fn holding(data: &Path) -> Result<Vec<(Key, Record)>, FileError> {
    let mut found = all(data)?;
    let mut failed = None;
    found.retain(|(key, record)| {
        might_hold(data, key, record).unwrap_or_else(|error| {
            failed = Some(error);
            true
        })
    });
    failed.map_or(Ok(found), Err)
}

fn might_hold(data: &Path, key: &Key, record: &Record) -> Result<bool, FileError> {
    let place = record.place(data, key);
    if record.remote_state && record.begun {
        return Ok(true);
    }
    // A state that cannot be read may hold anything, and so may a run that goes on without its caller, a state
    // that terraform could not save, and a copy that is further along than the file.
    let unknown = Run::find_alive(&place)?.is_some() || place.root().join("errored.tfstate").exists();
    let holds = |state: &State| !state.is_empty();
    let (Ok(file), copy) = (place.state(), place.snapshots().newest_state()?) else { return Ok(true) };
    let behind = |copy: &State| file.as_ref().is_none_or(|file| file.version.serial < copy.version.serial);
    Ok(unknown
        || file.as_ref().is_some_and(holds)
        || copy.as_ref().is_some_and(|copy| holds(copy) && behind(copy)))
}

fn keys(data: &Path) -> Result<Vec<Key>, FileError> {
    let root = data.join("workspaces");
    let mut keys = Vec::new();
    for namespace in names(&root)? {
        keys.extend(names(&root.join(&namespace))?.iter().map(|name| Key::new(&namespace, name)));
    }
    keys.sort();
    Ok(keys)
}

fn names(dir: &Path) -> Result<Vec<String>, FileError> {
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
