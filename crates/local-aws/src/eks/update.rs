//! Updates of a cluster: version, configuration, encryption; and their records.

use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    cluster::{AccessConfig, Logging, Switch, UpgradePolicy, VpcRequest, get},
    context::Context,
    error::{ApiError, ApiResult},
    page::{Query, page},
    rules, seconds,
    state::{Change, Cluster, State, Update},
    versions,
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
    zonal_shift_config: Option<Switch>,
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

/// A change that was found legal, with the name and parameters that its record shows.
struct Proposal {
    kind: &'static str,
    params: Vec<(String, String)>,
    change: Change,
}

impl Proposal {
    fn new(kind: &'static str, param: &str, value: impl Into<String>, change: Change) -> Self {
        Self { kind, params: vec![(param.to_owned(), value.into())], change }
    }
}

pub(crate) fn version(
    state: &mut State,
    ctx: &Context<'_>,
    name: &str,
    input: UpdateClusterVersion,
) -> ApiResult<Value> {
    let cluster = get(state, ctx, name)?;
    if let Some(known) = repeated(cluster, input.client_request_token.as_deref()) {
        return Ok(json!({ "update": view(known) }));
    }
    rules::may_update(cluster, "VersionUpdate")?;
    let version =
        versions::for_update(&cluster.version, &input.version).map_err(|error| error.cluster(name))?;
    let mut proposal =
        Proposal::new("VersionUpdate", "Version", version, Change::Version(version.to_owned()));
    proposal.params.push(("PlatformVersion".to_owned(), versions::platform_version(version).to_owned()));
    Ok(start(cluster, ctx, proposal, input.client_request_token))
}

pub(crate) fn config(
    state: &mut State,
    ctx: &Context<'_>,
    name: &str,
    input: UpdateClusterConfig,
) -> ApiResult<Value> {
    let cluster = get(state, ctx, name)?;
    if let Some(known) = repeated(cluster, input.client_request_token.as_deref()) {
        return Ok(json!({ "update": view(known) }));
    }
    let token = input.client_request_token.clone();
    let proposal = one_proposal(cluster, ctx, input).map_err(|error| error.cluster(name))?;
    rules::may_update(cluster, proposal.kind)?;
    Ok(start(cluster, ctx, proposal, token))
}

/// The one change that a request asks for. EKS takes them one type at a time.
fn one_proposal(cluster: &Cluster, ctx: &Context<'_>, input: UpdateClusterConfig) -> ApiResult<Proposal> {
    let vpc = input.resources_vpc_config.unwrap_or_default();
    let moves = vpc.subnet_ids.is_some() || vpc.security_group_ids.is_some();
    let opens = vpc.endpoint_public_access.or(vpc.endpoint_private_access).is_some()
        || vpc.public_access_cidrs.is_some();
    let all = [
        moves.then(|| subnets(cluster, ctx, &vpc)).transpose()?,
        opens.then(|| endpoint(cluster, &vpc)).transpose()?,
        input.logging.map(|asked| logging(cluster, &asked)).transpose()?,
        input.access_config.map(|asked| authentication(cluster, &asked)).transpose()?,
        input.upgrade_policy.map(|asked| upgrade_policy(&asked)).transpose()?,
        input.zonal_shift_config.map(|asked| zonal_shift(asked.enabled.unwrap_or(false))),
        auto_mode(cluster, input.compute_config, input.storage_config, input.kubernetes_network_config),
        input.remote_network_config.map(remote_network),
        input.deletion_protection.map(deletion_protection),
    ];
    let mut proposals = all.into_iter().flatten();
    match (proposals.next(), proposals.next()) {
        (Some(only), None) => Ok(only),
        (None, _) => Err(ApiError::invalid_parameter("The request contains no update")),
        (Some(_), Some(_)) => Err(ApiError::invalid_parameter("Only one type of update can be allowed.")),
    }
}

fn upgrade_policy(asked: &UpgradePolicy) -> ApiResult<Proposal> {
    let policy = rules::support_type(asked.support_type.as_deref())?;
    let change = Change::UpgradePolicy(policy.clone());
    Ok(Proposal::new("UpgradePolicyUpdate", "UpgradePolicy", policy, change))
}

