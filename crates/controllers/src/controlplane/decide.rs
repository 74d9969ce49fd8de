//! Decides the next writes and the next EKS query of a control plane. Pure.

use std::{collections::BTreeSet, time::Duration};

use capt_kinds::api::{WorkspaceTemplateApply, names as words};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    build,
    eks_poll::{EksLookup, EksQuery, NextPoll, PollInputs, next_poll},
    endpoint,
    fargate::{self, ProfileState, RerunSchedule},
    kubeconfig::{self, TokenLifetime},
    ownership::ClusterOwnership,
    snapshot::{ControlPlaneSnapshot, KubeconfigState},
    validate::ValidatedEksCluster,
};
use crate::common::apply_diff;

/// The writes to make.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Decision {
    /// Fields of the spec to write, as a merge patch.
    pub spec_patch: Option<Value>,
    /// The EKS workspace, if it must be applied.
    pub eks_workspace: Option<Box<WorkspaceTemplateApply>>,
    /// The EKS workspace was created by upstream and is taken over now.
    pub is_takeover: bool,
    /// Profile workspaces to apply.
    pub profile_workspaces: Vec<WorkspaceTemplateApply>,
    /// Profile workspaces to delete.
    pub profile_removals: Vec<WorkspaceTemplateApply>,
    /// Profile workspaces to rerun.
    pub reruns: Vec<WorkspaceTemplateApply>,
    /// Profile workspaces whose rerun backoff is reset.
    pub recovered: Vec<String>,
    /// Secrets to apply.
    pub secrets: Vec<Secret>,
}

/// Decides for a control plane that is not being deleted.
pub(crate) fn decide(snapshot: &ControlPlaneSnapshot<'_>) -> Decision {
    let mut decision = Decision {
        spec_patch: build_spec_patch(snapshot),
        secrets: secrets_to_apply(snapshot),
        recovered: snapshot
            .observation
            .reruns
            .keys()
            .filter(|name| has_recovered(snapshot, name))
            .cloned()
            .collect(),
        ..Decision::default()
    };
    let Ok(valid) = &snapshot.validated else { return decision };
    // Without a usable identity, or with a blocker, no workspace is written.
    if snapshot.references.principal.is_err() || creation_blocker(snapshot).is_some() {
        return decision;
    }
    decision.eks_workspace = eks_workspace_to_apply(snapshot, valid).map(Box::new);
    decision.is_takeover = decision.eks_workspace.is_some()
        && snapshot
            .references
            .eks_workspace
            .as_ref()
            .is_some_and(|it| !it.annotations().contains_key(words::EKS_CLUSTER_ANNOTATION));
    if snapshot.references.eks_workspace.as_ref().is_some_and(is_live) {
        decision.profile_workspaces = profile_workspaces_to_apply(snapshot, valid);
    }
    decision.profile_removals = profile_workspaces_to_delete(snapshot, valid);
    decision.reruns = workspaces_to_rerun(snapshot);
    decision
}

/// Why no workspace can be created yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CreationBlocker {
    /// The network is not ready.
    NetworkNotReady(String),
    /// Another owner has a workspace of the same name.
    WorkspaceTaken(String),
    /// Another control plane has the EKS cluster of this name.
    ClusterTaken(String),
}

/// What blocks creation, if anything. An existing workspace does not wait for the network again.
pub(crate) fn creation_blocker(snapshot: &ControlPlaneSnapshot<'_>) -> Option<CreationBlocker> {
    let seen = snapshot.references;
    let name = build::apply_name(snapshot.object);
    if let Some(owner) = seen.name_conflicts.get(&name) {
        return Some(CreationBlocker::WorkspaceTaken(format!(
            "WorkspaceTemplateApply {name} is owned by {owner}"
        )));
    }
    if let ClusterOwnership::NameTaken(why) = &snapshot.ownership {
        return Some(CreationBlocker::ClusterTaken(why.clone()));
    }
    if seen.eks_workspace.is_some() {
        return None;
    }
    let cluster = &seen.cluster.name;
    if !seen.cluster.infrastructure_provisioned {
        return Some(CreationBlocker::NetworkNotReady(format!(
            "waiting for the infrastructure of Cluster {cluster}"
        )));
    }
    let is_built_in = snapshot.validated.as_ref().is_ok_and(|valid| valid.control_plane.template.is_none());
    (is_built_in && seen.network.is_none()).then(|| {
        CreationBlocker::NetworkNotReady(format!(
            "no CAPTCluster belongs to Cluster {cluster}; the built-in module needs its VPC"
        ))
    })
}

