//! Cluster updates (version, configuration, encryption) and their records.

use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    cluster::{AccessConfig, EnabledFlag, Logging, UpgradePolicy, VpcRequest, find_cluster},
    context::RequestContext,
    error::{ApiError, ApiResult},
    pagination::{QueryString, paginate},
    state::{Cluster, EksState, Update, UpdateChange},
    timestamp_json, validation, versions,
};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UpdateClusterVersion {
    version: String,
    client_request_token: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UpdateClusterConfig {
    resources_vpc_config: Option<VpcRequest>,
    logging: Option<Logging>,
    client_request_token: Option<String>,
    access_config: Option<AccessConfig>,
    upgrade_policy: Option<UpgradePolicy>,
    zonal_shift_config: Option<EnabledFlag>,
    compute_config: Option<Value>,
    kubernetes_network_config: Option<Value>,
    storage_config: Option<Value>,
    remote_network_config: Option<Value>,
    deletion_protection: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AssociateEncryptionConfig {
    encryption_config: Vec<Value>,
    client_request_token: Option<String>,
}

/// A validated change with the type and parameters of its update record.
struct ProposedUpdate {
    kind: &'static str,
    params: Vec<(String, String)>,
    change: UpdateChange,
}

impl ProposedUpdate {
    fn new(kind: &'static str, param: &str, value: impl Into<String>, change: UpdateChange) -> Self {
        Self { kind, params: vec![(param.to_owned(), value.into())], change }
    }
}

pub(crate) fn update_version(
    state: &mut EksState,
    ctx: &RequestContext<'_>,
    name: &str,
    input: UpdateClusterVersion,
) -> ApiResult<Value> {
    let cluster = find_cluster(state, ctx, name)?;
    if let Some(known) = find_by_token(cluster, input.client_request_token.as_deref()) {
        return Ok(json!({ "update": update_json(known) }));
    }
    validation::ensure_update_allowed(cluster, "VersionUpdate")?;
    let version = versions::version_for_update(&cluster.version, &input.version)
        .map_err(|error| error.with_cluster(name))?;
    let mut proposal =
        ProposedUpdate::new("VersionUpdate", "Version", version, UpdateChange::Version(version.to_owned()));
    proposal.params.push(("PlatformVersion".to_owned(), versions::platform_version(version).to_owned()));
    Ok(start_update(cluster, ctx, proposal, input.client_request_token))
}

pub(crate) fn update_config(
    state: &mut EksState,
    ctx: &RequestContext<'_>,
    name: &str,
    input: UpdateClusterConfig,
) -> ApiResult<Value> {
    let cluster = find_cluster(state, ctx, name)?;
    if let Some(known) = find_by_token(cluster, input.client_request_token.as_deref()) {
        return Ok(json!({ "update": update_json(known) }));
    }
    let token = input.client_request_token.clone();
    let proposal = single_update(cluster, ctx, input).map_err(|error| error.with_cluster(name))?;
    validation::ensure_update_allowed(cluster, proposal.kind)?;
    Ok(start_update(cluster, ctx, proposal, token))
}

/// The single change of a request. EKS accepts one update type per request.
fn single_update(
    cluster: &Cluster,
    ctx: &RequestContext<'_>,
    input: UpdateClusterConfig,
) -> ApiResult<ProposedUpdate> {
    let vpc = input.resources_vpc_config.unwrap_or_default();
    let moves = vpc.subnet_ids.is_some() || vpc.security_group_ids.is_some();
    let opens = vpc.endpoint_public_access.or(vpc.endpoint_private_access).is_some()
        || vpc.public_access_cidrs.is_some();
    let all = [
        moves.then(|| propose_vpc_config(cluster, ctx, &vpc)).transpose()?,
        opens.then(|| propose_endpoint_access(cluster, &vpc)).transpose()?,
        input.logging.map(|asked| propose_logging(cluster, &asked)).transpose()?,
        input.access_config.map(|asked| propose_auth_mode(cluster, &asked)).transpose()?,
        input.upgrade_policy.map(|asked| propose_upgrade_policy(&asked)).transpose()?,
        input.zonal_shift_config.map(|asked| propose_zonal_shift(asked.enabled.unwrap_or(false))),
        propose_auto_mode(
            cluster,
            input.compute_config,
            input.storage_config,
            input.kubernetes_network_config,
        ),
        input.remote_network_config.map(propose_remote_network),
        input.deletion_protection.map(propose_deletion_protection),
    ];
    let mut proposals = all.into_iter().flatten();
    match (proposals.next(), proposals.next()) {
        (Some(only), None) => Ok(only),
        (None, _) => Err(ApiError::invalid_parameter("The request contains no update")),
        (Some(_), Some(_)) => Err(ApiError::invalid_parameter("Only one type of update can be allowed.")),
    }
}

fn propose_upgrade_policy(asked: &UpgradePolicy) -> ApiResult<ProposedUpdate> {
    let policy = validation::parse_support_type(asked.support_type.as_deref())?;
    let change = UpdateChange::UpgradePolicy(policy.clone());
    Ok(ProposedUpdate::new("UpgradePolicyUpdate", "UpgradePolicy", policy, change))
}

fn propose_zonal_shift(on: bool) -> ProposedUpdate {
    ProposedUpdate::new(
        "ZonalShiftConfigUpdate",
        "ZonalShiftConfig",
        on.to_string(),
        UpdateChange::ZonalShift(on),
    )
}

fn propose_auto_mode(
    cluster: &Cluster,
    compute: Option<Value>,
    storage: Option<Value>,
    network: Option<Value>,
) -> Option<ProposedUpdate> {
    let shown = compute.as_ref().or(storage.as_ref()).or(network.as_ref())?.to_string();
    let network = network.map(|network| merge_objects(&cluster.network, network));
    let change = UpdateChange::AutoMode { compute, storage, network };
    Some(ProposedUpdate::new("AutoModeUpdate", "ComputeConfig", shown, change))
}

fn propose_remote_network(asked: Value) -> ProposedUpdate {
    let shown = asked.to_string();
    ProposedUpdate::new(
        "RemoteNetworkConfigUpdate",
        "RemoteNetworkConfig",
        shown,
        UpdateChange::RemoteNetwork(asked),
    )
}

fn propose_deletion_protection(on: bool) -> ProposedUpdate {
    ProposedUpdate::new(
        "DeletionProtectionUpdate",
        "DeletionProtection",
        on.to_string(),
        UpdateChange::DeletionProtection(on),
    )
}

fn merge_objects(old: &Value, new: Value) -> Value {
    let mut all = old.clone();
    if let (Some(all), Value::Object(new)) = (all.as_object_mut(), new) {
        all.extend(new);
    }
    all
}

fn propose_vpc_config(
    cluster: &Cluster,
    ctx: &RequestContext<'_>,
    vpc: &VpcRequest,
) -> ApiResult<ProposedUpdate> {
    let subnets = vpc.subnet_ids.clone().unwrap_or_else(|| cluster.vpc.subnet_ids.clone());
    if validation::validate_cluster_subnets(&subnets, &ctx.resolved)? != cluster.vpc.vpc_id {
        return Err(ApiError::invalid_parameter(
            "Provided subnets belong to a different VPC than the cluster",
        ));
    }
    let security_groups =
        vpc.security_group_ids.clone().unwrap_or_else(|| cluster.vpc.security_group_ids.clone());
    let shown = json!(subnets);
    Ok(ProposedUpdate::new(
        "VpcConfigUpdate",
        "Subnets",
        shown.to_string(),
        UpdateChange::Subnets { subnets, security_groups },
    ))
}

fn propose_endpoint_access(cluster: &Cluster, vpc: &VpcRequest) -> ApiResult<ProposedUpdate> {
    let public = vpc.endpoint_public_access.unwrap_or(cluster.vpc.public_access);
    let private = vpc.endpoint_private_access.unwrap_or(cluster.vpc.private_access);
    let asked = vpc.public_access_cidrs.clone().or_else(|| Some(cluster.vpc.public_cidrs.clone()));
    let cidrs = validation::validate_endpoint_access(public, private, asked)?;
    let now = &cluster.vpc;
    if (public, private, &cidrs) == (now.public_access, now.private_access, &now.public_cidrs) {
        return Err(ApiError::invalid_parameter(format!(
            "Cluster is already at the desired configuration with endpointPrivateAccess: {private} , \
             endpointPublicAccess: {public}, and Public Endpoint Restrictions: [{}]",
            cidrs.join(", ")
        )));
    }
    Ok(ProposedUpdate {
        kind: "EndpointAccessUpdate",
        params: vec![
            ("EndpointPublicAccess".to_owned(), public.to_string()),
            ("EndpointPrivateAccess".to_owned(), private.to_string()),
            ("PublicAccessCidrs".to_owned(), json!(cidrs).to_string()),
        ],
        change: UpdateChange::Endpoint { public, private, cidrs },
    })
}

fn propose_logging(cluster: &Cluster, asked: &Logging) -> ApiResult<ProposedUpdate> {
    let on = asked.apply_to(&cluster.logging)?;
    if on == cluster.logging {
        return Err(ApiError::invalid_parameter("No changes needed for the logging config provided"));
    }
    Ok(ProposedUpdate::new(
        "LoggingUpdate",
        "ClusterLogging",
        json!(on).to_string(),
        UpdateChange::Logging(on),
    ))
}

fn propose_auth_mode(cluster: &Cluster, asked: &AccessConfig) -> ApiResult<ProposedUpdate> {
    let Some(mode) = asked.authentication_mode else {
        return Err(ApiError::invalid_parameter("accessConfig contains no authenticationMode"));
    };
    let (from, to) = (json!(cluster.auth_mode), json!(mode));
    let name = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if mode == cluster.auth_mode {
        let message =
            format!("Cluster is already at the desired configuration with authenticationMode: {}", name(&to));
        return Err(ApiError::invalid_parameter(message));
    }
    // One step at a time, and never back.
    if mode < cluster.auth_mode || (mode as u8) - (cluster.auth_mode as u8) > 1 {
        let message = format!("Unsupported authentication mode update from {} to {}", name(&from), name(&to));
        return Err(ApiError::invalid_parameter(message));
    }
    Ok(ProposedUpdate::new(
        "AccessConfigUpdate",
        "AuthenticationMode",
        name(&to),
        UpdateChange::AuthMode(mode),
    ))
}

pub(crate) fn associate_encryption(
    state: &mut EksState,
    ctx: &RequestContext<'_>,
    name: &str,
    input: AssociateEncryptionConfig,
) -> ApiResult<Value> {
    let cluster = find_cluster(state, ctx, name)?;
    if let Some(known) = find_by_token(cluster, input.client_request_token.as_deref()) {
        return Ok(json!({ "update": update_json(known) }));
    }
    validation::ensure_update_allowed(cluster, "AssociateEncryptionConfig")?;
    validation::validate_encryption(&input.encryption_config).map_err(|error| error.with_cluster(name))?;
    if !cluster.encryption.is_empty() || input.encryption_config.is_empty() {
        let message = format!("Encryption is already enabled for cluster: {name}");
        return Err(ApiError::invalid_parameter(message).with_cluster(name));
    }
    let shown = json!(input.encryption_config);
    let change = UpdateChange::Encryption(input.encryption_config);
    let proposal =
        ProposedUpdate::new("AssociateEncryptionConfig", "EncryptionConfig", shown.to_string(), change);
    Ok(start_update(cluster, ctx, proposal, input.client_request_token))
}

/// A retried request carries the token of the first one and gets the same response.
fn find_by_token<'c>(cluster: &'c Cluster, token: Option<&str>) -> Option<&'c Update> {
    cluster.updates.iter().find(|update| token.is_some() && update.token.as_deref() == token)
}

