//! Computes the status of a control plane from its snapshot. Pure.

mod eks;
mod fields;
mod readiness;
#[cfg(test)]
mod tests;

use capt_kinds::api::{
    CaptControlPlaneStatus, FargateProfileStatus,
    conditions::{reasons, types},
};
use capt_kube::k8s::conditions::{self, ConditionStatus, ConditionUpdate, find, is_true};
use jiff::Timestamp;
use kube::ResourceExt as _;

use self::readiness::ControlPlaneReadiness;
pub(super) use self::readiness::deadline;
use super::{
    fargate::{self, ProfileState},
    phase::phase_from_conditions,
    snapshot::{ControlPlaneSnapshot, KubeconfigState},
    version::UpgradeStep,
};

/// Generation and time that conditions are written with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StatusContext {
    /// Observed generation.
    pub generation: Option<i64>,
    /// Current time.
    pub now: Timestamp,
}

/// All condition types. Each is present from the first reconcile on.
const CONDITION_TYPES: [&str; 15] = [
    types::READY,
    types::AVAILABLE,
    types::INITIALIZED,
    types::CREATING,
    types::FAILED,
    types::EKS_CLUSTER_READY,
    types::KUBECONFIG_READY,
    types::ADDONS_READY,
    types::FARGATE_PROFILES_READY,
    types::FARGATE_PROFILE_READY,
    types::FARGATE_PROFILE_CREATING,
    types::FARGATE_PROFILE_FAILED,
    types::ROLLING_OUT,
    types::PAUSED,
    types::DELETING,
];

/// The status of an object without a Cluster owner.
pub(crate) fn waiting_for_owner(
    old: &CaptControlPlaneStatus,
    at: StatusContext,
    why: &str,
) -> CaptControlPlaneStatus {
    let mut new = base_status(old, at);
    for type_ in [types::READY, types::AVAILABLE] {
        set_condition(&mut new, at, ConditionUpdate::status_false(type_, reasons::WAITING_FOR_OWNER, why));
    }
    finalize(&mut new, at, false);
    new
}

/// The status of a paused object: everything but the `Paused` condition is kept.
pub(crate) fn paused(old: &CaptControlPlaneStatus, at: StatusContext) -> CaptControlPlaneStatus {
    let mut new = old.clone();
    let why = "the Cluster or this object is paused";
    set_condition(&mut new, at, ConditionUpdate::status_true(types::PAUSED, reasons::PAUSED, why));
    fill_missing_conditions(&mut new, at);
    new
}