fn is_live(apply: &WorkspaceTemplateApply) -> bool {
    apply.metadata.deletion_timestamp.is_none()
}

/// Whether an object must be applied.
fn needs_write<K: Serialize>(live: Option<&K>, wanted: &K) -> bool {
    let Some(live) = live else { return true };
    match (serde_json::to_value(live), serde_json::to_value(wanted)) {
        (Ok(live), Ok(wanted)) => apply_diff::needs_apply(&live, &wanted),
        _ => true,
    }
}

fn eks_workspace_to_apply(
    snapshot: &ControlPlaneSnapshot<'_>,
    valid: &ValidatedEksCluster,
) -> Option<WorkspaceTemplateApply> {
    let live = snapshot.references.eks_workspace.as_ref();
    // A workspace that is being deleted cannot be changed; it is recreated after its deletion.
    if live.is_some_and(|live| !is_live(live)) {
        return None;
    }
    let step = snapshot.upgrade_step.as_ref()?;
    let wanted = build::build_eks_workspace(
        snapshot.object,
        valid,
        snapshot.references.network.as_ref(),
        step.target(),
    );
    needs_write(live, &wanted).then_some(wanted)
}

fn profile_workspaces_to_apply(
    snapshot: &ControlPlaneSnapshot<'_>,
    valid: &ValidatedEksCluster,
) -> Vec<WorkspaceTemplateApply> {
    let network = snapshot.references.network.as_ref();
    let live =
        |name: &str| snapshot.references.profile_workspaces.iter().find(|apply| apply.name_any() == name);
    let wanted = valid.control_plane.profiles.iter();
    wanted
        .map(|profile| fargate::build_profile_workspace(snapshot.object, valid, network, profile))
        .filter(|wanted| !snapshot.references.name_conflicts.contains_key(&wanted.name_any()))
        .filter(|wanted| {
            let live = live(&wanted.name_any());
            live.is_none_or(is_live) && needs_write(live, wanted)
        })
        .collect()
}

/// Workspaces of profiles that were removed from the spec.
fn profile_workspaces_to_delete(
    snapshot: &ControlPlaneSnapshot<'_>,
    valid: &ValidatedEksCluster,
) -> Vec<WorkspaceTemplateApply> {
    let names = valid.control_plane.profiles.iter();
    let wanted: BTreeSet<String> =
        names.map(|profile| fargate::apply_name(snapshot.object, profile.name.as_str())).collect();
    let dropped = |apply: &&WorkspaceTemplateApply| is_live(apply) && !wanted.contains(&apply.name_any());
    snapshot.references.profile_workspaces.iter().filter(dropped).cloned().collect()
}

/// Workspaces whose profiles are missing in EKS, by an observation newer than their last run.
fn workspaces_to_rerun(snapshot: &ControlPlaneSnapshot<'_>) -> Vec<WorkspaceTemplateApply> {
    let lost = snapshot
        .profiles
        .iter()
        .filter(|it| it.is_lost && snapshot.observation.is_fresh_for(&snapshot.run_fingerprint));
    let names: BTreeSet<&str> =
        lost.filter_map(|it| it.status.workspace_template_apply_name.as_deref()).collect();
    let due = |apply: &&WorkspaceTemplateApply| {
        names.contains(apply.name_any().as_str()) && rerun_schedule(snapshot, apply) == RerunSchedule::Now
    };
    snapshot
        .references
        .profile_workspaces
        .iter()
        .filter(|apply| is_live(apply))
        .filter(due)
        .cloned()
        .collect()
}

