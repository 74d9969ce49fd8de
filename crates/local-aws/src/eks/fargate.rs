//! Fargate profiles. Everything but their tags is immutable, and a cluster mutates one profile at a time.

use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    access,
    cluster::find_cluster,
    context::{RequestContext, ResolvedPrerequisites},
    error::{ApiError, ApiResult},
    pagination::{QueryString, paginate},
    selector,
    state::{Cluster, EksState, FargateProfile, FargateSelector, PlannedOutcome, ProfileStatus, Tags},
    timestamp_json, validation,
};
use crate::config::Limits;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CreateFargateProfile {
    fargate_profile_name: String,
    pod_execution_role_arn: String,
    subnets: Option<Vec<String>>,
    selectors: Option<Vec<FargateSelector>>,
    client_request_token: Option<String>,
    tags: Option<Tags>,
}

pub(crate) fn create(
    state: &mut EksState,
    ctx: &RequestContext<'_>,
    cluster_name: &str,
    input: CreateFargateProfile,
) -> ApiResult<Value> {
    let due = ctx.after_ms(ctx.settings.timing.profile_create_ms);
    let cluster = find_cluster(state, ctx, cluster_name)?;
    if let Some(existing) = cluster.profiles.get(&input.fargate_profile_name) {
        if input.client_request_token.is_some() && existing.token == input.client_request_token {
            return Ok(json!({ "fargateProfile": profile_json(existing, cluster_name) }));
        }
        let message = "A Fargate Profile already exists with this name in this cluster.";
        return Err(ApiError::in_use(message).with_cluster(cluster_name));
    }
    let selectors = input.selectors.unwrap_or_default();
    let subnets = input.subnets.unwrap_or_else(|| private_subnets(cluster, &ctx.resolved));
    let name = input.fargate_profile_name;
    validate_profile(&name, &selectors, &subnets, &ctx.settings.limits)
        .and_then(|()| validate_subnets(cluster, &subnets, &ctx.resolved))
        .and_then(|()| validate_role(&input.pod_execution_role_arn, &ctx.resolved))
        .and_then(|()| validation::validate_tags(input.tags.as_ref()))
        .map_err(|error| error.with_cluster(cluster_name).with_field("fargateProfileName", &*name))?;
    validation::ensure_profile_change_allowed(cluster, "create", &name, ctx.now)?;
    if cluster.profiles.len() >= ctx.settings.limits.profiles {
        let message =
            format!("Fargate Profile limit exceeded: a cluster has at most {}", ctx.settings.limits.profiles);
        return Err(ApiError::limit_exceeded(message).with_cluster(cluster_name));
    }
    let profile = FargateProfile {
        arn: ctx.region.eks_arn(&format!("fargateprofile/{cluster_name}/{name}/{}", Uuid::new_v4())),
        name: name.clone(),
        token: input.client_request_token,
        created_at: ctx.now,
        role_arn: input.pod_execution_role_arn,
        subnets,
        selectors,
        status: ProfileStatus::Creating,
        due: Some(due),
        planned: None,
        issues: Vec::new(),
        tags: input.tags.unwrap_or_default(),
    };
    let shown = profile_json(&profile, cluster_name);
    cluster.profiles.insert(name.clone(), profile);
    access::add_pod_execution_role_entries(cluster, &ctx.region, ctx.now);
    attach_planned_outcome(state, ctx, cluster_name, &name);
    Ok(json!({ "fargateProfile": shown }))
}

fn validate_profile(
    name: &str,
    selectors: &[FargateSelector],
    subnets: &[String],
    limits: &Limits,
) -> ApiResult<()> {
    validation::validate_profile_name(name)?;
    selector::validate_selectors(selectors, limits)?;
    if subnets.is_empty() {
        return Err(ApiError::invalid_parameter("Fargate Profile requires at least one private subnet"));
    }
    Ok(())
}

fn private_subnets(cluster: &Cluster, facts: &ResolvedPrerequisites) -> Vec<String> {
    let private = |id: &&String| facts.subnets.get(*id).is_some_and(|subnet| !subnet.public);
    cluster.vpc.subnet_ids.iter().filter(private).cloned().collect()
}

fn validate_subnets(cluster: &Cluster, ids: &[String], facts: &ResolvedPrerequisites) -> ApiResult<()> {
    for id in ids {
        let refuse = |why: &str| {
            Err(ApiError::invalid_parameter(format!("Subnet {id} provided in Fargate Profile {why}")))
        };
        match facts.subnets.get(id) {
            None => return Err(ApiError::invalid_parameter(format!("The subnet ID '{id}' does not exist"))),
            Some(subnet) if subnet.vpc_id != cluster.vpc.vpc_id => {
                return refuse("is not in the VPC of the cluster");
            }
            Some(subnet) if subnet.public => return refuse("is not a private subnet"),
            Some(_) => {}
        }
    }
    Ok(())
}

