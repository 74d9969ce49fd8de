//! Snapshot of a control plane: its objects in Kubernetes, the last EKS observation, and what follows from its spec. Pure.
//!
//! Decision and status are both derived from this snapshot, so that they cannot contradict each other.

use std::collections::BTreeMap;

use capt_engine::aws::EksCluster;
use capt_kinds::api::{
    CaptControlPlane, FargateProfileStatus, RunPhase, WorkspaceTemplateApply, conditions::reasons,
};
use capt_model::model::{KubernetesVersion, Parse as _};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;

use super::{
    build,
    dereference::ControlPlaneReferences,
    eks_poll::{ApiServerAccess, EksLookup, EksObservation},
    fargate::{self, ManagedProfile, ProfileAssessment},
    kubeconfig::{self, KubeconfigInputs, SecretFreshness},
    ownership::{ClusterOwnership, OwnershipFacts, assess_ownership},
    validate::{InvalidControlPlane, ValidatedEksCluster, recorded_eks_name},
    version::{self, UpgradeStep},
};
use crate::common::workspace_summary::{self, WorkspaceSummary, string_output};

/// Name and region of the cluster in AWS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EksLocation {
    /// Its name in EKS.
    pub eks_name: String,
    /// Its region.
    pub region: String,
}

/// State of the kubeconfig Secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KubeconfigState {
    /// The endpoint of the API server is not known yet.
    AccessUnknown,
    /// The Secret has another owner.
    OwnedByOthers,
    /// It is current until this time.
    Current(Timestamp),
    /// It must be written.
    Stale {
        /// Whether an older one exists.
        exists: bool,
    },
}

/// Everything observed and derived for one reconcile.
#[derive(Debug, Clone)]
pub(crate) struct ControlPlaneSnapshot<'a> {
    /// The control plane.
    pub object: &'a CaptControlPlane,
    /// Referenced and owned objects.
    pub references: &'a ControlPlaneReferences,
    /// The last EKS observation.
    pub observation: &'a EksObservation,
    /// Current time.
    pub now: Timestamp,
    /// The desired EKS cluster, or why the spec is rejected.
    pub validated: Result<ValidatedEksCluster, InvalidControlPlane>,
    /// Name and region in AWS.
    pub location: Option<EksLocation>,
    /// Summary of the EKS workspace.
    pub workspace_summary: Option<WorkspaceSummary>,
    /// The version that EKS runs.
    pub running_version: Option<KubernetesVersion>,
    /// The version to request next.
    pub upgrade_step: Option<UpgradeStep>,
    /// Its profiles, including those being removed.
    pub profiles: Vec<ProfileAssessment>,
    /// Whether the cluster in EKS is its own.
    pub ownership: ClusterOwnership,
    /// Access to its API server, as EKS reports it; only if the cluster is proven to be its own.
    pub access: Option<ApiServerAccess>,
    /// State of the kubeconfig Secret.
    pub kubeconfig: KubeconfigState,
    /// Digest of the principal.
    pub principal_digest: Option<String>,
    /// Changes when a run of one of its workspaces ends or the principal changes.
    pub run_fingerprint: String,
}

impl<'a> ControlPlaneSnapshot<'a> {
    /// Derives the snapshot.
    pub(crate) fn new(
        object: &'a CaptControlPlane,
        seen: &'a ControlPlaneReferences,
        look: &'a EksObservation,
        valid: Result<ValidatedEksCluster, InvalidControlPlane>,
        now: Timestamp,
    ) -> Self {
        let location = eks_location(valid.as_ref().ok(), seen.eks_workspace.as_ref());
        let ownership = cluster_ownership(object, seen, look, location.as_ref());
        let running = find_running_version(seen.eks_workspace.as_ref(), look);
        let step = valid
            .as_ref()
            .ok()
            .map(|valid| version::next_upgrade_step(&valid.control_plane.version, running.as_ref()));
        let principal = seen.principal.as_ref().ok().map(capt_engine::aws::Principal::digest);
        let mut snapshot = Self {
            object,
            references: seen,
            observation: look,
            now,
            location,
            workspace_summary: seen.eks_workspace.as_ref().map(workspace_summary::summarize),
            running_version: running,
            upgrade_step: step,
            profiles: Vec::new(),
            access: ownership.proven_arn().and_then(|_| api_server_access(look)),
            ownership,
            kubeconfig: KubeconfigState::AccessUnknown,
            run_fingerprint: run_fingerprint(seen, principal.as_deref()),
            principal_digest: principal,
            validated: valid,
        };
        snapshot.profiles = snapshot.assess_profiles();
        snapshot.kubeconfig = snapshot.kubeconfig_state();
        snapshot
    }

    /// The cluster in EKS, if the observation is conclusive.
    pub(crate) fn eks_cluster(&self) -> Option<&EksLookup<EksCluster>> {
        self.observation.facts.cluster.as_ref().filter(|found| self.is_conclusive(found))
    }