fn rerun_schedule(snapshot: &ControlPlaneSnapshot<'_>, apply: &WorkspaceTemplateApply) -> RerunSchedule {
    let pokes = snapshot.observation.reruns.get(&apply.name_any()).cloned().unwrap_or_default();
    // The annotation survives a restart of the operator, the in-memory history does not.
    let noted = apply.annotations().get(words::REQUESTED_ANNOTATION).and_then(|text| text.parse().ok());
    fargate::next_rerun(pokes.count, pokes.last_requested.max(noted), snapshot.now)
}

fn has_recovered(snapshot: &ControlPlaneSnapshot<'_>, apply_name: &str) -> bool {
    let of = |it: &&fargate::ProfileAssessment| {
        it.status.workspace_template_apply_name.as_deref() == Some(apply_name)
    };
    snapshot.profiles.iter().find(of).is_none_or(|it| it.state == ProfileState::Ready)
}

/// Merge patch for the endpoint and the workspace name, which are written once.
fn build_spec_patch(snapshot: &ControlPlaneSnapshot<'_>) -> Option<Value> {
    let spec = &snapshot.object.spec;
    let url = snapshot.access.as_ref().map(|access| access.endpoint.as_str());
    let output = || {
        crate::common::workspace_summary::string_output(
            snapshot.references.eks_workspace.as_ref()?,
            "cluster_endpoint",
        )
    };
    let mut patch = serde_json::Map::new();
    if let Some(endpoint) =
        endpoint::endpoint_update(spec.control_plane_endpoint.as_ref(), url.or_else(output))
    {
        patch.insert("controlPlaneEndpoint".to_owned(), json!(endpoint));
    }
    let is_named = spec.workspace_template_apply_name.as_deref().is_some_and(|name| !name.is_empty());
    if let Some(eks) = snapshot.references.eks_workspace.as_ref().filter(|_| !is_named) {
        patch.insert("workspaceTemplateApplyName".to_owned(), json!(eks.name_any()));
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// Secrets that differ from the desired ones.
fn secrets_to_apply(snapshot: &ControlPlaneSnapshot<'_>) -> Vec<Secret> {
    let seen = &snapshot.references.secrets;
    let uid = snapshot.object.uid().unwrap_or_default();
    let wanted = snapshot.with_kubeconfig_inputs(|facts| {
        let programs = usable_token(snapshot).map(|made| kubeconfig::build_kubeconfig_secret(facts, made));
        let programs = programs.filter(|_| needs_kubeconfig_write(snapshot)).map(|mut wanted| {
            preserve_type(&mut wanted, seen.kubeconfig.as_ref());
            wanted
        });
        let upstreams = seen.legacy_ca.as_ref().filter(|it| kubeconfig::is_legacy_ca(it));
        let live = upstreams.or(seen.ca.as_ref());
        let mine =
            |live: Option<&Secret>| live.is_none_or(|live| !kubeconfig::is_owned_by_others(live, &uid));
        let rest = [
            (seen.user_kubeconfig.as_ref(), Some(kubeconfig::build_user_kubeconfig_secret(facts))),
            (live, kubeconfig::build_ca_secret(facts, upstreams)),
        ];
        let rest = rest.into_iter().filter_map(|(live, wanted)| {
            let mut wanted = wanted?;
            preserve_type(&mut wanted, live);
            (mine(live) && needs_write(live, &wanted)).then_some(wanted)
        });
        programs.into_iter().chain(rest).collect()
    });
    wanted.unwrap_or_default()
}

/// The type of a Secret is immutable: keep the live one.
fn preserve_type(wanted: &mut Secret, live: Option<&Secret>) {
    if let Some(type_) = live.and_then(|live| live.type_.clone()) {
        wanted.type_ = Some(type_);
    }
}

/// Whether the kubeconfig Secret must be written.
fn needs_kubeconfig_write(snapshot: &ControlPlaneSnapshot<'_>) -> bool {
    match &snapshot.kubeconfig {
        KubeconfigState::Stale { .. } => true,
        KubeconfigState::Current(until) => *until <= snapshot.now,
        KubeconfigState::OwnedByOthers | KubeconfigState::AccessUnknown => false,
    }
}

/// The last issued token, unless its replacement is due.
fn usable_token<'a>(snapshot: &ControlPlaneSnapshot<'a>) -> Option<&'a super::eks_poll::IssuedToken> {
    let made = snapshot.observation.token.as_ref()?;
    let life = TokenLifetime { issued_at: made.issued_at, expires_at: made.token.expires_at };
    (life.replace_at() > snapshot.now).then_some(made)
}