fn validate_role(arn: &str, facts: &ResolvedPrerequisites) -> ApiResult<()> {
    let path = arn.split_once(":role/").map(|(_, path)| path);
    match path {
        Some(name) if !name.contains('/') => {}
        Some(_) => {
            let message = format!("Pod execution role {arn} must not have a path other than /");
            return Err(ApiError::invalid_parameter(message));
        }
        None => return Err(ApiError::invalid_parameter(format!("Invalid pod execution role arn: {arn}"))),
    }
    match facts.roles.get(arn) {
        None => Err(ApiError::invalid_parameter(format!("Pod execution role {arn} does not exist"))),
        Some(role) if !role.trusted_services.contains("eks-fargate-pods.amazonaws.com") => {
            Err(ApiError::invalid_parameter(
                "Misconfigured PodExecutionRole Trust Policy; Please add the eks-fargate-pods.amazonaws.com Service \
             Principal to the role's trust policy",
            ))
        }
        Some(_) => Ok(()),
    }
}

pub(crate) fn find_profile<'c>(cluster: &'c mut Cluster, name: &str) -> ApiResult<&'c mut FargateProfile> {
    let cluster_name = cluster.name.clone();
    cluster.profiles.get_mut(name).ok_or_else(|| {
        ApiError::not_found(format!("No Fargate Profile found with name: {name}."))
            .with_cluster(cluster_name)
            .with_field("fargateProfileName", name)
    })
}

pub(crate) fn describe(
    state: &mut EksState,
    ctx: &RequestContext<'_>,
    cluster: &str,
    name: &str,
) -> ApiResult<Value> {
    let profile = find_profile(find_cluster(state, ctx, cluster)?, name)?;
    Ok(json!({ "fargateProfile": profile_json(profile, cluster) }))
}

pub(crate) fn list(
    state: &mut EksState,
    ctx: &RequestContext<'_>,
    cluster: &str,
    query: QueryString<'_>,
) -> ApiResult<Value> {
    let cluster = find_cluster(state, ctx, cluster)?;
    paginate("fargateProfileNames", cluster.profiles.keys().map(|name| (name.as_str(), json!(name))), query)
}

pub(crate) fn delete(
    state: &mut EksState,
    ctx: &RequestContext<'_>,
    cluster_name: &str,
    name: &str,
) -> ApiResult<Value> {
    let due = ctx.after_ms(ctx.settings.timing.profile_delete_ms);
    let cluster = find_cluster(state, ctx, cluster_name)?;
    find_profile(cluster, name)?;
    validation::ensure_profile_change_allowed(cluster, "Delete", name, ctx.now)?;
    let profile = find_profile(cluster, name)?;
    profile.status = ProfileStatus::Deleting;
    profile.due = Some(due);
    profile.issues.clear();
    let shown = profile_json(profile, cluster_name);
    attach_planned_outcome(state, ctx, cluster_name, name);
    Ok(json!({ "fargateProfile": shown }))
}

/// Attaches a planned outcome to the profile whose create or delete just started.
fn attach_planned_outcome(state: &mut EksState, ctx: &RequestContext<'_>, cluster: &str, name: &str) {
    let fits = |planned: &PlannedOutcome, status| {
        planned.cluster == cluster
            && planned.profile == name
            && matches!(
                (planned.end, status),
                (ProfileStatus::CreateFailed, ProfileStatus::Creating)
                    | (ProfileStatus::DeleteFailed, ProfileStatus::Deleting)
            )
    };
    let Some(profile) = state
        .regions
        .get_mut(&ctx.region.name)
        .and_then(|clusters| clusters.get_mut(cluster))
        .and_then(|cluster| cluster.profiles.get_mut(name))
    else {
        return;
    };
    let status = profile.status;
    if let Some(at) = state.planned.iter().position(|planned| fits(planned, status)) {
        profile.planned = Some(state.planned.remove(at));
    }
}

fn profile_json(profile: &FargateProfile, cluster: &str) -> Value {
    let selectors: Vec<_> = profile
        .selectors
        .iter()
        .map(|selector| {
            let labels = (!selector.labels.is_empty()).then_some(&selector.labels);
            json!({ "namespace": selector.namespace, "labels": labels })
        })
        .collect();
    json!({
        "fargateProfileName": profile.name,
        "fargateProfileArn": profile.arn,
        "clusterName": cluster,
        "createdAt": timestamp_json(profile.created_at),
        "podExecutionRoleArn": profile.role_arn,
        "subnets": profile.subnets,
        "selectors": selectors,
        "status": profile.status.name(),
        "tags": profile.tags,
        "health": { "issues": profile.issues },
    })
}