fn zonal_shift(on: bool) -> Proposal {
    Proposal::new("ZonalShiftConfigUpdate", "ZonalShiftConfig", on.to_string(), Change::ZonalShift(on))
}

fn auto_mode(
    cluster: &Cluster,
    compute: Option<Value>,
    storage: Option<Value>,
    network: Option<Value>,
) -> Option<Proposal> {
    let shown = compute.as_ref().or(storage.as_ref()).or(network.as_ref())?.to_string();
    let network = network.map(|network| merged(&cluster.network, network));
    let change = Change::AutoMode { compute, storage, network };
    Some(Proposal::new("AutoModeUpdate", "ComputeConfig", shown, change))
}

fn remote_network(asked: Value) -> Proposal {
    let shown = asked.to_string();
    Proposal::new("RemoteNetworkConfigUpdate", "RemoteNetworkConfig", shown, Change::RemoteNetwork(asked))
}

fn deletion_protection(on: bool) -> Proposal {
    Proposal::new(
        "DeletionProtectionUpdate",
        "DeletionProtection",
        on.to_string(),
        Change::DeletionProtection(on),
    )
}

fn merged(old: &Value, new: Value) -> Value {
    let mut all = old.clone();
    if let (Some(all), Value::Object(new)) = (all.as_object_mut(), new) {
        all.extend(new);
    }
    all
}

fn subnets(cluster: &Cluster, ctx: &Context<'_>, vpc: &VpcRequest) -> ApiResult<Proposal> {
    let subnets = vpc.subnet_ids.clone().unwrap_or_else(|| cluster.vpc.subnet_ids.clone());
    if rules::cluster_subnets(&subnets, &ctx.facts)? != cluster.vpc.vpc_id {
        return Err(ApiError::invalid_parameter(
            "Provided subnets belong to a different VPC than the cluster",
        ));
    }
    let security_groups =
        vpc.security_group_ids.clone().unwrap_or_else(|| cluster.vpc.security_group_ids.clone());
    let shown = json!(subnets);
    Ok(Proposal::new(
        "VpcConfigUpdate",
        "Subnets",
        shown.to_string(),
        Change::Subnets { subnets, security_groups },
    ))
}

fn endpoint(cluster: &Cluster, vpc: &VpcRequest) -> ApiResult<Proposal> {
    let public = vpc.endpoint_public_access.unwrap_or(cluster.vpc.public_access);
    let private = vpc.endpoint_private_access.unwrap_or(cluster.vpc.private_access);
    let asked = vpc.public_access_cidrs.clone().or_else(|| Some(cluster.vpc.public_cidrs.clone()));
    let cidrs = rules::endpoint_access(public, private, asked)?;
    let now = &cluster.vpc;
    if (public, private, &cidrs) == (now.public_access, now.private_access, &now.public_cidrs) {
        return Err(ApiError::invalid_parameter(format!(
            "Cluster is already at the desired configuration with endpointPrivateAccess: {private} , \
             endpointPublicAccess: {public}, and Public Endpoint Restrictions: [{}]",
            cidrs.join(", ")
        )));
    }
    Ok(Proposal {
        kind: "EndpointAccessUpdate",
        params: vec![
            ("EndpointPublicAccess".to_owned(), public.to_string()),
            ("EndpointPrivateAccess".to_owned(), private.to_string()),
            ("PublicAccessCidrs".to_owned(), json!(cidrs).to_string()),
        ],
        change: Change::Endpoint { public, private, cidrs },
    })
}

fn logging(cluster: &Cluster, asked: &Logging) -> ApiResult<Proposal> {
    let on = asked.applied_to(&cluster.logging)?;
    if on == cluster.logging {
        return Err(ApiError::invalid_parameter("No changes needed for the logging config provided"));
    }
    Ok(Proposal::new("LoggingUpdate", "ClusterLogging", json!(on).to_string(), Change::Logging(on)))
}

