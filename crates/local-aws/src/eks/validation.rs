//! Validation shared by several operations. Every function is pure and returns the exception that EKS would.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    context::ResolvedPrerequisites,
    error::{ApiError, ApiResult},
    state::{Cluster, ClusterStatus, ProfileStatus, Tags},
};

pub(crate) fn validate_cluster_name(name: &str) -> ApiResult<()> {
    let legal = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    let starts = name.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
    if starts && name.len() <= 100 && name.bytes().all(legal) {
        return Ok(());
    }
    Err(ApiError::invalid_parameter(format!(
        "The cluster name '{name}' must begin with a letter or digit, hold only letters, digits, hyphens and \
         underscores, and have at most 100 characters"
    ))
    .with_cluster(name))
}

pub(crate) fn validate_profile_name(name: &str) -> ApiResult<()> {
    let legal = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    let starts = name.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
    if !starts || name.len() > 100 || !name.bytes().all(legal) {
        return Err(ApiError::invalid_parameter(format!("Fargate Profile name '{name}' is not valid")));
    }
    if name.starts_with("eks-") {
        return Err(ApiError::invalid_parameter(
            "The fargate profile name starts with the reserved prefix: 'eks-'.",
        ));
    }
    Ok(())
}

pub(crate) fn validate_tags(tags: Option<&Tags>) -> ApiResult<()> {
    let Some(tags) = tags else { return Ok(()) };
    let refuse = |message: String| Err(ApiError::invalid_parameter(message));
    if tags.len() > 50 {
        return refuse("A resource can have at most 50 tags".to_owned());
    }
    for (key, value) in tags {
        if key.is_empty() || key.chars().count() > 128 || value.chars().count() > 256 {
            return refuse(format!("Tag '{key}' has a key or value of an invalid length"));
        }
        if key.to_ascii_lowercase().starts_with("aws:") {
            return refuse(format!("Tag key '{key}' starts with the reserved prefix aws:"));
        }
    }
    Ok(())
}

pub(crate) fn validate_cluster_role(arn: &str, facts: &ResolvedPrerequisites) -> ApiResult<()> {
    let trusted = facts
        .roles
        .get(arn)
        .is_some_and(|role| role.trusted_services.iter().any(|s| s.starts_with("eks.amazonaws.com")));
    if trusted {
        return Ok(());
    }
    Err(ApiError::invalid_parameter(format!(
        "Role with arn: {arn}, could not be assumed because it does not exist or the trusted entity is not correct"
    )))
}

/// Validates the subnets of a cluster and returns their VPC.
pub(crate) fn validate_cluster_subnets(ids: &[String], facts: &ResolvedPrerequisites) -> ApiResult<String> {
    if ids.is_empty() {
        return Err(ApiError::invalid_parameter("subnetIds must not be empty"));
    }
    let missing: Vec<_> = ids.iter().filter(|id| !facts.subnets.contains_key(*id)).cloned().collect();
    if !missing.is_empty() {
        let message = format!("The subnet ID '{}' does not exist", missing.join(", "));
        return Err(ApiError::invalid_parameter(message));
    }
    let subnets: Vec<_> = ids.iter().filter_map(|id| facts.subnets.get(id)).collect();
    let zones: BTreeSet<_> = subnets.iter().map(|subnet| &subnet.zone).collect();
    let vpcs: BTreeSet<_> = subnets.iter().map(|subnet| &subnet.vpc_id).collect();
    if let Some(bad) =
        subnets.iter().find(|s| ["use1-az3", "usw1-az2", "cac1-az3"].contains(&s.zone_id.as_str()))
    {
        return Err(ApiError::unsupported_zone(format!(
            "Cannot create cluster because {}, the targeted availability zone, does not currently have sufficient \
             capacity to support the cluster.",
            bad.zone
        )));
    }
    if vpcs.len() > 1 {
        return Err(ApiError::invalid_parameter("Subnets specified must be in the same VPC"));
    }
    if zones.len() < 2 {
        return Err(ApiError::invalid_parameter("Subnets specified must be in at least two different AZs"));
    }
    Ok(vpcs.into_iter().next().cloned().unwrap_or_default())
}

/// Validates an endpoint configuration and returns the effective public CIDRs.
pub(crate) fn validate_endpoint_access(
    public: bool,
    private: bool,
    cidrs: Option<Vec<String>>,
) -> ApiResult<Vec<String>> {
    if !public && !private {
        return Err(ApiError::invalid_parameter("Private and public endpoint access cannot be false"));
    }
    let cidrs = cidrs.filter(|cidrs| !cidrs.is_empty());
    if let Some(bad) = cidrs.iter().flatten().find(|cidr| parse_cidr(cidr).is_none()) {
        return Err(ApiError::invalid_parameter(format!(
            "The following CIDRs are invalid in publicAccessCidrs: [{bad}]"
        )));
    }
    // EKS keeps them for clusters without a public endpoint, too.
    Ok(cidrs.unwrap_or_else(|| vec!["0.0.0.0/0".to_owned()]))
}

fn parse_cidr(cidr: &str) -> Option<(std::net::IpAddr, u8)> {
    let (address, length) = cidr.split_once('/')?;
    let address: std::net::IpAddr = address.parse().ok()?;
    let length: u8 = length.parse().ok()?;
    (length <= if address.is_ipv4() { 32 } else { 128 }).then_some((address, length))
}