/// The next EKS query and its time.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PollPlan {
    /// The query.
    pub query: EksQuery,
    /// When to run it.
    pub next: NextPoll,
}

/// Plans the next EKS query. None before the workspace has a status, because nothing can exist in EKS.
pub(crate) fn plan_poll(snapshot: &ControlPlaneSnapshot<'_>, interval: Duration) -> Option<PollPlan> {
    let place = snapshot.location.as_ref()?;
    let principal = snapshot.references.principal.as_ref().ok()?;
    snapshot.references.eks_workspace.as_ref()?.status.as_ref()?;
    let is_up = snapshot.workspace_summary.as_ref().is_some_and(|finding| finding.available);
    let proven = snapshot.ownership.proven_arn();
    let wants_token =
        proven.is_some() && needs_kubeconfig_write(snapshot) && usable_token(snapshot).is_none();
    let calls = proven.is_some() && is_up && !snapshot.is_initialized();
    let token_at = match &snapshot.kubeconfig {
        KubeconfigState::Current(until) if proven.is_some() => Some(*until),
        _ if wants_token => Some(snapshot.now),
        _ => None,
    };
    let needs = PollInputs {
        run_fingerprint: &snapshot.run_fingerprint,
        interval,
        in_transition: has_transition(snapshot, calls),
        token_due: token_at,
    };
    let profiles = snapshot.managed_profiles();
    let names =
        profiles.iter().map(|it| fargate::eks_name(it, snapshot.previous_profile_status(&it.apply_name)));
    Some(PollPlan {
        next: next_poll(snapshot.observation, needs, snapshot.now),
        query: EksQuery {
            cluster: place.eks_name.clone(),
            region: place.region.clone(),
            principal: principal.clone(),
            profiles: names.collect(),
            run_fingerprint: snapshot.run_fingerprint.clone(),
            proven_arn: proven.map(str::to_owned),
            needs_token: wants_token,
            probes_api: calls,
        },
    })
}

/// Whether EKS resources are in transition without a run that would report the end.
fn has_transition(snapshot: &ControlPlaneSnapshot<'_>, calls: bool) -> bool {
    const COMING: [&str; 4] = ["CREATING", "UPDATING", "PENDING", "DELETING"];
    let is_coming = |status: &str| COMING.contains(&status);
    let cluster = snapshot.eks_cluster().and_then(EksLookup::present).is_some_and(|it| is_coming(&it.status));
    let addons = snapshot.observation.facts.addons.iter().flatten().any(|it| is_coming(&it.status));
    let profiles = snapshot.profiles.iter().any(|it| it.status.status.as_deref().is_some_and(is_coming));
    calls || (snapshot.is_applied() && (cluster || addons || profiles))
}

/// The latest time of the next reconcile: a due query or token, a timeout, a rerun.
pub(crate) fn next_requeue(
    snapshot: &ControlPlaneSnapshot<'_>,
    curiosity: Option<&PollPlan>,
    deadlines: &[Timestamp],
) -> Option<Timestamp> {
    let asked = curiosity.and_then(|it| match it.next {
        NextPoll::At(then) => Some(then),
        NextPoll::Now => None,
    });
    let poked = snapshot.references.profile_workspaces.iter().filter_map(|apply| {
        match rerun_schedule(snapshot, apply) {
            RerunSchedule::At(then) if snapshot.observation.reruns.contains_key(&apply.name_any()) => {
                Some(then)
            }
            _ => None,
        }
    });
    let due = deadlines.iter().copied().filter(|then| *then > snapshot.now);
    asked.into_iter().chain(poked).chain(due).min()
}
