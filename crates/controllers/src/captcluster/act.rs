//! Executes decisions. Does not branch on the spec.

use capt_kinds::api::{CaptCluster, WorkspaceTemplateApply, conditions::reasons, names};
use capt_kube::k8s::{self, DeleteOutcome, K8sError, events::EventSpec};
use kube::ResourceExt as _;
use serde_json::json;

use super::{
    decide::{Decision, NetworkDeletionStep},
    events::VPC_RETAINED,
    validate::NetworkRejection,
};
use crate::common::Context;

/// Result of an applied decision.
#[derive(Debug)]
pub(super) struct NetworkApplyOutcome {
    /// The `CAPTCluster` after all writes.
    pub object: CaptCluster,
    /// The workspace after all writes.
    pub apply: Option<WorkspaceTemplateApply>,
    /// Why the desired workspace was rejected.
    pub rejection: Option<NetworkRejection>,
    /// What has to happen before the workspace can be applied.
    pub waiting_for: Option<String>,
}

/// Result of a deletion step.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NetworkDeletionOutcome {
    /// Another object has to be deleted first.
    Waiting {
        /// Condition reason.
        reason: &'static str,
        /// Condition message.
        why: String,
    },
    /// The finalizers are removed.
    FinalizersRemoved,
}

/// Adds the finalizer and removes the one that older upstream releases used.
pub(super) async fn ensure_finalizer(object: &CaptCluster, ctx: &Context) -> Result<CaptCluster, K8sError> {
    let held = ctx.kube.add_finalizer(object, names::CLUSTER_FINALIZER).await?;
    if !held.finalizers().iter().any(|it| it == names::APPLY_FINALIZER) {
        return Ok(held);
    }
    let rid = ctx.kube.remove_finalizers(&held, &[names::APPLY_FINALIZER]).await?;
    Ok(rid.unwrap_or(held))
}

/// Applies the decision to the workspace.
pub(super) async fn apply_decision(
    object: CaptCluster,
    decision: Decision,
    live: Option<WorkspaceTemplateApply>,
    ctx: &Context,
) -> Result<NetworkApplyOutcome, K8sError> {
    let mut acted = NetworkApplyOutcome { object, apply: live, rejection: None, waiting_for: None };
    match decision {
        Decision::Unchanged => {}
        Decision::Wait { why } => acted.waiting_for = Some(why),
        Decision::Reject { why } => {
            acted.rejection =
                Some(NetworkRejection { reason: reasons::VPC_RECONCILIATION_FAILED, message: why });
        }
        Decision::Apply(mut wanted) => {
            // The uid as precondition: an object recreated under the same name must not be changed.
            wanted.metadata.uid = acted.apply.as_ref().and_then(|live| live.metadata.uid.clone());
            match ctx.kube.apply(&*wanted).await {
                Ok(applied) => acted.apply = Some(applied),
                Err(K8sError::Invalid { source, .. }) => {
                    let message = source.message.clone();
                    acted.rejection = Some(NetworkRejection { reason: reasons::INVALID_VPC_CONFIG, message });
                }
                Err(error) => return Err(error),
            }
        }
    }
    record_workspace_name(acted, ctx).await
}

/// Records the workspace's name in the spec, once, for compatibility with upstream.
async fn record_workspace_name(
    mut acted: NetworkApplyOutcome,
    ctx: &Context,
) -> Result<NetworkApplyOutcome, K8sError> {
    let recorded = acted.object.spec.workspace_template_apply_name.is_some();
    if let Some(apply) = acted.apply.as_ref().filter(|_| !recorded && acted.rejection.is_none()) {
        let patch = json!({"spec": {"workspaceTemplateApplyName": apply.name_any()}});
        acted.object = ctx.kube.merge_patch(&acted.object, patch).await?;
    }
    Ok(acted)
}

/// Executes a deletion step.
pub(super) async fn execute_deletion_step(
    object: &CaptCluster,
    removal: NetworkDeletionStep,
    ctx: &Context,
) -> Result<NetworkDeletionOutcome, K8sError> {
    match removal {
        NetworkDeletionStep::Wait { reason, why } => {
            return Ok(NetworkDeletionOutcome::Waiting { reason, why });
        }
        NetworkDeletionStep::Delete(apply) => {
            if ctx.kube.delete(&*apply, k8s::DeletionPropagation::Background).await?
                == DeleteOutcome::Terminating
            {
                let why = format!("destroying the network with WorkspaceTemplateApply {}", apply.name_any());
                return Ok(NetworkDeletionOutcome::Waiting {
                    reason: reasons::WAITING_FOR_WORKSPACE_DELETION,
                    why,
                });
            }
        }
        NetworkDeletionStep::Detach(apply) => detach_workspace(object, &apply, ctx).await?,
        NetworkDeletionStep::RemoveFinalizers => {}
    }
    ctx.kube.remove_finalizers(object, &[names::CLUSTER_FINALIZER, names::APPLY_FINALIZER]).await?;
    Ok(NetworkDeletionOutcome::FinalizersRemoved)
}

/// Sets `retainWorkspaceOnDelete` before it removes the owner reference, so that no later deletion destroys the network.
async fn detach_workspace(
    object: &CaptCluster,
    apply: &WorkspaceTemplateApply,
    ctx: &Context,
) -> Result<(), K8sError> {
    let marked = ctx.kube.merge_patch(apply, json!({"spec": {"retainWorkspaceOnDelete": true}})).await;
    let marked = match marked {
        Err(K8sError::NotFound { .. }) => return Ok(()),
        other => other?,
    };
    ctx.kube.remove_owner(&marked, &object.uid().unwrap_or_default()).await?;
    let note = format!("network and WorkspaceTemplateApply {} are retained", apply.name_any());
    ctx.events.publish(object, EventSpec::normal("Delete", VPC_RETAINED, note)).await;
    Ok(())
}
