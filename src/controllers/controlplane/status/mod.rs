//! What is said of a control plane. Pure: the picture in, the new status out.

mod eks;
mod fields;
#[cfg(test)]
mod tests;
mod verdict;

use jiff::Timestamp;
use kube::ResourceExt as _;

use self::verdict::Verdict;
pub(super) use self::verdict::deadline;
use super::{
    fargate::{self, Standing},
    phase::phase,
    picture::{Kubeconfig, Picture},
    version::Step,
};
use crate::{
    api::{
        CaptControlPlaneStatus, FargateProfileStatus,
        conditions::{reasons, types},
    },
    k8s::conditions::{self, ConditionStatus, Said, find, is_true},
};

/// Which object, when.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    /// The generation that is talked about.
    pub generation: Option<i64>,
    /// The time.
    pub now: Timestamp,
}

/// All conditions, each of which is there from the first look on.
const ALL: [&str; 15] = [
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

/// The status of an object that nobody owns yet.
pub(crate) fn waiting_for_owner(
    old: &CaptControlPlaneStatus,
    at: Moment,
    why: &str,
) -> CaptControlPlaneStatus {
    let mut new = begin(old, at);
    for type_ in [types::READY, types::AVAILABLE] {
        say(&mut new, at, Said::no(type_, reasons::WAITING_FOR_OWNER, why));
    }
    finish(&mut new, at, false);
    new
}

/// The status of an object that is left alone: all else stays as it was.
pub(crate) fn paused(old: &CaptControlPlaneStatus, at: Moment) -> CaptControlPlaneStatus {
    let mut new = old.clone();
    let why = "the Cluster, or this object, is paused";
    say(&mut new, at, Said::yes(types::PAUSED, reasons::PAUSED, why));
    fill(&mut new, at);
    new
}

/// The status of an object that goes.
pub(crate) fn deleting(
    old: &CaptControlPlaneStatus,
    at: Moment,
    (reason, why): (&'static str, &str),
    profiles: Vec<FargateProfileStatus>,
) -> CaptControlPlaneStatus {
    let mut new = begin(old, at);
    say(&mut new, at, Said::yes(types::DELETING, reason, why));
    for type_ in [types::READY, types::AVAILABLE] {
        say(&mut new, at, Said::no(type_, reasons::DELETING, why));
    }
    say(&mut new, at, Said::no(types::FAILED, reasons::NOT_FAILED, ""));
    say(&mut new, at, Said::no(types::CREATING, reasons::DELETING, ""));
    new.fargate_profile_statuses = profiles;
    new.failure_reason = None;
    new.failure_message = None;
    finish(&mut new, at, true);
    new
}

/// The status of an object that is looked after.
pub(crate) fn observed(picture: &Picture<'_>, at: Moment) -> CaptControlPlaneStatus {
    let mut new = begin(&picture.object.status.clone().unwrap_or_default(), at);
    fields::fill(&mut new, picture);
    let verdict = verdict::of(picture);
    let coming = verdict.coming();
    let mut all = vec![
        eks::cluster(picture, &coming),
        eks::available(picture, &coming),
        eks::addons(picture, &coming),
        kubeconfig(picture, &coming),
        initialized(picture, &coming),
        creating(picture, &coming),
        failed(&verdict),
        rolling_out(picture, &coming),
    ];
    all.extend(fargate::conditions(&picture.profiles, &note(picture)));
    all.push(ready(&all, &verdict));
    for said in all {
        say(&mut new, at, note_silence(said, picture));
    }
    let failure = verdict.failure();
    new.failure_reason = failure.map(|(reason, _)| reason.to_owned());
    new.failure_message = failure.map(|(_, why)| why.to_owned());
    finish(&mut new, at, false);
    new
}

fn begin(old: &CaptControlPlaneStatus, at: Moment) -> CaptControlPlaneStatus {
    let mut new = old.clone();
    new.observed_generation = at.generation;
    new.external_managed_control_plane = Some(true);
    say(&mut new, at, Said::no(types::PAUSED, reasons::NOT_PAUSED, ""));
    say(&mut new, at, Said::no(types::DELETING, reasons::NOT_DELETING, ""));
    new
}

/// Whatever was not said is not so yet.
fn fill(new: &mut CaptControlPlaneStatus, at: Moment) {
    for type_ in ALL {
        if find(&new.conditions, type_).is_none() {
            let (reason, why) = match type_ {
                types::PAUSED => (reasons::NOT_PAUSED, ""),
                types::DELETING => (reasons::NOT_DELETING, ""),
                types::FAILED => (reasons::NOT_FAILED, ""),
                _ => (reasons::CREATING, "nothing was made yet"),
            };
            say(new, at, Said::no(type_, reason, why));
        }
    }
}

fn finish(new: &mut CaptControlPlaneStatus, at: Moment, is_deleting: bool) {
    fill(new, at);
    let latch = new.initialization.as_ref().and_then(|it| it.control_plane_initialized);
    new.initialized = Some(latch == Some(true));
    new.ready = Some(is_true(&new.conditions, types::AVAILABLE));
    new.phase = Some(phase(&new.conditions, is_deleting));
}

fn say(new: &mut CaptControlPlaneStatus, at: Moment, said: Said) {
    let _ = conditions::set(&mut new.conditions, said, at.generation, at.now);
}

/// How it is said that what is said is old.
const SILENCE: &str = "Unknown since EKS does not answer: ";

/// While EKS does not answer, what was known stands, and that is said.
fn note_silence(mut said: Said, picture: &Picture<'_>) -> Said {
    let is_eks = [types::EKS_CLUSTER_READY, types::FARGATE_PROFILES_READY].contains(&said.type_);
    if let Some(trouble) = picture.look.trouble.as_ref().filter(|_| is_eks) {
        let gap = if said.message.is_empty() { "" } else { "; " };
        said.message = format!("{}{gap}{SILENCE}{trouble}", said.message);
    }
    said
}

fn kubeconfig(picture: &Picture<'_>, coming: &(&'static str, String)) -> Said {
    let type_ = types::KUBECONFIG_READY;
    let trouble = picture.look.token_trouble.as_ref();
    match &picture.kubeconfig {
        Kubeconfig::Foreign => {
            let name = crate::model::names::kubeconfig_secret(&picture.seen.cluster.name);
            let why = format!("Secret {name} belongs to somebody else; delete it, or rename the Cluster");
            Said::no(type_, reasons::SECRET_RECONCILIATION_FAILED, why)
        }
        // As long as its token is good, the way is open.
        Kubeconfig::Current(_) => Said::yes(type_, reasons::READY, trouble.cloned().unwrap_or_default()),
        Kubeconfig::Stale { .. } | Kubeconfig::NoAccess => match (trouble, &picture.access) {
            (Some(why), _) => Said::no(type_, reasons::KUBECONFIG_GENERATION_FAILED, why.clone()),
            (None, Some(_)) => Said::no(type_, reasons::CREATING, "a token is being made"),
            (None, None) => Said::no(type_, reasons::ENDPOINT_NOT_READY, coming.1.clone()),
        },
    }
}

fn initialized(picture: &Picture<'_>, coming: &(&'static str, String)) -> Said {
    let type_ = types::INITIALIZED;
    if picture.is_initialized() {
        return Said::yes(type_, reasons::INITIALIZED, "");
    }
    match &picture.look.api {
        Some(Err(why)) => {
            let why = format!("the API server does not answer: {why}");
            Said::no(type_, reasons::API_SERVER_NOT_REACHABLE, why)
        }
        _ => Said::no(type_, coming.0, coming.1.clone()),
    }
}

