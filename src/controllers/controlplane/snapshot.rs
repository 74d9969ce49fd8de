//! All that is known of a control plane, put together: by Kubernetes, by EKS, by the spec. Pure.
//!
//! What is to be done and what is to be said are both read off this picture, so that they cannot disagree.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;

use super::{
    build,
    dereference::Seen,
    fargate::{self, Judged, Profile},
    kubeconfig::{self, Facts, Verdict},
    look::{Access, Found, Look},
    validate::{Refusal, Validated, recorded_name, validate},
    version::{self, Step},
};
use crate::{
    api::{CaptControlPlane, FargateProfileStatus, RunPhase, WorkspaceTemplateApply, conditions::reasons},
    aws::ClusterView,
    controllers::common::workspace::{self, Finding, text_output},
    model::{KubernetesVersion, Limits, Parse as _},
};

/// Where the cluster is in AWS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// Its name in EKS.
    pub eks_name: String,
    /// Its region.
    pub region: String,
}

/// How the Secret for programs is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kubeconfig {
    /// Nobody knows yet how the API is reached.
    NoAccess,
    /// The Secret is somebody else's.
    Foreign,
    /// It is as it should be, until then.
    Current(Timestamp),
    /// It is to be written, and is there or not.
    Stale {
        /// Whether there is one.
        exists: bool,
    },
}

/// All that is known of a control plane.
#[derive(Debug, Clone)]
pub(crate) struct Picture<'a> {
    /// It.
    pub object: &'a CaptControlPlane,
    /// What belongs to it.
    pub seen: &'a Seen,
    /// What the world said.
    pub look: &'a Look,
    /// The time.
    pub now: Timestamp,
    /// What it shall be.
    pub valid: Result<Validated, Refusal>,
    /// Where it is.
    pub place: Option<Place>,
    /// What its workspace says.
    pub finding: Option<Finding>,
    /// The version that EKS runs.
    pub running: Option<KubernetesVersion>,
    /// The version to ask for.
    pub step: Option<Step>,
    /// Its profiles, also those that go.
    pub profiles: Vec<Judged>,
    /// How its API is reached.
    pub access: Option<Access>,
    /// How the Secret for programs is.
    pub kubeconfig: Kubeconfig,
    /// Digest of who acts.
    pub principal: Option<String>,
    /// Changes when a run of any of its workspaces ends, and when somebody else acts.
    pub stamp: String,
}

impl<'a> Picture<'a> {
    /// Puts it together.
    pub(crate) fn of(
        object: &'a CaptControlPlane,
        seen: &'a Seen,
        look: &'a Look,
        limits: &Limits,
        now: Timestamp,
    ) -> Self {
        let valid = validate(object, seen, limits);
        let running = running(seen.eks.as_ref(), look);
        let step =
            valid.as_ref().ok().map(|valid| version::step(&valid.control_plane.version, running.as_ref()));
        let principal = seen.principal.as_ref().ok().map(crate::aws::Principal::digest);
        let mut picture = Self {
            object,
            seen,
            look,
            now,
            place: place(valid.as_ref().ok(), seen.eks.as_ref()),
            finding: seen.eks.as_ref().map(workspace::look),
            running,
            step,
            profiles: Vec::new(),
            access: access(seen, look),
            kubeconfig: Kubeconfig::NoAccess,
            stamp: stamp(seen, principal.as_deref()),
            principal,
            valid,
        };
        picture.profiles = picture.judged();
        picture.kubeconfig = picture.secret_for_programs();
        picture
    }

    /// What EKS says of the cluster.
    pub(crate) fn cluster(&self) -> Option<&Found<ClusterView>> {
        self.look.known.cluster.as_ref().filter(|found| self.counts(found))
    }

    /// What was not there when EKS was last asked may have been made since: before EKS is asked about a run that has
    /// ended meanwhile, nothing is known of it.
    fn counts<T>(&self, found: &Found<T>) -> bool {
        let asked = self.look.asked.as_ref().is_some_and(|(_, stamp)| *stamp == self.stamp);
        asked || found.there().is_some()
    }

