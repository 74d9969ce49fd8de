//! Tags of all EKS resources with an ARN.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    context::RequestContext,
    error::{ApiError, ApiResult},
    pagination::QueryString,
    state::{Cluster, EksState, Tags},
    validation,
};

#[derive(Debug, Deserialize)]
pub(crate) struct TagResource {
    tags: Tags,
}

pub(crate) fn tag(
    state: &mut EksState,
    ctx: &RequestContext<'_>,
    arn: &str,
    input: TagResource,
) -> ApiResult<Value> {
    let tags = find_tags(state, ctx, arn)?;
    let mut all = tags.clone();
    all.extend(input.tags);
    validation::validate_tags(Some(&all)).map_err(|error| ApiError::bad_request(error.message))?;
    *tags = all;
    Ok(json!({}))
}

pub(crate) fn untag(
    state: &mut EksState,
    ctx: &RequestContext<'_>,
    arn: &str,
    query: QueryString<'_>,
) -> ApiResult<Value> {
    let keys = query.get_all("tagKeys");
    if keys.is_empty() {
        return Err(ApiError::bad_request("tagKeys must not be empty"));
    }
    let tags = find_tags(state, ctx, arn)?;
    tags.retain(|key, _| !keys.contains(key));
    Ok(json!({}))
}

pub(crate) fn list(state: &mut EksState, ctx: &RequestContext<'_>, arn: &str) -> ApiResult<Value> {
    Ok(json!({ "tags": find_tags(state, ctx, arn)? }))
}

fn find_tags<'s>(state: &'s mut EksState, ctx: &RequestContext<'_>, arn: &str) -> ApiResult<&'s mut Tags> {
    if !arn.starts_with("arn:") || !arn.contains(":eks:") {
        return Err(ApiError::bad_request(format!("Invalid arn: {arn}")));
    }
    let mut clusters = state.regions.get_mut(&ctx.region.name).into_iter().flatten();
    clusters
        .find_map(|(_, cluster)| find_tags_in_cluster(cluster, arn))
        .ok_or_else(|| ApiError::tag_target_not_found("Resource was not found"))
}

fn find_tags_in_cluster<'c>(cluster: &'c mut Cluster, arn: &str) -> Option<&'c mut Tags> {
    if cluster.arn == arn {
        return Some(&mut cluster.tags);
    }
    let profiles = cluster.profiles.values_mut().map(|p| (&p.arn, &mut p.tags));
    let addons = cluster.addons.values_mut().map(|a| (&a.arn, &mut a.tags));
    let entries = cluster.access_entries.values_mut().map(|e| (&e.arn, &mut e.tags));
    let associations = cluster.associations.values_mut().map(|a| (&a.arn, &mut a.tags));
    let providers = cluster.identity_providers.values_mut().map(|p| (&p.arn, &mut p.tags));
    let mut all = profiles.chain(addons).chain(entries).chain(associations).chain(providers);
    all.find(|(known, _)| *known == arn).map(|(_, tags)| tags)
}
