//! Desired workspaces: derives them, their inputs and their dependencies from validated objects. Pure: no I/O.

mod cluster;
mod fargate_profile_name;
mod module_inputs;
mod resolve;
mod template;
mod user_templates;
mod workspace_key;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

pub use cluster::{eks_template_variables, fargate_template_variables};
pub use fargate_profile_name::{ExistingProfile, Shape, choose_profile_name};
pub use module_inputs::{
    EKS_INPUTS_FROM_VPC, FARGATE_INPUT_FROM_EKS, FARGATE_INPUT_FROM_VPC, ModuleInputs, eks_inputs,
    fargate_inputs, vpc_inputs,
};
pub use resolve::{
    AppliedOutputs, DataLookup, ProviderDefaults, ReferencedData, ResolveError, ResolvedWorkspace,
    resolve_references,
};
use serde::{Deserialize, Serialize};
pub use template::{
    InstantiatedTemplate, TemplateError, TemplateOrigin, instantiate_template, template_request,
};
use thiserror::Error;
pub use user_templates::{apply_workspace, template_workspace_source};
pub use workspace_key::WorkspaceKey;

use crate::{manifest::ValidatedManifests, model::ObjectKey, modules::EmbeddedModule};

/// Purpose of a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WorkspaceRole {
    /// The VPC.
    Vpc,
    /// The EKS cluster.
    Eks,
    /// One Fargate profile.
    Fargate {
        /// Name of the profile in the spec.
        profile: String,
    },
    /// A user's template.
    Custom,
}

/// The root module of a workspace.
#[derive(Debug, Clone)]
pub enum WorkspaceSource {
    /// A built-in module.
    Module {
        /// The module.
        module: EmbeddedModule,
        /// Variables from the spec.
        inputs: ModuleInputs,
    },
    /// A user's template.
    Template {
        /// The template with its placeholders substituted.
        template: Box<InstantiatedTemplate>,
        /// Values of the placeholders; also passed as variables that the template declares.
        variables: BTreeMap<String, String>,
        /// The manifest of the template; empty for an API object.
        file: String,
    },
}

/// A variable that is set from an output of the same name of another workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputRef {
    /// The workspace that has the output.
    pub from: WorkspaceKey,
    /// Name of the output and of the variable.
    pub name: &'static str,
}

/// A workspace that should exist.
#[derive(Debug, Clone)]
pub struct DesiredWorkspace {
    /// Namespace and name.
    pub key: WorkspaceKey,
    /// Purpose.
    pub role: WorkspaceRole,
    /// The object that it belongs to, for messages: `CAPTControlPlane default/demo`.
    pub owner: String,
    /// The EKS cluster that it changes; changes of one cluster are serialized.
    pub eks_cluster: Option<String>,
    /// AWS region.
    pub region: Option<String>,
    /// The root module.
    pub source: WorkspaceSource,
    /// Variables that are set from outputs of other workspaces.
    pub output_refs: Vec<OutputRef>,
    /// Workspaces that must be applied first.
    pub depends_on: BTreeSet<WorkspaceKey>,
    /// The Secret that receives its outputs.
    pub connection_secret: Option<ObjectKey>,
    /// Whether its resources are retained when its object is deleted.
    pub retained: bool,
}

/// Why a workspace cannot be derived from the manifests.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub struct DesiredWorkspaceError(String);

impl DesiredWorkspaceError {
    fn missing_template(workspace: &WorkspaceKey, template: &ObjectKey) -> Self {
        Self(format!(
            "{workspace}: WorkspaceTemplate {template} not found in the manifests; add it, or correct the reference"
        ))
    }

    fn in_template(file: &str, template: &ObjectKey, reason: &str) -> Self {
        Self(format!("{file}: WorkspaceTemplate {template}: {reason}"))
    }
}

/// All workspaces of the manifests, or all errors in them.
pub fn desired_workspaces(
    manifests: &ValidatedManifests,
) -> Result<Vec<DesiredWorkspace>, Vec<DesiredWorkspaceError>> {
    let (mut all, mut errors) = (Vec::new(), Vec::new());
    for unit in manifests.clusters.iter().filter(|unit| !unit.paused) {
        match cluster::cluster_workspaces(unit, manifests) {
            Ok(more) => all.extend(more),
            Err(more) => errors.extend(more),
        }
    }
    match user_templates::template_apply_workspaces(manifests) {
        Ok(more) => all.extend(more),
        Err(more) => errors.extend(more),
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    user_templates::add_secret_dependencies(&mut all, manifests);
    Ok(all)
}

/// Directory of a manifest, to which relative module paths refer.
fn parent_dir(file: &str) -> &Path {
    Path::new(file).parent().unwrap_or_else(|| Path::new(""))
}
