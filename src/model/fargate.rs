//! Fargate profiles, from a `CAPTControlPlane`.

use std::collections::BTreeMap;

use crate::api::{self, schema};

use super::{
    limits::Limits,
    network::subnet_list,
    problem::{Path, Problems},
    references::{self, ObjectKey},
    tags::{self, Tags},
    text::{
        Namespace, PodRoleArn, ProfileName, SelectorLabelKey, SelectorLabelValue, SelectorNamespace, SubnetId,
    },
};

/// The name of the profile that the built-in EKS module makes for the cluster's DNS.
pub const SYSTEM_PROFILE: &str = "system";

/// The name of the profile for the pods of Sandboxes.
pub const SANDBOX_PROFILE: &str = "sandboxes";
/// Labels that pods of Sandboxes carry, those of forks and those of routers.
const SANDBOX_LABELS: [&str; 2] = ["sandbox.capt.x-k8s.io/fork", "sandbox.capt.x-k8s.io/router"];

/// All profiles that a cluster shall have beside its own one: those that are listed, and the one for Sandboxes.
pub fn wanted(spec: &api::CaptControlPlaneSpec) -> Vec<api::FargateProfile> {
    let mut all = spec.additional_fargate_profiles.clone();
    // One that is listed under the same name is refused, and must not be there twice meanwhile.
    let is_taken = all.iter().any(|it| it.name == SANDBOX_PROFILE);
    if spec.sandboxes.as_ref().is_some_and(|it| it.enabled) && !is_taken {
        all.push(sandbox_profile());
    }
    all
}

/// In every namespace, because forks run beside what they are forks of.
fn sandbox_profile() -> api::FargateProfile {
    let selector = |label: &str| api::FargateSelector {
        namespace: "*".to_owned(),
        labels: BTreeMap::from([(label.to_owned(), "*".to_owned())]),
    };
    api::FargateProfile {
        name: SANDBOX_PROFILE.to_owned(),
        selectors: SANDBOX_LABELS.map(selector).to_vec(),
        ..api::FargateProfile::default()
    }
}

/// A Fargate profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidatedProfile {
    /// Its name.
    pub name: ProfileName,
    /// The pods it is for.
    pub selectors: Vec<ValidatedSelector>,
    /// The template that makes it, in place of the built-in module.
    pub template: Option<ObjectKey>,
    /// Its subnets; the cluster's private ones if empty.
    pub subnets: Vec<SubnetId>,
    /// Its role; the cluster's own if left out.
    pub pod_execution_role: Option<PodRoleArn>,
    /// Its tags.
    pub tags: Tags,
}

impl ValidatedProfile {
    /// Whether it is the one for Sandboxes, whose pods other profiles may want too: which of them gets a fork is decided when
    /// the fork is made.
    pub fn is_for_sandboxes(&self) -> bool {
        let labels =
            |it: &ValidatedSelector| it.labels.keys().any(|key| SANDBOX_LABELS.contains(&key.as_str()));
        self.name.as_str() == SANDBOX_PROFILE && self.selectors.iter().all(labels)
    }
}

/// The pods a profile is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidatedSelector {
    /// Their namespace.
    pub namespace: SelectorNamespace,
    /// Their labels.
    pub labels: BTreeMap<SelectorLabelKey, SelectorLabelValue>,
}

/// What a profile is checked against.
#[derive(Clone, Copy)]
pub(super) struct Surroundings<'a> {
    pub(super) home: &'a Namespace,
    pub(super) limits: &'a Limits,
    /// Whether the cluster's own profile exists beside these.
    pub(super) system_profile: bool,
}

pub(super) fn check_all(
    path: &Path<'_>,
    profiles: &[api::FargateProfile],
    around: Surroundings<'_>,
    problems: &mut Problems,
) -> Vec<ValidatedProfile> {
    let all = profiles.len() + usize::from(around.system_profile);
    let most = around.limits.profiles_per_cluster.min(schema::MAX_PROFILES);
    if all > most {
        let own = if around.system_profile { ", the cluster's own among them" } else { "" };
        problems.add(
            path,
            format!("the cluster would have {all} Fargate profiles{own}, and the limit is {most}"),
            format!("remove some, or raise the quota in AWS and {}", Limits::PROFILES_SETTING),
        );
    }
    let mut valid: Vec<ValidatedProfile> = Vec::with_capacity(profiles.len());
    for (index, profile) in profiles.iter().enumerate() {
        let path = path.index(index);
        if profiles[..index].iter().any(|earlier| earlier.name == profile.name) {
            problems.add(
                &path.field("name"),
                format!("{:?} is there twice", profile.name),
                "rename one of them",
            );
        }
        if around.system_profile && profile.name == SYSTEM_PROFILE {
            problems.add(
                &path.field("name"),
                "\"system\" is the name of the cluster's own profile",
                "choose another name, or set controlPlaneConfig.systemFargateProfile to false",
            );
        }
        valid.extend(check(&path, profile, around, problems));
    }
    valid
}

