//! Does what was decided. No branch on the spec.

use kube::ResourceExt as _;
use serde_json::json;

use super::{
    decide::{Decision, Removal},
    news::VPC_RETAINED,
    validate::Refusal,
};
use crate::{
    api::{CaptCluster, WorkspaceTemplateApply, conditions::reasons, names},
    controllers::common::Context,
    k8s::{self, Deleted, K8sError, events::News},
};

/// What came of a decision.
#[derive(Debug)]
pub(super) struct Acted {
    /// The object as it is now.
    pub object: CaptCluster,
    /// Its workspace as it is now.
    pub apply: Option<WorkspaceTemplateApply>,
    /// Why the workspace cannot be as it should.
    pub refused: Option<Refusal>,
    /// What has to happen before the workspace can be as it should.
    pub waiting: Option<String>,
}

/// What came of a removal.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Removed {
    /// Something has to go first.
    Waiting {
        /// In one word.
        reason: &'static str,
        /// What.
        why: String,
    },
    /// The object may go.
    Released,
}

/// Puts our finalizer on the object, and takes off the one that older releases of upstream used.
pub(super) async fn hold(object: &CaptCluster, ctx: &Context) -> Result<CaptCluster, K8sError> {
    let held = ctx.kube.add_finalizer(object, names::CLUSTER_FINALIZER).await?;
    if !held.finalizers().iter().any(|it| it == names::APPLY_FINALIZER) {
        return Ok(held);
    }
    let rid = ctx.kube.remove_finalizers(&held, &[names::APPLY_FINALIZER]).await?;
    Ok(rid.unwrap_or(held))
}

/// Carries a decision about the workspace out.
pub(super) async fn carry_out(
    object: CaptCluster,
    decision: Decision,
    live: Option<WorkspaceTemplateApply>,
    ctx: &Context,
) -> Result<Acted, K8sError> {
    let mut acted = Acted { object, apply: live, refused: None, waiting: None };
    match decision {
        Decision::Observe => {}
        Decision::Wait { why } => acted.waiting = Some(why),
        Decision::Refuse { why } => {
            acted.refused = Some(Refusal { reason: reasons::VPC_RECONCILIATION_FAILED, message: why });
        }
        Decision::Apply(mut wanted) => {
            // Only the one that was looked at is changed, not another that took its name meanwhile.
            wanted.metadata.uid = acted.apply.as_ref().and_then(|live| live.metadata.uid.clone());
            match ctx.kube.apply(&*wanted).await {
                Ok(applied) => acted.apply = Some(applied),
                Err(K8sError::Invalid { source, .. }) => {
                    let message = source.message.clone();
                    acted.refused = Some(Refusal { reason: reasons::INVALID_VPC_CONFIG, message });
                }
                Err(error) => return Err(error),
            }
        }
    }
    record_name(acted, ctx).await
}

/// Writes the workspace's name into the spec, once, where upstream's users look for it.
async fn record_name(mut acted: Acted, ctx: &Context) -> Result<Acted, K8sError> {
    let recorded = acted.object.spec.workspace_template_apply_name.is_some();
    if let Some(apply) = acted.apply.as_ref().filter(|_| !recorded && acted.refused.is_none()) {
        let patch = json!({"spec": {"workspaceTemplateApplyName": apply.name_any()}});
        acted.object = ctx.kube.merge(&acted.object, patch).await?;
    }
    Ok(acted)
}

/// Carries a removal out.
pub(super) async fn remove(
    object: &CaptCluster,
    removal: Removal,
    ctx: &Context,
) -> Result<Removed, K8sError> {
    match removal {
        Removal::Wait { reason, why } => return Ok(Removed::Waiting { reason, why }),
        Removal::Delete(apply) => {
            if ctx.kube.delete(&*apply, k8s::Removal::Background).await? == Deleted::Going {
                let why = format!("destroying the network with WorkspaceTemplateApply {}", apply.name_any());
                return Ok(Removed::Waiting { reason: reasons::WAITING_FOR_WORKSPACE_DELETION, why });
            }
        }
        Removal::Detach(apply) => detach(object, &apply, ctx).await?,
        Removal::Release => {}
    }
    ctx.kube.remove_finalizers(object, &[names::CLUSTER_FINALIZER, names::APPLY_FINALIZER]).await?;
    Ok(Removed::Released)
}

/// The mark first: whatever deletes the workspace after that, the network stays.
async fn detach(object: &CaptCluster, apply: &WorkspaceTemplateApply, ctx: &Context) -> Result<(), K8sError> {
    let marked = ctx.kube.merge(apply, json!({"spec": {"retainWorkspaceOnDelete": true}})).await;
    let marked = match marked {
        Err(K8sError::NotFound { .. }) => return Ok(()),
        other => other?,
    };
    ctx.kube.remove_owner(&marked, &object.uid().unwrap_or_default()).await?;
    let note = format!("the network stays, and so does WorkspaceTemplateApply {}", apply.name_any());
    ctx.events.tell(object, News::normal("Delete", VPC_RETAINED, note)).await;
    Ok(())
}
