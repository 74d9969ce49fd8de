//! EKS, as a model: state in, state and answer out. Nothing here does I/O, reads a clock or waits; the server above
//! gathers what the model [needs](needs::needs), holds the lock, and carries out the effects.

use jiff::Timestamp;
use serde_json::{Value, json};

mod access;
mod access_policy;
mod addon;
mod catalog;
mod cluster;
pub(crate) mod context;
pub(crate) mod error;
mod fargate;
pub(crate) mod hosted;
mod identity_provider;
pub(crate) mod input;
pub(crate) mod needs;
pub(crate) mod page;
mod pod_identity;
pub(crate) mod router;
mod rules;
mod selector;
pub(crate) mod settle;
pub(crate) mod state;
mod tags;
mod update;
mod versions;

#[cfg(test)]
mod tests;

use self::{
    context::Context,
    error::{ApiError, ApiResult},
    input::parse,
    page::Query,
    router::{Op, Route},
    state::State,
};

/// Answers one request at one instant.
pub(crate) fn answer(
    state: &mut State,
    ctx: &mut Context<'_>,
    route: &Route,
    query: Query<'_>,
    body: &Value,
) -> ApiResult<Value> {
    settle::settle(state, ctx.now);
    let (first, second) = (route.param(0), route.param(1));
    match route.op {
        Op::CreateCluster => cluster::create(state, ctx, parse(body)?),
        Op::ListClusters => cluster::list(state, ctx, query),
        Op::DescribeCluster => cluster::describe(state, ctx, first),
        Op::DeleteCluster => cluster::delete(state, ctx, first),
        Op::UpdateClusterVersion => update::version(state, ctx, first, parse(body)?),
        Op::UpdateClusterConfig => update::config(state, ctx, first, parse(body)?),
        Op::AssociateEncryptionConfig => update::associate_encryption(state, ctx, first, parse(body)?),
        Op::ListUpdates => update::list(state, ctx, first, query),
        Op::DescribeUpdate => update::describe(state, ctx, first, second, query),
        Op::CreateFargateProfile => fargate::create(state, ctx, first, parse(body)?),
        Op::ListFargateProfiles => fargate::list(state, ctx, first, query),
        Op::DescribeFargateProfile => fargate::describe(state, ctx, first, second),
        Op::DeleteFargateProfile => fargate::delete(state, ctx, first, second),
        Op::CreateAddon => addon::create(state, ctx, first, parse(body)?),
        Op::ListAddons => addon::list(state, ctx, first, query),
        Op::DescribeAddon => addon::describe(state, ctx, first, second),
        Op::UpdateAddon => addon::update(state, ctx, first, second, parse(body)?),
        Op::DeleteAddon => addon::delete(state, ctx, first, second),
        Op::DescribeAddonVersions => catalog::describe_versions(query),
        Op::DescribeAddonConfiguration => catalog::describe_configuration(query),
        Op::DescribeClusterVersions => versions::describe(query),
        Op::TagResource => tags::tag(state, ctx, first, parse(body)?),
        Op::UntagResource => tags::untag(state, ctx, first, query),
        Op::ListTagsForResource => tags::list(state, ctx, first),
        Op::ListNodegroups => {
            cluster::get(state, ctx, first)?;
            Ok(json!({ "nodegroups": [], "nextToken": null }))
        }
        Op::DescribeNodegroup => {
            cluster::get(state, ctx, first)?;
            let message = format!("No node group found for name: {second}.");
            Err(ApiError::not_found(message).cluster(first).with("nodegroupName", second))
        }
        Op::CreateNodegroup => Err(ApiError::not_modelled(route.op.name())),
        _ => answer_access(state, ctx, route, query, body),
    }
}

/// The operations about who may do what in a cluster.
fn answer_access(
    state: &mut State,
    ctx: &Context<'_>,
    route: &Route,
    query: Query<'_>,
    body: &Value,
) -> ApiResult<Value> {
    let (first, second) = (route.param(0), route.param(1));
    match route.op {
        Op::CreateAccessEntry => access::create(state, ctx, first, parse(body)?),
        Op::ListAccessEntries => access::list(state, ctx, first, query),
        Op::DescribeAccessEntry => access::describe(state, ctx, first, second),
        Op::UpdateAccessEntry => access::update(state, ctx, first, second, parse(body)?),
        Op::DeleteAccessEntry => access::delete(state, ctx, first, second),
        Op::AssociateAccessPolicy => access_policy::associate(state, ctx, first, second, parse(body)?),
        Op::ListAssociatedAccessPolicies => access_policy::list_associated(state, ctx, first, second, query),
        Op::DisassociateAccessPolicy => {
            access_policy::disassociate(state, ctx, first, second, route.param(2))
        }
        Op::ListAccessPolicies => access_policy::list(ctx, query),
        Op::CreatePodIdentityAssociation => pod_identity::create(state, ctx, first, parse(body)?),
        Op::ListPodIdentityAssociations => pod_identity::list(state, ctx, first, query),
        Op::DescribePodIdentityAssociation => pod_identity::describe(state, ctx, first, second),
        Op::UpdatePodIdentityAssociation => pod_identity::update(state, ctx, first, second, parse(body)?),
        Op::DeletePodIdentityAssociation => pod_identity::delete(state, ctx, first, second),
        Op::ListIdentityProviderConfigs => identity_provider::list(state, ctx, first, query),
        Op::DescribeIdentityProviderConfig => identity_provider::describe(state, ctx, first, &parse(body)?),
        Op::AssociateIdentityProviderConfig => identity_provider::associate(state, ctx, first, parse(body)?),
        Op::DisassociateIdentityProviderConfig => {
            identity_provider::disassociate(state, ctx, first, parse(body)?)
        }
        other => Err(ApiError::not_modelled(other.name())),
    }
}

/// A timestamp as restJson writes it.
pub(crate) fn seconds(at: Timestamp) -> Value {
    let seconds = at.as_second();
    let millis = at.subsec_millisecond();
    if millis == 0 { json!(seconds) } else { json!(at.as_duration().as_secs_f64()) }
}