    /// Whether the API server answered once.
    pub(crate) fn was_initialized(&self) -> bool {
        let status = self.object.status.as_ref();
        status.and_then(|it| it.initialization.as_ref()?.control_plane_initialized).unwrap_or(false)
    }

    /// Whether the API server answered, now or before, and the way to it is written down.
    pub(crate) fn is_initialized(&self) -> bool {
        let is_written =
            matches!(self.kubeconfig, Kubeconfig::Current(_) | Kubeconfig::Stale { exists: true });
        self.was_initialized() || (is_written && self.look.api == Some(Ok(())))
    }

    /// Whether the workspace did all that was asked of it.
    pub(crate) fn is_applied(&self) -> bool {
        self.finding.as_ref().is_some_and(|it| it.usable && it.settled && it.trouble.is_none())
    }

    /// Everything that kubeconfigs are made from, if all of it is known.
    pub(crate) fn with_facts<T>(&self, work: impl FnOnce(&Facts<'_>) -> T) -> Option<T> {
        let (place, access) = (self.place.as_ref()?, self.access.as_ref()?);
        let principal = self.principal.as_deref()?;
        Some(work(&Facts {
            object: self.object,
            cluster: &self.seen.cluster.name,
            eks_name: &place.eks_name,
            region: &place.region,
            access,
            principal,
        }))
    }

    /// The profiles of the spec, and those that were in it and have a workspace still.
    pub(crate) fn all_profiles(&self) -> Vec<Profile<'a>> {
        let wanted = crate::model::fargate::wanted(&self.object.spec);
        let by_name: BTreeMap<String, &WorkspaceTemplateApply> =
            self.seen.profiles.iter().map(|apply| (apply.name_any(), apply)).collect();
        let mut all: Vec<Profile<'a>> = wanted
            .iter()
            .map(|profile| {
                let apply_name = fargate::apply_name(self.object, &profile.name);
                let taken = self.seen.taken.get(&apply_name);
                Profile {
                    name: profile.name.clone(),
                    apply: by_name.get(&apply_name).copied(),
                    refused: taken
                        .map(|owner| format!("WorkspaceTemplateApply {apply_name} belongs to {owner}")),
                    is_dropped: false,
                    apply_name,
                }
            })
            .collect();
        for (apply_name, apply) in by_name {
            if !all.iter().any(|profile| profile.apply_name == apply_name) {
                let name = dropped_name(self.object, apply);
                all.push(Profile { name, apply: Some(apply), refused: None, is_dropped: true, apply_name });
            }
        }
        all
    }

    /// Notes workspaces that the API server refused.
    pub(crate) fn refuse(&mut self, refused: Vec<(String, String)>) {
        for (apply_name, why) in refused {
            let mut profiles = self.profiles.iter_mut();
            let of = |it: &&mut Judged| it.status.workspace_template_apply_name.as_ref() == Some(&apply_name);
            match profiles.find(of) {
                Some(profile) => profile.fail(why),
                None => self.valid = Err(Refusal { reason: reasons::WORKSPACE_ERROR, message: why }),
            }
        }
    }

    /// What was said of a profile before.
    pub(crate) fn previous(&self, apply_name: &str) -> Option<&'a FargateProfileStatus> {
        let all = self.object.status.as_ref().map(|status| &status.fargate_profile_statuses)?;
        all.iter().find(|it| it.workspace_template_apply_name.as_deref() == Some(apply_name))
    }

    fn judged(&self) -> Vec<Judged> {
        let mut known = self.look.known.clone();
        known.profiles.retain(|_, found| self.counts(found));
        let profiles = self.all_profiles();
        profiles.iter().map(|it| fargate::judge(it, &known, self.previous(&it.apply_name))).collect()
    }

    fn secret_for_programs(&self) -> Kubeconfig {
        let secret = self.seen.secrets.programs.as_ref();
        let uid = self.object.uid().unwrap_or_default();
        if secret.is_some_and(|secret| kubeconfig::is_foreign(secret, &uid)) {
            return Kubeconfig::Foreign;
        }
        let judge = |secret: &Secret| self.with_facts(|facts| kubeconfig::judge(secret, facts));
        match (secret, &self.access) {
            (None, None) => Kubeconfig::NoAccess,
            // Nobody tells how the API is reached just now; what is written down stays.
            (Some(secret), None) => {
                kubeconfig::life(secret).map_or(Kubeconfig::NoAccess, Kubeconfig::Current)
            }
            (None, Some(_)) => Kubeconfig::Stale { exists: false },
            (Some(secret), Some(_)) => match judge(secret) {
                Some(Verdict::Current(until)) => Kubeconfig::Current(until),
                Some(Verdict::Stale) | None => Kubeconfig::Stale { exists: true },
            },
        }
    }
}

