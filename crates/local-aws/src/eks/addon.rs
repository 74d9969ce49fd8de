//! Addons.

use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    catalog,
    cluster::get,
    context::Context,
    error::{ApiError, ApiResult},
    page::{Query, page},
    pod_identity, rules, seconds,
    state::{Addon, AddonStatus, Change, Cluster, State, Tags, Update},
    update, versions,
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
    state: &mut State,
    ctx: &Context<'_>,
    cluster_name: &str,
    input: CreateAddon,
) -> ApiResult<Value> {
    let due = ctx.after_ms(ctx.settings.timing.addon_ms);
    let cluster = get(state, ctx, cluster_name)?;
    let name = input.addon_name;
    if let Some(existing) = cluster.addons.get(&name) {
        if input.client_request_token.is_some() && existing.token == input.client_request_token {
            return Ok(json!({ "addon": view(existing, cluster_name) }));
        }
        return Err(ApiError::in_use("Addon already exists.").cluster(cluster_name).with("addonName", name));
    }
    rules::may_change_addon(cluster, "create", &name)?;
    let version = version_for(cluster, &name, input.addon_version.as_deref())?;
    catalog::check_configuration(&name, input.configuration_values.as_deref())
        .and_then(|()| rules::tags(input.tags.as_ref()))
        .map_err(|error| error.cluster(cluster_name))?;
    let arn = ctx.place.eks_arn(&format!("addon/{cluster_name}/{name}/{}", Uuid::new_v4()));
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
    addon.associations = own_associations(cluster, ctx, &addon, input.pod_identity_associations)?;
    let shown = view(&addon, cluster_name);
    cluster.addons.insert(name, addon);
    Ok(json!({ "addon": shown }))
}

fn version_for(cluster: &Cluster, addon: &str, asked: Option<&str>) -> ApiResult<String> {
    let running = versions::find(&cluster.version)
        .ok_or_else(|| ApiError::server(format!("cluster {} has an unknown version", cluster.name)))?;
    catalog::version(addon, asked, running).map_err(|error| error.cluster(&*cluster.name))
}

fn own_associations(
    cluster: &mut Cluster,
    ctx: &Context<'_>,
    addon: &Addon,
    asked: Option<Vec<AddonAssociation>>,
) -> ApiResult<Vec<String>> {
    let asked = asked.unwrap_or_default();
    asked.into_iter().map(|wanted| pod_identity::own(cluster, ctx, &addon.arn, wanted)).collect()
}

fn find<'c>(cluster: &'c mut Cluster, name: &str) -> ApiResult<&'c mut Addon> {
    let cluster_name = cluster.name.clone();
    cluster.addons.get_mut(name).ok_or_else(|| {
        ApiError::not_found(format!("No addon: {name} found in cluster: {cluster_name}"))
            .cluster(cluster_name)
            .with("addonName", name)
    })
}

pub(crate) fn describe(state: &mut State, ctx: &Context<'_>, cluster: &str, name: &str) -> ApiResult<Value> {
    let addon = find(get(state, ctx, cluster)?, name)?;
    Ok(json!({ "addon": view(addon, cluster) }))
}

pub(crate) fn list(
    state: &mut State,
    ctx: &Context<'_>,
    cluster: &str,
    query: Query<'_>,
) -> ApiResult<Value> {
    let cluster = get(state, ctx, cluster)?;
    page("addons", cluster.addons.keys().map(|name| (name.as_str(), json!(name))), query)
}

pub(crate) fn update(
    state: &mut State,
    ctx: &Context<'_>,
    cluster_name: &str,
    name: &str,
    input: UpdateAddon,
) -> ApiResult<Value> {
    let cluster = get(state, ctx, cluster_name)?;
    let addon = find(cluster, name)?.clone();
    may_move(&addon, cluster_name, "updated")?;
    rules::may_change_addon(cluster, "update", name)?;
    // The version that runs is not questioned: after an upgrade of the cluster it may be one that is not offered.
    let version = match input.addon_version.as_deref() {
        Some(wanted) => version_for(cluster, name, Some(wanted))?,
        None => addon.version.clone(),
    };
    catalog::check_configuration(name, input.configuration_values.as_deref())
        .map_err(|error| error.cluster(cluster_name))?;
    let params = [
        ("AddonVersion", Some(version.clone())),
        ("ServiceAccountRoleArn", input.service_account_role_arn.clone()),
        ("ResolveConflicts", input.resolve_conflicts),
        ("ConfigurationValues", input.configuration_values.clone()),
    ];
    if input.pod_identity_associations.is_some() {
        cluster.associations.retain(|_, association| association.owner.as_ref() != Some(&addon.arn));
        let associations = own_associations(cluster, ctx, &addon, input.pod_identity_associations)?;
        find(cluster, name)?.associations = associations;
    }
    let due = Some(ctx.after_ms(ctx.settings.timing.addon_ms));
    let addon = find(cluster, name)?;
    addon.status = AddonStatus::Updating;
    addon.due = due;
    addon.modified_at = ctx.now;
    addon.version = version;
    addon.role_arn = input.service_account_role_arn;
    if let Some(configuration) = input.configuration_values {
        addon.configuration = Some(configuration).filter(|text| !text.is_empty());
    }
    let update = Update {
        id: update::new_id(),
        token: input.client_request_token,
        kind: "AddonUpdate".to_owned(),
        params: params.into_iter().filter_map(|(kind, value)| Some((kind.to_owned(), value?))).collect(),
        created_at: ctx.now,
        due,
        change: Change::Addon(name.to_owned()),
        errors: Vec::new(),
    };
    Ok(json!({ "update": update::record(cluster, update) }))
}

fn may_move(addon: &Addon, cluster: &str, verb: &str) -> ApiResult<()> {
    match addon.status {
        AddonStatus::Active | AddonStatus::Degraded => Ok(()),
        AddonStatus::Creating | AddonStatus::Updating | AddonStatus::Deleting => {
            let (name, status) = (&addon.name, addon.status.name());
            let message = format!("Addon {name} cannot be {verb} as it is currently in {status} state");
            Err(ApiError::in_use(message).cluster(cluster).with("addonName", &**name))
        }
    }
}

pub(crate) fn delete(
    state: &mut State,
    ctx: &Context<'_>,
    cluster_name: &str,
    name: &str,
) -> ApiResult<Value> {
    let due = ctx.after_ms(ctx.settings.timing.addon_ms);
    let cluster = get(state, ctx, cluster_name)?;
    find(cluster, name)?;
    rules::may_change_addon(cluster, "delete", name)?;
    let addon = find(cluster, name)?;
    if addon.status == AddonStatus::Updating {
        may_move(addon, cluster_name, "deleted")?;
    }
    if addon.status != AddonStatus::Deleting {
        addon.status = AddonStatus::Deleting;
        addon.due = Some(due);
    }
    Ok(json!({ "addon": view(addon, cluster_name) }))
}

fn view(addon: &Addon, cluster: &str) -> Value {
    json!({
        "addonName": addon.name,
        "clusterName": cluster,
        "status": addon.status.name(),
        "addonVersion": addon.version,
        "health": { "issues": addon.issues },
        "addonArn": addon.arn,
        "createdAt": seconds(addon.created_at),
        "modifiedAt": seconds(addon.modified_at),
        "serviceAccountRoleArn": addon.role_arn,
        "tags": addon.tags,
        "configurationValues": addon.configuration,
        "podIdentityAssociations": addon.associations,
    })
}
