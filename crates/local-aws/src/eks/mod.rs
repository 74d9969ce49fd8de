//! The EKS model: state and request in, state and response out. It performs no I/O, reads no clock and never waits; the
//! service above resolves the [prerequisites](needs::needs), holds the lock and runs the side effects.

use jiff::Timestamp;
use serde_json::{Value, json};

mod access;
mod access_policy;
mod addon;
mod addon_catalog;
mod cluster;
pub(crate) mod cluster_host_state;
pub(crate) mod context;
pub(crate) mod error;
mod fargate;
mod identity_provider;
pub(crate) mod input;
pub(crate) mod pagination;
mod pod_identity;
pub(crate) mod prerequisites;
pub(crate) mod router;
mod selector;
pub(crate) mod state;
mod tags;
pub(crate) mod transitions;
mod update;
mod validation;
mod versions;

#[cfg(test)]
mod tests;

use self::{
    context::RequestContext,
    error::{ApiError, ApiResult},
    input::parse_input,
    pagination::QueryString,
    router::{Op, Route},
    state::EksState,
};

/// Handles one request at one instant.
pub(crate) fn handle_request(
    state: &mut EksState,
    ctx: &mut RequestContext<'_>,
    route: &Route,
    query: QueryString<'_>,
    body: &Value,
) -> ApiResult<Value> {
    transitions::advance(state, ctx.now);
    let (first, second) = (route.param(0), route.param(1));
    match route.op {
        Op::CreateCluster => cluster::create(state, ctx, parse_input(body)?),
        Op::ListClusters => cluster::list(state, ctx, query),
        Op::DescribeCluster => cluster::describe(state, ctx, first),
        Op::DeleteCluster => cluster::delete(state, ctx, first),
        Op::UpdateClusterVersion => update::update_version(state, ctx, first, parse_input(body)?),
        Op::UpdateClusterConfig => update::update_config(state, ctx, first, parse_input(body)?),
        Op::AssociateEncryptionConfig => update::associate_encryption(state, ctx, first, parse_input(body)?),
        Op::ListUpdates => update::list(state, ctx, first, query),
        Op::DescribeUpdate => update::describe(state, ctx, first, second, query),
        Op::CreateFargateProfile => fargate::create(state, ctx, first, parse_input(body)?),
        Op::ListFargateProfiles => fargate::list(state, ctx, first, query),
        Op::DescribeFargateProfile => fargate::describe(state, ctx, first, second),
        Op::DeleteFargateProfile => fargate::delete(state, ctx, first, second),
        Op::CreateAddon => addon::create(state, ctx, first, parse_input(body)?),
        Op::ListAddons => addon::list(state, ctx, first, query),
        Op::DescribeAddon => addon::describe(state, ctx, first, second),
        Op::UpdateAddon => addon::update(state, ctx, first, second, parse_input(body)?),
        Op::DeleteAddon => addon::delete(state, ctx, first, second),
        Op::DescribeAddonVersions => addon_catalog::describe_versions(query),
        Op::DescribeAddonConfiguration => addon_catalog::describe_configuration(query),
        Op::DescribeClusterVersions => versions::describe(query),
        Op::TagResource => tags::tag(state, ctx, first, parse_input(body)?),
        Op::UntagResource => tags::untag(state, ctx, first, query),
        Op::ListTagsForResource => tags::list(state, ctx, first),
        Op::ListNodegroups => {
            cluster::find_cluster(state, ctx, first)?;
            Ok(json!({ "nodegroups": [], "nextToken": null }))
        }
        Op::DescribeNodegroup => {
            cluster::find_cluster(state, ctx, first)?;
            let message = format!("No node group found for name: {second}.");
            Err(ApiError::not_found(message).with_cluster(first).with_field("nodegroupName", second))
        }
        Op::CreateNodegroup => Err(ApiError::not_modelled(route.op.name())),
        _ => handle_access_request(state, ctx, route, query, body),
    }
}

/// Operations on access entries, pod identities and identity providers.
fn handle_access_request(
    state: &mut EksState,
    ctx: &RequestContext<'_>,
    route: &Route,
    query: QueryString<'_>,
    body: &Value,
) -> ApiResult<Value> {
    let (first, second) = (route.param(0), route.param(1));
    match route.op {
        Op::CreateAccessEntry => access::create(state, ctx, first, parse_input(body)?),
        Op::ListAccessEntries => access::list(state, ctx, first, query),
        Op::DescribeAccessEntry => access::describe(state, ctx, first, second),
        Op::UpdateAccessEntry => access::update(state, ctx, first, second, parse_input(body)?),
        Op::DeleteAccessEntry => access::delete(state, ctx, first, second),
        Op::AssociateAccessPolicy => access_policy::associate(state, ctx, first, second, parse_input(body)?),
        Op::ListAssociatedAccessPolicies => access_policy::list_associated(state, ctx, first, second, query),
        Op::DisassociateAccessPolicy => {
            access_policy::disassociate(state, ctx, first, second, route.param(2))
        }
        Op::ListAccessPolicies => access_policy::list(ctx, query),
        Op::CreatePodIdentityAssociation => pod_identity::create(state, ctx, first, parse_input(body)?),
        Op::ListPodIdentityAssociations => pod_identity::list(state, ctx, first, query),
        Op::DescribePodIdentityAssociation => pod_identity::describe(state, ctx, first, second),
        Op::UpdatePodIdentityAssociation => {
            pod_identity::update(state, ctx, first, second, parse_input(body)?)
        }
        Op::DeletePodIdentityAssociation => pod_identity::delete(state, ctx, first, second),
        Op::ListIdentityProviderConfigs => identity_provider::list(state, ctx, first, query),
        Op::DescribeIdentityProviderConfig => {
            identity_provider::describe(state, ctx, first, &parse_input(body)?)
        }
        Op::AssociateIdentityProviderConfig => {
            identity_provider::associate(state, ctx, first, parse_input(body)?)
        }
        Op::DisassociateIdentityProviderConfig => {
            identity_provider::disassociate(state, ctx, first, parse_input(body)?)
        }
        other => Err(ApiError::not_modelled(other.name())),
    }
}

/// A timestamp in restJson format.
pub(crate) fn timestamp_json(at: Timestamp) -> Value {
    let seconds = at.as_second();
    let millis = at.subsec_millisecond();
    if millis == 0 { json!(seconds) } else { json!(at.as_duration().as_secs_f64()) }
}