/// The name of a profile that the spec does not name any more.
fn dropped_name(object: &CaptControlPlane, apply: &WorkspaceTemplateApply) -> String {
    let apply_name = apply.name_any();
    let before = object.status.iter().flat_map(|status| &status.fargate_profile_statuses);
    let told = before.into_iter().find(|it| it.workspace_template_apply_name.as_ref() == Some(&apply_name));
    let input = || apply.spec.inputs.as_ref()?.get("profile_name")?.as_str().map(str::to_owned);
    let variable = || apply.spec.variables.get("profile_name").cloned();
    told.map(|it| it.name.clone()).or_else(input).or_else(variable).unwrap_or(apply_name)
}

fn place(valid: Option<&Validated>, eks: Option<&WorkspaceTemplateApply>) -> Option<Place> {
    if let Some(valid) = valid {
        return Some(Place { eks_name: valid.eks_name.to_string(), region: valid.region.to_string() });
    }
    // A spec that is wrong just now does not make a cluster unknown.
    let eks = eks?;
    let region = eks.spec.region.clone().or_else(|| eks.spec.variables.get("region").cloned())?;
    Some(Place { eks_name: recorded_name(eks)?.to_owned(), region })
}

/// EKS's word first; it may have changed since the last run.
fn access(seen: &Seen, look: &Look) -> Option<Access> {
    let told = look.known.cluster.as_ref().and_then(Found::there).and_then(|view| {
        Some(Access { endpoint: view.endpoint.clone()?, authority: view.certificate_authority.clone()? })
    });
    told.or_else(|| seen.connection.clone())
}

/// The version that EKS runs: its own word, else the workspace's, else what was asked for last.
fn running(eks: Option<&WorkspaceTemplateApply>, look: &Look) -> Option<KubernetesVersion> {
    let parse = |text: &str| KubernetesVersion::parse(text).ok();
    match &look.known.cluster {
        Some(Found::There(view)) => view.version.as_deref().and_then(parse),
        Some(Found::Gone) => None,
        None => {
            let eks = eks?;
            let is_applied = eks.status.as_ref().is_some_and(|status| status.applied == Some(true));
            let asked = || build::asked_version(eks).filter(|_| is_applied);
            text_output(eks, "cluster_version").or_else(asked).and_then(parse)
        }
    }
}

fn stamp(seen: &Seen, principal: Option<&str>) -> String {
    let all = seen.eks.iter().chain(&seen.profiles).map(one_stamp);
    all.chain([principal.unwrap_or_default().to_owned()]).collect::<Vec<_>>().join("|")
}

/// What changes whenever a run of a workspace ends.
fn one_stamp(apply: &WorkspaceTemplateApply) -> String {
    let is_over =
        |phase: RunPhase| matches!(phase, RunPhase::Succeeded | RunPhase::Failed | RunPhase::Interrupted);
    let run = apply.status.as_ref().and_then(|status| status.run.as_ref()).filter(|run| is_over(run.phase));
    let applied = apply.status.as_ref().and_then(|status| status.last_applied_time.as_ref());
    let run = run.map(|run| run.id.as_str()).unwrap_or_default();
    format!("{}/{run}/{:?}", apply.uid().unwrap_or_default(), applied.map(|time| time.0))
}
