//! Computes the status of a `CAPTCluster` from the old status and the observation. Pure: no I/O.

use std::time::Duration;

use capt_kinds::api::{
    CaptClusterStatus, ClusterInitialization, FailureDomain, Phase, VpcWorkspaceStatus,
    WorkspaceTemplateApply,
    conditions::{reasons, types},
};
use capt_kube::k8s::conditions::{self, ConditionUpdate};
use capt_model::model::names;
use jiff::Timestamp;
use kube::ResourceExt as _;

use super::validate::NetworkRejection;
use crate::common::workspace_summary::{self, WorkspaceSummary};

/// Maximum number of failure domains in a status.
const MAX_FAILURE_DOMAINS: usize = 100;

/// Generation and time for conditions.
#[derive(Debug, Clone, Copy)]
pub(super) struct StatusContext {
    /// Generation of the observed spec.
    pub generation: Option<i64>,
    /// Transition time of changed conditions.
    pub now: Timestamp,
}

/// Observation of a network that is not being deleted.
#[derive(Debug, Clone)]
pub(super) struct NetworkObservation<'a> {
    /// The network's workspace.
    pub apply: Option<&'a WorkspaceTemplateApply>,
    /// The spec names an existing VPC.
    pub uses_existing_vpc: bool,
    /// Id of the VPC.
    pub vpc_id: Option<String>,
    /// Why the desired workspace was rejected.
    pub rejection: Option<NetworkRejection>,
    /// What has to happen before the workspace can be applied.
    pub waiting_for: Option<String>,
    /// The exceeded timeout.
    pub exceeded_timeout: Option<Duration>,
    /// Host of the Cluster's API endpoint.
    pub endpoint: Option<&'a str>,
}