fn start_update(
    cluster: &mut Cluster,
    ctx: &RequestContext<'_>,
    proposal: ProposedUpdate,
    token: Option<String>,
) -> Value {
    let due = ctx.after_ms(ctx.settings.timing.cluster_update_ms);
    let ProposedUpdate { kind, params, change } = proposal;
    let update = Update {
        id: new_update_id(),
        token,
        kind: kind.to_owned(),
        params,
        created_at: ctx.now,
        due: Some(due),
        change,
        errors: cluster.fail_next_update.take().unwrap_or_default(),
    };
    json!({ "update": record_update(cluster, update) })
}

/// Records an update that its own operation has validated.
pub(crate) fn record_update(cluster: &mut Cluster, update: Update) -> Value {
    let shown = update_json(&update);
    cluster.updates.push(update);
    shown
}

pub(crate) fn new_update_id() -> String {
    Uuid::new_v4().to_string()
}

pub(crate) fn describe(
    state: &mut EksState,
    ctx: &RequestContext<'_>,
    name: &str,
    id: &str,
    query: QueryString<'_>,
) -> ApiResult<Value> {
    let cluster = find_cluster(state, ctx, name)?;
    let of_addon = query.get("addonName");
    let belongs = |update: &&Update| match (&update.change, &of_addon) {
        (UpdateChange::Addon(addon), Some(asked)) => addon == asked,
        (UpdateChange::Addon(_), None) | (_, Some(_)) => false,
        (_, None) => true,
    };
    let update = cluster.updates.iter().find(|update| update.id == id).filter(belongs);
    let update = update
        .ok_or_else(|| ApiError::not_found(format!("No update found for ID: {id}")).with_cluster(name))?;
    Ok(json!({ "update": update_json(update) }))
}

