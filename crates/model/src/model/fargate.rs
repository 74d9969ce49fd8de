//! Validation of Fargate profiles.

use std::collections::BTreeMap;

use capt_kinds::api::{self, schema};

use super::{
    limits::Limits,
    network::check_subnet_list,
    newtypes::{
        Namespace, PodRoleArn, ProfileName, SelectorLabelKey, SelectorLabelValue, SelectorNamespace, SubnetId,
    },
    problem::{FieldPath, Problems},
    references::{self, ObjectKey},
    tags::{self, Tags},
};

/// Name of the profile for cluster DNS, created by the built-in EKS module.
pub const SYSTEM_PROFILE: &str = "system";

/// Name of the profile for Sandbox pods.
pub const SANDBOX_PROFILE: &str = "sandboxes";
/// Labels of Sandbox pods: forks and routers.
const SANDBOX_LABELS: [&str; 2] = ["sandbox.capt.x-k8s.io/fork", "sandbox.capt.x-k8s.io/router"];

/// The desired profiles besides the system profile: the listed ones and the one for Sandboxes.
pub fn desired_profiles(spec: &api::CaptControlPlaneSpec) -> Vec<api::FargateProfile> {
    let mut all = spec.additional_fargate_profiles.clone();
    // A listed profile of the same name is rejected elsewhere; do not add a duplicate.
    let is_taken = all.iter().any(|it| it.name == SANDBOX_PROFILE);
    if spec.sandboxes.as_ref().is_some_and(|it| it.enabled) && !is_taken {
        all.push(sandbox_profile());
    }
    all
}

/// Matches every namespace, because forks run beside their baselines.
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

/// A validated Fargate profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidatedProfile {
    /// Its name.
    pub name: ProfileName,
    /// Its pod selectors.
    pub selectors: Vec<ValidatedSelector>,
    /// The template that replaces the built-in module.
    pub template: Option<ObjectKey>,
    /// Its subnets; the cluster's private ones if empty.
    pub subnets: Vec<SubnetId>,
    /// Its pod execution role; the cluster's if `None`.
    pub pod_execution_role: Option<PodRoleArn>,
    /// Its tags.
    pub tags: Tags,
}

impl ValidatedProfile {
    /// Whether it is the profile for Sandboxes. Other profiles may match its pods too: the profile of a fork is chosen when the
    /// fork is created.
    pub fn is_for_sandboxes(&self) -> bool {
        let labels =
            |it: &ValidatedSelector| it.labels.keys().any(|key| SANDBOX_LABELS.contains(&key.as_str()));
        self.name.as_str() == SANDBOX_PROFILE && self.selectors.iter().all(labels)
    }
}

/// A pod selector of a profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidatedSelector {
    /// Namespace of the pods.
    pub namespace: SelectorNamespace,
    /// Labels of the pods.
    pub labels: BTreeMap<SelectorLabelKey, SelectorLabelValue>,
}

/// Context of the profile checks.
#[derive(Clone, Copy)]
pub(super) struct ProfileContext<'a> {
    pub(super) home: &'a Namespace,
    pub(super) limits: &'a Limits,
    /// Whether the system profile exists too.
    pub(super) system_profile: bool,
}

pub(super) fn check_profiles(
    path: &FieldPath<'_>,
    profiles: &[api::FargateProfile],
    around: ProfileContext<'_>,
    problems: &mut Problems,
) -> Vec<ValidatedProfile> {
    let all = profiles.len() + usize::from(around.system_profile);
    let most = around.limits.profiles_per_cluster.min(schema::MAX_PROFILES);
    if all > most {
        let own = if around.system_profile { " including the system profile" } else { "" };
        problems.add(
            path,
            format!("the cluster would have {all} Fargate profiles{own}, but the limit is {most}"),
            format!("remove some, or raise the quota in AWS and {}", Limits::PROFILES_SETTING),
        );
    }
    let mut valid: Vec<ValidatedProfile> = Vec::with_capacity(profiles.len());
    for (index, profile) in profiles.iter().enumerate() {
        let path = path.index(index);
        if profiles[..index].iter().any(|earlier| earlier.name == profile.name) {
            problems.add(
                &path.field("name"),
                format!("{:?} is listed twice", profile.name),
                "rename one of them",
            );
        }
        if around.system_profile && profile.name == SYSTEM_PROFILE {
            problems.add(
                &path.field("name"),
                "\"system\" is reserved for the system profile",
                "choose another name, or set controlPlaneConfig.systemFargateProfile to false",
            );
        }
        valid.extend(check_profile(&path, profile, around, problems));
    }
    valid
}

/// Rejects listed profiles with the reserved name of the Sandbox profile.
pub(super) fn check_sandbox_profile_name(
    path: &FieldPath<'_>,
    profiles: &[api::FargateProfile],
    problems: &mut Problems,
) {
    for (index, _) in profiles.iter().enumerate().filter(|(_, it)| it.name == SANDBOX_PROFILE) {
        problems.add(
            &path.index(index).field("name"),
            "\"sandboxes\" is reserved for the profile that sandboxes.enabled creates",
            "choose another name, or set sandboxes.enabled to false",
        );
    }
}

fn check_profile(
    path: &FieldPath<'_>,
    profile: &api::FargateProfile,
    around: ProfileContext<'_>,
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
        .and_then(|reference| references::check_template(&template_path, reference, around.home, problems));
    let subnets = check_subnet_list(&path.field("subnetIds"), subnet_ids, problems);
    let role_path = path.field("podExecutionRoleArn");
    let pod_execution_role = problems.parse_option(&role_path, pod_execution_role_arn.as_deref());
    let tags = tags::check_tags(&path.field("tags"), tags, problems);
    Some(ValidatedProfile { name: name?, selectors, template, subnets, pod_execution_role, tags })
}

fn check_selectors(
    path: &FieldPath<'_>,
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
            format!("has {} selectors, but the limit is {most}", selectors.len()),
            format!("split the profile, or raise the quota in AWS and {}", Limits::SELECTORS_SETTING),
        );
    }
    let mut valid = Vec::with_capacity(selectors.len());
    for (index, selector) in selectors.iter().enumerate() {
        let path = path.index(index);
        if selectors[..index].contains(selector) {
            problems.add(&path, "duplicates an earlier selector", "remove one of them");
        }
        valid.extend(check_selector(&path, selector, limits, problems));
    }
    valid
}

fn check_selector(
    path: &FieldPath<'_>,
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
            format!("has {} labels, but the limit is {most}", labels.len()),
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
