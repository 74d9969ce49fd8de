//! Clusters: create, describe, list, delete.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    access,
    context::{Effect, RequestContext},
    error::{ApiError, ApiResult},
    pagination::{QueryString, paginate},
    state::{AuthMode, Cluster, ClusterApi, ClusterStatus, EksState, Tags, VpcConfig},
    timestamp_json, validation, versions,
};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CreateCluster {
    name: String,
    version: Option<String>,
    role_arn: String,
    resources_vpc_config: VpcRequest,
    kubernetes_network_config: Option<NetworkRequest>,
    logging: Option<Logging>,
    client_request_token: Option<String>,
    tags: Option<Tags>,
    encryption_config: Option<Vec<Value>>,
    access_config: Option<AccessConfig>,
    upgrade_policy: Option<UpgradePolicy>,
    zonal_shift_config: Option<EnabledFlag>,
    remote_network_config: Option<Value>,
    compute_config: Option<Value>,
    storage_config: Option<Value>,
    deletion_protection: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct VpcRequest {
    pub(crate) subnet_ids: Option<Vec<String>>,
    pub(crate) security_group_ids: Option<Vec<String>>,
    pub(crate) endpoint_public_access: Option<bool>,
    pub(crate) endpoint_private_access: Option<bool>,
    pub(crate) public_access_cidrs: Option<Vec<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct NetworkRequest {
    service_ipv4_cidr: Option<String>,
    ip_family: Option<String>,
    elastic_load_balancing: Option<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AccessConfig {
    bootstrap_cluster_creator_admin_permissions: Option<bool>,
    pub(crate) authentication_mode: Option<AuthMode>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UpgradePolicy {
    pub(crate) support_type: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct EnabledFlag {
    pub(crate) enabled: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Logging {
    cluster_logging: Option<Vec<LogTypes>>,
}

#[derive(Debug, Deserialize)]
struct LogTypes {
    types: Option<Vec<String>>,
    enabled: Option<bool>,
}

pub(crate) const LOG_TYPES: [&str; 5] = ["api", "audit", "authenticator", "controllerManager", "scheduler"];

impl Logging {
    /// The log types that are enabled after this request.
    pub(crate) fn apply_to(&self, now_on: &BTreeSet<String>) -> ApiResult<BTreeSet<String>> {
        let mut on = now_on.clone();
        for setup in self.cluster_logging.iter().flatten() {
            for kind in setup.types.iter().flatten() {
                if !LOG_TYPES.contains(&kind.as_str()) {
                    return Err(ApiError::invalid_parameter(format!("Invalid log type: {kind}")));
                }
                if setup.enabled == Some(true) {
                    on.insert(kind.clone());
                } else {
                    on.remove(kind);
                }
            }
        }
        Ok(on)
    }
}

pub(crate) fn find_cluster<'s>(
    state: &'s mut EksState,
    ctx: &RequestContext<'_>,
    name: &str,
) -> ApiResult<&'s mut Cluster> {
    state
        .regions
        .get_mut(&ctx.region.name)
        .and_then(|clusters| clusters.get_mut(name))
        .ok_or_else(|| ApiError::not_found(format!("No cluster found for name: {name}.")).with_cluster(name))
}

pub(crate) fn create(
    state: &mut EksState,
    ctx: &mut RequestContext<'_>,
    input: CreateCluster,
) -> ApiResult<Value> {
    validation::validate_cluster_name(&input.name)?;
    let existing = state.regions.entry(ctx.region.name.clone()).or_default();
    if let Some(cluster) = existing.get(&input.name) {
        if input.client_request_token.is_some() && cluster.token == input.client_request_token {
            return Ok(json!({ "cluster": cluster_json(cluster, ctx) }));
        }
        let message = format!("Cluster already exists with name: {}", input.name);
        return Err(ApiError::in_use(message).with_cluster(input.name));
    }
    if existing.len() >= ctx.settings.limits.clusters {
        let message =
            format!("The maximum number of clusters ({}) is reached.", ctx.settings.limits.clusters);
        return Err(ApiError::limit_exceeded(message).with_cluster(input.name));
    }
    let bootstraps = input.access_config.as_ref().and_then(|c| c.bootstrap_cluster_creator_admin_permissions);
    let mut cluster = build(ctx, input)?;
    match cluster.auth_mode {
        _ if bootstraps == Some(false) => {}
        AuthMode::ConfigMap => cluster.creator = Some(ctx.resolved.caller.clone()),
        AuthMode::ApiAndConfigMap | AuthMode::Api => access::add_creator_entry(&mut cluster, ctx),
    }
    ctx.effects.push(Effect::CreateClusterSecurityGroup {
        cluster: cluster.name.clone(),
        vpc_id: cluster.vpc.vpc_id.clone(),
    });
    let mut answer = cluster_json(&cluster, ctx);
    answer["accessConfig"]["bootstrapClusterCreatorAdminPermissions"] = json!(bootstraps.unwrap_or(true));
    existing.insert(cluster.name.clone(), cluster);
    Ok(json!({ "cluster": answer }))
}

fn build(ctx: &RequestContext<'_>, input: CreateCluster) -> ApiResult<Cluster> {
    let version = versions::version_for_create(input.version.as_deref())?;
    validation::validate_cluster_role(&input.role_arn, &ctx.resolved)?;
    validation::validate_tags(input.tags.as_ref())?;
    let vpc = build_vpc(ctx, input.resources_vpc_config).map_err(|error| error.with_cluster(&*input.name))?;
    let encryption = input.encryption_config.unwrap_or_default();
    validation::validate_encryption(&encryption)?;
    let due = ctx.after_ms(ctx.settings.timing.cluster_create_ms);
    let settle = ctx.settings.timing.cluster_create_ms.saturating_add(ctx.settings.timing.cluster_settle_ms);
    Ok(Cluster {
        id: Uuid::new_v4().simple().to_string().to_ascii_uppercase(),
        arn: ctx.region.eks_arn(&format!("cluster/{}", input.name)),
        name: input.name,
        token: input.client_request_token,
        created_at: ctx.now,
        status: ClusterStatus::Creating,
        due: Some(due),
        api: if ctx.settings.has_host { ClusterApi::Awaited { before: None } } else { ClusterApi::Unhosted },
        creator: None,
        settled_at: ctx.after_ms(settle),
        version: version.to_owned(),
        role_arn: input.role_arn,
        vpc,
        network: build_network(input.kubernetes_network_config.unwrap_or_default())?,
        logging: match &input.logging {
            Some(logging) => logging.apply_to(&BTreeSet::new())?,
            None => BTreeSet::new(),
        },
        auth_mode: input.access_config.and_then(|c| c.authentication_mode).unwrap_or(AuthMode::ConfigMap),
        encryption,
        upgrade_policy: validation::parse_support_type(
            input.upgrade_policy.and_then(|p| p.support_type).as_deref(),
        )?,
        zonal_shift: input.zonal_shift_config.and_then(|switch| switch.enabled).unwrap_or(false),
        deletion_protection: input.deletion_protection.unwrap_or(false),
        remote_network: input.remote_network_config,
        compute: input.compute_config,
        storage: input.storage_config,
        tags: input.tags.unwrap_or_default(),
        issues: Vec::new(),
        profiles: std::collections::BTreeMap::new(),
        addons: std::collections::BTreeMap::new(),
        access_entries: std::collections::BTreeMap::new(),
        associations: std::collections::BTreeMap::new(),
        identity_providers: std::collections::BTreeMap::new(),
        updates: Vec::new(),
        fail_next_update: None,
    })
}

fn build_vpc(ctx: &RequestContext<'_>, request: VpcRequest) -> ApiResult<VpcConfig> {
    let subnet_ids = request.subnet_ids.unwrap_or_default();
    let vpc_id = validation::validate_cluster_subnets(&subnet_ids, &ctx.resolved)?;
    let public_access = request.endpoint_public_access.unwrap_or(true);
    let private_access = request.endpoint_private_access.unwrap_or(false);
    let public_cidrs =
        validation::validate_endpoint_access(public_access, private_access, request.public_access_cidrs)?;
    Ok(VpcConfig {
        vpc_id,
        subnet_ids,
        security_group_ids: request.security_group_ids.unwrap_or_default(),
        cluster_security_group_id: None,
        public_access,
        private_access,
        public_cidrs,
    })
}

fn build_network(request: NetworkRequest) -> ApiResult<Value> {
    let family = request.ip_family.unwrap_or_else(|| "ipv4".to_owned());
    let balancing = request.elastic_load_balancing.unwrap_or_else(|| json!({ "enabled": false }));
    match family.as_str() {
        "ipv4" => {
            let cidr = request.service_ipv4_cidr.unwrap_or_else(|| "172.20.0.0/16".to_owned());
            validation::validate_service_cidr(&cidr)?;
            Ok(json!({ "serviceIpv4Cidr": cidr, "ipFamily": "ipv4", "elasticLoadBalancing": balancing }))
        }
        "ipv6" => Ok(
            json!({ "serviceIpv6Cidr": "fd00:10:96::/108", "ipFamily": "ipv6", "elasticLoadBalancing": balancing }),
        ),
        other => Err(ApiError::invalid_parameter(format!("Invalid ipFamily: {other}"))),
    }
}

pub(crate) fn describe(state: &mut EksState, ctx: &RequestContext<'_>, name: &str) -> ApiResult<Value> {
    let cluster = find_cluster(state, ctx, name)?;
    Ok(json!({ "cluster": cluster_json(cluster, ctx) }))
}

pub(crate) fn list(state: &EksState, ctx: &RequestContext<'_>, query: QueryString<'_>) -> ApiResult<Value> {
    let names = state.regions.get(&ctx.region.name).into_iter().flatten();
    paginate("clusters", names.map(|(name, _)| (name.as_str(), json!(name))), query)
}

pub(crate) fn delete(state: &mut EksState, ctx: &mut RequestContext<'_>, name: &str) -> ApiResult<Value> {
    let due = ctx.after_ms(ctx.settings.timing.cluster_delete_ms);
    let cluster = find_cluster(state, ctx, name)?;
    if cluster.status != ClusterStatus::Deleting {
        validation::ensure_delete_allowed(cluster)?;
        cluster.status = ClusterStatus::Deleting;
        cluster.due = Some(due);
        if let Some(id) = cluster.vpc.cluster_security_group_id.take() {
            ctx.effects.push(Effect::DeleteSecurityGroup { id });
        }
    }
    Ok(json!({ "cluster": cluster_json(cluster, ctx) }))
}

/// JSON of `DescribeCluster`. Endpoint, certificate authority and issuer are absent while the cluster is CREATING.
pub(crate) fn cluster_json(cluster: &Cluster, ctx: &RequestContext<'_>) -> Value {
    let made = cluster.status != ClusterStatus::Creating;
    let off: Vec<_> = LOG_TYPES.iter().filter(|kind| !cluster.logging.contains(**kind)).collect();
    let mut logging = Vec::new();
    if !cluster.logging.is_empty() {
        logging.push(json!({ "types": cluster.logging, "enabled": true }));
    }
    if !off.is_empty() {
        logging.push(json!({ "types": off, "enabled": false }));
    }
    let (endpoint, authority) = match endpoint_and_authority(cluster, ctx) {
        Some((endpoint, authority)) if made => (json!(endpoint), json!({ "data": authority })),
        _ => (Value::Null, json!({})),
    };
    let region = &ctx.region.name;
    let suffix = ctx.region.dns_suffix();
    json!({
        "name": cluster.name,
        "arn": cluster.arn,
        "createdAt": timestamp_json(cluster.created_at),
        "version": cluster.version,
        "endpoint": endpoint,
        "roleArn": cluster.role_arn,
        "resourcesVpcConfig": vpc_json(&cluster.vpc),
        "kubernetesNetworkConfig": cluster.network,
        "logging": { "clusterLogging": logging },
        "identity": made.then(|| json!({
            "oidc": { "issuer": format!("https://oidc.eks.{region}.{suffix}/id/{}", cluster.id) },
        })),
        "status": cluster.status_name(),
        "certificateAuthority": authority,
        "clientRequestToken": cluster.token,
        "platformVersion": versions::platform_version(&cluster.version),
        "tags": cluster.tags,
        "encryptionConfig": (!cluster.encryption.is_empty()).then_some(&cluster.encryption),
        "health": { "issues": cluster.issues },
        "accessConfig": { "authenticationMode": cluster.auth_mode },
        "upgradePolicy": { "supportType": cluster.upgrade_policy },
        "zonalShiftConfig": cluster.zonal_shift.then(|| json!({ "enabled": true })),
        "remoteNetworkConfig": cluster.remote_network,
        "computeConfig": cluster.compute,
        "storageConfig": cluster.storage,
        "deletionProtection": cluster.deletion_protection,
    })
}

/// Endpoint and base64 certificate authority; none while the host has not started the API.
fn endpoint_and_authority(cluster: &Cluster, ctx: &RequestContext<'_>) -> Option<(String, String)> {
    let endpoint = match (&cluster.api, &ctx.settings.endpoint_base) {
        (ClusterApi::At { endpoint, certificate_authority }, _) => {
            return Some((endpoint.clone(), certificate_authority.clone()));
        }
        (ClusterApi::Awaited { .. } | ClusterApi::Failed, _) => return None,
        (ClusterApi::Unhosted, Some(base)) => format!("{}/{}", base.trim_end_matches('/'), cluster.id),
        (ClusterApi::Unhosted, None) => {
            format!("https://{}.gr7.{}.eks.{}", cluster.id, ctx.region.name, ctx.region.dns_suffix())
        }
    };
    Some((endpoint, ctx.settings.certificate_authority.clone()))
}

fn vpc_json(vpc: &VpcConfig) -> Value {
    json!({
        "subnetIds": vpc.subnet_ids,
        "securityGroupIds": vpc.security_group_ids,
        "clusterSecurityGroupId": vpc.cluster_security_group_id,
        "vpcId": vpc.vpc_id,
        "endpointPublicAccess": vpc.public_access,
        "endpointPrivateAccess": vpc.private_access,
        "publicAccessCidrs": vpc.public_cidrs,
    })
}
