//! What is to be done about a control plane now. Pure.

use std::{collections::BTreeSet, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    build, endpoint,
    fargate::{self, Poke, Standing},
    kubeconfig::{self, Life},
    look::{Access, Found, Needs, Question, When, next},
    picture::{Kubeconfig, Picture},
    validate::Validated,
};
use crate::{
    api::{WorkspaceTemplateApply, names as words},
    controllers::common::applied,
};

/// What is to be done.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Decision {
    /// Fields of the spec to write, as a merge patch.
    pub spec: Option<Value>,
    /// The EKS cluster's workspace, if it is to be written.
    pub eks: Option<Box<WorkspaceTemplateApply>>,
    /// That workspace was upstream's until now.
    pub takes_over: bool,
    /// Workspaces of profiles to write.
    pub profiles: Vec<WorkspaceTemplateApply>,
    /// Workspaces of profiles to delete.
    pub removals: Vec<WorkspaceTemplateApply>,
    /// Workspaces of profiles to run again.
    pub pokes: Vec<WorkspaceTemplateApply>,
    /// Workspaces whose profiles are well again.
    pub calm: Vec<String>,
    /// Secrets to write.
    pub secrets: Vec<Secret>,
}

/// Decides for a control plane that shall be there.
pub(crate) fn decide(picture: &Picture<'_>) -> Decision {
    let mut decision = Decision {
        spec: spec(picture),
        secrets: secrets(picture),
        calm: picture.look.pokes.keys().filter(|name| is_well(picture, name)).cloned().collect(),
        ..Decision::default()
    };
    let Ok(valid) = &picture.valid else { return decision };
    // Whoever may not act, or acts for somebody else, changes nothing.
    if picture.seen.principal.is_err() || gap(picture).is_some() {
        return decision;
    }
    decision.eks = eks(picture, valid).map(Box::new);
    decision.takes_over = decision.eks.is_some()
        && picture
            .seen
            .eks
            .as_ref()
            .is_some_and(|it| !it.annotations().contains_key(words::EKS_CLUSTER_ANNOTATION));
    if picture.seen.eks.as_ref().is_some_and(is_here) {
        decision.profiles = profiles(picture, valid);
    }
    decision.removals = removals(picture, valid);
    decision.pokes = pokes(picture);
    decision
}

/// Why nothing can be made yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Gap {
    /// The network is not complete.
    Network(String),
    /// The name of the workspace is taken.
    Taken(String),
}

/// Why nothing can be made yet, if so. What is there already does not wait again.
pub(crate) fn gap(picture: &Picture<'_>) -> Option<Gap> {
    let seen = picture.seen;
    let name = build::apply_name(picture.object);
    if let Some(owner) = seen.taken.get(&name) {
        return Some(Gap::Taken(format!("WorkspaceTemplateApply {name} belongs to {owner}")));
    }
    if seen.eks.is_some() {
        return None;
    }
    let cluster = &seen.cluster.name;
    if !seen.cluster.infrastructure_provisioned {
        return Some(Gap::Network(format!("waiting for the infrastructure of Cluster {cluster}")));
    }
    let is_built_in = picture.valid.as_ref().is_ok_and(|valid| valid.control_plane.template.is_none());
    (is_built_in && seen.network.is_none()).then(|| {
        Gap::Network(format!(
            "no CAPTCluster belongs to Cluster {cluster}; the built-in module needs its VPC"
        ))
    })
}

fn is_here(apply: &WorkspaceTemplateApply) -> bool {
    apply.metadata.deletion_timestamp.is_none()
}

/// Whether an object is to be written.
fn is_to_write<K: Serialize>(live: Option<&K>, wanted: &K) -> bool {
    let Some(live) = live else { return true };
    match (serde_json::to_value(live), serde_json::to_value(wanted)) {
        (Ok(live), Ok(wanted)) => applied::differs(&live, &wanted),
        _ => true,
    }
}

fn eks(picture: &Picture<'_>, valid: &Validated) -> Option<WorkspaceTemplateApply> {
    let live = picture.seen.eks.as_ref();
    // One that goes cannot be changed; when it is gone, another is made.
    if live.is_some_and(|live| !is_here(live)) {
        return None;
    }
    let step = picture.step.as_ref()?;
    let wanted = build::workspace(picture.object, valid, picture.seen.network.as_ref(), step.target());
    is_to_write(live, &wanted).then_some(wanted)
}

