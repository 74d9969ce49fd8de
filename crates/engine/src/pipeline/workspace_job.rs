//! Input of the pipeline for one workspace.

use std::collections::BTreeSet;

use capt_model::{
    modules::EmbeddedModule,
    workspaces::{DesiredWorkspace, ResolvedWorkspace, WorkspaceKey, WorkspaceRole, WorkspaceSource},
};

use crate::aws::Principal;

/// One workspace to plan or apply.
#[derive(Debug, Clone)]
pub struct WorkspaceJob {
    /// Namespace and name.
    pub key: WorkspaceKey,
    /// Purpose of the workspace.
    pub role: WorkspaceRole,
    /// The object that it belongs to.
    pub owner: String,
    /// The EKS cluster that it changes; changes of one cluster are serialized.
    pub eks_cluster: Option<String>,
    /// AWS region.
    pub region: Option<String>,
    /// Workspaces that must be applied first.
    pub depends_on: BTreeSet<WorkspaceKey>,
    /// Whether its resources are retained when its object is deleted.
    pub retained: bool,
    /// Whether it is a Fargate profile of the built-in module, which is renamed when its immutable fields change.
    pub is_fargate_profile: bool,
    /// Render request, environment and extra arguments.
    pub resolved: ResolvedWorkspace,
    /// The AWS principal; `None` is the operator's own identity.
    pub principal: Option<Principal>,
}

impl WorkspaceJob {
    /// Creates the job of a workspace whose references are resolved.
    pub fn new(blueprint: &DesiredWorkspace, resolved: ResolvedWorkspace) -> Self {
        let DesiredWorkspace {
            key,
            role,
            owner,
            eks_cluster,
            region,
            source: body,
            output_refs: _,
            depends_on,
            connection_secret: _,
            retained,
        } = blueprint.clone();
        Self {
            is_fargate_profile: matches!(
                body,
                WorkspaceSource::Module { module: EmbeddedModule::Fargate, .. }
            ),
            key,
            role,
            owner,
            eks_cluster,
            region,
            depends_on,
            retained,
            resolved,
            principal: None,
        }
    }
}
