//! Deletes an expired group. Its routes are written by [`super::http_route_writer`] and by the routers.

use capt_kinds::sandbox::RouteGroup;
use capt_kube::k8s::K8sError;

use super::{Context, decide::GroupDecision, events};

/// What became of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GroupOutcome {
    /// It stays.
    Kept,
    /// It was deleted.
    Deleted,
}

/// Executes the decision.
pub(super) async fn act(
    group: &RouteGroup,
    decision: &GroupDecision,
    ctx: &Context,
) -> Result<GroupOutcome, K8sError> {
    if !decision.is_expired() {
        return Ok(GroupOutcome::Kept);
    }
    ctx.common.events.publish(group, events::expired()).await;
    // Deletes only the observed version: a concurrent extension of the TTL wins.
    ctx.common.kube.delete_unchanged(group).await?;
    Ok(GroupOutcome::Deleted)
}
