//! Variables of the built-in modules, from validated specs. Pure: no I/O.
//!
//! Each variable of a module is either a field here or an output of another workspace; a test compares both with the
//! module's `variables.tf`.

use std::collections::BTreeMap;

use capt_kinds::api::{AccessEntryType, AccessScopeType, LogType, NatGateways, UpgradePolicy};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::model::{
    Cidr, KubernetesVersion, Parse,
    control_plane::{
        Encryption, EndpointAccess, Logs, ValidatedAccessEntry, ValidatedAddon, ValidatedControlPlane,
    },
    fargate::ValidatedProfile,
    names,
    network::{ExistingVpc, NetworkSource, NewVpc, ValidatedNetwork, Zones},
    newtypes::{
        AccessPolicyArn, AddonName, ClusterName, KeyArn, PodRoleArn, PrincipalArn, ProfileName, RoleArn,
        SelectorLabelKey, SelectorLabelValue, SelectorNamespace, SubnetId, VpcId, Zone,
    },
    tags::Tags,
};

/// Variables in the form of `terraform.tfvars.json`.
pub type ModuleInputs = Map<String, Value>;

/// Variables of `terraform/modules/vpc`.
#[derive(Serialize)]
struct VpcInputs<'a> {
    name: String,
    cluster_name: &'a ClusterName,
    cidr: String,
    availability_zones: &'a [Zone],
    az_count: u8,
    nat: &'static str,
    flow_logs_enabled: bool,
    flow_logs_retention_days: i32,
    existing_vpc_id: Option<&'a VpcId>,
    existing_private_subnet_ids: &'a [SubnetId],
    existing_public_subnet_ids: &'a [SubnetId],
    tags: &'a Tags,
}

/// Variables of the VPC module; `None` if a template creates the network.
pub fn vpc_inputs(network: &ValidatedNetwork, cluster: &ClusterName) -> Option<ModuleInputs> {
    let name =
        network.vpc_name.as_ref().map_or_else(|| names::vpc_name(cluster.as_str()), ToString::to_string);
    let mut vpc = VpcInputs {
        name,
        cluster_name: cluster,
        cidr: "10.0.0.0/16".to_owned(),
        availability_zones: &[],
        az_count: 3,
        nat: nat_mode(NatGateways::default()),
        flow_logs_enabled: false,
        flow_logs_retention_days: 30,
        existing_vpc_id: None,
        existing_private_subnet_ids: &[],
        existing_public_subnet_ids: &[],
        tags: &network.tags,
    };
    match &network.source {
        NetworkSource::Template(_) => return None,
        NetworkSource::BuiltIn(NewVpc { cidr, zones, nat: wanted, flow_log_days }) => {
            vpc.cidr = cidr.to_string();
            match zones {
                Zones::Named(named) => vpc.availability_zones = named,
                Zones::First(count) => vpc.az_count = *count,
            }
            vpc.nat = nat_mode(*wanted);
            vpc.flow_logs_enabled = flow_log_days.is_some();
            vpc.flow_logs_retention_days = flow_log_days.unwrap_or(vpc.flow_logs_retention_days);
        }
        NetworkSource::Existing(ExistingVpc { id, private_subnets, public_subnets }) => {
            vpc.existing_vpc_id = Some(id);
            vpc.existing_private_subnet_ids = private_subnets;
            vpc.existing_public_subnet_ids = public_subnets;
        }
    }
    Some(to_inputs(&vpc))
}

const fn nat_mode(gateways: NatGateways) -> &'static str {
    match gateways {
        NatGateways::None => "none",
        NatGateways::Single => "single",
        NatGateways::PerAZ => "per_az",
    }
}

/// Variables of `terraform/modules/eks`, except those set from outputs of the VPC workspace.
#[derive(Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "mirrors the variables of the module")]
struct EksInputs<'a> {
    cluster_name: &'a ClusterName,
    kubernetes_version: &'a KubernetesVersion,
    endpoint_public_access: bool,
    endpoint_private_access: bool,
    endpoint_public_cidrs: Vec<Cidr>,
    access_entries: Vec<AccessEntry<'a>>,
    bootstrap_creator_admin: bool,
    encryption_enabled: bool,
    kms_key_arn: Option<&'a KeyArn>,
    log_types: &'a [LogType],
    log_retention_days: i32,
    addons: Vec<Addon<'a>>,
    upgrade_support_type: UpgradePolicy,
    service_ipv4_cidr: Option<Cidr>,
    pod_execution_role_arn: Option<&'a PodRoleArn>,
    system_profile: bool,
    owner: Option<&'a str>,
    tags: &'a Tags,
}

/// Variables of the EKS module that are outputs of the VPC workspace.
pub const EKS_INPUTS_FROM_VPC: [&str; 2] = ["vpc_id", "private_subnets"];

#[derive(Serialize)]
struct AccessEntry<'a> {
    principal_arn: &'a PrincipalArn,
    #[serde(rename = "type")]
    kind: AccessEntryType,
    kubernetes_groups: &'a [String],
    policies: Vec<AccessPolicy<'a>>,
}

#[derive(Serialize)]
struct AccessPolicy<'a> {
    policy_arn: &'a AccessPolicyArn,
    scope_type: AccessScopeType,
    namespaces: &'a [String],
}

