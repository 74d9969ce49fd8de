//! Access entries and the access policies attached to them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    cluster::find_cluster,
    context::{RequestContext, ResolvedPrerequisites},
    error::{ApiError, ApiResult},
    pagination::{QueryString, paginate},
    state::{AccessEntry, AuthMode, Cluster, EksState, PolicyGrant, Tags},
    timestamp_json, validation,
};
use crate::{config::ACCOUNT, region::Region};

const ENTRY_TYPES: [&str; 7] =
    ["STANDARD", "FARGATE_LINUX", "EC2_LINUX", "EC2_WINDOWS", "EC2", "HYBRID_LINUX", "HYPERPOD_LINUX"];

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CreateAccessEntry {
    principal_arn: String,
    kubernetes_groups: Option<Vec<String>>,
    tags: Option<Tags>,
    client_request_token: Option<String>,
    username: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UpdateAccessEntry {
    kubernetes_groups: Option<Vec<String>>,
    username: Option<String>,
}

/// The cluster, provided its authentication mode supports access entries.
pub(crate) fn cluster_with_access_entries<'s>(
    state: &'s mut EksState,
    ctx: &RequestContext<'_>,
    name: &str,
) -> ApiResult<&'s mut Cluster> {
    let cluster = find_cluster(state, ctx, name)?;
    if cluster.auth_mode == AuthMode::ConfigMap {
        let message = "The cluster's authentication mode must be set to one of [API, API_AND_CONFIG_MAP] to perform this operation.";
        return Err(ApiError::invalid_request(message).with_cluster(name));
    }
    Ok(cluster)
}

pub(crate) fn create(
    state: &mut EksState,
    ctx: &RequestContext<'_>,
    cluster_name: &str,
    input: CreateAccessEntry,
) -> ApiResult<Value> {
    let cluster = cluster_with_access_entries(state, ctx, cluster_name)?;
    if let Some(existing) = cluster.access_entries.get(&input.principal_arn) {
        if input.client_request_token.is_some() && existing.token == input.client_request_token {
            return Ok(json!({ "accessEntry": entry_json(existing, cluster_name) }));
        }
        let message = "The specified access entry resource is already in use on this cluster.";
        return Err(ApiError::in_use(message).with_cluster(cluster_name));
    }
    validation::ensure_active(cluster)?;
    let entry = build_entry(cluster, ctx, input).map_err(|error| error.with_cluster(cluster_name))?;
    let shown = entry_json(&entry, cluster_name);
    cluster.access_entries.insert(entry.principal.clone(), entry);
    Ok(json!({ "accessEntry": shown }))
}

fn build_entry(
    cluster: &Cluster,
    ctx: &RequestContext<'_>,
    input: CreateAccessEntry,
) -> ApiResult<AccessEntry> {
    let kind = input.kind.unwrap_or_else(|| "STANDARD".to_owned());
    if !ENTRY_TYPES.contains(&kind.as_str()) {
        return Err(ApiError::invalid_parameter(format!("The specified type {kind} is invalid")));
    }
    let groups = input.kubernetes_groups.unwrap_or_default();
    if kind != "STANDARD" && (!groups.is_empty() || input.username.is_some()) {
        let message = format!("Access entries of type {kind} take neither kubernetesGroups nor a username");
        return Err(ApiError::invalid_parameter(message));
    }
    validate_principal(&input.principal_arn, &ctx.resolved)?;
    validate_groups(&groups)?;
    validation::validate_tags(input.tags.as_ref())?;
    let username = input.username.unwrap_or_else(|| default_username(&kind, &input.principal_arn));
    Ok(AccessEntry {
        token: input.client_request_token,
        tags: input.tags.unwrap_or_default(),
        ..new_entry(
            &cluster.name,
            &ctx.region,
            ctx.now,
            NewEntry { principal: &input.principal_arn, kind: &kind, username, groups },
        )
    })
}

