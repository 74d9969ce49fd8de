//! Pod identity associations.

use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    addon::AddonAssociation,
    cluster::get,
    context::{Context, Facts},
    error::{ApiError, ApiResult},
    page::{Query, page},
    rules, seconds,
    state::{Association, Cluster, State, Tags},
};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CreateAssociation {
    namespace: String,
    service_account: String,
    role_arn: String,
    client_request_token: Option<String>,
    tags: Option<Tags>,
    disable_session_tags: Option<bool>,
    target_role_arn: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UpdateAssociation {
    role_arn: Option<String>,
    disable_session_tags: Option<bool>,
    target_role_arn: Option<String>,
}

pub(crate) fn create(
    state: &mut State,
    ctx: &Context<'_>,
    cluster_name: &str,
    input: CreateAssociation,
) -> ApiResult<Value> {
    let cluster = get(state, ctx, cluster_name)?;
    if let Some(existing) = taken(cluster, &input.namespace, &input.service_account) {
        if input.client_request_token.is_some() && existing.token == input.client_request_token {
            return Ok(json!({ "association": view(existing, cluster_name) }));
        }
        return Err(
            ApiError::in_use(format!("Association already exists: {}", existing.id)).cluster(cluster_name)
        );
    }
    rules::is_active(cluster)?;
    check_role(&input.role_arn, &ctx.facts)
        .and_then(|()| rules::tags(input.tags.as_ref()))
        .map_err(|error| error.cluster(cluster_name))?;
    let association = Association {
        token: input.client_request_token,
        target_role_arn: input.target_role_arn,
        disable_session_tags: input.disable_session_tags.unwrap_or(false),
        tags: input.tags.unwrap_or_default(),
        ..new_association(ctx, cluster_name, input.namespace, (input.service_account, input.role_arn))
    };
    let shown = view(&association, cluster_name);
    cluster.associations.insert(association.id.clone(), association);
    Ok(json!({ "association": shown }))
}

/// An association that belongs to an addon: it appears and goes with it. The answer is its ARN.
pub(crate) fn own(
    cluster: &mut Cluster,
    ctx: &Context<'_>,
    addon_arn: &str,
    wanted: AddonAssociation,
) -> ApiResult<String> {
    let namespace = "kube-system";
    if let Some(existing) = taken(cluster, namespace, &wanted.service_account) {
        return Err(
            ApiError::in_use(format!("Association already exists: {}", existing.id)).cluster(&*cluster.name)
        );
    }
    check_role(&wanted.role_arn, &ctx.facts)?;
    let subject = (wanted.service_account, wanted.role_arn);
    let association = Association {
        owner: Some(addon_arn.to_owned()),
        ..new_association(ctx, &cluster.name, namespace.to_owned(), subject)
    };
    let arn = association.arn.clone();
    cluster.associations.insert(association.id.clone(), association);
    Ok(arn)
}

fn new_association(
    ctx: &Context<'_>,
    cluster: &str,
    namespace: String,
    (service_account, role_arn): (String, String),
) -> Association {
    let digits = Uuid::new_v4().simple().to_string();
    let id = format!("a-{}", digits.get(..17).unwrap_or(&digits));
    Association {
        arn: ctx.place.eks_arn(&format!("podidentityassociation/{cluster}/{id}")),
        id,
        token: None,
        created_at: ctx.now,
        modified_at: ctx.now,
        namespace,
        service_account,
        role_arn,
        target_role_arn: None,
        disable_session_tags: false,
        owner: None,
        tags: Tags::new(),
    }
}

fn taken<'c>(cluster: &'c Cluster, namespace: &str, service_account: &str) -> Option<&'c Association> {
    cluster.associations.values().find(|a| a.namespace == namespace && a.service_account == service_account)
}

fn check_role(arn: &str, facts: &Facts) -> ApiResult<()> {
    if facts.roles.contains_key(arn) {
        return Ok(());
    }
    Err(ApiError::invalid_parameter("Role provided in the request does not exist."))
}

fn find<'c>(cluster: &'c mut Cluster, id: &str) -> ApiResult<&'c mut Association> {
    let name = cluster.name.clone();
    cluster
        .associations
        .get_mut(id)
        .ok_or_else(|| ApiError::not_found(format!("Association not found: {id}")).cluster(name))
}

pub(crate) fn describe(state: &mut State, ctx: &Context<'_>, cluster: &str, id: &str) -> ApiResult<Value> {
    let association = find(get(state, ctx, cluster)?, id)?;
    Ok(json!({ "association": view(association, cluster) }))
}

pub(crate) fn list(
    state: &mut State,
    ctx: &Context<'_>,
    cluster_name: &str,
    query: Query<'_>,
) -> ApiResult<Value> {
    let cluster = get(state, ctx, cluster_name)?;
    let namespace = query.get("namespace");
    let account = query.get("serviceAccount");
    let chosen = cluster
        .associations
        .values()
        .filter(|a| namespace.as_ref().is_none_or(|asked| *asked == a.namespace))
        .filter(|a| account.as_ref().is_none_or(|asked| *asked == a.service_account))
        .map(|a| (a.id.as_str(), summary(a, cluster_name)));
    page("associations", chosen, query)
}

pub(crate) fn update(
    state: &mut State,
    ctx: &Context<'_>,
    cluster: &str,
    id: &str,
    input: UpdateAssociation,
) -> ApiResult<Value> {
    let association = find(get(state, ctx, cluster)?, id)?;
    if let Some(role) = input.role_arn {
        check_role(&role, &ctx.facts).map_err(|error| error.cluster(cluster))?;
        association.role_arn = role;
    }
    if let Some(off) = input.disable_session_tags {
        association.disable_session_tags = off;
    }
    if let Some(target) = input.target_role_arn {
        association.target_role_arn = Some(target).filter(|arn| !arn.is_empty());
    }
    association.modified_at = ctx.now;
    Ok(json!({ "association": view(association, cluster) }))
}

pub(crate) fn delete(state: &mut State, ctx: &Context<'_>, cluster_name: &str, id: &str) -> ApiResult<Value> {
    let cluster = get(state, ctx, cluster_name)?;
    let shown = view(find(cluster, id)?, cluster_name);
    cluster.associations.remove(id);
    Ok(json!({ "association": shown }))
}

fn summary(association: &Association, cluster: &str) -> Value {
    json!({
        "clusterName": cluster,
        "namespace": association.namespace,
        "serviceAccount": association.service_account,
        "associationArn": association.arn,
        "associationId": association.id,
        "ownerArn": association.owner,
    })
}

fn view(association: &Association, cluster: &str) -> Value {
    let mut shown = summary(association, cluster);
    shown["roleArn"] = json!(association.role_arn);
    shown["targetRoleArn"] = json!(association.target_role_arn);
    shown["disableSessionTags"] = json!(association.disable_session_tags);
    shown["tags"] = json!(association.tags);
    shown["createdAt"] = seconds(association.created_at);
    shown["modifiedAt"] = seconds(association.modified_at);
    shown
}
