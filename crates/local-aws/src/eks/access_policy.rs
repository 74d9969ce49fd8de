//! Access policies and their association with access entries.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    access::{cluster_with_access_entries, find_entry},
    context::RequestContext,
    error::{ApiError, ApiResult},
    pagination::{QueryString, paginate},
    state::{AccessEntry, EksState, PolicyGrant},
    timestamp_json,
};

const POLICIES: [&str; 14] = [
    "AmazonAIOpsAssistantPolicy",
    "AmazonEKSAdminPolicy",
    "AmazonEKSAdminViewPolicy",
    "AmazonEKSAutoNodePolicy",
    "AmazonEKSBlockStorageClusterPolicy",
    "AmazonEKSBlockStoragePolicy",
    "AmazonEKSClusterAdminPolicy",
    "AmazonEKSComputeClusterPolicy",
    "AmazonEKSComputePolicy",
    "AmazonEKSEditPolicy",
    "AmazonEKSLoadBalancingPolicy",
    "AmazonEKSNetworkingClusterPolicy",
    "AmazonEKSNetworkingPolicy",
    "AmazonEKSViewPolicy",
];

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AssociateAccessPolicy {
    policy_arn: String,
    access_scope: AccessScope,
}

#[derive(Debug, Deserialize)]
struct AccessScope {
    #[serde(rename = "type")]
    kind: Option<String>,
    namespaces: Option<Vec<String>>,
}

pub(crate) fn associate(
    state: &mut EksState,
    ctx: &RequestContext<'_>,
    cluster: &str,
    principal: &str,
    input: AssociateAccessPolicy,
) -> ApiResult<Value> {
    let entry = find_entry(cluster_with_access_entries(state, ctx, cluster)?, principal)?;
    validate_policy(&input.policy_arn, entry).map_err(|error| error.with_cluster(cluster))?;
    let scope = parse_scope(input.access_scope).map_err(|error| error.with_cluster(cluster))?;
    let associated_at = entry.policies.get(&input.policy_arn).map_or(ctx.now, |grant| grant.associated_at);
    let grant = PolicyGrant { scope, associated_at, modified_at: ctx.now };
    let shown = grant_json(&input.policy_arn, &grant);
    entry.policies.insert(input.policy_arn, grant);
    Ok(json!({ "clusterName": cluster, "principalArn": principal, "associatedAccessPolicy": shown }))
}

fn validate_policy(arn: &str, entry: &AccessEntry) -> ApiResult<()> {
    let name = arn.split_once(":eks::aws:cluster-access-policy/").map(|(_, name)| name);
    if !name.is_some_and(|name| POLICIES.contains(&name)) {
        return Err(ApiError::invalid_parameter("The policyArn parameter format is not valid"));
    }
    if !["STANDARD", "EC2"].contains(&entry.kind.as_str()) {
        let message =
            format!("Access policies cannot be associated with an access entry of type {}", entry.kind);
        return Err(ApiError::invalid_request(message));
    }
    Ok(())
}

fn parse_scope(scope: AccessScope) -> ApiResult<Value> {
    let namespaces = scope.namespaces.unwrap_or_default();
    match (scope.kind.as_deref(), namespaces.is_empty()) {
        (Some("cluster"), true) => Ok(json!({ "type": "cluster", "namespaces": [] })),
        (Some("namespace"), false) => Ok(json!({ "type": "namespace", "namespaces": namespaces })),
        (Some("cluster"), false) => {
            Err(ApiError::invalid_parameter("An access scope of type cluster takes no namespaces"))
        }
        (Some("namespace"), true) => {
            Err(ApiError::invalid_parameter("An access scope of type namespace needs at least one namespace"))
        }
        _ => Err(ApiError::invalid_parameter("The type of the access scope must be cluster or namespace")),
    }
}

pub(crate) fn disassociate(
    state: &mut EksState,
    ctx: &RequestContext<'_>,
    cluster: &str,
    principal: &str,
    policy: &str,
) -> ApiResult<Value> {
    let entry = find_entry(cluster_with_access_entries(state, ctx, cluster)?, principal)?;
    match entry.policies.remove(policy) {
        Some(_) => Ok(json!({})),
        None => Err(ApiError::not_found("The specified policyArn could not be found on the access entry.")
            .with_cluster(cluster)),
    }
}

pub(crate) fn list_associated(
    state: &mut EksState,
    ctx: &RequestContext<'_>,
    cluster: &str,
    principal: &str,
    query: QueryString<'_>,
) -> ApiResult<Value> {
    let entry = find_entry(cluster_with_access_entries(state, ctx, cluster)?, principal)?;
    let grants = entry.policies.iter().map(|(arn, grant)| (arn.as_str(), grant_json(arn, grant)));
    let mut answer = paginate("associatedAccessPolicies", grants, query)?;
    answer["clusterName"] = json!(cluster);
    answer["principalArn"] = json!(principal);
    Ok(answer)
}

pub(crate) fn list(ctx: &RequestContext<'_>, query: QueryString<'_>) -> ApiResult<Value> {
    let all = POLICIES.map(|name| (name, json!({ "name": name, "arn": ctx.region.access_policy_arn(name) })));
    paginate("accessPolicies", all.into_iter(), query)
}

fn grant_json(arn: &str, grant: &PolicyGrant) -> Value {
    json!({
        "policyArn": arn,
        "accessScope": grant.scope,
        "associatedAt": timestamp_json(grant.associated_at),
        "modifiedAt": timestamp_json(grant.modified_at),
    })
}
