//! Adds and removes the finalizer, and starts validations.

use capt_kinds::api::{WorkspaceTemplate, names};
use capt_kube::k8s::K8sError;

use super::{
    TemplateContext, decide::TemplateDecision, dereference, validate::TemplateValidity,
    validation_worker::ValidationWorker,
};

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
        TemplateDecision::Report => Ok(TemplateOutcome::Validated(worker.get_or_start(object))),
    }
}
