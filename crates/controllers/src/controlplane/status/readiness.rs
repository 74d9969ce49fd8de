//! Overall readiness of a control plane. Pure.

use capt_kinds::api::{Timeouts, conditions::reasons};
use jiff::{SignedDuration, Timestamp};

use crate::controlplane::{
    decide::{CreationBlocker, creation_blocker},
    eks_poll::EksLookup,
    ownership::ClusterOwnership,
    snapshot::ControlPlaneSnapshot,
    version::UpgradeStep,
};

/// Overall readiness of a control plane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ControlPlaneReadiness {
    /// Its workspace is applied without problems.
    Applied,
    /// In progress, or waiting.
    Progressing { reason: &'static str, why: String },
    /// Past its timeout, and still in progress.
    Overdue { reason: &'static str, why: String },
    /// Needs user action.
    Failed { reason: &'static str, why: String },
}

impl ControlPlaneReadiness {
    /// Reason and message of a failure.
    pub(super) fn failure(&self) -> Option<(&'static str, &str)> {
        match self {
            Self::Failed { reason, why } => Some((reason, why)),
            Self::Applied | Self::Progressing { .. } | Self::Overdue { .. } => None,
        }
    }

    /// Reason and message while the workspace is not applied.
    pub(super) fn blocker(&self) -> Option<(&'static str, &str)> {
        match self {
            Self::Applied => None,
            Self::Progressing { reason, why }
            | Self::Overdue { reason, why }
            | Self::Failed { reason, why } => Some((reason, why)),
        }
    }

    /// Reason and message of parts that do not exist yet.
    pub(super) fn pending_reason(&self) -> (&'static str, String) {
        match self.blocker() {
            Some((reason, why)) => (reason, why.to_owned()),
            None => (reasons::CREATING, "waiting for EKS".to_owned()),
        }
    }
}

pub(super) fn assess_readiness(snapshot: &ControlPlaneSnapshot<'_>) -> ControlPlaneReadiness {
    let fail = |reason, why: &str| ControlPlaneReadiness::Failed { reason, why: why.to_owned() };
    if let Err(refusal) = &snapshot.validated {
        return fail(refusal.reason, &refusal.message);
    }
    if let Err(unknown) = &snapshot.references.principal {
        let (reason, why) = (reasons::IDENTITY_NOT_ALLOWED, unknown.message.clone());
        return if unknown.is_failure {
            ControlPlaneReadiness::Failed { reason, why }
        } else {
            ControlPlaneReadiness::Progressing { reason, why }
        };
    }
    match creation_blocker(snapshot) {
        Some(CreationBlocker::WorkspaceTaken(why)) => return fail(reasons::WORKSPACE_ERROR, &why),
        Some(CreationBlocker::ClusterTaken(why)) => return fail(reasons::NAME_TAKEN, &why),
        Some(CreationBlocker::NetworkNotReady(why)) => return network_readiness(snapshot, why),
        None => {}
    }
    if let Some(UpgradeStep::DowngradeRefused { running, wanted }) = &snapshot.upgrade_step {
        let why = format!("EKS runs {running} and cannot be downgraded to {wanted}; set {running} or newer");
        return fail(reasons::DOWNGRADE_REFUSED, &why);
    }
    if let Some(failure) = snapshot.workspace_summary.as_ref().and_then(|finding| finding.failure()) {
        return fail(reasons::WORKSPACE_ERROR, &failure.message);
    }
    if snapshot.eks_cluster().and_then(EksLookup::present).is_some_and(|view| view.status == "FAILED") {
        return fail(reasons::EKS_UNHEALTHY, "EKS reports FAILED: the cluster is unusable; delete it");
    }
    match ownership_problem(snapshot) {
        Some((reason, why)) => fail(reason, why),
        None => workspace_readiness(snapshot),
    }
}

/// Reason and message of a cluster that is not the control plane's own. While its workspace is applied, or EKS has not been
/// queried since, the proof may still be on its way.
pub(super) fn ownership_problem<'a>(
    snapshot: &'a ControlPlaneSnapshot<'_>,
) -> Option<(&'static str, &'a str)> {
    let is_settled = snapshot.is_applied() && snapshot.observation.is_fresh_for(&snapshot.run_fingerprint);
    match &snapshot.ownership {
        ClusterOwnership::NameTaken(why) => Some((reasons::NAME_TAKEN, why)),
        ClusterOwnership::Unproven(why) if is_settled => Some((reasons::EKS_CLUSTER_NOT_OWNED, why)),
        ClusterOwnership::Unproven(_)
        | ClusterOwnership::Unknown { .. }
        | ClusterOwnership::Proven { .. } => None,
    }
}

/// Readiness while the network is not ready.
fn network_readiness(snapshot: &ControlPlaneSnapshot<'_>, why: String) -> ControlPlaneReadiness {
    match deadline(snapshot).filter(|then| *then <= snapshot.now) {
        Some(_) => {
            let minutes = timeouts(snapshot).vpc_ready_timeout;
            let why = format!("network not ready after {minutes} minutes: {why}");
            ControlPlaneReadiness::Overdue { reason: reasons::VPC_READY_TIMEOUT, why }
        }
        None => ControlPlaneReadiness::Progressing { reason: reasons::WAITING_FOR_VPC, why },
    }
}

/// Readiness by the EKS workspace.
fn workspace_readiness(snapshot: &ControlPlaneSnapshot<'_>) -> ControlPlaneReadiness {
    let is_first = !snapshot.is_initialized();
    let is_late = is_first && deadline(snapshot).is_some_and(|then| then <= snapshot.now);
    let doing = match &snapshot.workspace_summary {
        Some(finding) if finding.deleting => {
            "the workspace is being deleted and will be recreated".to_owned()
        }
        Some(finding) => finding.message().to_owned(),
        None => "creating the WorkspaceTemplateApply".to_owned(),
    };
    if is_late {
        let minutes = timeouts(snapshot).control_plane_timeout;
        let (reason, at) = (reasons::CONTROL_PLANE_TIMEOUT, if snapshot.is_applied() { "" } else { &doing });
        let why = format!(
            "not ready after {minutes} minutes; still in progress{}{at}",
            if at.is_empty() { "" } else { ": " }
        );
        return ControlPlaneReadiness::Overdue { reason, why };
    }
    if snapshot.is_applied() {
        return ControlPlaneReadiness::Applied;
    }
    ControlPlaneReadiness::Progressing {
        reason: if is_first { reasons::CREATING } else { reasons::UPDATING },
        why: doing,
    }
}

fn timeouts(snapshot: &ControlPlaneSnapshot<'_>) -> Timeouts {
    let config = snapshot.object.spec.control_plane_config.as_ref();
    config.and_then(|config| config.timeouts.clone()).unwrap_or_default()
}

/// Time after which the control plane, or the network before it, is reported as overdue. A timeout is only reported; it stops
/// no run.
pub(in super::super) fn deadline(snapshot: &ControlPlaneSnapshot<'_>) -> Option<Timestamp> {
    if snapshot.is_initialized() {
        return None;
    }
    let (since, minutes) = match &snapshot.references.eks_workspace {
        Some(eks) => (eks.metadata.creation_timestamp.as_ref(), timeouts(snapshot).control_plane_timeout),
        None => (snapshot.object.metadata.creation_timestamp.as_ref(), timeouts(snapshot).vpc_ready_timeout),
    };
    since?.0.checked_add(SignedDuration::from_mins(minutes)).ok()
}