struct NewEntry<'a> {
    principal: &'a str,
    kind: &'a str,
    username: String,
    groups: Vec<String>,
}

fn new_entry(cluster: &str, place: &Region, now: Timestamp, entry: NewEntry<'_>) -> AccessEntry {
    let (sort, name) =
        entry.principal.rsplit_once(':').and_then(|(_, p)| p.split_once('/')).unwrap_or(("role", "x"));
    let groups = if entry.kind == "STANDARD" { entry.groups } else { vec!["system:nodes".to_owned()] };
    AccessEntry {
        arn: place.eks_arn(&format!("access-entry/{cluster}/{sort}/{ACCOUNT}/{name}/{}", Uuid::new_v4())),
        principal: entry.principal.to_owned(),
        token: None,
        created_at: now,
        modified_at: now,
        kind: entry.kind.to_owned(),
        username: entry.username,
        groups,
        policies: BTreeMap::new(),
        managed: false,
        tags: Tags::new(),
    }
}

fn validate_principal(arn: &str, facts: &ResolvedPrerequisites) -> ApiResult<()> {
    let parts: Vec<_> = arn.splitn(6, ':').collect();
    let ["arn", _, "iam", "", account, resource] = parts[..] else {
        return Err(ApiError::invalid_parameter("The principalArn parameter format is not valid"));
    };
    let known = facts.roles.contains_key(arn) || facts.users.contains(arn) || facts.caller == arn;
    // Principals of other accounts cannot be looked up.
    let legal = resource.starts_with("role/") || resource.starts_with("user/");
    if legal && (known || account != ACCOUNT) {
        return Ok(());
    }
    Err(ApiError::invalid_parameter("The specified principalArn is invalid: invalid principal."))
}

fn validate_groups(groups: &[String]) -> ApiResult<()> {
    let reserved = ["system:", "eks:", "aws:", "amazon:", "iam:"];
    match groups.iter().find(|group| reserved.iter().any(|prefix| group.starts_with(prefix))) {
        Some(group) => {
            let message = format!(
                "The kubernetes group name {group} is invalid, it cannot start with {}",
                reserved.join(", ")
            );
            Err(ApiError::invalid_parameter(message))
        }
        None => Ok(()),
    }
}

fn default_username(kind: &str, principal: &str) -> String {
    match kind {
        "STANDARD" => match principal.split_once(":role/") {
            Some((head, path)) => {
                let name = path.rsplit('/').next().unwrap_or(path);
                format!("{}:assumed-role/{name}/{{{{SessionName}}}}", head.replace(":iam:", ":sts:"))
            }
            None => principal.to_owned(),
        },
        "FARGATE_LINUX" => "system:node:{{SessionName}}".to_owned(),
        _ => "system:node:{{EC2PrivateDNSName}}".to_owned(),
    }
}

/// Adds the access entry that EKS creates for the creator of the cluster.
pub(crate) fn add_creator_entry(cluster: &mut Cluster, ctx: &RequestContext<'_>) {
    let principal = ctx.resolved.caller.clone();
    let username = default_username("STANDARD", &principal);
    let entry = NewEntry { principal: &principal, kind: "STANDARD", username, groups: Vec::new() };
    let mut entry = new_entry(&cluster.name, &ctx.region, ctx.now, entry);
    entry.policies.insert(
        ctx.region.access_policy_arn("AmazonEKSClusterAdminPolicy"),
        PolicyGrant {
            scope: json!({ "type": "cluster", "namespaces": [] }),
            associated_at: ctx.now,
            modified_at: ctx.now,
        },
    );
    cluster.access_entries.insert(principal, entry);
}