/// Overall state of a network.
#[derive(Debug, Clone, PartialEq, Eq)]
enum NetworkState {
    /// Ready.
    Ready { note: String },
    /// Usable, but the desired change failed.
    Degraded { reason: &'static str, why: String },
    /// Being created.
    Creating { why: String },
    /// Not ready within the timeout; still being created.
    TimedOut { why: String },
    /// Cannot be created.
    Failed { reason: &'static str, why: String },
}

/// Status of an object without an owning Cluster.
pub(super) fn waiting_for_owner(old: &CaptClusterStatus, at: StatusContext, why: &str) -> CaptClusterStatus {
    let mut new = base_status(old, at);
    set_condition(&mut new, at, ConditionUpdate::status_false(types::READY, reasons::WAITING_FOR_OWNER, why));
    new.phase = new.phase.or(Some(Phase::Creating));
    new.ready = Some(false);
    new
}

/// Status of a paused object; everything but the condition `Paused` stays.
pub(super) fn paused(old: &CaptClusterStatus, at: StatusContext) -> CaptClusterStatus {
    let mut new = old.clone();
    let why = "the Cluster, or this object, is paused";
    set_condition(&mut new, at, ConditionUpdate::status_true(types::PAUSED, reasons::PAUSED, why));
    new
}

/// Status of an object with an invalid spec.
pub(super) fn invalid(
    old: &CaptClusterStatus,
    at: StatusContext,
    refusal: &NetworkRejection,
) -> CaptClusterStatus {
    let mut new = base_status(old, at);
    let NetworkRejection { reason, message } = refusal;
    if !conditions::is_true(&new.conditions, types::VPC_READY) {
        set_condition(&mut new, at, ConditionUpdate::status_false(types::VPC_READY, reason, message));
    }
    set_failed(&mut new, at, reason, message);
    new.phase = Some(phase(&new, false, false));
    new
}

/// Status of an object with a valid spec.
pub(super) fn observed(
    old: &CaptClusterStatus,
    at: StatusContext,
    found: &NetworkObservation<'_>,
) -> CaptClusterStatus {
    let mut new = base_status(old, at);
    let finding = found.apply.map(workspace_summary::summarize);
    if let Some(apply) = found.apply {
        new.vpc_workspace_name = Some(names::workspace_name(&apply.name_any()).to_owned());
        new.workspace_template_status = Some(workspace_status(old, apply, finding.as_ref()));
    }
    new.endpoint = found.endpoint.map(ToOwned::to_owned).or(new.endpoint);
    let verdict = network_state(found, finding.as_ref(), is_provisioned(old));
    if matches!(verdict, NetworkState::Ready { .. } | NetworkState::Degraded { .. }) {
        mark_provisioned(&mut new, found);
    }
    set_network_conditions(&mut new, at, verdict, found);
    let settled = finding.is_some_and(|finding| finding.up_to_date);
    new.phase = Some(phase(&new, false, settled));
    new
}

/// Status of an object that is being deleted.
pub(super) fn deleting(
    old: &CaptClusterStatus,
    at: StatusContext,
    reason: &'static str,
    why: &str,
) -> CaptClusterStatus {
    let mut new = base_status(old, at);
    set_condition(&mut new, at, ConditionUpdate::status_true(types::DELETING, reason, why));
    set_condition(&mut new, at, ConditionUpdate::status_false(types::READY, reasons::DELETING, why));
    new.ready = Some(false);
    new.phase = Some(phase(&new, true, false));
    new
}

/// Phase, derived from the rest of the status.
fn phase(status: &CaptClusterStatus, is_deleting: bool, is_settled: bool) -> Phase {
    if is_deleting {
        Phase::Deleting
    } else if status.failure_reason.is_some() {
        Phase::Failed
    } else if !is_provisioned(status) {
        Phase::Creating
    } else if is_settled && status.ready == Some(true) {
        Phase::Ready
    } else {
        Phase::Updating
    }
}

fn network_state(
    found: &NetworkObservation<'_>,
    finding: Option<&WorkspaceSummary>,
    was_there: bool,
) -> NetworkState {
    let usable = finding.is_some_and(|finding| finding.available) && found.vpc_id.is_some();
    let failure = finding.and_then(WorkspaceSummary::failure);
    if let Some(NetworkRejection { reason, message }) = &found.rejection {
        let (reason, why) = (*reason, message.clone());
        return if usable {
            NetworkState::Degraded { reason, why }
        } else {
            NetworkState::Failed { reason, why }
        };
    }
    if let Some(why) = &found.waiting_for {
        return NetworkState::Creating { why: why.clone() };
    }
    let Some(finding) = finding else {
        return NetworkState::Creating { why: "the WorkspaceTemplateApply is being created".to_owned() };
    };
    if let Some(failure) = failure {
        let why = failure.message.clone();
        let broke = if was_there { reasons::VPC_RECONCILIATION_FAILED } else { reasons::VPC_CREATION_FAILED };
        return if usable {
            NetworkState::Degraded { reason: reasons::VPC_RECONCILIATION_FAILED, why }
        } else {
            NetworkState::Failed { reason: broke, why }
        };
    }
    if usable {
        let note = finding.problem.as_ref().map(|it| it.message.clone()).unwrap_or_default();
        return NetworkState::Ready { note };
    }
    if finding.available && finding.up_to_date {
        let why = "the workspace is ready but has no string output vpc_id; add it to the template".to_owned();
        return NetworkState::Failed { reason: reasons::VPC_CREATION_FAILED, why };
    }
    let why = finding.message().to_owned();
    match found.exceeded_timeout.filter(|_| !was_there) {
        Some(limit) => NetworkState::TimedOut {
            why: format!("not ready after {} minutes; still in progress: {why}", limit.as_secs() / 60),
        },
        None => NetworkState::Creating { why },
    }
}

/// Sets the conditions and the failure fields.
fn set_network_conditions(
    new: &mut CaptClusterStatus,
    at: StatusContext,
    verdict: NetworkState,
    found: &NetworkObservation<'_>,
) {
    let there = if found.uses_existing_vpc { reasons::EXISTING_VPC_USED } else { reasons::VPC_CREATED };
    let id = found.vpc_id.clone().unwrap_or_default();
    match verdict {
        NetworkState::Ready { note } => {
            set_condition(new, at, ConditionUpdate::status_true(types::VPC_READY, there, id));
            set_ready(new, at, &note);
        }
        NetworkState::Degraded { reason, why } => {
            set_condition(new, at, ConditionUpdate::status_true(types::VPC_READY, there, id));
            set_failed(new, at, reason, &why);
        }
        NetworkState::Creating { why } => {
            set_condition(
                new,
                at,
                ConditionUpdate::status_false(types::VPC_READY, reasons::VPC_CREATING, why.as_str()),
            );
            set_condition(new, at, ConditionUpdate::status_false(types::READY, reasons::VPC_CREATING, why));
            clear_failure(new);
            new.ready = Some(false);
        }
        NetworkState::TimedOut { why } => {
            set_condition(
                new,
                at,
                ConditionUpdate::status_false(types::VPC_READY, reasons::VPC_READY_TIMEOUT, why.as_str()),
            );
            set_condition(
                new,
                at,
                ConditionUpdate::status_false(types::READY, reasons::VPC_READY_TIMEOUT, why.as_str()),
            );
            clear_failure(new);
            new.ready = Some(false);
            new.failure_reason = Some(reasons::VPC_READY_TIMEOUT.to_owned());
            new.failure_message = Some(why);
        }
        NetworkState::Failed { reason, why } => {
            set_condition(new, at, ConditionUpdate::status_false(types::VPC_READY, reason, why.as_str()));
            set_failed(new, at, reason, &why);
        }
    }
}

/// The old status with the fields that every unpaused object has.
fn base_status(old: &CaptClusterStatus, at: StatusContext) -> CaptClusterStatus {
    let mut new = old.clone();
    new.observed_generation = at.generation;
    set_condition(&mut new, at, ConditionUpdate::status_false(types::PAUSED, reasons::NOT_PAUSED, ""));
    if !conditions::is_true(&new.conditions, types::DELETING) {
        set_condition(
            &mut new,
            at,
            ConditionUpdate::status_false(types::DELETING, reasons::NOT_DELETING, ""),
        );
    }
    new
}

/// Sets VPC id and failure domains, and the latch `initialization.provisioned`, which is never reset.
fn mark_provisioned(new: &mut CaptClusterStatus, found: &NetworkObservation<'_>) {
    new.initialization = Some(ClusterInitialization { provisioned: Some(true) });
    new.vpc_id.clone_from(&found.vpc_id);
    let mut zones =
        found.apply.map(|apply| workspace_summary::string_list_output(apply, "azs")).unwrap_or_default();
    zones.sort_unstable();
    zones.dedup();
    let domain = |zone: &str| FailureDomain {
        name: zone.to_owned(),
        control_plane: Some(true),
        ..FailureDomain::default()
    };
    new.failure_domains = zones.into_iter().take(MAX_FAILURE_DOMAINS).map(domain).collect();
}

fn set_ready(new: &mut CaptClusterStatus, at: StatusContext, note: &str) {
    set_condition(new, at, ConditionUpdate::status_true(types::READY, reasons::READY, note));
    clear_failure(new);
    new.ready = Some(true);
}

fn set_failed(new: &mut CaptClusterStatus, at: StatusContext, reason: &'static str, why: &str) {
    let kind = match reason {
        reasons::INVALID_SPEC | reasons::INVALID_VPC_CONFIG => reason,
        _ => reasons::VPC_RECONCILIATION_FAILED,
    };
    set_condition(new, at, ConditionUpdate::status_false(types::READY, reason, why));
    set_condition(new, at, ConditionUpdate::status_true(types::VPC_FAILED, kind, why));
    new.ready = Some(false);
    new.failure_reason = Some(reason.to_owned());
    new.failure_message = Some(why.to_owned());
}

fn clear_failure(new: &mut CaptClusterStatus) {
    conditions::remove(&mut new.conditions, types::VPC_FAILED);
    new.failure_reason = None;
    new.failure_message = None;
}

fn workspace_status(
    old: &CaptClusterStatus,
    apply: &WorkspaceTemplateApply,
    finding: Option<&WorkspaceSummary>,
) -> VpcWorkspaceStatus {
    let before = old.workspace_template_status.clone().unwrap_or_default();
    let status = apply.status.as_ref();
    let applied = status.and_then(|status| status.last_applied_time.clone());
    let trouble = finding.and_then(|finding| finding.problem.as_ref());
    let failed = status.and_then(|status| status.run.as_ref()).and_then(|run| run.inputs_hash.clone());
    VpcWorkspaceStatus {
        ready: Some(finding.is_some_and(|finding| finding.available && finding.problem.is_none())),
        last_applied_revision: applied.as_ref().map(|at| at.0.to_string()).or(before.last_applied_revision),
        last_failed_revision: match trouble {
            Some(_) => failed.or(before.last_failed_revision),
            None => before.last_failed_revision,
        },
        last_failure_message: trouble.map(|it| it.message.clone()),
        workspace_name: Some(names::workspace_name(&apply.name_any()).to_owned()),
        last_applied_time: applied.or(before.last_applied_time),
    }
}

/// Whether the latch `initialization.provisioned` is set.
pub(super) fn is_provisioned(status: &CaptClusterStatus) -> bool {
    status.initialization.as_ref().is_some_and(|it| it.provisioned == Some(true))
}

fn set_condition(status: &mut CaptClusterStatus, at: StatusContext, said: ConditionUpdate) {
    let _ = conditions::set(&mut status.conditions, said, at.generation, at.now);
}

#[cfg(test)]
mod tests;
