//! Validation of a `CAPTControlPlane`.

use capt_kinds::api::{self, AccessEntryType, AccessScopeType, ControlPlaneConfig, LogType, UpgradePolicy};

use super::{
    access, addons,
    cidr::Cidr,
    fargate::{self, ProfileContext, ValidatedProfile},
    limits::Limits,
    network::check_retention,
    newtypes::{
        AccessPolicyArn, AddonName, ClusterName, KeyArn, Namespace, ObjectName, PodRoleArn, PrincipalArn,
        Region, RoleArn,
    },
    problem::{FieldPath, Problem, Problems},
    references::{self, ObjectKey},
    tags::{self, Tags},
    version::KubernetesVersion,
};

/// A validated `CAPTControlPlane`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidatedControlPlane {
    /// Its version.
    pub version: KubernetesVersion,
    /// The template that replaces the built-in module.
    pub template: Option<ObjectKey>,
    /// Its region, if set.
    pub region: Option<Region>,
    /// Its EKS cluster name, if set.
    pub eks_name: Option<ClusterName>,
    /// Network access to its API.
    pub endpoint: EndpointAccess,
    /// Its addons.
    pub addons: Vec<ValidatedAddon>,
    /// EKS access entries.
    pub access_entries: Vec<ValidatedAccessEntry>,
    /// Whether the creating identity becomes cluster administrator.
    pub creator_is_admin: bool,
    /// How its Secrets are encrypted.
    pub encryption: Encryption,
    /// Its logs.
    pub logs: Logs,
    /// Upgrade policy at the end of standard support.
    pub upgrade_policy: UpgradePolicy,
    /// CIDR of its Services.
    pub service_cidr: Option<Cidr>,
    /// Pod execution role; created if `None`.
    pub pod_execution_role: Option<PodRoleArn>,
    /// Whether it gets a Fargate profile for cluster DNS.
    pub system_profile: bool,
    /// Its other Fargate profiles.
    pub profiles: Vec<ValidatedProfile>,
    /// Tags of all its resources.
    pub tags: Tags,
    /// The AWS identity to use.
    pub identity: Option<ObjectName>,
    /// Minutes after which an unfinished run is reported.
    pub timeouts: api::Timeouts,
}

/// Network access to the Kubernetes API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointAccess {
    /// From the internet.
    pub public: bool,
    /// From the VPC.
    pub private: bool,
    /// The public CIDRs with access.
    pub public_cidrs: Vec<Cidr>,
}

/// Envelope encryption of Secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Encryption {
    /// Disabled.
    Off,
    /// With a KMS key created for the cluster.
    NewKey,
    /// With this KMS key.
    Key(KeyArn),
}

/// Control plane logging.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logs {
    /// Log types, in the order of AWS.
    pub types: Vec<LogType>,
    /// Retention in days.
    pub retention_days: i32,
}

/// An EKS addon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidatedAddon {
    /// Its name.
    pub name: AddonName,
    /// Its version; the EKS default if `None`.
    pub version: Option<String>,
    /// Its configuration values, as JSON text.
    pub configuration: Option<String>,
    /// The role of its service account.
    pub role: Option<RoleArn>,
}

/// An EKS access entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidatedAccessEntry {
    /// The IAM principal.
    pub principal: PrincipalArn,
    /// Its type.
    pub kind: AccessEntryType,
    /// Its Kubernetes groups.
    pub groups: Vec<String>,
    /// Its access policies.
    pub policies: Vec<ValidatedAccessPolicy>,
}

/// An access policy and its scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidatedAccessPolicy {
    /// The policy.
    pub policy: AccessPolicyArn,
    /// The whole cluster or some namespaces.
    pub scope: AccessScopeType,
    /// The namespaces.
    pub namespaces: Vec<String>,
}

/// Validates the spec of a `CAPTControlPlane` in this namespace.
pub fn validate(
    spec: &api::CaptControlPlaneSpec,
    home: &Namespace,
    limits: &Limits,
) -> Result<ValidatedControlPlane, Vec<Problem>> {
    let mut problems = Problems::default();
    let control_plane = check_spec(&FieldPath::root("spec"), spec, (home, limits), &mut problems);
    problems.into_result(control_plane)
}