/// The name of the profile for Sandboxes is nobody else's.
pub(super) fn check_sandboxes(path: &Path<'_>, profiles: &[api::FargateProfile], problems: &mut Problems) {
    for (index, _) in profiles.iter().enumerate().filter(|(_, it)| it.name == SANDBOX_PROFILE) {
        problems.add(
            &path.index(index).field("name"),
            "\"sandboxes\" is the name of the profile that sandboxes.enabled makes",
            "choose another name, or set sandboxes.enabled to false",
        );
    }
}

fn check(
    path: &Path<'_>,
    profile: &api::FargateProfile,
    around: Surroundings<'_>,
    problems: &mut Problems,
) -> Option<ValidatedProfile> {
    let api::FargateProfile {
        name,
        selectors,
        workspace_template_ref,
        subnet_ids,
        pod_execution_role_arn,
        tags,
    } = profile;
    let name = problems.parse(&path.field("name"), name);
    let selectors = check_selectors(&path.field("selectors"), selectors, around.limits, problems);
    let template_path = path.field("workspaceTemplateRef");
    let template = workspace_template_ref
        .as_ref()
        .and_then(|reference| references::template(&template_path, reference, around.home, problems));
    let subnets = subnet_list(&path.field("subnetIds"), subnet_ids, problems);
    let role_path = path.field("podExecutionRoleArn");
    let pod_execution_role = problems.parse_option(&role_path, pod_execution_role_arn.as_deref());
    let tags = tags::check(&path.field("tags"), tags, problems);
    Some(ValidatedProfile { name: name?, selectors, template, subnets, pod_execution_role, tags })
}

fn check_selectors(
    path: &Path<'_>,
    selectors: &[api::FargateSelector],
    limits: &Limits,
    problems: &mut Problems,
) -> Vec<ValidatedSelector> {
    let most = limits.selectors_per_profile.min(schema::MAX_SELECTORS);
    if selectors.is_empty() {
        problems.add(path, "must have at least one selector", "add one, such as a namespace");
    }
    if selectors.len() > most {
        problems.add(
            path,
            format!("has {} selectors, and the limit is {most}", selectors.len()),
            format!("split the profile, or raise the quota in AWS and {}", Limits::SELECTORS_SETTING),
        );
    }
    let mut valid = Vec::with_capacity(selectors.len());
    for (index, selector) in selectors.iter().enumerate() {
        let path = path.index(index);
        if selectors[..index].contains(selector) {
            problems.add(&path, "is the same as an earlier selector", "remove one of them");
        }
        valid.extend(check_selector(&path, selector, limits, problems));
    }
    valid
}

fn check_selector(
    path: &Path<'_>,
    selector: &api::FargateSelector,
    limits: &Limits,
    problems: &mut Problems,
) -> Option<ValidatedSelector> {
    let api::FargateSelector { namespace, labels } = selector;
    let namespace = problems.parse(&path.field("namespace"), namespace);
    let labels_path = path.field("labels");
    let most = limits.labels_per_selector.min(schema::MAX_LABELS);
    if labels.len() > most {
        problems.add(
            &labels_path,
            format!("has {} labels, and the limit is {most}", labels.len()),
            format!("remove some, or raise the quota in AWS and {}", Limits::LABELS_SETTING),
        );
    }
    let mut valid = BTreeMap::new();
    for (key, value) in labels {
        let path = labels_path.key(key);
        if let (Some(key), Some(value)) = (problems.parse(&path, key), problems.parse(&path, value)) {
            valid.insert(key, value);
        }
    }
    Some(ValidatedSelector { namespace: namespace?, labels: valid })
}
