//! Validation of a `CAPTCluster`: the network of a cluster.

use capt_kinds::api::{self, NatGateways, VpcConfig, schema};

use super::{
    cidr::Cidr,
    newtypes::{Namespace, ObjectName, Region, SubnetId, VpcId, VpcName, Zone},
    problem::{FieldPath, Problem, Problems},
    references::{self, ObjectKey},
    tags::{self, Tags},
};

/// A validated `CAPTCluster`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidatedNetwork {
    /// Its region.
    pub region: Region,
    /// Source of the network.
    pub source: NetworkSource,
    /// Name of the VPC, if set.
    pub vpc_name: Option<VpcName>,
    /// Tags of all its resources.
    pub tags: Tags,
    /// Whether it is retained when the cluster is deleted.
    pub retain: bool,
    /// The AWS identity to use.
    pub identity: Option<ObjectName>,
}

/// Source of a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetworkSource {
    /// Created by the built-in module.
    BuiltIn(NewVpc),
    /// Created by a template.
    Template(ObjectKey),
    /// An existing VPC.
    Existing(ExistingVpc),
}

/// A VPC to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewVpc {
    /// Its CIDR.
    pub cidr: Cidr,
    /// Its availability zones.
    pub zones: Zones,
    /// Its NAT gateways.
    pub nat: NatGateways,
    /// Retention of flow logs in days; disabled if `None`.
    pub flow_log_days: Option<i32>,
}

/// Availability zones of a VPC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Zones {
    /// These.
    Named(Vec<Zone>),
    /// The first N zones of the region.
    First(u8),
}

/// An existing VPC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExistingVpc {
    /// Its id.
    pub id: VpcId,
    /// Its private subnets; discovered if empty.
    pub private_subnets: Vec<SubnetId>,
    /// Its public subnets; discovered if empty.
    pub public_subnets: Vec<SubnetId>,
}

/// Validates the spec of a `CAPTCluster` in this namespace.
pub fn validate(spec: &api::CaptClusterSpec, home: &Namespace) -> Result<ValidatedNetwork, Vec<Problem>> {
    let mut problems = Problems::default();
    let network = check_spec(&FieldPath::root("spec"), spec, home, &mut problems);
    problems.into_result(network)
}

pub(super) fn check_spec(
    path: &FieldPath<'_>,
    spec: &api::CaptClusterSpec,
    home: &Namespace,
    problems: &mut Problems,
) -> Option<ValidatedNetwork> {
    let api::CaptClusterSpec {
        region,
        vpc_template_ref,
        existing_vpc_id,
        retain_vpc_on_delete,
        vpc_config,
        workspace_template_apply_name: _,
        control_plane_endpoint,
        identity_ref,
    } = spec;
    let no_config = VpcConfig::default();
    let config = vpc_config.as_ref().unwrap_or(&no_config);
    let config_path = path.field("vpcConfig");

    let region = problems.parse(&path.field("region"), region);
    let identity = references::check_identity(&path.field("identityRef"), identity_ref.as_ref(), problems);
    let vpc_name = problems.parse_option(&config_path.field("name"), config.name.as_deref());
    let tags = tags::check_tags(&config_path.field("tags"), &config.tags, problems);
    if let Some(endpoint) = control_plane_endpoint {
        check_endpoint(&path.field("controlPlaneEndpoint"), endpoint, problems);
    }
    let new = check_new_vpc(&config_path, config, region.as_ref(), problems);
    let subnets = check_subnets(&config_path, config, problems);
    check_combination(path, spec, config, problems);

    let source = match (vpc_template_ref, existing_vpc_id) {
        (Some(reference), _) => {
            references::check_template(&path.field("vpcTemplateRef"), reference, home, problems)
                .map(NetworkSource::Template)
        }
        (None, Some(id)) => problems.parse(&path.field("existingVpcId"), id).map(|id| {
            let (private_subnets, public_subnets) = subnets;
            NetworkSource::Existing(ExistingVpc { id, private_subnets, public_subnets })
        }),
        (None, None) => new.map(NetworkSource::BuiltIn),
    };
    Some(ValidatedNetwork {
        region: region?,
        source: source?,
        vpc_name,
        tags,
        retain: retain_vpc_on_delete.unwrap_or(false),
        identity,
    })
}

fn check_endpoint(path: &FieldPath<'_>, endpoint: &api::ContractEndpoint, problems: &mut Problems) {
    let api::ContractEndpoint { host, port } = endpoint;
    if host.is_none() && port.is_none() {
        problems.add(path, "has neither host nor port", "set one of them, or omit the endpoint");
    }
    if host.as_ref().is_some_and(|host| !(1..=512).contains(&host.chars().count())) {
        problems.add(&path.field("host"), "must have 1 to 512 characters", "use a host name, or omit it");
    }
    if port.is_some_and(|port| !(1..=65535).contains(&port)) {
        problems.add(&path.field("port"), "must be from 1 to 65535", "use a valid port, or omit it");
    }
}

