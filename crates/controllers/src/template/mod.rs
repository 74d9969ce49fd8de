//! Controller of `WorkspaceTemplate`: validates templates and protects them with a finalizer while workspaces use them.

mod usage_index;
mod validate;
mod validation_worker;

use std::{sync::Arc, time::Duration};

use capt_engine::runs::RunManager;
use capt_kinds::api::{
    WorkspaceTemplate, WorkspaceTemplateApply, WorkspaceTemplateObjectStatus,
    conditions::{reasons, types},
    names,
};
use capt_kube::k8s::{
    EventSpec, K8sError,
    conditions::{self, ConditionUpdate},
};
use capt_model::workspaces::WorkspaceKey;
use kube::{
    ResourceExt,
    core::DeserializeGuard,
    runtime::{
        controller::{Action, Config},
        reflector::ObjectRef,
        watcher,
    },
};
use terraform_driver::clock;
use tokio_util::sync::CancellationToken;

pub use self::validate::{TemplateValidity, validate_statically};
use self::{usage_index::TemplateUsageIndex, validation_worker::ValidationWorker};
use crate::common::{self, gate::matches_watch_filter, invalid_object::filter_valid, runner};

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

const KIND: &str = "WorkspaceTemplate";

/// Requeue delay while the usage index is not synced.
const INDEX_RETRY: Duration = Duration::from_millis(500);

/// Runs the controller until `stop`.
pub async fn run(ctx: Arc<TemplateContext>, stop: CancellationToken) {
    let (background, judged) = ValidationWorker::new(ctx.runs.clone());
    let (background, users) = (Arc::new(background), TemplateUsageIndex::default());
    let objects = runner::scoped_api::<DeserializeGuard<WorkspaceTemplate>>(&ctx.common);
    let controller = runner::build_controller(KIND, &ctx.common, objects, watcher::Config::default());
    let used = users.watch(&ctx.common);
    let controller =
        controller.with_config(Config::default().concurrency(8)).reconcile_on(judged).reconcile_on(used);
    let reconcile = move |object: Arc<WorkspaceTemplate>, ctx: Arc<TemplateContext>| {
        let (background, users) = (Arc::clone(&background), users.clone());
        async move { reconcile(&object, &ctx, (&background, &users)).await }
    };
    runner::run(KIND, controller, ctx, stop.cancelled_owned(), reconcile).await;
}

/// Reconciles one template.
async fn reconcile(
    object: &WorkspaceTemplate,
    ctx: &TemplateContext,
    (background, users): (&ValidationWorker, &TemplateUsageIndex),
) -> Result<Action, K8sError> {
    if !matches_watch_filter(&object.metadata, ctx.common.settings.watch_filter.as_deref()) {
        return Ok(Action::await_change());
    }
    let Some(users) = users.users_of(&template_key(object)) else { return Ok(Action::requeue(INDEX_RETRY)) };
    let held = object.finalizers().iter().any(|it| it == names::TEMPLATE_FINALIZER);
    if users.is_empty() && held {
        remove_finalizer_if_unused(object, ctx).await?;
        return Ok(Action::await_change());
    }
    if object.metadata.deletion_timestamp.is_none() && !users.is_empty() && !held {
        ctx.common.kube.add_finalizer(object, names::TEMPLATE_FINALIZER).await?;
        return Ok(Action::await_change());
    }
    let verdict = background.get_or_start(object);
    write_status(object, verdict.as_ref(), &users, ctx).await?;
    Ok(Action::await_change())
}

/// Removes the finalizer if no workspace uses the template. Lists the workspaces again, because the index may be stale.
async fn remove_finalizer_if_unused(
    object: &WorkspaceTemplate,
    ctx: &TemplateContext,
) -> Result<(), K8sError> {
    let namespace = ctx.common.settings.namespace.as_deref();
    // Workspaces that do not deserialize are in the index, which parses nothing but the template reference.
    let all = filter_valid::<WorkspaceTemplateApply>(ctx.common.kube.list(namespace, "").await?);
    let me = template_key(object);
    if all.iter().all(|it| referenced_template(it) != Some(me.clone())) {
        ctx.common.kube.remove_finalizers(object, &[names::TEMPLATE_FINALIZER]).await?;
    }
    Ok(())
}

/// Key of the template that a workspace references.
fn referenced_template(user: &WorkspaceTemplateApply) -> Option<WorkspaceKey> {
    let reference = user.spec.template_ref.as_ref()?;
    let namespace = reference.namespace.clone().filter(|it| !it.is_empty()).or_else(|| user.namespace());
    Some(WorkspaceKey::new(&namespace.unwrap_or_default(), &reference.name))
}

fn template_key(object: &WorkspaceTemplate) -> WorkspaceKey {
    WorkspaceKey::new(&object.namespace().unwrap_or_default(), &object.name_any())
}

async fn write_status(
    object: &WorkspaceTemplate,
    verdict: Option<&TemplateValidity>,
    users: &[String],
    ctx: &TemplateContext,
) -> Result<(), K8sError> {
    let before: Option<&WorkspaceTemplateObjectStatus> = object.status.as_ref();
    let mut status = before.cloned().unwrap_or_default();
    let (generation, now) = (object.metadata.generation, clock::now());
    let valid = match verdict {
        None => None,
        Some(TemplateValidity::Valid(note)) => {
            Some(ConditionUpdate::status_true(types::VALID, reasons::TEMPLATE_VALID, note.clone()))
        }
        Some(TemplateValidity::Invalid(why)) => {
            Some(ConditionUpdate::status_false(types::VALID, reasons::TEMPLATE_INVALID, why.clone()))
        }
    };
    if let Some(TemplateValidity::Invalid(why)) = verdict {
        ctx.common
            .events
            .publish(object, EventSpec::warning("Validate", "TemplateInvalid", why.clone()))
            .await;
    }
    let deleting = if object.metadata.deletion_timestamp.is_some() {
        let message = format!("in use by {}", users.join(", "));
        Some(ConditionUpdate::status_true(types::DELETING, reasons::IN_USE, message))
    } else {
        None
    };
    for said in valid.into_iter().chain(deleting) {
        let _transition = conditions::set(&mut status.conditions, said, generation, now);
    }
    status.observed_generation = generation;
    ctx.common.kube.write_status(object, before, &status).await?;
    Ok(())
}

/// Reference to a template, for reconcile triggers.
fn object_ref(object: &WorkspaceTemplate) -> ObjectRef<DeserializeGuard<WorkspaceTemplate>> {
    ObjectRef::new(&object.name_any()).within(&object.namespace().unwrap_or_default())
}