fn creating(picture: &Picture<'_>, coming: &(&'static str, String)) -> Said {
    if picture.is_initialized() {
        return Said::no(types::CREATING, reasons::CREATED, "");
    }
    Said::yes(types::CREATING, coming.0, coming.1.clone())
}

fn failed(verdict: &Verdict) -> Said {
    match verdict.failure() {
        Some((reason, why)) => Said::yes(types::FAILED, reason, why),
        None => Said::no(types::FAILED, reasons::NOT_FAILED, ""),
    }
}

fn rolling_out(picture: &Picture<'_>, coming: &(&'static str, String)) -> Said {
    let type_ = types::ROLLING_OUT;
    let is_moving = |it: &fargate::Judged| {
        matches!(it.standing, Standing::Updating | Standing::Creating | Standing::Removing)
    };
    let names: Vec<&str> =
        picture.profiles.iter().filter(|it| is_moving(it)).map(|it| it.status.name.as_str()).collect();
    match (&picture.step, picture.is_initialized()) {
        (Some(Step::Towards { next, goal }), true) => {
            Said::yes(type_, reasons::UPGRADING, format!("to {goal} by way of {next}"))
        }
        (_, true) if !picture.is_applied() => Said::yes(type_, reasons::UPDATING, coming.1.clone()),
        (_, true) if !names.is_empty() => {
            Said::yes(type_, reasons::UPDATING, format!("Fargate profiles {}", names.join(", ")))
        }
        (_, true | false) => Said::no(type_, reasons::NOT_ROLLING_OUT, ""),
    }
}

/// Everything asked for exists, or the first thing that does not.
fn ready(all: &[Said], verdict: &Verdict) -> Said {
    let type_ = types::READY;
    if let Some((reason, why)) = verdict.hindrance() {
        return Said::no(type_, reason, why);
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
        return Said::no(type_, part.reason, part.message.clone());
    }
    match of(types::ROLLING_OUT).filter(|it| it.status == ConditionStatus::True) {
        Some(rolling) => Said::no(type_, rolling.reason, rolling.message.clone()),
        None => Said::yes(type_, reasons::READY, ""),
    }
}

/// What else people should know of the profiles.
fn note(picture: &Picture<'_>) -> String {
    let own = picture.seen.eks.as_ref().and_then(|eks| eks.status.as_ref()?.outputs.get("fargate_profiles"));
    let own: Vec<String> =
        own.and_then(|it| it.as_object()).into_iter().flatten().map(|(name, _)| name.clone()).collect();
    let others = fargate::strangers(&picture.look.known, &picture.profiles, &own);
    if others.is_empty() {
        return String::new();
    }
    format!(
        "EKS has Fargate profiles that {} did not ask for: {}",
        picture.object.name_any(),
        others.join(", ")
    )
}