fn check_combination(
    path: &FieldPath<'_>,
    spec: &api::CaptClusterSpec,
    config: &VpcConfig,
    problems: &mut Problems,
) {
    let config_path = path.field("vpcConfig");
    if spec.vpc_template_ref.is_some() && spec.existing_vpc_id.is_some() {
        problems.add(path, "has both vpcTemplateRef and existingVpcId", "remove one of them");
    }
    let describes_new = config.cidr.is_some()
        || !config.availability_zones.is_empty()
        || config.availability_zone_count.is_some()
        || config.nat_gateways.is_some()
        || config.flow_logs.is_some();
    if describes_new && (spec.existing_vpc_id.is_some() || spec.vpc_template_ref.is_some()) {
        problems.add(
            &config_path,
            "cidr, availabilityZones, availabilityZoneCount, natGateways and flowLogs are only for the built-in VPC",
            "remove them, or existingVpcId and vpcTemplateRef",
        );
    }
    let names_subnets = !config.private_subnet_ids.is_empty() || !config.public_subnet_ids.is_empty();
    if names_subnets && spec.existing_vpc_id.is_none() {
        problems.add(
            &config_path,
            "privateSubnetIds and publicSubnetIds are only for an existing VPC",
            "set existingVpcId too, or remove them",
        );
    }
}

fn check_new_vpc(
    path: &FieldPath<'_>,
    config: &VpcConfig,
    region: Option<&Region>,
    problems: &mut Problems,
) -> Option<NewVpc> {
    let cidr = check_vpc_cidr(&path.field("cidr"), config.cidr.as_deref(), problems);
    let zones = check_zones(path, config, region, problems);
    let flow_logs = config.flow_logs.as_ref();
    if let Some(logs) = flow_logs {
        check_retention(&path.field("flowLogs").field("retentionDays"), logs.retention_days, problems);
    }
    Some(NewVpc {
        cidr: cidr?,
        zones: zones?,
        nat: config.nat_gateways.unwrap_or_default(),
        flow_log_days: flow_logs.filter(|logs| logs.enabled).map(|logs| logs.retention_days),
    })
}

fn check_vpc_cidr(path: &FieldPath<'_>, text: Option<&str>, problems: &mut Problems) -> Option<Cidr> {
    let cidr: Cidr = problems.parse(path, text.unwrap_or("10.0.0.0/16"))?;
    if (16..=24).contains(&cidr.prefix()) {
        return Some(cidr);
    }
    problems.add(path, format!("{cidr} is not from /16 to /24"), "use a range such as 10.0.0.0/16");
    None
}

fn check_zones(
    path: &FieldPath<'_>,
    config: &VpcConfig,
    region: Option<&Region>,
    problems: &mut Problems,
) -> Option<Zones> {
    let (list_path, count_path) = (path.field("availabilityZones"), path.field("availabilityZoneCount"));
    let named: Vec<Zone> = problems.parse_set(&list_path, &config.availability_zones);
    if !config.availability_zones.is_empty() && config.availability_zone_count.is_some() {
        problems.add(&count_path, "is set together with availabilityZones", "remove one of them");
    }
    if !matches!(config.availability_zones.len(), 0 | 2 | 3) {
        problems.add(&list_path, "must list 2 or 3 zones", "list 2 or 3, or omit it");
    }
    for (index, zone) in named.iter().enumerate() {
        if region.is_some_and(|region| zone.region() != region.as_str()) {
            problems.add(
                &list_path.index(index),
                format!("{zone} is not in spec.region"),
                "use zones of the region",
            );
        }
    }
    let count = config.availability_zone_count.unwrap_or(3);
    let Some(count) = u8::try_from(count).ok().filter(|count| (2..=3).contains(count)) else {
        problems.add(&count_path, format!("{count} is not 2 or 3"), "use 2 or 3");
        return None;
    };
    Some(if named.is_empty() { Zones::First(count) } else { Zones::Named(named) })
}

fn check_subnets(
    path: &FieldPath<'_>,
    config: &VpcConfig,
    problems: &mut Problems,
) -> (Vec<SubnetId>, Vec<SubnetId>) {
    let private_path = path.field("privateSubnetIds");
    let private = check_subnet_list(&private_path, &config.private_subnet_ids, problems);
    if config.private_subnet_ids.len() == 1 {
        problems.add(
            &private_path,
            "lists one subnet, but EKS requires two availability zones",
            "list at least two",
        );
    }
    (private, check_subnet_list(&path.field("publicSubnetIds"), &config.public_subnet_ids, problems))
}

pub(super) fn check_subnet_list(
    path: &FieldPath<'_>,
    ids: &[String],
    problems: &mut Problems,
) -> Vec<SubnetId> {
    if ids.len() > schema::MAX_SUBNETS {
        problems.add(path, format!("lists more than {} subnets", schema::MAX_SUBNETS), "list fewer");
    }
    problems.parse_set(path, ids)
}

pub(super) fn check_retention(path: &FieldPath<'_>, days: i32, problems: &mut Problems) {
    if !schema::RETENTION_DAYS.contains(&days) {
        problems.add(
            path,
            format!("CloudWatch Logs does not support a retention of {days} days"),
            format!("use one of {:?}", schema::RETENTION_DAYS),
        );
    }
}
