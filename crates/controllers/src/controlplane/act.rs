//! Carries out a decision through the API server. Makes no decision of its own and does not read the spec.

use capt_kinds::api::{CaptControlPlane, WorkspaceTemplateApply, conditions::reasons, names};
use capt_kinds::sandbox::{Sandbox, SandboxSpec};
use capt_kube::k8s::{self, DeleteOutcome, K8sError, events::EventSpec};
use kube::ResourceExt as _;
use serde_json::json;

use super::{
    Context, decide::Decision, deletion::DeletionStep, dereference::RemainingObjects, load_balancers,
};
use crate::common::{ProvisionedResource, metrics::elapsed_since, runner};

/// `action` field of events.
const ACTION: &str = "Act";

/// Outcome of a decision.
#[derive(Debug)]
pub(super) struct ApplyOutcome {
    /// The object after the writes.
    pub object: CaptControlPlane,
    /// Workspaces that the API server rejected: name and message.
    pub rejected: Vec<(String, String)>,
    /// The first error. The remaining writes were still attempted.
    pub first_error: Option<K8sError>,
}

/// Carries out a decision. A failed write does not prevent the others.
pub(super) async fn apply_decision(
    object: CaptControlPlane,
    decision: Decision,
    ctx: &Context,
) -> Result<ApplyOutcome, K8sError> {
    let Decision {
        spec_patch: spec,
        eks_workspace: eks,
        is_takeover: takes_over,
        profile_workspaces: profiles,
        profile_removals: removals,
        reruns,
        recovered,
        secrets,
    } = decision;
    let kube = &ctx.common.kube;
    let mut acted = ApplyOutcome { object, rejected: Vec::new(), first_error: None };
    if takes_over {
        retain_spot_role(&acted.object, ctx).await?;
    }
    for wanted in eks.into_iter().map(|it| *it).chain(profiles) {
        let applied = apply_workspace(&acted.object, &wanted, ctx).await;
        acted.record_result(&wanted, applied);
    }
    for secret in &secrets {
        let written = kube.apply(secret).await.map(|_| ());
        acted.first_error = acted.first_error.or_else(|| written.err());
    }
    for dropped in &removals {
        let gone = kube.delete(dropped, k8s::DeletionPropagation::Background).await;
        let note =
            format!("deleting WorkspaceTemplateApply {}: profile removed from spec", dropped.name_any());
        ctx.common
            .events
            .publish(&acted.object, EventSpec::normal(ACTION, "RemovingFargateProfile", note))
            .await;
        acted.first_error = acted.first_error.or_else(|| gone.err());
    }
    let uid = acted.object.uid().unwrap_or_default();
    for name in &recovered {
        ctx.eks_poller.record_rerun(&uid, name, None);
    }
    for lost in &reruns {
        let asked = request_rerun(&acted.object, lost, ctx).await;
        acted.first_error = acted.first_error.or_else(|| asked.err());
    }
    if let Some(fields) = spec {
        acted.object = kube.merge_patch(&acted.object, json!({ "spec": fields })).await?;
    }
    Ok(acted)
}

impl ApplyOutcome {
    fn record_result(&mut self, wanted: &WorkspaceTemplateApply, applied: Result<(), K8sError>) {
        match applied {
            Ok(()) => {}
            Err(K8sError::Invalid { source, .. }) => {
                self.rejected
                    .push((wanted.name_any(), format!("rejected by the API server: {}", source.message)));
            }
            Err(error) => {
                self.first_error.get_or_insert(error);
            }
        }
    }
}

async fn apply_workspace(
    object: &CaptControlPlane,
    wanted: &WorkspaceTemplateApply,
    ctx: &Context,
) -> Result<(), K8sError> {
    let applied = ctx.common.kube.apply(wanted).await?;
    // Generation 1 means that the apply created the object.
    if applied.metadata.generation == Some(1) {
        let note = format!("created WorkspaceTemplateApply {}", wanted.name_any());
        ctx.common.events.publish(object, EventSpec::normal(ACTION, "CreatedWorkspace", note)).await;
    }
    Ok(())
}

