//! Controller of `WorkspaceTemplateApply`, which applies one Terraform workspace. The only controller that starts runs.
//!
//! It must not wait for terraform: runs execute in background tasks and trigger the next reconcile.

mod act;
mod decide;
mod dependents;
mod dereference;
mod events;
mod input_error;
mod inputs;
mod inputs_hash;
mod observation;
mod reference_index;
mod reference_reader;
mod run_identity;
mod secret_backup_store;
mod status;
#[cfg(test)]
mod tests;
mod validate;
mod watch;

use std::{sync::Arc, time::Duration};

use capt_engine::runs::RunManager;
use capt_kinds::api::{
    BuiltInModule, WorkspaceTemplateApply, WorkspaceTemplateApplyStatus, conditions::types,
};
use capt_kube::k8s::{FencingToken, conditions, state_store::KubeStateStore};
use capt_model::{
    model::names,
    workspaces::{ProviderDefaults, WorkspaceKey},
};
use kube::{ResourceExt, runtime::controller::Action};
use terraform_driver::clock;

use self::{act::WorkspaceOutcome, decide::Decision};
pub use self::{
    reference_index::{ReferenceIndex, ReferenceKind, ReferenceTarget},
    watch::run,
};
use crate::common::{
    self, ProvisionedResource,
    metrics::elapsed_since,
    reconcile_error::{ReconcileError, ReconcileStep},
    runner,
};

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

/// Reconciles one object and returns when to reconcile it again.
pub async fn reconcile(
    object: &WorkspaceTemplateApply,
    ctx: &WorkspaceContext,
) -> Result<Action, ReconcileError> {
    let key = workspace_key(object);
    // dereference, validate (client required, read only)
    let Some(observed) = dereference::dereference(object, &key, ctx).await? else {
        return Ok(Action::await_change());
    };
    // decide (no client required)
    let now = clock::now();
    let recorded = status::with_run(object, observed.run.as_ref());
    let decision = decide::decide(&observed, &recorded, now);
    // act (client required)
    let outcome = act::act(object, &key, &observed, (&decision, &recorded), ctx).await?;
    // status, events (client required only to write them)
    let new = status::after_act(recorded, (&observed, &decision), &outcome, (&key, now));
    write_status(object, &new, (&decision, &outcome), ctx).await?;
    outcome.next
}

/// Publishes events, writes the status and records metrics.
async fn write_status(
    object: &WorkspaceTemplateApply,
    new: &WorkspaceTemplateApplyStatus,
    (decision, outcome): (&Decision, &WorkspaceOutcome),
    ctx: &WorkspaceContext,
) -> Result<(), ReconcileError> {
    let old = object.status.as_ref();
    for event in events::status_events(old, new) {
        ctx.common.events.publish(object, event).await;
    }
    // The object disappears with its finalizer, so its status is not worth a write.
    if !matches!(decision, Decision::RemoveFinalizer) {
        let written = ctx.common.kube.write_status(&outcome.object, old, new).await;
        written.map_err(ReconcileStep::Status.wrap_error())?;
    }
    record_metrics(object, new, decision, &ctx.common);
    Ok(())
}

/// Records drift, and how long Fargate profiles take to create and delete.
fn record_metrics(
    object: &WorkspaceTemplateApply,
    status: &WorkspaceTemplateApplyStatus,
    decision: &Decision,
    ctx: &common::Context,
) {
    let (meta, now, meter) = (&object.metadata, (ctx.clock)(), &ctx.metrics);
    let goes = matches!(decision, Decision::RemoveFinalizer);
    meter.set_drift(
        &runner::namespaced_name(meta),
        !goes && conditions::is_true(&status.conditions, types::DRIFTED),
    );
    if object.spec.module.as_ref().is_none_or(|module| *module != BuiltInModule::Fargate) {
        return;
    }
    let was_made = object.status.as_ref().is_some_and(|before| before.applied == Some(true));
    let made = !was_made && status.applied == Some(true);
    if let Some(took) = elapsed_since(meta.creation_timestamp.as_ref(), now).filter(|_| made) {
        meter.resource_created(ProvisionedResource::FargateProfile, took);
    }
    if let Some(took) = elapsed_since(meta.deletion_timestamp.as_ref(), now).filter(|_| goes && was_made) {
        meter.resource_deleted(ProvisionedResource::FargateProfile, took);
    }
}

/// Key of the object's workspace.
pub fn workspace_key(object: &WorkspaceTemplateApply) -> WorkspaceKey {
    WorkspaceKey::new(&object.namespace().unwrap_or_default(), names::workspace_name(&object.name_any()))
}
