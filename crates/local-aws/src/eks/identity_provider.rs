//! OIDC identity providers that users of a cluster log in with: one per cluster, associated by an update.

use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    cluster::get,
    context::Context,
    error::{ApiError, ApiResult},
    page::{Query, page},
    rules,
    state::{Change, Cluster, IdentityProvider, State, Tags, Update},
    update,
};

#[derive(Debug, Deserialize)]
pub(crate) struct Associate {
    oidc: Value,
    tags: Option<Tags>,
    #[serde(rename = "clientRequestToken")]
    token: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ByName {
    #[serde(rename = "identityProviderConfig")]
    config: NameAndType,
    #[serde(rename = "clientRequestToken")]
    token: Option<String>,
}

#[derive(Debug, Deserialize)]
struct NameAndType {
    name: String,
}

pub(crate) fn associate(
    state: &mut State,
    ctx: &Context<'_>,
    cluster_name: &str,
    input: Associate,
) -> ApiResult<Value> {
    let cluster = get(state, ctx, cluster_name)?;
    rules::may_update(cluster, "AssociateIdentityProviderConfig")?;
    rules::tags(input.tags.as_ref())?;
    let member = |key: &str| input.oidc[key].as_str().filter(|text| !text.is_empty());
    let (Some(name), Some(issuer), Some(_)) =
        (member("identityProviderConfigName"), member("issuerUrl"), member("clientId"))
    else {
        let message = "oidc needs identityProviderConfigName, issuerUrl and clientId";
        return Err(ApiError::invalid_parameter(message).cluster(cluster_name));
    };
    if !issuer.starts_with("https://") {
        return Err(ApiError::invalid_parameter("issuerUrl must begin with https://").cluster(cluster_name));
    }
    if !cluster.identity_providers.is_empty() {
        let message = "A cluster can have only one OIDC identity provider";
        return Err(ApiError::limit(message).cluster(cluster_name));
    }
    let name = name.to_owned();
    let arn =
        ctx.place.eks_arn(&format!("identityproviderconfig/{cluster_name}/oidc/{name}/{}", Uuid::new_v4()));
    let tags = input.tags.unwrap_or_default();
    let provider = IdentityProvider {
        name: name.clone(),
        arn,
        status: "CREATING".to_owned(),
        config: input.oidc,
        tags: tags.clone(),
    };
    cluster.identity_providers.insert(name.clone(), provider);
    let change = Change::IdentityProviderActive(name);
    let update = start(cluster, ctx, "AssociateIdentityProviderConfig", (change, input.token));
    Ok(json!({ "update": update, "tags": tags }))
}

pub(crate) fn disassociate(
    state: &mut State,
    ctx: &Context<'_>,
    cluster_name: &str,
    input: ByName,
) -> ApiResult<Value> {
    let cluster = get(state, ctx, cluster_name)?;
    find(cluster, &input.config.name)?;
    rules::may_update(cluster, "DisassociateIdentityProviderConfig")?;
    "DELETING".clone_into(&mut find(cluster, &input.config.name)?.status);
    let change = Change::IdentityProviderGone(input.config.name);
    let update = start(cluster, ctx, "DisassociateIdentityProviderConfig", (change, input.token));
    Ok(json!({ "update": update }))
}

fn start(
    cluster: &mut Cluster,
    ctx: &Context<'_>,
    kind: &str,
    (change, token): (Change, Option<String>),
) -> Value {
    let update = Update {
        id: update::new_id(),
        token,
        kind: kind.to_owned(),
        params: Vec::new(),
        created_at: ctx.now,
        due: Some(ctx.after_ms(ctx.settings.timing.cluster_update_ms)),
        change,
        errors: Vec::new(),
    };
    update::record(cluster, update)
}

fn find<'c>(cluster: &'c mut Cluster, name: &str) -> ApiResult<&'c mut IdentityProvider> {
    let cluster_name = cluster.name.clone();
    cluster.identity_providers.get_mut(name).ok_or_else(|| {
        ApiError::not_found(format!("Identity provider config not found: {name}")).cluster(cluster_name)
    })
}

pub(crate) fn describe(
    state: &mut State,
    ctx: &Context<'_>,
    cluster: &str,
    input: &ByName,
) -> ApiResult<Value> {
    let provider = find(get(state, ctx, cluster)?, &input.config.name)?;
    let mut oidc = provider.config.clone();
    oidc["identityProviderConfigArn"] = json!(provider.arn);
    oidc["clusterName"] = json!(cluster);
    oidc["status"] = json!(provider.status);
    oidc["tags"] = json!(provider.tags);
    Ok(json!({ "identityProviderConfig": { "oidc": oidc } }))
}

pub(crate) fn list(
    state: &mut State,
    ctx: &Context<'_>,
    cluster: &str,
    query: Query<'_>,
) -> ApiResult<Value> {
    let cluster = get(state, ctx, cluster)?;
    let all = cluster
        .identity_providers
        .keys()
        .map(|name| (name.as_str(), json!({ "type": "oidc", "name": name })));
    page("identityProviderConfigs", all, query)
}