pub(crate) fn list(
    state: &mut EksState,
    ctx: &RequestContext<'_>,
    name: &str,
    query: QueryString<'_>,
) -> ApiResult<Value> {
    let cluster = find_cluster(state, ctx, name)?;
    let of_addon = query.get("addonName");
    let mut ids: Vec<&str> = cluster
        .updates
        .iter()
        .filter(|update| match (&update.change, &of_addon) {
            (UpdateChange::Addon(addon), Some(asked)) => addon == asked,
            (UpdateChange::Addon(_), None) => false,
            (_, asked) => asked.is_none(),
        })
        .map(|update| update.id.as_str())
        .collect();
    ids.sort_unstable();
    paginate("updateIds", ids.into_iter().map(|id| (id, json!(id))), query)
}

fn update_json(update: &Update) -> Value {
    let params: Vec<_> =
        update.params.iter().map(|(kind, value)| json!({ "type": kind, "value": value })).collect();
    let status = match (update.due, update.errors.is_empty()) {
        (Some(_), _) => "InProgress",
        (None, true) => "Successful",
        (None, false) => "Failed",
    };
    json!({
        "id": update.id,
        "status": status,
        "type": update.kind,
        "params": params,
        "createdAt": timestamp_json(update.created_at),
        "errors": if update.due.is_some() { &[][..] } else { &update.errors },
    })
}
