//! From objects to workspaces: which there are, what goes into each, and what each one waits for. Pure.

mod fill;
mod inputs;
mod key;
mod resolve;
mod rotation;
mod unit;
mod users;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

pub use fill::{FillError, fill, template_request};
pub use inputs::{EKS_FROM_VPC, FARGATE_FROM_EKS, FARGATE_FROM_VPC, Inputs, eks, fargate, vpc};
pub use key::Key;
pub use resolve::{Known, Place, ResolveError, Resolved, resolve};
pub use rotation::{Existing, Shape, profile_name};
use serde::{Deserialize, Serialize};
use thiserror::Error;
pub use unit::{eks_variables, fargate_variables};

use crate::{
    manifest::ValidatedManifests,
    model::{ObjectKey, template::ValidatedTemplate},
    modules::Builtin,
};

/// What a workspace is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Role {
    /// The network.
    Vpc,
    /// The EKS cluster.
    Eks,
    /// One Fargate profile.
    Fargate {
        /// Its name in the spec.
        profile: String,
    },
    /// A user's own.
    Custom,
}

/// What is rendered.
#[derive(Debug, Clone)]
pub enum Body {
    /// A module of ours with the variables that the spec gives.
    Module {
        /// Which.
        module: Builtin,
        /// Its variables.
        inputs: Inputs,
    },
    /// A user's template.
    Template {
        /// With its placeholders filled in.
        template: Box<ValidatedTemplate>,
        /// What was filled in; also the variables that the template may declare.
        variables: BTreeMap<String, String>,
        /// The file that it stands in; a relative path of a module starts there.
        file: String,
    },
}

/// A value that comes from another workspace; output and variable have the same name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handed {
    /// Whose output.
    pub from: Key,
    /// Its name.
    pub name: &'static str,
}

/// One workspace.
#[derive(Debug, Clone)]
pub struct Blueprint {
    /// Its name.
    pub key: Key,
    /// What it is for.
    pub role: Role,
    /// The object that it was made for, as people write it: `CAPTControlPlane default/demo`.
    pub owner: String,
    /// The EKS cluster that it changes, which allows one change at a time.
    pub eks_cluster: Option<String>,
    /// Where.
    pub region: Option<String>,
    /// What is rendered.
    pub body: Body,
    /// What comes from others.
    pub handed: Vec<Handed>,
    /// What has to be there first.
    pub after: BTreeSet<Key>,
    /// The Secret that its outputs make.
    pub connection_secret: Option<ObjectKey>,
    /// Stays when its object goes.
    pub retained: bool,
}

/// Why a workspace cannot be made from what the files say.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub struct BlueprintError(String);

impl BlueprintError {
    fn no_template(workspace: &Key, template: &ObjectKey) -> Self {
        Self(format!(
            "{workspace}: WorkspaceTemplate {template} is in none of the files; add its file, or correct the reference"
        ))
    }

    fn in_template(file: &str, template: &ObjectKey, reason: &str) -> Self {
        Self(format!("{file}: WorkspaceTemplate {template}: {reason}"))
    }
}

/// Every workspace that the files ask for, or everything that is wrong with them.
pub fn blueprints(manifests: &ValidatedManifests) -> Result<Vec<Blueprint>, Vec<BlueprintError>> {
    let (mut all, mut errors) = (Vec::new(), Vec::new());
    for unit in manifests.units.iter().filter(|unit| !unit.paused) {
        match unit::workspaces(unit, manifests) {
            Ok(more) => all.extend(more),
            Err(more) => errors.extend(more),
        }
    }
    match users::workspaces(manifests) {
        Ok(more) => all.extend(more),
        Err(more) => errors.extend(more),
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    users::wait_for_secrets(&mut all, manifests);
    Ok(all)
}

/// The directory of a file, in which a relative path of a template starts.
fn directory_of(file: &str) -> &Path {
    Path::new(file).parent().unwrap_or_else(|| Path::new(""))
}