pub(super) fn check_spec(
    path: &FieldPath<'_>,
    spec: &api::CaptControlPlaneSpec,
    (home, limits): (&Namespace, &Limits),
    problems: &mut Problems,
) -> Option<ValidatedControlPlane> {
    let api::CaptControlPlaneSpec {
        version,
        workspace_template_ref,
        control_plane_config,
        additional_tags,
        control_plane_endpoint: _,
        workspace_template_apply_name: _,
        additional_fargate_profiles,
        sandboxes,
        eks_cluster_name,
        identity_ref,
    } = spec;
    let no_config = ControlPlaneConfig::default();
    let config = control_plane_config.as_ref().unwrap_or(&no_config);
    let config_path = path.field("controlPlaneConfig");

    let version = problems.parse(&path.field("version"), version);
    let template_path = path.field("workspaceTemplateRef");
    let template = workspace_template_ref
        .as_ref()
        .and_then(|reference| references::check_template(&template_path, reference, home, problems));
    let built_in = workspace_template_ref.is_none();
    if !built_in {
        check_no_module_settings(&config_path, config, problems);
    }
    let system_profile = built_in && config.system_fargate_profile;
    let profiles_path = path.field("additionalFargateProfiles");
    let around = ProfileContext { home, limits, system_profile };
    let profiles =
        fargate::check_profiles(&profiles_path, &fargate::desired_profiles(spec), around, problems);
    if sandboxes.as_ref().is_some_and(|it| it.enabled) {
        fargate::check_sandbox_profile_name(&profiles_path, additional_fargate_profiles, problems);
    }
    let role_path = config_path.field("podExecutionRoleArn");

    Some(ValidatedControlPlane {
        template,
        region: problems.parse_option(&config_path.field("region"), config.region.as_deref()),
        eks_name: problems.parse_option(&path.field("eksClusterName"), eks_cluster_name.as_deref()),
        endpoint: check_endpoint_access(
            &config_path.field("endpointAccess"),
            config.endpoint_access.as_ref(),
            problems,
        ),
        addons: addons::check_addons(&config_path.field("addons"), &config.addons, problems),
        access_entries: access::check_access_entries(
            &config_path.field("accessEntries"),
            &config.access_entries,
            problems,
        ),
        creator_is_admin: config.bootstrap_cluster_creator_admin,
        encryption: check_encryption(&config_path.field("encryption"), config.encryption.as_ref(), problems),
        logs: check_logs(&config_path.field("logging"), config.logging.as_ref(), problems),
        upgrade_policy: config.upgrade_policy,
        service_cidr: check_service_cidr(&config_path.field("serviceIpv4Cidr"), config, problems),
        pod_execution_role: problems.parse_option(&role_path, config.pod_execution_role_arn.as_deref()),
        system_profile,
        profiles,
        tags: tags::check_tags(&path.field("additionalTags"), additional_tags, problems),
        identity: references::check_identity(&path.field("identityRef"), identity_ref.as_ref(), problems),
        timeouts: check_timeouts(&config_path.field("timeouts"), config.timeouts.as_ref(), problems),
        // Last, because `?` would skip the checks above.
        version: version?,
    })
}

/// Rejects settings that a template would silently ignore.
fn check_no_module_settings(path: &FieldPath<'_>, config: &ControlPlaneConfig, problems: &mut Problems) {
    let ignored = config.encryption.is_some()
        || config.logging.is_some()
        || config.service_ipv4_cidr.is_some()
        || !config.access_entries.is_empty();
    if ignored {
        problems.add(
            path,
            "encryption, logging, serviceIpv4Cidr and accessEntries are only for the built-in module",
            "remove them, or workspaceTemplateRef",
        );
    }
}

fn check_endpoint_access(
    path: &FieldPath<'_>,
    access: Option<&api::EndpointAccess>,
    problems: &mut Problems,
) -> EndpointAccess {
    let unset = api::EndpointAccess::default();
    let api::EndpointAccess { public, private, public_cidrs } = access.unwrap_or(&unset);
    let (public, private) = (public.unwrap_or(true), private.unwrap_or(true));
    let cidrs_path = path.field("publicCIDRs");
    let cidrs: Vec<Cidr> = problems.parse_set(&cidrs_path, public_cidrs);
    if !public && !private {
        problems.add(path, "the cluster would be unreachable", "set public or private to true");
    }
    if !public && !public_cidrs.is_empty() {
        problems.add(&cidrs_path, "has no effect while public is false", "remove it, or set public to true");
    }
    if public && !private && !cidrs.is_empty() && !cidrs.iter().any(Cidr::is_any) {
        problems.add(
            &cidrs_path,
            "restricts the public endpoint while private is false, so that Fargate pods cannot reach the API",
            "set private to true",
        );
    }
    EndpointAccess { public, private, public_cidrs: cidrs }
}

fn check_encryption(
    path: &FieldPath<'_>,
    encryption: Option<&api::Encryption>,
    problems: &mut Problems,
) -> Encryption {
    let Some(api::Encryption { enabled, kms_key_arn }) = encryption else { return Encryption::NewKey };
    let key_path = path.field("kmsKeyArn");
    let key = problems.parse_option(&key_path, kms_key_arn.as_deref());
    if !enabled && kms_key_arn.is_some() {
        problems.add(&key_path, "has no effect while encryption is off", "remove it, or enable encryption");
    }
    match (enabled, key) {
        (false, _) => Encryption::Off,
        (true, None) => Encryption::NewKey,
        (true, Some(key)) => Encryption::Key(key),
    }
}

fn check_logs(path: &FieldPath<'_>, logging: Option<&api::Logging>, problems: &mut Problems) -> Logs {
    let unset = api::Logging::default();
    let api::Logging { types, retention_days } = logging.unwrap_or(&unset);
    let mut sorted = types.clone();
    sorted.sort_unstable();
    sorted.dedup();
    if sorted.len() != types.len() {
        problems.add(&path.field("types"), "lists a log type twice", "remove one of them");
    }
    check_retention(&path.field("retentionDays"), *retention_days, problems);
    Logs { types: sorted, retention_days: *retention_days }
}

fn check_service_cidr(
    path: &FieldPath<'_>,
    config: &ControlPlaneConfig,
    problems: &mut Problems,
) -> Option<Cidr> {
    let cidr: Cidr = problems.parse_option(path, config.service_ipv4_cidr.as_deref())?;
    if !(12..=24).contains(&cidr.prefix()) || !cidr.is_private() {
        problems.add(
            path,
            format!("{cidr} is not from /12 to /24 inside a private range"),
            "use a range inside 10.0.0.0/8, 172.16.0.0/12 or 192.168.0.0/16",
        );
    }
    Some(cidr)
}

fn check_timeouts(
    path: &FieldPath<'_>,
    timeouts: Option<&api::Timeouts>,
    problems: &mut Problems,
) -> api::Timeouts {
    let timeouts = timeouts.cloned().unwrap_or_default();
    for (field, minutes) in [
        ("controlPlaneTimeout", timeouts.control_plane_timeout),
        ("vpcReadyTimeout", timeouts.vpc_ready_timeout),
    ] {
        if minutes < 1 {
            problems.add(&path.field(field), format!("{minutes} is less than a minute"), "use 1 or more");
        }
    }
    timeouts
}