/// Adds the access entries that EKS creates for pod execution roles, unless the authentication mode is `CONFIG_MAP`.
pub(crate) fn add_pod_execution_role_entries(cluster: &mut Cluster, place: &Region, now: Timestamp) {
    if cluster.auth_mode == AuthMode::ConfigMap {
        return;
    }
    let roles: Vec<String> = cluster.profiles.values().map(|profile| profile.role_arn.clone()).collect();
    for role in roles {
        if !cluster.access_entries.contains_key(&role) {
            let username = default_username("FARGATE_LINUX", &role);
            let entry = NewEntry { principal: &role, kind: "FARGATE_LINUX", username, groups: Vec::new() };
            let entry = AccessEntry { managed: true, ..new_entry(&cluster.name, place, now, entry) };
            cluster.access_entries.insert(role, entry);
        }
    }
}

pub(crate) fn remove_pod_execution_role_entry(cluster: &mut Cluster, role: &str) {
    let still_used = cluster.profiles.values().any(|profile| profile.role_arn == role);
    if !still_used && cluster.access_entries.get(role).is_some_and(|entry| entry.managed) {
        cluster.access_entries.remove(role);
    }
}

pub(crate) fn find_entry<'c>(cluster: &'c mut Cluster, principal: &str) -> ApiResult<&'c mut AccessEntry> {
    let name = cluster.name.clone();
    cluster.access_entries.get_mut(principal).ok_or_else(|| {
        ApiError::not_found(
            "The specified principalArn could not be found. You can view your available access entries with 'list-access-entries'.",
        )
        .with_cluster(name)
    })
}

pub(crate) fn describe(
    state: &mut EksState,
    ctx: &RequestContext<'_>,
    cluster: &str,
    principal: &str,
) -> ApiResult<Value> {
    let entry = find_entry(cluster_with_access_entries(state, ctx, cluster)?, principal)?;
    Ok(json!({ "accessEntry": entry_json(entry, cluster) }))
}

pub(crate) fn list(
    state: &mut EksState,
    ctx: &RequestContext<'_>,
    cluster: &str,
    query: QueryString<'_>,
) -> ApiResult<Value> {
    let cluster = cluster_with_access_entries(state, ctx, cluster)?;
    let policy = query.get("associatedPolicyArn");
    let chosen = cluster
        .access_entries
        .values()
        .filter(|entry| policy.as_ref().is_none_or(|policy| entry.policies.contains_key(policy)))
        .map(|entry| (entry.principal.as_str(), json!(entry.principal)));
    paginate("accessEntries", chosen, query)
}

pub(crate) fn update(
    state: &mut EksState,
    ctx: &RequestContext<'_>,
    cluster: &str,
    principal: &str,
    input: UpdateAccessEntry,
) -> ApiResult<Value> {
    let entry = find_entry(cluster_with_access_entries(state, ctx, cluster)?, principal)?;
    if entry.kind != "STANDARD" {
        let message = format!("Access entries of type {} cannot be updated", entry.kind);
        return Err(ApiError::invalid_request(message).with_cluster(cluster));
    }
    if let Some(groups) = input.kubernetes_groups {
        validate_groups(&groups).map_err(|error| error.with_cluster(cluster))?;
        entry.groups = groups;
    }
    if let Some(username) = input.username {
        entry.username = username;
    }
    entry.modified_at = ctx.now;
    Ok(json!({ "accessEntry": entry_json(entry, cluster) }))
}

pub(crate) fn delete(
    state: &mut EksState,
    ctx: &RequestContext<'_>,
    cluster: &str,
    principal: &str,
) -> ApiResult<Value> {
    let cluster = cluster_with_access_entries(state, ctx, cluster)?;
    find_entry(cluster, principal)?;
    cluster.access_entries.remove(principal);
    Ok(json!({}))
}

fn entry_json(entry: &AccessEntry, cluster: &str) -> Value {
    json!({
        "clusterName": cluster,
        "principalArn": entry.principal,
        "kubernetesGroups": entry.groups,
        "accessEntryArn": entry.arn,
        "createdAt": timestamp_json(entry.created_at),
        "modifiedAt": timestamp_json(entry.modified_at),
        "tags": entry.tags,
        "username": entry.username,
        "type": entry.kind,
    })
}