fn profiles(picture: &Picture<'_>, valid: &Validated) -> Vec<WorkspaceTemplateApply> {
    let network = picture.seen.network.as_ref();
    let live = |name: &str| picture.seen.profiles.iter().find(|apply| apply.name_any() == name);
    let wanted = valid.control_plane.profiles.iter();
    wanted
        .map(|profile| fargate::workspace(picture.object, valid, network, profile))
        .filter(|wanted| !picture.seen.taken.contains_key(&wanted.name_any()))
        .filter(|wanted| {
            let live = live(&wanted.name_any());
            live.is_none_or(is_here) && is_to_write(live, wanted)
        })
        .collect()
}

/// Workspaces of profiles that the spec does not name any more.
fn removals(picture: &Picture<'_>, valid: &Validated) -> Vec<WorkspaceTemplateApply> {
    let names = valid.control_plane.profiles.iter();
    let wanted: BTreeSet<String> =
        names.map(|profile| fargate::apply_name(picture.object, profile.name.as_str())).collect();
    let dropped = |apply: &&WorkspaceTemplateApply| is_here(apply) && !wanted.contains(&apply.name_any());
    picture.seen.profiles.iter().filter(dropped).cloned().collect()
}

/// Workspaces whose profiles EKS lost. What EKS says must be newer than their last run.
fn pokes(picture: &Picture<'_>) -> Vec<WorkspaceTemplateApply> {
    let lost = picture.profiles.iter().filter(|it| it.is_lost && picture.look.is_of(&picture.stamp));
    let names: BTreeSet<&str> =
        lost.filter_map(|it| it.status.workspace_template_apply_name.as_deref()).collect();
    let due = |apply: &&WorkspaceTemplateApply| {
        names.contains(apply.name_any().as_str()) && poke_of(picture, apply) == Poke::Now
    };
    picture.seen.profiles.iter().filter(|apply| is_here(apply)).filter(due).cloned().collect()
}

fn poke_of(picture: &Picture<'_>, apply: &WorkspaceTemplateApply) -> Poke {
    let pokes = picture.look.pokes.get(&apply.name_any()).cloned().unwrap_or_default();
    // The annotation outlives us.
    let noted = apply.annotations().get(words::REQUESTED_ANNOTATION).and_then(|text| text.parse().ok());
    fargate::poke(pokes.times, pokes.last.max(noted), picture.now)
}

fn is_well(picture: &Picture<'_>, apply_name: &str) -> bool {
    let of = |it: &&fargate::Judged| it.status.workspace_template_apply_name.as_deref() == Some(apply_name);
    picture.profiles.iter().find(of).is_none_or(|it| it.standing == Standing::Ready)
}

/// The endpoint and the name of the workspace, each once.
fn spec(picture: &Picture<'_>) -> Option<Value> {
    let spec = &picture.object.spec;
    let url = picture.access.as_ref().map(|access| access.endpoint.as_str());
    let output =
        || crate::controllers::common::workspace::text_output(picture.seen.eks.as_ref()?, "cluster_endpoint");
    let mut patch = serde_json::Map::new();
    if let Some(endpoint) = endpoint::to_write(spec.control_plane_endpoint.as_ref(), url.or_else(output)) {
        patch.insert("controlPlaneEndpoint".to_owned(), json!(endpoint));
    }
    let is_named = spec.workspace_template_apply_name.as_deref().is_some_and(|name| !name.is_empty());
    if let Some(eks) = picture.seen.eks.as_ref().filter(|_| !is_named) {
        patch.insert("workspaceTemplateApplyName".to_owned(), json!(eks.name_any()));
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// Secrets that are not as they should be.
fn secrets(picture: &Picture<'_>) -> Vec<Secret> {
    let seen = &picture.seen.secrets;
    let uid = picture.object.uid().unwrap_or_default();
    let wanted = picture.with_facts(|facts| {
        let programs = token(picture).map(|made| kubeconfig::for_programs(facts, made));
        let programs = programs.filter(|_| needs_token(picture)).map(|mut wanted| {
            keep_type(&mut wanted, seen.programs.as_ref());
            wanted
        });
        let upstreams = seen.upstreams.as_ref().filter(|it| kubeconfig::is_upstreams_authority(it));
        let live = upstreams.or(seen.authority.as_ref());
        let mine = |live: Option<&Secret>| live.is_none_or(|live| !kubeconfig::is_foreign(live, &uid));
        let rest = [
            (seen.people.as_ref(), Some(kubeconfig::for_people(facts))),
            (live, kubeconfig::authority(facts, upstreams)),
        ];
        let rest = rest.into_iter().filter_map(|(live, wanted)| {
            let mut wanted = wanted?;
            keep_type(&mut wanted, live);
            (mine(live) && is_to_write(live, &wanted)).then_some(wanted)
        });
        programs.into_iter().chain(rest).collect()
    });
    wanted.unwrap_or_default()
}

/// A type cannot be changed.
fn keep_type(wanted: &mut Secret, live: Option<&Secret>) {
    if let Some(type_) = live.and_then(|live| live.type_.clone()) {
        wanted.type_ = Some(type_);
    }
}

/// Whether the Secret for programs is to be written.
fn needs_token(picture: &Picture<'_>) -> bool {
    match &picture.kubeconfig {
        Kubeconfig::Stale { .. } => true,
        Kubeconfig::Current(until) => *until <= picture.now,
        Kubeconfig::Foreign | Kubeconfig::NoAccess => false,
    }
}

/// A token that is good for a while.
fn token<'a>(picture: &Picture<'a>) -> Option<&'a super::look::Made> {
    let made = picture.look.token.as_ref()?;
    let life = Life { made: made.at, expires: made.token.expires_at };
    (life.replace_at() > picture.now).then_some(made)
}

