//! Conditions of the EKS cluster, its addons and its availability. Pure.

use capt_engine::aws::{EksAddon, EksIssue};
use capt_kinds::api::conditions::{reasons, types};
use capt_kube::k8s::conditions::{ConditionStatus, ConditionUpdate, find};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::controlplane::{eks_poll::EksLookup, snapshot::ControlPlaneSnapshot};

/// The previous condition with one of these reasons, without the stale marker.
fn previous_condition(
    snapshot: &ControlPlaneSnapshot<'_>,
    type_: &'static str,
    reasons: &[&'static str],
) -> Option<ConditionUpdate> {
    let conditions = snapshot.object.status.as_ref().map(|status| status.conditions.as_slice())?;
    let Condition { status, reason, message, .. } = find(conditions, type_)?;
    let status = match status.as_str() {
        "True" => ConditionStatus::True,
        "False" => ConditionStatus::False,
        _ => ConditionStatus::Unknown,
    };
    let reason = reasons.iter().find(|it| *it == reason).copied()?;
    let message =
        message.split(super::STALE_MARKER).next().unwrap_or_default().trim_end_matches("; ").to_owned();
    Some(ConditionUpdate { type_, status, reason, message })
}

/// Health issues as reported by EKS.
fn format_issues(issues: &[EksIssue]) -> String {
    issues.iter().map(|it| format!("{}: {}", it.code, it.message)).collect::<Vec<_>>().join("; ")
}

/// `EKSClusterReady`: the cluster exists and is healthy; `else_` is reason and message while it does not exist.
pub(super) fn cluster_condition(
    snapshot: &ControlPlaneSnapshot<'_>,
    else_: &(&'static str, String),
) -> ConditionUpdate {
    let type_ = types::EKS_CLUSTER_READY;
    let no = |reason, message: String| ConditionUpdate::status_false(type_, reason, message);
    match snapshot.eks_cluster() {
        None => {
            let stands = previous_condition(
                snapshot,
                type_,
                &[reasons::READY, reasons::EKS_UNHEALTHY, reasons::EKS_NOT_FOUND],
            );
            stands.unwrap_or_else(|| no(else_.0, else_.1.clone()))
        }
        Some(EksLookup::NotFound) if snapshot.is_applied() => {
            no(reasons::EKS_NOT_FOUND, "created by Terraform but not found in EKS".to_owned())
        }
        Some(EksLookup::NotFound) => no(else_.0, else_.1.clone()),
        Some(EksLookup::Present(view)) => match view.status.as_str() {
            "ACTIVE" | "UPDATING" if view.issues.is_empty() => {
                ConditionUpdate::status_true(type_, reasons::READY, "")
            }
            "ACTIVE" | "UPDATING" => no(reasons::EKS_UNHEALTHY, format_issues(&view.issues)),
            "CREATING" | "PENDING" => no(else_.0, format!("EKS reports {}; {}", view.status, else_.1)),
            "DELETING" => no(reasons::DELETING, "EKS reports DELETING".to_owned()),
            other => {
                let words = [format!("EKS reports {other}"), format_issues(&view.issues)];
                no(
                    reasons::EKS_UNHEALTHY,
                    words.into_iter().filter(|it| !it.is_empty()).collect::<Vec<_>>().join("; "),
                )
            }
        },
    }
}

/// `Available`: the cluster is usable, also during an update.
pub(super) fn available_condition(
    snapshot: &ControlPlaneSnapshot<'_>,
    else_: &(&'static str, String),
) -> ConditionUpdate {
    let type_ = types::AVAILABLE;
    if !snapshot.is_initialized() {
        return ConditionUpdate::status_false(type_, else_.0, else_.1.clone());
    }
    match snapshot.eks_cluster() {
        Some(EksLookup::Present(view)) if ["ACTIVE", "UPDATING"].contains(&view.status.as_str()) => {
            ConditionUpdate::status_true(type_, reasons::AVAILABLE, "")
        }
        Some(EksLookup::Present(view)) => ConditionUpdate::status_false(
            type_,
            reasons::EKS_UNHEALTHY,
            format!("EKS reports {}", view.status),
        ),
        Some(EksLookup::NotFound) => {
            ConditionUpdate::status_false(type_, reasons::EKS_NOT_FOUND, "cluster not found in EKS")
        }
        None => {
            let stands = previous_condition(
                snapshot,
                type_,
                &[reasons::AVAILABLE, reasons::EKS_UNHEALTHY, reasons::EKS_NOT_FOUND],
            );
            // The latch proves that the API server was reachable once, and there is no observation to the contrary.
            stands.unwrap_or_else(|| {
                ConditionUpdate::status_unknown(type_, reasons::EKS_UNKNOWN, "EKS has not been queried yet")
            })
        }
    }
}

/// `AddonsReady`: all addons are ACTIVE.
pub(super) fn addons_condition(
    snapshot: &ControlPlaneSnapshot<'_>,
    else_: &(&'static str, String),
) -> ConditionUpdate {
    let type_ = types::ADDONS_READY;
    let is_there = snapshot.eks_cluster().and_then(EksLookup::present).is_some();
    let is_made = snapshot.workspace_summary.as_ref().is_some_and(|finding| finding.available);
    match &snapshot.observation.facts.addons {
        Some(all) if is_there && is_made => {
            let sick: Vec<String> =
                all.iter().filter(|it| it.status != "ACTIVE").map(describe_unhealthy_addon).collect();
            if sick.is_empty() {
                let names: Vec<&str> = all.iter().map(|it| it.name.as_str()).collect();
                return ConditionUpdate::status_true(type_, reasons::READY, names.join(", "));
            }
            ConditionUpdate::status_false(type_, reasons::ADDON_NOT_READY, sick.join("; "))
        }
        None if snapshot.eks_cluster().is_none() || is_there => {
            previous_condition(snapshot, type_, &[reasons::READY, reasons::ADDON_NOT_READY])
                .unwrap_or_else(|| ConditionUpdate::status_false(type_, else_.0, else_.1.clone()))
        }
        _ => ConditionUpdate::status_false(type_, else_.0, else_.1.clone()),
    }
}

fn describe_unhealthy_addon(addon: &EksAddon) -> String {
    let said = format!("{} is {}", addon.name, addon.status);
    if addon.issues.is_empty() { said } else { format!("{said}: {}", format_issues(&addon.issues)) }
}
