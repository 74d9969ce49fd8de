//! What is said of the EKS cluster, its addons and its use. Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::{
    api::conditions::{reasons, types},
    aws::{AddonView, Issue},
    controllers::controlplane::{look::Found, picture::Picture},
    k8s::conditions::{ConditionStatus, Said, find},
};

/// What was said before, in the form of something to be said again.
fn before(picture: &Picture<'_>, type_: &'static str, reasons: &[&'static str]) -> Option<Said> {
    let conditions = picture.object.status.as_ref().map(|status| status.conditions.as_slice())?;
    let Condition { status, reason, message, .. } = find(conditions, type_)?;
    let status = match status.as_str() {
        "True" => ConditionStatus::True,
        "False" => ConditionStatus::False,
        _ => ConditionStatus::Unknown,
    };
    let reason = reasons.iter().find(|it| *it == reason).copied()?;
    let message = message.split(super::SILENCE).next().unwrap_or_default().trim_end_matches("; ").to_owned();
    Some(Said { type_, status, reason, message })
}

/// Problems in EKS's own words.
fn issues(issues: &[Issue]) -> String {
    issues.iter().map(|it| format!("{}: {}", it.code, it.message)).collect::<Vec<_>>().join("; ")
}

/// Whether the cluster is there and healthy; `else_` is what is said while it is not there.
pub(super) fn cluster(picture: &Picture<'_>, else_: &(&'static str, String)) -> Said {
    let type_ = types::EKS_CLUSTER_READY;
    let no = |reason, message: String| Said::no(type_, reason, message);
    match picture.cluster() {
        None => {
            let stands =
                before(picture, type_, &[reasons::READY, reasons::EKS_UNHEALTHY, reasons::EKS_NOT_FOUND]);
            stands.unwrap_or_else(|| no(else_.0, else_.1.clone()))
        }
        Some(Found::Gone) if picture.is_applied() => {
            no(reasons::EKS_NOT_FOUND, "Terraform made the cluster, and EKS does not know it".to_owned())
        }
        Some(Found::Gone) => no(else_.0, else_.1.clone()),
        Some(Found::There(view)) => match view.status.as_str() {
            "ACTIVE" | "UPDATING" if view.issues.is_empty() => Said::yes(type_, reasons::READY, ""),
            "ACTIVE" | "UPDATING" => no(reasons::EKS_UNHEALTHY, issues(&view.issues)),
            "CREATING" | "PENDING" => no(else_.0, format!("EKS says {}; {}", view.status, else_.1)),
            "DELETING" => no(reasons::DELETING, "EKS says DELETING".to_owned()),
            other => {
                let words = [format!("EKS says {other}"), issues(&view.issues)];
                no(
                    reasons::EKS_UNHEALTHY,
                    words.into_iter().filter(|it| !it.is_empty()).collect::<Vec<_>>().join("; "),
                )
            }
        },
    }
}

/// Whether the cluster can be used, also while it is being changed.
pub(super) fn available(picture: &Picture<'_>, else_: &(&'static str, String)) -> Said {
    let type_ = types::AVAILABLE;
    if !picture.is_initialized() {
        return Said::no(type_, else_.0, else_.1.clone());
    }
    match picture.cluster() {
        Some(Found::There(view)) if ["ACTIVE", "UPDATING"].contains(&view.status.as_str()) => {
            Said::yes(type_, reasons::AVAILABLE, "")
        }
        Some(Found::There(view)) => {
            Said::no(type_, reasons::EKS_UNHEALTHY, format!("EKS says {}", view.status))
        }
        Some(Found::Gone) => Said::no(type_, reasons::EKS_NOT_FOUND, "EKS does not know the cluster"),
        None => {
            let stands =
                before(picture, type_, &[reasons::AVAILABLE, reasons::EKS_UNHEALTHY, reasons::EKS_NOT_FOUND]);
            // The latch says that it answered once, and nobody says otherwise.
            stands.unwrap_or_else(|| Said::unknown(type_, reasons::EKS_UNKNOWN, "EKS was not asked yet"))
        }
    }
}

/// Whether all addons are well.
pub(super) fn addons(picture: &Picture<'_>, else_: &(&'static str, String)) -> Said {
    let type_ = types::ADDONS_READY;
    let is_there = picture.cluster().and_then(Found::there).is_some();
    let is_made = picture.finding.as_ref().is_some_and(|finding| finding.usable);
    match &picture.look.known.addons {
        Some(all) if is_there && is_made => {
            let sick: Vec<String> = all.iter().filter(|it| it.status != "ACTIVE").map(sick).collect();
            if sick.is_empty() {
                let names: Vec<&str> = all.iter().map(|it| it.name.as_str()).collect();
                return Said::yes(type_, reasons::READY, names.join(", "));
            }
            Said::no(type_, reasons::ADDON_NOT_READY, sick.join("; "))
        }
        None if picture.cluster().is_none() || is_there => {
            before(picture, type_, &[reasons::READY, reasons::ADDON_NOT_READY])
                .unwrap_or_else(|| Said::no(type_, else_.0, else_.1.clone()))
        }
        _ => Said::no(type_, else_.0, else_.1.clone()),
    }
}

fn sick(addon: &AddonView) -> String {
    let said = format!("{} is {}", addon.name, addon.status);
    if addon.issues.is_empty() { said } else { format!("{said}: {}", issues(&addon.issues)) }
}
