//! Adds and removes the finalizer, and starts validations.

use capt_kinds::api::{WorkspaceTemplate, names};
use capt_kube::k8s::K8sError;

use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt;

use super::{
    TemplateContext,
    decide::TemplateDecision,
    dereference, template_key,
    validate::{StaticValidation, TemplateValidity, validate_statically},
    validation_worker::ValidationWorker,
};
use crate::common::template_policy::{LabelledNamespace, TemplateRefusal, check_template_use};

/// What became of a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TemplateOutcome {
    /// The finalizer was changed, which triggers the next reconcile.
    FinalizerChanged,
    /// The validity; none while terraform validates.
    Validated(Option<TemplateValidity>),
}

/// Executes the decision.
pub(super) async fn act(
    object: &WorkspaceTemplate,
    decision: TemplateDecision,
    worker: &ValidationWorker,
    ctx: &TemplateContext,
) -> Result<TemplateOutcome, K8sError> {
    match decision {
        TemplateDecision::RemoveFinalizer => {
            if !dereference::is_used(object, ctx).await? {
                ctx.common.kube.remove_finalizers(object, &[names::TEMPLATE_FINALIZER]).await?;
            }
            Ok(TemplateOutcome::FinalizerChanged)
        }
        TemplateDecision::AddFinalizer => {
            ctx.common.kube.add_finalizer(object, names::TEMPLATE_FINALIZER).await?;
            Ok(TemplateOutcome::FinalizerChanged)
        }
        TemplateDecision::Report => match find_refusal(object, ctx).await? {
            None => Ok(TemplateOutcome::Validated(worker.get_or_start(object))),
            Some(refused) => Ok(TemplateOutcome::Validated(Some(validate_unused(object, &refused)))),
        },
    }
}

/// Why nothing of the template may be executed. Terraform downloads modules and starts providers to validate it.
async fn find_refusal(
    object: &WorkspaceTemplate,
    ctx: &TemplateContext,
) -> Result<Option<TemplateRefusal>, K8sError> {
    let name = object.namespace().unwrap_or_default();
    let found: Option<Namespace> = ctx.common.kube.get(None, &name).await?;
    let labels = found.and_then(|it| it.metadata.labels).unwrap_or_default();
    let home = LabelledNamespace { name: &name, labels: &labels };
    Ok(check_template_use(home, home, &ctx.common.settings).err())
}

fn validate_unused(object: &WorkspaceTemplate, refused: &TemplateRefusal) -> TemplateValidity {
    match validate_statically(&template_key(object), object) {
        StaticValidation::Complete(validity) => validity,
        StaticValidation::NeedsTerraform(_) => {
            TemplateValidity::Valid(format!("terraform has not validated it: {refused}"))
        }
    }
}
