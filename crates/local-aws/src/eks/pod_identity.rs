//! Pod identity associations.

use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    addon::AddonAssociation,
    cluster::find_cluster,
    context::{RequestContext, ResolvedPrerequisites},
    error::{ApiError, ApiResult},
    pagination::{QueryString, paginate},
    state::{Cluster, EksState, PodIdentityAssociation, Tags},
    timestamp_json, validation,
};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CreatePodIdentityAssociation {
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
pub(crate) struct UpdatePodIdentityAssociation {
    role_arn: Option<String>,
    disable_session_tags: Option<bool>,
    target_role_arn: Option<String>,
}

pub(crate) fn create(
    state: &mut EksState,
    ctx: &RequestContext<'_>,
    cluster_name: &str,
    input: CreatePodIdentityAssociation,
) -> ApiResult<Value> {
    let cluster = find_cluster(state, ctx, cluster_name)?;
    if let Some(existing) = find_by_service_account(cluster, &input.namespace, &input.service_account) {
        if input.client_request_token.is_some() && existing.token == input.client_request_token {
            return Ok(json!({ "association": association_json(existing, cluster_name) }));
        }
        return Err(ApiError::in_use(format!("Association already exists: {}", existing.id))
            .with_cluster(cluster_name));
    }
    validation::ensure_active(cluster)?;
    validate_role(&input.role_arn, &ctx.resolved)
        .and_then(|()| validation::validate_tags(input.tags.as_ref()))
        .map_err(|error| error.with_cluster(cluster_name))?;
    let association = PodIdentityAssociation {
        token: input.client_request_token,
        target_role_arn: input.target_role_arn,
        disable_session_tags: input.disable_session_tags.unwrap_or(false),
        tags: input.tags.unwrap_or_default(),
        ..new_association(ctx, cluster_name, input.namespace, (input.service_account, input.role_arn))
    };
    let shown = association_json(&association, cluster_name);
    cluster.associations.insert(association.id.clone(), association);
    Ok(json!({ "association": shown }))
}

/// Creates an association that is owned by an addon and deleted with it; returns its ARN.
pub(crate) fn create_for_addon(
    cluster: &mut Cluster,
    ctx: &RequestContext<'_>,
    addon_arn: &str,
    wanted: AddonAssociation,
) -> ApiResult<String> {
    let namespace = "kube-system";
    if let Some(existing) = find_by_service_account(cluster, namespace, &wanted.service_account) {
        return Err(ApiError::in_use(format!("Association already exists: {}", existing.id))
            .with_cluster(&*cluster.name));
    }
    validate_role(&wanted.role_arn, &ctx.resolved)?;
    let subject = (wanted.service_account, wanted.role_arn);
    let association = PodIdentityAssociation {
        owner: Some(addon_arn.to_owned()),
        ..new_association(ctx, &cluster.name, namespace.to_owned(), subject)
    };
    let arn = association.arn.clone();
    cluster.associations.insert(association.id.clone(), association);
    Ok(arn)
}

fn new_association(
    ctx: &RequestContext<'_>,
    cluster: &str,
    namespace: String,
    (service_account, role_arn): (String, String),
) -> PodIdentityAssociation {
    let digits = Uuid::new_v4().simple().to_string();
    let id = format!("a-{}", digits.get(..17).unwrap_or(&digits));
    PodIdentityAssociation {
        arn: ctx.region.eks_arn(&format!("podidentityassociation/{cluster}/{id}")),
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

fn find_by_service_account<'c>(
    cluster: &'c Cluster,
    namespace: &str,
    service_account: &str,
) -> Option<&'c PodIdentityAssociation> {
    cluster.associations.values().find(|a| a.namespace == namespace && a.service_account == service_account)
}

fn validate_role(arn: &str, facts: &ResolvedPrerequisites) -> ApiResult<()> {
    if facts.roles.contains_key(arn) {
        return Ok(());
    }
    Err(ApiError::invalid_parameter("Role provided in the request does not exist."))
}

fn find_association<'c>(cluster: &'c mut Cluster, id: &str) -> ApiResult<&'c mut PodIdentityAssociation> {
    let name = cluster.name.clone();
    cluster
        .associations
        .get_mut(id)
        .ok_or_else(|| ApiError::not_found(format!("Association not found: {id}")).with_cluster(name))
}

pub(crate) fn describe(
    state: &mut EksState,
    ctx: &RequestContext<'_>,
    cluster: &str,
    id: &str,
) -> ApiResult<Value> {
    let association = find_association(find_cluster(state, ctx, cluster)?, id)?;
    Ok(json!({ "association": association_json(association, cluster) }))
}

pub(crate) fn list(
    state: &mut EksState,
    ctx: &RequestContext<'_>,
    cluster_name: &str,
    query: QueryString<'_>,
) -> ApiResult<Value> {
    let cluster = find_cluster(state, ctx, cluster_name)?;
    let namespace = query.get("namespace");
    let account = query.get("serviceAccount");
    let chosen = cluster
        .associations
        .values()
        .filter(|a| namespace.as_ref().is_none_or(|asked| *asked == a.namespace))
        .filter(|a| account.as_ref().is_none_or(|asked| *asked == a.service_account))
        .map(|a| (a.id.as_str(), summary_json(a, cluster_name)));
    paginate("associations", chosen, query)
}

pub(crate) fn update(
    state: &mut EksState,
    ctx: &RequestContext<'_>,
    cluster: &str,
    id: &str,
    input: UpdatePodIdentityAssociation,
) -> ApiResult<Value> {
    let association = find_association(find_cluster(state, ctx, cluster)?, id)?;
    if let Some(role) = input.role_arn {
        validate_role(&role, &ctx.resolved).map_err(|error| error.with_cluster(cluster))?;
        association.role_arn = role;
    }
    if let Some(off) = input.disable_session_tags {
        association.disable_session_tags = off;
    }
    if let Some(target) = input.target_role_arn {
        association.target_role_arn = Some(target).filter(|arn| !arn.is_empty());
    }
    association.modified_at = ctx.now;
    Ok(json!({ "association": association_json(association, cluster) }))
}

pub(crate) fn delete(
    state: &mut EksState,
    ctx: &RequestContext<'_>,
    cluster_name: &str,
    id: &str,
) -> ApiResult<Value> {
    let cluster = find_cluster(state, ctx, cluster_name)?;
    let shown = association_json(find_association(cluster, id)?, cluster_name);
    cluster.associations.remove(id);
    Ok(json!({ "association": shown }))
}

fn summary_json(association: &PodIdentityAssociation, cluster: &str) -> Value {
    json!({
        "clusterName": cluster,
        "namespace": association.namespace,
        "serviceAccount": association.service_account,
        "associationArn": association.arn,
        "associationId": association.id,
        "ownerArn": association.owner,
    })
}

fn association_json(association: &PodIdentityAssociation, cluster: &str) -> Value {
    let mut shown = summary_json(association, cluster);
    shown["roleArn"] = json!(association.role_arn);
    shown["targetRoleArn"] = json!(association.target_role_arn);
    shown["disableSessionTags"] = json!(association.disable_session_tags);
    shown["tags"] = json!(association.tags);
    shown["createdAt"] = timestamp_json(association.created_at);
    shown["modifiedAt"] = timestamp_json(association.modified_at);
    shown
}
