//! Controller of `WorkspaceTemplate`: validates templates and protects them with a finalizer while workspaces use them.

mod act;
mod decide;
mod dereference;
mod events;
mod status;
#[cfg(test)]
mod tests;
mod usage_index;
mod validate;
mod validation_worker;
mod watch;

use std::{sync::Arc, time::Duration};

use capt_engine::runs::RunManager;
use capt_kinds::api::WorkspaceTemplate;
use capt_model::workspaces::WorkspaceKey;
use kube::{
    ResourceExt,
    core::DeserializeGuard,
    runtime::{controller::Action, reflector::ObjectRef},
};
use terraform_driver::clock;

use self::{
    act::TemplateOutcome, dereference::TemplateUsers, usage_index::TemplateUsageIndex,
    validation_worker::ValidationWorker,
};
pub use self::{
    validate::{TemplateValidity, validate_statically},
    watch::run,
};
use crate::common::{
    self,
    gate::matches_watch_filter,
    reconcile_error::{ReconcileError, ReconcileStep},
    runner,
};

/// Dependencies of the reconciler.
pub struct TemplateContext {
    /// Dependencies shared by all controllers.
    pub common: Arc<common::Context>,
    /// Provides the terraform engine for validation.
    pub runs: RunManager,
}

impl runner::ControllerContext for TemplateContext {
    fn common(&self) -> &common::Context {
        &self.common
    }
}

/// Requeue delay while the usage index is not synced.
const INDEX_RETRY: Duration = Duration::from_millis(500);

/// Reconciles one template.
async fn reconcile(
    object: &WorkspaceTemplate,
    ctx: &TemplateContext,
    (worker, index): (&ValidationWorker, &TemplateUsageIndex),
) -> Result<Action, ReconcileError> {
    if !matches_watch_filter(&object.metadata, ctx.common.settings.watch_filter.as_deref()) {
        return Ok(Action::await_change());
    }
    // dereference (no client required: the index is kept by a watch)
    let Some(users) = dereference::dereference(object, index) else {
        return Ok(Action::requeue(INDEX_RETRY));
    };
    // decide (no client required)
    let decision = decide::decide(object, &users);
    // act (client required); validates in the background
    let outcome = act::act(object, decision, worker, ctx).await.map_err(ReconcileStep::Act.wrap_error())?;
    // status, events (client required only to write them)
    if let TemplateOutcome::Validated(validity) = outcome {
        write_status(object, validity.as_ref(), &users, ctx).await?;
    }
    Ok(Action::await_change())
}

/// Publishes the events and writes the status if it changed.
async fn write_status(
    object: &WorkspaceTemplate,
    validity: Option<&TemplateValidity>,
    users: &TemplateUsers,
    ctx: &TemplateContext,
) -> Result<(), ReconcileError> {
    if let Some(event) = events::validity_event(validity) {
        ctx.common.events.publish(object, event).await;
    }
    let new = status::observed(object, validity, users, clock::now());
    let written = ctx.common.kube.write_status(object, object.status.as_ref(), &new).await;
    written.map(drop).map_err(ReconcileStep::Status.wrap_error())
}

fn template_key(object: &WorkspaceTemplate) -> WorkspaceKey {
    WorkspaceKey::new(&object.namespace().unwrap_or_default(), &object.name_any())
}

/// Reference to a template, for reconcile triggers.
fn object_ref(object: &WorkspaceTemplate) -> ObjectRef<DeserializeGuard<WorkspaceTemplate>> {
    ObjectRef::new(&object.name_any()).within(&object.namespace().unwrap_or_default())
}