fn authentication(cluster: &Cluster, asked: &AccessConfig) -> ApiResult<Proposal> {
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
    Ok(Proposal::new("AccessConfigUpdate", "AuthenticationMode", name(&to), Change::AuthMode(mode)))
}

pub(crate) fn associate_encryption(
    state: &mut State,
    ctx: &Context<'_>,
    name: &str,
    input: AssociateEncryptionConfig,
) -> ApiResult<Value> {
    let cluster = get(state, ctx, name)?;
    if let Some(known) = repeated(cluster, input.client_request_token.as_deref()) {
        return Ok(json!({ "update": view(known) }));
    }
    rules::may_update(cluster, "AssociateEncryptionConfig")?;
    rules::encryption(&input.encryption_config).map_err(|error| error.cluster(name))?;
    if !cluster.encryption.is_empty() || input.encryption_config.is_empty() {
        let message = format!("Encryption is already enabled for cluster: {name}");
        return Err(ApiError::invalid_parameter(message).cluster(name));
    }
    let shown = json!(input.encryption_config);
    let change = Change::Encryption(input.encryption_config);
    let proposal = Proposal::new("AssociateEncryptionConfig", "EncryptionConfig", shown.to_string(), change);
    Ok(start(cluster, ctx, proposal, input.client_request_token))
}

/// A retried request carries the token of the first one, and gets its answer.
fn repeated<'c>(cluster: &'c Cluster, token: Option<&str>) -> Option<&'c Update> {
    cluster.updates.iter().find(|update| token.is_some() && update.token.as_deref() == token)
}

fn start(cluster: &mut Cluster, ctx: &Context<'_>, proposal: Proposal, token: Option<String>) -> Value {
    let due = ctx.after_ms(ctx.settings.timing.cluster_update_ms);
    let Proposal { kind, params, change } = proposal;
    let update = Update {
        id: new_id(),
        token,
        kind: kind.to_owned(),
        params,
        created_at: ctx.now,
        due: Some(due),
        change,
        errors: cluster.fail_next_update.take().unwrap_or_default(),
    };
    json!({ "update": record(cluster, update) })
}

/// Starts an update whose legality its own operation has settled.
pub(crate) fn record(cluster: &mut Cluster, update: Update) -> Value {
    let shown = view(&update);
    cluster.updates.push(update);
    shown
}

pub(crate) fn new_id() -> String {
    Uuid::new_v4().to_string()
}

pub(crate) fn describe(
    state: &mut State,
    ctx: &Context<'_>,
    name: &str,
    id: &str,
    query: Query<'_>,
) -> ApiResult<Value> {
    let cluster = get(state, ctx, name)?;
    let of_addon = query.get("addonName");
    let belongs = |update: &&Update| match (&update.change, &of_addon) {
        (Change::Addon(addon), Some(asked)) => addon == asked,
        (Change::Addon(_), None) | (_, Some(_)) => false,
        (_, None) => true,
    };
    let update = cluster.updates.iter().find(|update| update.id == id).filter(belongs);
    let update =
        update.ok_or_else(|| ApiError::not_found(format!("No update found for ID: {id}")).cluster(name))?;
    Ok(json!({ "update": view(update) }))
}

pub(crate) fn list(state: &mut State, ctx: &Context<'_>, name: &str, query: Query<'_>) -> ApiResult<Value> {
    let cluster = get(state, ctx, name)?;
    let of_addon = query.get("addonName");
    let mut ids: Vec<&str> = cluster
        .updates
        .iter()
        .filter(|update| match (&update.change, &of_addon) {
            (Change::Addon(addon), Some(asked)) => addon == asked,
            (Change::Addon(_), None) => false,
            (_, asked) => asked.is_none(),
        })
        .map(|update| update.id.as_str())
        .collect();
    ids.sort_unstable();
    page("updateIds", ids.into_iter().map(|id| (id, json!(id))), query)
}

fn view(update: &Update) -> Value {
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
        "createdAt": seconds(update.created_at),
        "errors": if update.due.is_some() { &[][..] } else { &update.errors },
    })
}