pub(crate) fn validate_service_cidr(cidr: &str) -> ApiResult<()> {
    let private = |address: std::net::IpAddr| matches!(address, std::net::IpAddr::V4(v4) if v4.is_private());
    match parse_cidr(cidr) {
        Some((address, 12..=24)) if private(address) => Ok(()),
        _ => Err(ApiError::invalid_parameter(format!(
            "serviceIpv4Cidr {cidr} must be within 10.0.0.0/8, 172.16.0.0/12 or 192.168.0.0/16, between /24 and /12"
        ))),
    }
}

pub(crate) fn validate_encryption(config: &[Value]) -> ApiResult<()> {
    for entry in config {
        let arn = entry["provider"]["keyArn"].as_str().unwrap_or_default();
        if !arn.starts_with("arn:") || !arn.contains(":kms:") {
            return Err(ApiError::invalid_parameter("The keyArn in encryptionConfig provider is invalid"));
        }
        if entry["resources"] != serde_json::json!(["secrets"]) {
            return Err(ApiError::invalid_parameter(
                "The only supported resource of encryptionConfig is secrets",
            ));
        }
    }
    if config.len() > 1 {
        return Err(ApiError::invalid_parameter("Only one encryptionConfig is allowed"));
    }
    Ok(())
}

pub(crate) fn parse_support_type(asked: Option<&str>) -> ApiResult<String> {
    match asked {
        None | Some("EXTENDED") => Ok("EXTENDED".to_owned()),
        Some("STANDARD") => Ok("STANDARD".to_owned()),
        Some(other) => Err(ApiError::invalid_parameter(format!("Invalid supportType: {other}"))),
    }
}

/// Requires an ACTIVE cluster. Fargate operations have stricter rules.
pub(crate) fn ensure_active(cluster: &Cluster) -> ApiResult<()> {
    match cluster.status {
        ClusterStatus::Active => Ok(()),
        ClusterStatus::Creating | ClusterStatus::Deleting | ClusterStatus::Failed => {
            let message = format!("Cluster '{}' is not in ACTIVE status", cluster.name);
            Err(ApiError::invalid_request(message).with_cluster(&*cluster.name))
        }
    }
}

/// Addons cannot change while the cluster is being updated.
pub(crate) fn ensure_addon_change_allowed(cluster: &Cluster, verb: &str, addon: &str) -> ApiResult<()> {
    ensure_active(cluster)?;
    let Some(update) = cluster.cluster_update() else { return Ok(()) };
    let (name, id) = (&cluster.name, &update.id);
    let message =
        format!("Cannot {verb} Addon {addon} because cluster {name} currently has update {id} in progress");
    Err(ApiError::in_use(message).with_cluster(name.as_str()).with_field("addonName", addon))
}

/// Allows one Fargate mutation at a time, and none during a cluster update. `verb` is spelled as AWS does: 'create' but
/// 'Delete'.
pub(crate) fn ensure_profile_change_allowed(
    cluster: &Cluster,
    verb: &str,
    profile: &str,
    now: jiff::Timestamp,
) -> ApiResult<()> {
    ensure_active(cluster)?;
    let name = &cluster.name;
    let prefix = format!("Cannot {verb} Fargate Profile {profile} because cluster {name} currently has");
    let refuse = |why: &str| Err(ApiError::in_use(format!("{prefix} {why}")).with_cluster(name.as_str()));
    if cluster.update_in_progress().is_some() || cluster.settled_at > now {
        return refuse("an update in progress");
    }
    let busy = |status| matches!(status, ProfileStatus::Creating | ProfileStatus::Deleting);
    match cluster.profiles.values().find(|other| busy(other.status)) {
        Some(other) => refuse(&format!("Fargate profile {} in status {}", other.name, other.status.name())),
        None => Ok(()),
    }
}

/// Whether an update of the given type may start.
pub(crate) fn ensure_update_allowed(cluster: &Cluster, kind: &str) -> ApiResult<()> {
    let refuse = |message: String| Err(ApiError::in_use(message).with_cluster(&*cluster.name));
    match cluster.status {
        ClusterStatus::Creating => {
            refuse(format!("Cannot {kind} because cluster {} is currently CREATING", cluster.name))
        }
        ClusterStatus::Deleting => {
            refuse(format!("Cannot {kind} because cluster {} is currently DELETING", cluster.name))
        }
        ClusterStatus::Failed => {
            refuse(format!("Cannot {kind} because cluster {} is currently FAILED", cluster.name))
        }
        ClusterStatus::Active => match cluster.cluster_update() {
            Some(update) => refuse(format!(
                "Cannot {kind} because cluster {} currently has update {} in progress",
                cluster.name, update.id
            )),
            None => Ok(()),
        },
    }
}

pub(crate) fn ensure_delete_allowed(cluster: &Cluster) -> ApiResult<()> {
    let name = &*cluster.name;
    let refuse = |message: String| Err(ApiError::in_use(message).with_cluster(name));
    if cluster.deletion_protection {
        let message = format!(
            "Cluster {name} has deletion protection enabled. Disable it before you delete the cluster"
        );
        return Err(ApiError::invalid_request(message).with_cluster(name));
    }
    if cluster.status == ClusterStatus::Creating {
        return refuse(format!("Cannot delete because cluster {name} currently has a creation in progress"));
    }
    if cluster.update_in_progress().is_some() {
        return refuse(format!("Cannot delete because cluster {name} currently has an update in progress"));
    }
    if !cluster.profiles.is_empty() {
        return refuse("Cluster has Fargate Profiles in ACTIVE/CREATING state".to_owned());
    }
    if !cluster.addons.is_empty() {
        return refuse("Cluster has addons attached".to_owned());
    }
    Ok(())
}
