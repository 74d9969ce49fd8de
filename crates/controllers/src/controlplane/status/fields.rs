//! The status fields other than conditions. Pure.

use std::collections::BTreeMap;

use capt_kinds::api::{
    CaptControlPlaneStatus, ControlPlaneInitialization, StatusVersion, WorkspaceStatus,
    WorkspaceTemplateApply, WorkspaceTemplateStatus, conditions::types,
};
use capt_kube::k8s::conditions::find;
use serde_json::{Value, json};

use crate::{
    common::workspace_summary::WorkspaceSummary,
    controlplane::{
        kubeconfig::is_legacy_ca,
        ownership::ClusterOwnership,
        snapshot::{ControlPlaneSnapshot, KubeconfigState},
        version::reported_version,
    },
};

pub(super) fn fill_fields(new: &mut CaptControlPlaneStatus, snapshot: &ControlPlaneSnapshot<'_>) {
    if snapshot.is_initialized() {
        new.initialization = Some(ControlPlaneInitialization { control_plane_initialized: Some(true) });
    }
    // The last reported version is kept until EKS reports another.
    if let Some(version) = reported_version(&snapshot.object.spec.version, snapshot.running_version.as_ref())
    {
        new.versions = vec![StatusVersion { version: version.clone() }];
        new.version = Some(version);
    }
    let secrets = &snapshot.references.secrets;
    let upstreams = secrets.legacy_ca.as_ref().filter(|it| is_legacy_ca(it));
    record_ownership(new, &snapshot.ownership);
    new.secrets_ready = snapshot.ownership.is_trusted()
        && matches!(snapshot.kubeconfig, KubeconfigState::Current(_))
        && (secrets.ca.is_some() || upstreams.is_some());
    new.fargate_profile_statuses = snapshot.profiles.iter().map(|it| it.status.clone()).collect();
    if let (Some(eks), Some(finding)) = (&snapshot.references.eks_workspace, &snapshot.workspace_summary) {
        new.workspace_template_status =
            Some(template_status(new.workspace_template_status.as_ref(), eks, finding));
        new.workspace_status = Some(workspace_status(eks, finding));
    }
}

/// Records the proven cluster. What EKS has not reported stays as it is.
fn record_ownership(new: &mut CaptControlPlaneStatus, ownership: &ClusterOwnership) {
    match ownership {
        ClusterOwnership::Proven { arn, awaits_tag: false } => new.eks_cluster_arn = Some(arn.clone()),
        ClusterOwnership::Proven { awaits_tag: true, .. } | ClusterOwnership::Unknown { .. } => {}
        ClusterOwnership::Unproven(_) | ClusterOwnership::NameTaken(_) => new.eks_cluster_arn = None,
    }
}

/// Reason of the workspace's `Ready` condition.
fn ready_reason(eks: &WorkspaceTemplateApply) -> Option<String> {
    let conditions = eks.status.as_ref().map(|status| status.conditions.as_slice())?;
    find(conditions, types::READY).map(|it| it.reason.clone())
}

fn outputs(eks: &WorkspaceTemplateApply) -> BTreeMap<String, Value> {
    eks.status.as_ref().map(|status| status.outputs.clone()).unwrap_or_default()
}

fn template_status(
    old: Option<&WorkspaceTemplateStatus>,
    eks: &WorkspaceTemplateApply,
    finding: &WorkspaceSummary,
) -> WorkspaceTemplateStatus {
    let status = eks.status.as_ref();
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let applied = status.and_then(|status| status.last_applied_time.as_ref()).map(|time| time.0.to_string());
    let failed = finding.problem.as_ref().and_then(|_| status?.run.as_ref()).map(|run| run.id.clone());
    WorkspaceTemplateStatus {
        ready: Some(finding.available && finding.up_to_date),
        state: ready_reason(eks),
        last_applied_revision: applied.or_else(|| old?.last_applied_revision.clone()),
        outputs: outputs(eks).iter().map(|(name, value)| (name.clone(), text(value))).collect(),
        last_failed_revision: failed.or_else(|| old?.last_failed_revision.clone()),
        // Cleared after a success, unlike upstream.
        last_failure_message: finding.problem.as_ref().map(|trouble| trouble.message.clone()),
    }
}

/// Add-on charts read the outputs from here. Sensitive outputs are not included.
fn workspace_status(eks: &WorkspaceTemplateApply, finding: &WorkspaceSummary) -> WorkspaceStatus {
    let outputs = outputs(eks);
    WorkspaceStatus {
        ready: Some(finding.available),
        state: ready_reason(eks),
        at_provider: (!outputs.is_empty()).then(|| json!({ "outputs": outputs })),
    }
}
