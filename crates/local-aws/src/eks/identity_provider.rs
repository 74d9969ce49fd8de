//! OIDC identity providers for cluster users: one per cluster, associated by an update.

use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    cluster::find_cluster,
    context::RequestContext,
    error::{ApiError, ApiResult},
    pagination::{QueryString, paginate},
    state::{Cluster, EksState, IdentityProvider, Tags, Update, UpdateChange},
    update, validation,
};

#[derive(Debug, Deserialize)]
pub(crate) struct AssociateIdentityProvider {
    oidc: Value,
    tags: Option<Tags>,
    #[serde(rename = "clientRequestToken")]
    token: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct IdentityProviderRef {
    #[serde(rename = "identityProviderConfig")]
    config: IdentityProviderName,
    #[serde(rename = "clientRequestToken")]
    token: Option<String>,
}

#[derive(Debug, Deserialize)]
struct IdentityProviderName {
    name: String,
}

pub(crate) fn associate(
    state: &mut EksState,
    ctx: &RequestContext<'_>,
    cluster_name: &str,
    input: AssociateIdentityProvider,
) -> ApiResult<Value> {
    let cluster = find_cluster(state, ctx, cluster_name)?;
    validation::ensure_update_allowed(cluster, "AssociateIdentityProviderConfig")?;
    validation::validate_tags(input.tags.as_ref())?;
    let member = |key: &str| input.oidc[key].as_str().filter(|text| !text.is_empty());
    let (Some(name), Some(issuer), Some(_)) =
        (member("identityProviderConfigName"), member("issuerUrl"), member("clientId"))
    else {
        let message = "oidc needs identityProviderConfigName, issuerUrl and clientId";
        return Err(ApiError::invalid_parameter(message).with_cluster(cluster_name));
    };
    if !issuer.starts_with("https://") {
        return Err(
            ApiError::invalid_parameter("issuerUrl must begin with https://").with_cluster(cluster_name)
        );
    }
    if !cluster.identity_providers.is_empty() {
        let message = "A cluster can have only one OIDC identity provider";
        return Err(ApiError::limit_exceeded(message).with_cluster(cluster_name));
    }
    let name = name.to_owned();
    let arn =
        ctx.region.eks_arn(&format!("identityproviderconfig/{cluster_name}/oidc/{name}/{}", Uuid::new_v4()));
    let tags = input.tags.unwrap_or_default();
    let provider = IdentityProvider {
        name: name.clone(),
        arn,
        status: "CREATING".to_owned(),
        config: input.oidc,
        tags: tags.clone(),
    };
    cluster.identity_providers.insert(name.clone(), provider);
    let change = UpdateChange::IdentityProviderActive(name);
    let update = start_update(cluster, ctx, "AssociateIdentityProviderConfig", (change, input.token));
    Ok(json!({ "update": update, "tags": tags }))
}

pub(crate) fn disassociate(
    state: &mut EksState,
    ctx: &RequestContext<'_>,
    cluster_name: &str,
    input: IdentityProviderRef,
) -> ApiResult<Value> {
    let cluster = find_cluster(state, ctx, cluster_name)?;
    find_provider(cluster, &input.config.name)?;
    validation::ensure_update_allowed(cluster, "DisassociateIdentityProviderConfig")?;
    "DELETING".clone_into(&mut find_provider(cluster, &input.config.name)?.status);
    let change = UpdateChange::IdentityProviderGone(input.config.name);
    let update = start_update(cluster, ctx, "DisassociateIdentityProviderConfig", (change, input.token));
    Ok(json!({ "update": update }))
}

fn start_update(
    cluster: &mut Cluster,
    ctx: &RequestContext<'_>,
    kind: &str,
    (change, token): (UpdateChange, Option<String>),
) -> Value {
    let update = Update {
        id: update::new_update_id(),
        token,
        kind: kind.to_owned(),
        params: Vec::new(),
        created_at: ctx.now,
        due: Some(ctx.after_ms(ctx.settings.timing.cluster_update_ms)),
        change,
        errors: Vec::new(),
    };
    update::record_update(cluster, update)
}

fn find_provider<'c>(cluster: &'c mut Cluster, name: &str) -> ApiResult<&'c mut IdentityProvider> {
    let cluster_name = cluster.name.clone();
    cluster.identity_providers.get_mut(name).ok_or_else(|| {
        ApiError::not_found(format!("Identity provider config not found: {name}")).with_cluster(cluster_name)
    })
}

pub(crate) fn describe(
    state: &mut EksState,
    ctx: &RequestContext<'_>,
    cluster: &str,
    input: &IdentityProviderRef,
) -> ApiResult<Value> {
    let provider = find_provider(find_cluster(state, ctx, cluster)?, &input.config.name)?;
    let mut oidc = provider.config.clone();
    oidc["identityProviderConfigArn"] = json!(provider.arn);
    oidc["clusterName"] = json!(cluster);
    oidc["status"] = json!(provider.status);
    oidc["tags"] = json!(provider.tags);
    Ok(json!({ "identityProviderConfig": { "oidc": oidc } }))
}

pub(crate) fn list(
    state: &mut EksState,
    ctx: &RequestContext<'_>,
    cluster: &str,
    query: QueryString<'_>,
) -> ApiResult<Value> {
    let cluster = find_cluster(state, ctx, cluster)?;
    let all = cluster
        .identity_providers
        .keys()
        .map(|name| (name.as_str(), json!({ "type": "oidc", "name": name })));
    paginate("identityProviderConfigs", all, query)
}