/// What to ask the world, and when.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Curiosity {
    /// The question.
    pub question: Question,
    /// When.
    pub when: When,
}

/// What to ask the world, and when. Nothing before there is a workspace that may have made something.
pub(crate) fn curiosity(picture: &Picture<'_>, interval: Duration) -> Option<Curiosity> {
    let place = picture.place.as_ref()?;
    let principal = picture.seen.principal.as_ref().ok()?;
    picture.seen.eks.as_ref()?.status.as_ref()?;
    let is_up = picture.finding.as_ref().is_some_and(|finding| finding.usable);
    let is_first = is_up && matches!(picture.kubeconfig, Kubeconfig::NoAccess);
    let wants_token = (needs_token(picture) || is_first) && token(picture).is_none();
    let calls = is_up && !picture.is_initialized();
    let token_at = match &picture.kubeconfig {
        Kubeconfig::Current(until) => Some(*until),
        _ if wants_token => Some(picture.now),
        _ => None,
    };
    let needs = Needs { stamp: &picture.stamp, interval, restless: is_restless(picture, calls), token_at };
    let nowhere = || Access { endpoint: String::new(), authority: String::new() };
    let profiles = picture.all_profiles();
    let names = profiles.iter().map(|it| fargate::eks_name(it, picture.previous(&it.apply_name)));
    Some(Curiosity {
        when: next(picture.look, needs, picture.now),
        question: Question {
            cluster: place.eks_name.clone(),
            region: place.region.clone(),
            principal: principal.clone(),
            profiles: names.collect(),
            stamp: picture.stamp.clone(),
            token: wants_token,
            call: calls.then(|| picture.access.clone().unwrap_or_else(nowhere)),
        },
    })
}

/// Whether something is on its way that no run of ours will tell of.
fn is_restless(picture: &Picture<'_>, calls: bool) -> bool {
    const COMING: [&str; 4] = ["CREATING", "UPDATING", "PENDING", "DELETING"];
    let is_coming = |status: &str| COMING.contains(&status);
    let cluster = picture.cluster().and_then(Found::there).is_some_and(|it| is_coming(&it.status));
    let addons = picture.look.known.addons.iter().flatten().any(|it| is_coming(&it.status));
    let profiles = picture.profiles.iter().any(|it| it.status.status.as_deref().is_some_and(is_coming));
    calls || (picture.is_applied() && (cluster || addons || profiles))
}

/// When to look again at the latest: a token, a question, a time that runs out, a workspace to run again.
pub(crate) fn wake(
    picture: &Picture<'_>,
    curiosity: Option<&Curiosity>,
    deadlines: &[Timestamp],
) -> Option<Timestamp> {
    let asked = curiosity.and_then(|it| match it.when {
        When::At(then) => Some(then),
        When::Now => None,
    });
    let poked = picture.seen.profiles.iter().filter_map(|apply| match poke_of(picture, apply) {
        Poke::At(then) if picture.look.pokes.contains_key(&apply.name_any()) => Some(then),
        _ => None,
    });
    let due = deadlines.iter().copied().filter(|then| *then > picture.now);
    asked.into_iter().chain(poked).chain(due).min()
}
