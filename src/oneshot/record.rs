//! What a workspace's directory says about itself, so that it can be destroyed without the files that made it.

use std::{collections::BTreeSet, fs, path::Path};

use serde::{Deserialize, Serialize};
use terraform_driver::{
    run::{Digests, Run},
    workspace::{
        Workspace,
        files::{FileError, read_json, write_json},
    },
};

use super::site::workspace;
use crate::blueprint::{Blueprint, Key, Role};

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
    /// Of everything that was rendered.
    pub configuration: String,
    /// Of what `init` reads.
    pub installation: String,
}

impl Record {
    /// Of a blueprint that was rendered.
    pub fn new(blueprint: &Blueprint, digests: &Digests, root: &str) -> Self {
        Self {
            owner: blueprint.owner.clone(),
            role: blueprint.role.clone(),
            eks_cluster: blueprint.eks_cluster.clone(),
            region: blueprint.region.clone(),
            after: blueprint.after.clone(),
            root: root.to_owned(),
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

    /// The digests of its configuration.
    pub fn digests(&self) -> Digests {
        Digests { configuration: self.configuration.clone(), installation: self.installation.clone() }
    }
}

/// Every workspace below a data directory that holds resources, or might.
pub fn holding(data: &Path) -> Result<Vec<(Key, Record)>, FileError> {
    let mut found = Vec::new();
    for key in keys(data)? {
        let place = workspace(data, &key);
        let Some(record) = Record::read(&place)? else { continue };
        let place = place.running_in(&record.root);
        // A state that cannot be read may hold anything, and so may a run that goes on without its caller.
        if Run::find_alive(&place)?.is_some()
            || place.state().map_or(true, |state| state.is_some_and(|state| !state.is_empty()))
        {
            found.push((key, record));
        }
    }
    Ok(found)
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
