//! Addons.

use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    addon_catalog,
    cluster::find_cluster,
    context::RequestContext,
    error::{ApiError, ApiResult},
    pagination::{QueryString, paginate},
    pod_identity,
    state::{Addon, AddonStatus, Cluster, EksState, Tags, Update, UpdateChange},
    timestamp_json, update, validation, versions,
};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CreateAddon {
    addon_name: String,
    addon_version: Option<String>,
    service_account_role_arn: Option<String>,
    client_request_token: Option<String>,
    tags: Option<Tags>,
    configuration_values: Option<String>,
    pod_identity_associations: Option<Vec<AddonAssociation>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UpdateAddon {
    addon_version: Option<String>,
    service_account_role_arn: Option<String>,
    client_request_token: Option<String>,
    configuration_values: Option<String>,
    resolve_conflicts: Option<String>,
    pod_identity_associations: Option<Vec<AddonAssociation>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AddonAssociation {
    pub(crate) service_account: String,
    pub(crate) role_arn: String,
}

pub(crate) fn create(
    state: &mut EksState,
    ctx: &RequestContext<'_>,
    cluster_name: &str,
    input: CreateAddon,
) -> ApiResult<Value> {
    let due = ctx.after_ms(ctx.settings.timing.addon_ms);
    let cluster = find_cluster(state, ctx, cluster_name)?;
    let name = input.addon_name;
    if let Some(existing) = cluster.addons.get(&name) {
        if input.client_request_token.is_some() && existing.token == input.client_request_token {
            return Ok(json!({ "addon": addon_json(existing, cluster_name) }));
        }
        return Err(ApiError::in_use("Addon already exists.")
            .with_cluster(cluster_name)
            .with_field("addonName", name));
    }
    validation::ensure_addon_change_allowed(cluster, "create", &name)?;
    let version = resolve_version(cluster, &name, input.addon_version.as_deref())?;
    addon_catalog::validate_configuration(&name, input.configuration_values.as_deref())
        .and_then(|()| validation::validate_tags(input.tags.as_ref()))
        .map_err(|error| error.with_cluster(cluster_name))?;
    let arn = ctx.region.eks_arn(&format!("addon/{cluster_name}/{name}/{}", Uuid::new_v4()));
    let mut addon = Addon {
        name: name.clone(),
        arn,
        token: input.client_request_token,
        created_at: ctx.now,
        modified_at: ctx.now,
        status: AddonStatus::Creating,
        due: Some(due),
        version,
        role_arn: input.service_account_role_arn,
        configuration: input.configuration_values.filter(|text| !text.is_empty()),
        associations: Vec::new(),
        issues: Vec::new(),
        tags: input.tags.unwrap_or_default(),
    };
    addon.associations = create_associations(cluster, ctx, &addon, input.pod_identity_associations)?;
    let shown = addon_json(&addon, cluster_name);
    cluster.addons.insert(name, addon);
    Ok(json!({ "addon": shown }))
}

fn resolve_version(cluster: &Cluster, addon: &str, asked: Option<&str>) -> ApiResult<String> {
    let running = versions::find_version(&cluster.version)
        .ok_or_else(|| ApiError::server_error(format!("cluster {} has an unknown version", cluster.name)))?;
    addon_catalog::resolve_version(addon, asked, running).map_err(|error| error.with_cluster(&*cluster.name))
}

fn create_associations(
    cluster: &mut Cluster,
    ctx: &RequestContext<'_>,
    addon: &Addon,
    asked: Option<Vec<AddonAssociation>>,
) -> ApiResult<Vec<String>> {
    let asked = asked.unwrap_or_default();
    asked.into_iter().map(|wanted| pod_identity::create_for_addon(cluster, ctx, &addon.arn, wanted)).collect()
}

fn find_addon<'c>(cluster: &'c mut Cluster, name: &str) -> ApiResult<&'c mut Addon> {
    let cluster_name = cluster.name.clone();
    cluster.addons.get_mut(name).ok_or_else(|| {
        ApiError::not_found(format!("No addon: {name} found in cluster: {cluster_name}"))
            .with_cluster(cluster_name)
            .with_field("addonName", name)
    })
}

pub(crate) fn describe(
    state: &mut EksState,
    ctx: &RequestContext<'_>,
    cluster: &str,
    name: &str,
) -> ApiResult<Value> {
    let addon = find_addon(find_cluster(state, ctx, cluster)?, name)?;
    Ok(json!({ "addon": addon_json(addon, cluster) }))
}

