//! The fields of a status that are no conditions. Pure.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{
    api::{
        CaptControlPlaneStatus, ControlPlaneInitialization, StatusVersion, WorkspaceStatus,
        WorkspaceTemplateApply, WorkspaceTemplateStatus, conditions::types,
    },
    controllers::{
        common::workspace::Finding,
        controlplane::{
            kubeconfig::is_upstreams_authority,
            picture::{Kubeconfig, Picture},
            version::reported,
        },
    },
    k8s::conditions::find,
};

pub(super) fn fill(new: &mut CaptControlPlaneStatus, picture: &Picture<'_>) {
    if picture.is_initialized() {
        new.initialization = Some(ControlPlaneInitialization { control_plane_initialized: Some(true) });
    }
    // A version that was told once stays until EKS tells another.
    if let Some(version) = reported(&picture.object.spec.version, picture.running.as_ref()) {
        new.versions = vec![StatusVersion { version: version.clone() }];
        new.version = Some(version);
    }
    let secrets = &picture.seen.secrets;
    let upstreams = secrets.upstreams.as_ref().filter(|it| is_upstreams_authority(it));
    new.secrets_ready = matches!(picture.kubeconfig, Kubeconfig::Current(_))
        && (secrets.authority.is_some() || upstreams.is_some());
    new.fargate_profile_statuses = picture.profiles.iter().map(|it| it.status.clone()).collect();
    if let (Some(eks), Some(finding)) = (&picture.seen.eks, &picture.finding) {
        new.workspace_template_status =
            Some(template_status(new.workspace_template_status.as_ref(), eks, finding));
        new.workspace_status = Some(workspace_status(eks, finding));
    }
}

/// The reason of the workspace's Ready condition.
fn state(eks: &WorkspaceTemplateApply) -> Option<String> {
    let conditions = eks.status.as_ref().map(|status| status.conditions.as_slice())?;
    find(conditions, types::READY).map(|it| it.reason.clone())
}

fn outputs(eks: &WorkspaceTemplateApply) -> BTreeMap<String, Value> {
    eks.status.as_ref().map(|status| status.outputs.clone()).unwrap_or_default()
}

fn template_status(
    old: Option<&WorkspaceTemplateStatus>,
    eks: &WorkspaceTemplateApply,
    finding: &Finding,
) -> WorkspaceTemplateStatus {
    let status = eks.status.as_ref();
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let applied = status.and_then(|status| status.last_applied_time.as_ref()).map(|time| time.0.to_string());
    let failed = finding.trouble.as_ref().and_then(|_| status?.run.as_ref()).map(|run| run.id.clone());
    WorkspaceTemplateStatus {
        ready: Some(finding.usable && finding.settled),
        state: state(eks),
        last_applied_revision: applied.or_else(|| old?.last_applied_revision.clone()),
        outputs: outputs(eks).iter().map(|(name, value)| (name.clone(), text(value))).collect(),
        last_failed_revision: failed.or_else(|| old?.last_failed_revision.clone()),
        // Upstream left the last message there for ever.
        last_failure_message: finding.trouble.as_ref().map(|trouble| trouble.text.clone()),
    }
}

/// Add-on charts read the outputs here. Values that are sensitive are not among them.
fn workspace_status(eks: &WorkspaceTemplateApply, finding: &Finding) -> WorkspaceStatus {
    let outputs = outputs(eks);
    WorkspaceStatus {
        ready: Some(finding.usable),
        state: state(eks),
        at_provider: (!outputs.is_empty()).then(|| json!({ "outputs": outputs })),
    }
}