#[derive(Serialize)]
struct Addon<'a> {
    name: &'a AddonName,
    version: Option<&'a str>,
    configuration_values: Option<&'a str>,
    service_account_role_arn: Option<&'a RoleArn>,
}

/// Variables of the EKS module. Spec fields that Terraform does not need are listed in the pattern as well, so that a new
/// field cannot be forgotten. `owner` is the uid of the control plane, which only exists in an API server.
pub fn eks_inputs(
    control_plane: &ValidatedControlPlane,
    cluster: &ClusterName,
    owner: Option<&str>,
) -> ModuleInputs {
    let ValidatedControlPlane {
        version,
        template: _,
        region: _,
        eks_name: _,
        endpoint: EndpointAccess { public, private, public_cidrs },
        addons,
        access_entries,
        creator_is_admin,
        encryption,
        logs: Logs { types, retention_days },
        upgrade_policy,
        service_cidr,
        pod_execution_role,
        system_profile,
        profiles: _,
        tags,
        identity: _,
        timeouts: _,
    } = control_plane;
    to_inputs(&EksInputs {
        cluster_name: cluster,
        kubernetes_version: version,
        endpoint_public_access: *public,
        endpoint_private_access: *private,
        endpoint_public_cidrs: if public_cidrs.is_empty() { vec![Cidr::ANY] } else { public_cidrs.clone() },
        access_entries: access_entries.iter().map(access_entry).collect(),
        bootstrap_creator_admin: *creator_is_admin,
        encryption_enabled: *encryption != Encryption::Off,
        kms_key_arn: match encryption {
            Encryption::Key(key) => Some(key),
            Encryption::Off | Encryption::NewKey => None,
        },
        log_types: types,
        log_retention_days: *retention_days,
        addons: if addons.is_empty() {
            default_addons(*system_profile)
        } else {
            addons.iter().map(addon).collect()
        },
        upgrade_support_type: *upgrade_policy,
        service_ipv4_cidr: *service_cidr,
        pod_execution_role_arn: pod_execution_role.as_ref(),
        system_profile: *system_profile,
        owner,
        tags,
    })
}

fn access_entry(entry: &ValidatedAccessEntry) -> AccessEntry<'_> {
    let policies = entry
        .policies
        .iter()
        .map(|policy| AccessPolicy {
            policy_arn: &policy.policy,
            scope_type: policy.scope,
            namespaces: &policy.namespaces,
        })
        .collect();
    AccessEntry {
        principal_arn: &entry.principal,
        kind: entry.kind,
        kubernetes_groups: &entry.groups,
        policies,
    }
}

/// A cluster without `addons` in its spec still needs DNS, and EKS installs no `coredns` when self-managed addons are disabled.
fn default_addons(system_profile: bool) -> Vec<Addon<'static>> {
    static COREDNS: std::sync::LazyLock<Option<AddonName>> =
        std::sync::LazyLock::new(|| AddonName::parse("coredns").ok());
    let nothing =
        |name| Addon { name, version: None, configuration_values: None, service_account_role_arn: None };
    COREDNS.as_ref().filter(|_| system_profile).map(nothing).into_iter().collect()
}

fn addon(addon: &ValidatedAddon) -> Addon<'_> {
    let ValidatedAddon { name, version, configuration, role } = addon;
    Addon {
        name,
        version: version.as_deref(),
        configuration_values: configuration.as_deref(),
        service_account_role_arn: role.as_ref(),
    }
}

/// Variables of `terraform/modules/fargate`; omitted ones are set from outputs of other workspaces.
#[derive(Serialize)]
struct FargateInputs<'a> {
    cluster_name: &'a ClusterName,
    profile_name: &'a ProfileName,
    selectors: Vec<Selector<'a>>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    private_subnets: &'a [SubnetId],
    #[serde(skip_serializing_if = "Option::is_none")]
    pod_execution_role_arn: Option<&'a PodRoleArn>,
    tags: &'a Tags,
}

#[derive(Serialize)]
struct Selector<'a> {
    namespace: &'a SelectorNamespace,
    labels: &'a BTreeMap<SelectorLabelKey, SelectorLabelValue>,
}

/// Variable of a profile that defaults to an output of the VPC workspace.
pub const FARGATE_INPUT_FROM_VPC: &str = "private_subnets";
/// Variable of a profile that defaults to an output of the EKS workspace.
pub const FARGATE_INPUT_FROM_EKS: &str = "pod_execution_role_arn";

/// Variables of the Fargate module.
pub fn fargate_inputs(profile: &ValidatedProfile, cluster: &ClusterName) -> ModuleInputs {
    let ValidatedProfile { name, selectors, template: _, subnets, pod_execution_role, tags } = profile;
    to_inputs(&FargateInputs {
        cluster_name: cluster,
        profile_name: name,
        selectors: selectors
            .iter()
            .map(|selector| Selector { namespace: &selector.namespace, labels: &selector.labels })
            .collect(),
        private_subnets: subnets,
        pod_execution_role_arn: pod_execution_role.as_ref(),
        tags,
    })
}

/// Serializes to a map; structs with named fields always serialize to an object.
fn to_inputs(inputs: &impl Serialize) -> ModuleInputs {
    match serde_json::to_value(inputs) {
        Ok(Value::Object(map)) => map,
        _ => ModuleInputs::new(),
    }
}