pub(crate) fn list(
    state: &mut EksState,
    ctx: &RequestContext<'_>,
    cluster: &str,
    query: QueryString<'_>,
) -> ApiResult<Value> {
    let cluster = find_cluster(state, ctx, cluster)?;
    paginate("addons", cluster.addons.keys().map(|name| (name.as_str(), json!(name))), query)
}

pub(crate) fn update(
    state: &mut EksState,
    ctx: &RequestContext<'_>,
    cluster_name: &str,
    name: &str,
    input: UpdateAddon,
) -> ApiResult<Value> {
    let cluster = find_cluster(state, ctx, cluster_name)?;
    let addon = find_addon(cluster, name)?.clone();
    ensure_not_in_transition(&addon, cluster_name, "updated")?;
    validation::ensure_addon_change_allowed(cluster, "update", name)?;
    // The current version is not validated: after a cluster upgrade it may no longer be offered.
    let version = match input.addon_version.as_deref() {
        Some(wanted) => resolve_version(cluster, name, Some(wanted))?,
        None => addon.version.clone(),
    };
    addon_catalog::validate_configuration(name, input.configuration_values.as_deref())
        .map_err(|error| error.with_cluster(cluster_name))?;
    let params = [
        ("AddonVersion", Some(version.clone())),
        ("ServiceAccountRoleArn", input.service_account_role_arn.clone()),
        ("ResolveConflicts", input.resolve_conflicts),
        ("ConfigurationValues", input.configuration_values.clone()),
    ];
    if input.pod_identity_associations.is_some() {
        cluster.associations.retain(|_, association| association.owner.as_ref() != Some(&addon.arn));
        let associations = create_associations(cluster, ctx, &addon, input.pod_identity_associations)?;
        find_addon(cluster, name)?.associations = associations;
    }
    let due = Some(ctx.after_ms(ctx.settings.timing.addon_ms));
    let addon = find_addon(cluster, name)?;
    addon.status = AddonStatus::Updating;
    addon.due = due;
    addon.modified_at = ctx.now;
    addon.version = version;
    addon.role_arn = input.service_account_role_arn;
    if let Some(configuration) = input.configuration_values {
        addon.configuration = Some(configuration).filter(|text| !text.is_empty());
    }
    let update = Update {
        id: update::new_update_id(),
        token: input.client_request_token,
        kind: "AddonUpdate".to_owned(),
        params: params.into_iter().filter_map(|(kind, value)| Some((kind.to_owned(), value?))).collect(),
        created_at: ctx.now,
        due,
        change: UpdateChange::Addon(name.to_owned()),
        errors: Vec::new(),
    };
    Ok(json!({ "update": update::record_update(cluster, update) }))
}

fn ensure_not_in_transition(addon: &Addon, cluster: &str, verb: &str) -> ApiResult<()> {
    match addon.status {
        AddonStatus::Active | AddonStatus::Degraded => Ok(()),
        AddonStatus::Creating | AddonStatus::Updating | AddonStatus::Deleting => {
            let (name, status) = (&addon.name, addon.status.name());
            let message = format!("Addon {name} cannot be {verb} as it is currently in {status} state");
            Err(ApiError::in_use(message).with_cluster(cluster).with_field("addonName", &**name))
        }
    }
}

pub(crate) fn delete(
    state: &mut EksState,
    ctx: &RequestContext<'_>,
    cluster_name: &str,
    name: &str,
) -> ApiResult<Value> {
    let due = ctx.after_ms(ctx.settings.timing.addon_ms);
    let cluster = find_cluster(state, ctx, cluster_name)?;
    find_addon(cluster, name)?;
    validation::ensure_addon_change_allowed(cluster, "delete", name)?;
    let addon = find_addon(cluster, name)?;
    if addon.status == AddonStatus::Updating {
        ensure_not_in_transition(addon, cluster_name, "deleted")?;
    }
    if addon.status != AddonStatus::Deleting {
        addon.status = AddonStatus::Deleting;
        addon.due = Some(due);
    }
    Ok(json!({ "addon": addon_json(addon, cluster_name) }))
}

fn addon_json(addon: &Addon, cluster: &str) -> Value {
    json!({
        "addonName": addon.name,
        "clusterName": cluster,
        "status": addon.status.name(),
        "addonVersion": addon.version,
        "health": { "issues": addon.issues },
        "addonArn": addon.arn,
        "createdAt": timestamp_json(addon.created_at),
        "modifiedAt": timestamp_json(addon.modified_at),
        "serviceAccountRoleArn": addon.role_arn,
        "tags": addon.tags,
        "configurationValues": addon.configuration,
        "podIdentityAssociations": addon.associations,
    })
}