/// The status of an object that is being deleted.
pub(crate) fn deleting(
    old: &CaptControlPlaneStatus,
    at: StatusContext,
    (reason, why): (&'static str, &str),
    profiles: Vec<FargateProfileStatus>,
) -> CaptControlPlaneStatus {
    let mut new = base_status(old, at);
    set_condition(&mut new, at, ConditionUpdate::status_true(types::DELETING, reason, why));
    for type_ in [types::READY, types::AVAILABLE] {
        set_condition(&mut new, at, ConditionUpdate::status_false(type_, reasons::DELETING, why));
    }
    set_condition(&mut new, at, ConditionUpdate::status_false(types::FAILED, reasons::NOT_FAILED, ""));
    set_condition(&mut new, at, ConditionUpdate::status_false(types::CREATING, reasons::DELETING, ""));
    new.fargate_profile_statuses = profiles;
    new.failure_reason = None;
    new.failure_message = None;
    finalize(&mut new, at, true);
    new
}

/// The status of a reconciled object.
pub(crate) fn observed(snapshot: &ControlPlaneSnapshot<'_>, at: StatusContext) -> CaptControlPlaneStatus {
    let mut new = base_status(&snapshot.object.status.clone().unwrap_or_default(), at);
    fields::fill_fields(&mut new, snapshot);
    let verdict = readiness::assess_readiness(snapshot);
    let coming = verdict.pending_reason();
    let mut all = vec![
        eks::cluster_condition(snapshot, &coming),
        eks::available_condition(snapshot, &coming),
        eks::addons_condition(snapshot, &coming),
        kubeconfig_condition(snapshot, &coming),
        initialized_condition(snapshot, &coming),
        creating_condition(snapshot, &coming),
        failed_condition(&verdict),
        rolling_out_condition(snapshot, &coming),
    ];
    all.extend(fargate::profile_conditions(&snapshot.profiles, &unmanaged_profiles_note(snapshot)));
    all.push(ready_condition(&all, &verdict));
    for said in all {
        set_condition(&mut new, at, mark_stale(said, snapshot));
    }
    let failure = verdict.failure();
    new.failure_reason = failure.map(|(reason, _)| reason.to_owned());
    new.failure_message = failure.map(|(_, why)| why.to_owned());
    finalize(&mut new, at, false);
    new
}

fn base_status(old: &CaptControlPlaneStatus, at: StatusContext) -> CaptControlPlaneStatus {
    let mut new = old.clone();
    new.observed_generation = at.generation;
    new.external_managed_control_plane = Some(true);
    set_condition(&mut new, at, ConditionUpdate::status_false(types::PAUSED, reasons::NOT_PAUSED, ""));
    set_condition(&mut new, at, ConditionUpdate::status_false(types::DELETING, reasons::NOT_DELETING, ""));
    new
}

/// Adds the missing conditions as `False`.
fn fill_missing_conditions(new: &mut CaptControlPlaneStatus, at: StatusContext) {
    for type_ in CONDITION_TYPES {
        if find(&new.conditions, type_).is_none() {
            let (reason, why) = match type_ {
                types::PAUSED => (reasons::NOT_PAUSED, ""),
                types::DELETING => (reasons::NOT_DELETING, ""),
                types::FAILED => (reasons::NOT_FAILED, ""),
                _ => (reasons::CREATING, "nothing is created yet"),
            };
            set_condition(new, at, ConditionUpdate::status_false(type_, reason, why));
        }
    }
}

fn finalize(new: &mut CaptControlPlaneStatus, at: StatusContext, is_deleting: bool) {
    fill_missing_conditions(new, at);
    let latch = new.initialization.as_ref().and_then(|it| it.control_plane_initialized);
    new.initialized = Some(latch == Some(true));
    new.ready = Some(is_true(&new.conditions, types::AVAILABLE));
    new.phase = Some(phase_from_conditions(&new.conditions, is_deleting));
}

fn set_condition(new: &mut CaptControlPlaneStatus, at: StatusContext, said: ConditionUpdate) {
    let _ = conditions::set(&mut new.conditions, said, at.generation, at.now);
}

/// Prefix of the message suffix that marks a condition as based on stale data. [`eks`] strips it from stored messages, so that
/// changing the text needs a migration.
const STALE_MARKER: &str = "Unknown since EKS does not answer: ";

/// Marks the EKS conditions as stale while EKS queries fail.
fn mark_stale(mut said: ConditionUpdate, snapshot: &ControlPlaneSnapshot<'_>) -> ConditionUpdate {
    let is_eks = [types::EKS_CLUSTER_READY, types::FARGATE_PROFILES_READY].contains(&said.type_);
    if let Some(trouble) = snapshot.observation.last_error.as_ref().filter(|_| is_eks) {
        let gap = if said.message.is_empty() { "" } else { "; " };
        said.message = format!("{}{gap}{STALE_MARKER}{trouble}", said.message);
    }
    said
}

fn kubeconfig_condition(
    snapshot: &ControlPlaneSnapshot<'_>,
    coming: &(&'static str, String),
) -> ConditionUpdate {
    let type_ = types::KUBECONFIG_READY;
    let trouble = snapshot.observation.token_error.as_ref();
    if let Some((reason, why)) = readiness::ownership_problem(snapshot) {
        return ConditionUpdate::status_false(type_, reason, why);
    }
    match &snapshot.kubeconfig {
        KubeconfigState::OwnedByOthers => {
            let name = capt_model::model::names::kubeconfig_secret(&snapshot.references.cluster.name);
            let why = format!("Secret {name} has another owner; delete it or rename the Cluster");
            ConditionUpdate::status_false(type_, reasons::SECRET_RECONCILIATION_FAILED, why)
        }
        // The Secret is usable while its token is valid, even if issuing the next one fails.
        KubeconfigState::Current(_) => {
            ConditionUpdate::status_true(type_, reasons::READY, trouble.cloned().unwrap_or_default())
        }
        KubeconfigState::Stale { .. } | KubeconfigState::AccessUnknown => match (trouble, &snapshot.access) {
            (Some(why), _) => {
                ConditionUpdate::status_false(type_, reasons::KUBECONFIG_GENERATION_FAILED, why.clone())
            }
            (None, Some(_)) => ConditionUpdate::status_false(type_, reasons::CREATING, "issuing a token"),
            (None, None) => {
                ConditionUpdate::status_false(type_, reasons::ENDPOINT_NOT_READY, coming.1.clone())
            }
        },
    }
}

fn initialized_condition(
    snapshot: &ControlPlaneSnapshot<'_>,
    coming: &(&'static str, String),
) -> ConditionUpdate {
    let type_ = types::INITIALIZED;
    if snapshot.is_initialized() {
        return ConditionUpdate::status_true(type_, reasons::INITIALIZED, "");
    }
    match &snapshot.observation.api_probe {
        Some(Err(why)) => {
            let why = format!("the API server is not reachable: {why}");
            ConditionUpdate::status_false(type_, reasons::API_SERVER_NOT_REACHABLE, why)
        }
        _ => ConditionUpdate::status_false(type_, coming.0, coming.1.clone()),
    }
}

fn creating_condition(
    snapshot: &ControlPlaneSnapshot<'_>,
    coming: &(&'static str, String),
) -> ConditionUpdate {
    if snapshot.is_initialized() {
        return ConditionUpdate::status_false(types::CREATING, reasons::CREATED, "");
    }
    ConditionUpdate::status_true(types::CREATING, coming.0, coming.1.clone())
}

fn failed_condition(verdict: &ControlPlaneReadiness) -> ConditionUpdate {
    match verdict.failure() {
        Some((reason, why)) => ConditionUpdate::status_true(types::FAILED, reason, why),
        None => ConditionUpdate::status_false(types::FAILED, reasons::NOT_FAILED, ""),
    }
}

fn rolling_out_condition(
    snapshot: &ControlPlaneSnapshot<'_>,
    coming: &(&'static str, String),
) -> ConditionUpdate {
    let type_ = types::ROLLING_OUT;
    let is_moving = |it: &fargate::ProfileAssessment| {
        matches!(it.state, ProfileState::Updating | ProfileState::Creating | ProfileState::Removing)
    };
    let names: Vec<&str> =
        snapshot.profiles.iter().filter(|it| is_moving(it)).map(|it| it.status.name.as_str()).collect();
    match (&snapshot.upgrade_step, snapshot.is_initialized()) {
        (Some(UpgradeStep::Intermediate { next, goal }), true) => {
            ConditionUpdate::status_true(type_, reasons::UPGRADING, format!("upgrading to {goal} via {next}"))
        }
        (_, true) if !snapshot.is_applied() => {
            ConditionUpdate::status_true(type_, reasons::UPDATING, coming.1.clone())
        }
        (_, true) if !names.is_empty() => ConditionUpdate::status_true(
            type_,
            reasons::UPDATING,
            format!("updating Fargate profiles {}", names.join(", ")),
        ),
        (_, true | false) => ConditionUpdate::status_false(type_, reasons::NOT_ROLLING_OUT, ""),
    }
}

/// `Ready`: true if all parts are ready, else with the reason of the first that is not.
fn ready_condition(all: &[ConditionUpdate], verdict: &ControlPlaneReadiness) -> ConditionUpdate {
    let type_ = types::READY;
    if let Some((reason, why)) = verdict.blocker() {
        return ConditionUpdate::status_false(type_, reason, why);
    }
    let parts = [
        types::EKS_CLUSTER_READY,
        types::INITIALIZED,
        types::KUBECONFIG_READY,
        types::ADDONS_READY,
        types::FARGATE_PROFILES_READY,
    ];
    let of = |part: &str| all.iter().find(|it| it.type_ == part);
    let missing = parts.into_iter().filter_map(of).find(|it| it.status != ConditionStatus::True);
    if let Some(part) = missing {
        return ConditionUpdate::status_false(type_, part.reason, part.message.clone());
    }
    match of(types::ROLLING_OUT).filter(|it| it.status == ConditionStatus::True) {
        Some(rolling) => ConditionUpdate::status_false(type_, rolling.reason, rolling.message.clone()),
        None => ConditionUpdate::status_true(type_, reasons::READY, ""),
    }
}

/// Note about profiles in EKS that the control plane does not manage.
fn unmanaged_profiles_note(snapshot: &ControlPlaneSnapshot<'_>) -> String {
    let own = snapshot
        .references
        .eks_workspace
        .as_ref()
        .and_then(|eks| eks.status.as_ref()?.outputs.get("fargate_profiles"));
    let own: Vec<String> =
        own.and_then(|it| it.as_object()).into_iter().flatten().map(|(name, _)| name.clone()).collect();
    let others = fargate::unmanaged_profiles(&snapshot.observation.facts, &snapshot.profiles, &own);
    if others.is_empty() {
        return String::new();
    }
    format!("EKS has Fargate profiles not managed by {}: {}", snapshot.object.name_any(), others.join(", "))
}