    /// A run that ended after the last query may have created what EKS did not find. "Not found" is conclusive only for the
    /// current run fingerprint.
    fn is_conclusive<T>(&self, found: &EksLookup<T>) -> bool {
        let asked =
            self.observation.last_query.as_ref().is_some_and(|(_, stamp)| *stamp == self.run_fingerprint);
        asked || found.present().is_some()
    }

    /// Whether the initialization latch is set.
    pub(crate) fn was_initialized(&self) -> bool {
        let status = self.object.status.as_ref();
        status.and_then(|it| it.initialization.as_ref()?.control_plane_initialized).unwrap_or(false)
    }

    /// Whether the latch is set, or the API server is reachable and the kubeconfig Secret exists.
    pub(crate) fn is_initialized(&self) -> bool {
        let is_written =
            matches!(self.kubeconfig, KubeconfigState::Current(_) | KubeconfigState::Stale { exists: true });
        self.was_initialized() || (is_written && self.observation.api_probe == Some(Ok(())))
    }

    /// Whether the EKS workspace is applied without problems.
    pub(crate) fn is_applied(&self) -> bool {
        self.workspace_summary
            .as_ref()
            .is_some_and(|it| it.available && it.up_to_date && it.problem.is_none())
    }

    /// Calls `work` with the inputs of the kubeconfig Secrets, if all of them are known.
    pub(crate) fn with_kubeconfig_inputs<T>(
        &self,
        work: impl FnOnce(&KubeconfigInputs<'_>) -> T,
    ) -> Option<T> {
        let (place, access) = (self.location.as_ref()?, self.access.as_ref()?);
        let principal = self.principal_digest.as_deref()?;
        Some(work(&KubeconfigInputs {
            object: self.object,
            cluster: &self.references.cluster.name,
            eks_name: &place.eks_name,
            region: &place.region,
            access,
            principal_digest: principal,
        }))
    }

    /// The profiles of the spec, and removed ones whose workspace still exists.
    pub(crate) fn managed_profiles(&self) -> Vec<ManagedProfile<'a>> {
        let wanted = capt_model::model::fargate::desired_profiles(&self.object.spec);
        let by_name: BTreeMap<String, &WorkspaceTemplateApply> =
            self.references.profile_workspaces.iter().map(|apply| (apply.name_any(), apply)).collect();
        let mut all: Vec<ManagedProfile<'a>> = wanted
            .iter()
            .map(|profile| {
                let apply_name = fargate::apply_name(self.object, &profile.name);
                let taken = self.references.name_conflicts.get(&apply_name);
                ManagedProfile {
                    name: profile.name.clone(),
                    workspace: by_name.get(&apply_name).copied(),
                    rejection: taken
                        .map(|owner| format!("WorkspaceTemplateApply {apply_name} is owned by {owner}")),
                    is_removed: false,
                    apply_name,
                }
            })
            .collect();
        for (apply_name, apply) in by_name {
            if !all.iter().any(|profile| profile.apply_name == apply_name) {
                let name = removed_profile_name(self.object, apply);
                all.push(ManagedProfile {
                    name,
                    workspace: Some(apply),
                    rejection: None,
                    is_removed: true,
                    apply_name,
                });
            }
        }
        all
    }

    /// The snapshot as the status shows it: with the workspaces that the API server rejected.
    pub(crate) fn with_rejections(&self, refused: Vec<(String, String)>) -> Self {
        let mut shown = self.clone();
        for (apply_name, why) in refused {
            let mut profiles = shown.profiles.iter_mut();
            let of = |it: &&mut ProfileAssessment| {
                it.status.workspace_template_apply_name.as_ref() == Some(&apply_name)
            };
            match profiles.find(of) {
                Some(profile) => profile.mark_failed(why),
                None => {
                    shown.validated =
                        Err(InvalidControlPlane { reason: reasons::WORKSPACE_ERROR, message: why });
                }
            }
        }
        shown
    }

    /// The previous status of a profile.
    pub(crate) fn previous_profile_status(&self, apply_name: &str) -> Option<&'a FargateProfileStatus> {
        let all = self.object.status.as_ref().map(|status| &status.fargate_profile_statuses)?;
        all.iter().find(|it| it.workspace_template_apply_name.as_deref() == Some(apply_name))
    }

    fn assess_profiles(&self) -> Vec<ProfileAssessment> {
        let mut known = self.observation.facts.clone();
        known.profiles.retain(|_, found| self.is_conclusive(found));
        let profiles = self.managed_profiles();
        profiles
            .iter()
            .map(|it| fargate::assess_profile(it, &known, self.previous_profile_status(&it.apply_name)))
            .collect()
    }

    fn kubeconfig_state(&self) -> KubeconfigState {
        let secret = self.references.secrets.kubeconfig.as_ref();
        let uid = self.object.uid().unwrap_or_default();
        if secret.is_some_and(|secret| kubeconfig::is_owned_by_others(secret, &uid)) {
            return KubeconfigState::OwnedByOthers;
        }
        let judge =
            |secret: &Secret| self.with_kubeconfig_inputs(|facts| kubeconfig::check_freshness(secret, facts));
        match (secret, &self.access) {
            (None, None) => KubeconfigState::AccessUnknown,
            // Access is unknown at the moment; the existing Secret is kept.
            (Some(secret), None) => kubeconfig::token_replacement_time(secret)
                .map_or(KubeconfigState::AccessUnknown, KubeconfigState::Current),
            (None, Some(_)) => KubeconfigState::Stale { exists: false },
            (Some(secret), Some(_)) => match judge(secret) {
                Some(SecretFreshness::Current(until)) => KubeconfigState::Current(until),
                Some(SecretFreshness::Stale) | None => KubeconfigState::Stale { exists: true },
            },
        }
    }
}

