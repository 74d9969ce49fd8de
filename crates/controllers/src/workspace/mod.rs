//! Controller of `WorkspaceTemplateApply`, which applies one Terraform workspace. The only controller that starts runs.
//!
//! It must not wait for terraform: runs execute in background tasks and trigger the next reconcile.

mod act;
mod decide;
mod dereference;
mod input_error;
mod inputs;
mod inputs_hash;
mod observation;
mod reference_index;
mod reference_reader;
mod run_identity;
mod secret_backup_store;
mod status;
mod watch;

use std::{sync::Arc, time::Duration};

use capt_engine::runs::RunManager;
use capt_kinds::api::WorkspaceTemplateApply;
use capt_kube::{
    error::ErrorClass,
    k8s::{
        FencingToken, K8sError,
        state_store::{KubeStateStore, StateStoreError},
    },
};
use capt_model::{
    model::names,
    workspaces::{ProviderDefaults, WorkspaceKey},
};
use kube::{ResourceExt, runtime::controller::Action};
use terraform_driver::{
    clock,
    workspace::{WorkspaceError, files::FileError},
};
use thiserror::Error;

pub use self::{
    reference_index::{ReferenceIndex, ReferenceKind, ReferenceTarget},
    watch::run,
};
use crate::common::{self, error_policy::ClassifiedError};

/// Dependencies of the reconciler.
pub struct WorkspaceContext {
    /// Dependencies shared by all controllers.
    pub common: Arc<common::Context>,
    /// The runs of this process.
    pub runs: RunManager,
    /// State Secrets.
    pub state_store: KubeStateStore,
    /// Reverse index of references.
    pub reference_index: ReferenceIndex,
    /// Defaults of the provider block: endpoint and region.
    pub provider_defaults: ProviderDefaults,
    /// Default interval of drift checks.
    pub drift_interval: Duration,
    /// Fencing token; increases with every change of leadership.
    pub fence: FencingToken,
}

impl common::runner::ControllerContext for WorkspaceContext {
    fn common(&self) -> &common::Context {
        &self.common
    }
}

/// Why a reconcile failed.
#[derive(Debug, Error)]
pub enum WorkspaceReconcileError {
    /// A request to the API server failed.
    #[error(transparent)]
    Api(#[from] K8sError),
    /// The workspace's directory is unusable.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// A file in the workspace's directory could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The state Secrets could not be read or written.
    #[error(transparent)]
    StateStore(#[from] StateStoreError),
}

impl ClassifiedError for WorkspaceReconcileError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Api(error) => error.class(),
            Self::Workspace(_) | Self::File(_) => ErrorClass::Terminal,
            Self::StateStore(error) => error.class(),
        }
    }

    fn category(&self) -> &'static str {
        match self {
            Self::Api(error) => error.category(),
            Self::Workspace(_) | Self::File(_) => "workspace",
            Self::StateStore(_) => "vault",
        }
    }
}

/// Reconciles one object and returns when to reconcile it again.
pub async fn reconcile(
    object: &WorkspaceTemplateApply,
    ctx: &WorkspaceContext,
) -> Result<Action, WorkspaceReconcileError> {
    let key = workspace_key(object);
    // dereference (client required, read only)
    let Some(observed) = dereference::dereference(object, &key, ctx).await? else {
        return Ok(Action::await_change());
    };
    // decide (no client required)
    let now = clock::now();
    let before = object.status.clone().unwrap_or_default();
    let seed = object.uid().unwrap_or_default();
    let mut status = match &observed.run {
        Some(run) => status::record_run(before, run, &seed),
        None => before,
    };
    let decision = decide::decide(&observed, &status, now);
    // publish outputs, write status, act (client required)
    let outputs = act::publish_outputs(object, &observed, &status, ctx).await?;
    if let Some(outputs) = &outputs {
        status::set_outputs(&mut status, outputs);
    }
    status.workspace_name = Some(key.name.clone());
    act::set_references(&mut status, &observed);
    status::set_conditions(&mut status, observed.run.as_ref(), &decision, object.metadata.generation, now);
    act::write_status(object, &status, &decision, ctx).await?;
    act::execute_decision(object, &key, observed, (decision, &status), ctx).await
}

/// Key of the object's workspace.
pub fn workspace_key(object: &WorkspaceTemplateApply) -> WorkspaceKey {
    WorkspaceKey::new(&object.namespace().unwrap_or_default(), names::workspace_name(&object.name_any()))
}