/// Requests another run of a workspace.
async fn request_rerun(
    object: &CaptControlPlane,
    lost: &WorkspaceTemplateApply,
    ctx: &Context,
) -> Result<(), K8sError> {
    let now = (ctx.common.clock)();
    let text = k8s::conditions::whole_seconds(now).to_string();
    ctx.common.kube.set_annotation(lost, names::REQUESTED_ANNOTATION, &text).await?;
    ctx.eks_poller.record_rerun(&object.uid().unwrap_or_default(), &lost.name_any(), Some(now));
    let note = format!(
        "WorkspaceTemplateApply {}: Fargate profile is missing in EKS; requested a new run",
        lost.name_any()
    );
    ctx.common.events.publish(object, EventSpec::warning(ACTION, "FargateProfileLost", note)).await;
    Ok(())
}

/// Upstream creates the account-wide Spot service-linked role in a workspace of one cluster. That workspace is retained, so that
/// deleting the cluster does not destroy the role.
async fn retain_spot_role(object: &CaptControlPlane, ctx: &Context) -> Result<(), K8sError> {
    let kube = &ctx.common.kube;
    let name = format!("{}-spot-role-create", object.name_any());
    let found: Option<WorkspaceTemplateApply> = kube.get(object.namespace().as_deref(), &name).await?;
    let uid = object.uid();
    let is_ours =
        |it: &WorkspaceTemplateApply| it.owner_references().iter().any(|it| Some(&it.uid) == uid.as_ref());
    if let Some(found) = found.filter(is_ours).filter(|it| it.spec.retain_workspace_on_delete != Some(true)) {
        kube.merge_patch(&found, json!({"spec": {"retainWorkspaceOnDelete": true}})).await?;
    }
    Ok(())
}

/// Outcome of a deletion step.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DeletionProgress {
    /// The step waits for a deletion to complete.
    Waiting {
        /// Condition reason.
        reason: &'static str,
        /// Condition message.
        why: String,
    },
    /// The step is complete; continue with the next one.
    StepDone,
    /// The finalizer is removed.
    Released,
}

/// Carries out a deletion step.
pub(super) async fn run_deletion_step(
    object: &CaptControlPlane,
    step: DeletionStep,
    remains: &RemainingObjects,
    ctx: &Context,
) -> Result<DeletionProgress, K8sError> {
    let kube = &ctx.common.kube;
    match step {
        DeletionStep::Sandboxes { delete, why } => {
            for metadata in delete {
                let sandbox = Sandbox { metadata, spec: SandboxSpec::default(), status: None };
                kube.delete(&sandbox, k8s::DeletionPropagation::Background).await?;
            }
            Ok(DeletionProgress::Waiting { reason: reasons::WAITING_FOR_SANDBOXES_DELETION, why })
        }
        DeletionStep::LoadBalancers { delete, why } => {
            if let Err(error) = load_balancers::delete_services(object, remains, &delete, &ctx.common).await {
                // Retried until the drain timeout.
                tracing::debug!(%error, "cannot delete router load balancers, retrying");
            }
            Ok(DeletionProgress::Waiting { reason: reasons::WAITING_FOR_LOAD_BALANCERS_DELETION, why })
        }
        DeletionStep::Workspaces { delete, reason, why } => {
            retain_spot_role(object, ctx).await?;
            for apply in &delete {
                if kube.delete(apply, k8s::DeletionPropagation::Background).await? == DeleteOutcome::Gone
                    && delete.len() == 1
                {
                    return Ok(DeletionProgress::StepDone);
                }
            }
            Ok(DeletionProgress::Waiting { reason, why })
        }
        DeletionStep::Secrets(secrets) => {
            for secret in &secrets {
                kube.delete(secret, k8s::DeletionPropagation::Background).await?;
            }
            Ok(DeletionProgress::StepDone)
        }
        DeletionStep::RemoveFinalizer => {
            kube.remove_finalizers(object, &[names::CONTROL_PLANE_FINALIZER]).await?;
            ctx.eks_poller.forget(&object.uid().unwrap_or_default());
            let (meta, meter) = (&object.metadata, &ctx.common.metrics);
            meter.fargate_profile_states(&runner::namespaced_name(meta), &[]);
            if let Some(took) = elapsed_since(meta.deletion_timestamp.as_ref(), (ctx.common.clock)()) {
                meter.resource_deleted(ProvisionedResource::Cluster, took);
            }
            Ok(DeletionProgress::Released)
        }
    }
}