/// The name of a profile that was removed from the spec.
fn removed_profile_name(object: &CaptControlPlane, apply: &WorkspaceTemplateApply) -> String {
    let apply_name = apply.name_any();
    let before = object.status.iter().flat_map(|status| &status.fargate_profile_statuses);
    let told = before.into_iter().find(|it| it.workspace_template_apply_name.as_ref() == Some(&apply_name));
    let input = || apply.spec.inputs.as_ref()?.get("profile_name")?.as_str().map(str::to_owned);
    let variable = || apply.spec.variables.get("profile_name").cloned();
    told.map(|it| it.name.clone()).or_else(input).or_else(variable).unwrap_or(apply_name)
}

fn eks_location(
    valid: Option<&ValidatedEksCluster>,
    eks: Option<&WorkspaceTemplateApply>,
) -> Option<EksLocation> {
    if let Some(valid) = valid {
        return Some(EksLocation { eks_name: valid.eks_name.to_string(), region: valid.region.to_string() });
    }
    // With an invalid spec, the existing workspace still identifies the cluster.
    let eks = eks?;
    let region = eks.spec.region.clone().or_else(|| eks.spec.variables.get("region").cloned())?;
    Some(EksLocation { eks_name: recorded_eks_name(eks)?.to_owned(), region })
}

/// From EKS only: an output of the workspace may name any server, which would get a token.
fn api_server_access(look: &EksObservation) -> Option<ApiServerAccess> {
    look.facts.cluster.as_ref().and_then(EksLookup::present).and_then(ApiServerAccess::of_cluster)
}

/// Ownership of the cluster, by the last observation.
fn cluster_ownership(
    object: &CaptControlPlane,
    seen: &ControlPlaneReferences,
    look: &EksObservation,
    location: Option<&EksLocation>,
) -> ClusterOwnership {
    let status = seen.eks_workspace.as_ref().and_then(|apply| apply.status.as_ref());
    assess_ownership(OwnershipFacts {
        object,
        eks_name: location.map(|it| it.eks_name.as_str()).unwrap_or_default(),
        cluster: look.facts.cluster.as_ref().and_then(EksLookup::present),
        state_arns: status.map(|status| status.eks_cluster_arns.as_slice()).unwrap_or_default(),
        adopted_arns: &seen.adopted_arns,
        others: &seen.others,
        requires_tag: seen.requires_owner_tag,
    })
}

/// The version that EKS runs: as reported by EKS, else by the workspace outputs, else the last requested one.
fn find_running_version(
    eks: Option<&WorkspaceTemplateApply>,
    look: &EksObservation,
) -> Option<KubernetesVersion> {
    let parse = |text: &str| KubernetesVersion::parse(text).ok();
    match &look.facts.cluster {
        Some(EksLookup::Present(view)) => view.version.as_deref().and_then(parse),
        Some(EksLookup::NotFound) => None,
        None => {
            let eks = eks?;
            let is_applied = eks.status.as_ref().is_some_and(|status| status.applied == Some(true));
            let asked = || build::requested_version(eks).filter(|_| is_applied);
            string_output(eks, "cluster_version").or_else(asked).and_then(parse)
        }
    }
}

fn run_fingerprint(seen: &ControlPlaneReferences, principal: Option<&str>) -> String {
    let all = seen.eks_workspace.iter().chain(&seen.profile_workspaces).map(workspace_fingerprint);
    all.chain([principal.unwrap_or_default().to_owned()]).collect::<Vec<_>>().join("|")
}

/// A string that changes when a run of the workspace ends.
fn workspace_fingerprint(apply: &WorkspaceTemplateApply) -> String {
    let is_over =
        |phase: RunPhase| matches!(phase, RunPhase::Succeeded | RunPhase::Failed | RunPhase::Interrupted);
    let run = apply.status.as_ref().and_then(|status| status.run.as_ref()).filter(|run| is_over(run.phase));
    let applied = apply.status.as_ref().and_then(|status| status.last_applied_time.as_ref());
    let run = run.map(|run| run.id.as_str()).unwrap_or_default();
    format!("{}/{run}/{:?}", apply.uid().unwrap_or_default(), applied.map(|time| time.0))
}
