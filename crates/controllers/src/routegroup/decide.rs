//! Decides when a group expires and when to look at it again. Pure.

use std::time::Duration;

use capt_kinds::sandbox::RouteGroup;
use capt_kube::k8s::conditions::whole_seconds;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use sandbox::ttl::{self, ExpiryStatus, TtlAnchors};

use super::{STALE_TABLE_REQUEUE, dereference::GroupRoutes};

/// The life of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GroupDecision {
    /// When its spec last changed.
    pub(super) spec_changed_at: Timestamp,
    /// Since when no Sandbox matches it.
    pub(super) unmatched_since: Option<Time>,
    /// When its TTL expires.
    pub(super) expires_at: Option<Timestamp>,
    /// Whether it has expired or is about to.
    pub(super) expiry: Option<ExpiryStatus>,
    /// When to requeue.
    pub(super) requeue_after: Option<Duration>,
}

impl GroupDecision {
    /// Whether its TTL has expired, so that it is deleted.
    pub(super) fn is_expired(&self) -> bool {
        self.expiry == Some(ExpiryStatus::Expired)
    }

    /// Whether its TTL expires soon.
    pub(super) const fn is_expiring(&self) -> bool {
        matches!(self.expiry, Some(ExpiryStatus::Pending { is_expiring: true, .. }))
    }
}

/// Decides from the group and its routes.
pub(super) fn decide(group: &RouteGroup, routes: &GroupRoutes<'_>, now: Timestamp) -> GroupDecision {
    let before = group.status.as_ref().and_then(|it| it.unmatched_since.clone());
    let unmatched = routes.own.members.is_empty().then(|| before.unwrap_or_else(|| Time(whole_seconds(now))));
    let changed = spec_changed_at(group, now);
    let created = group.metadata.creation_timestamp.as_ref().map_or(now, |it| it.0);
    let anchors =
        TtlAnchors { created, updated: changed, unmatched_since: unmatched.as_ref().map(|it| it.0) };
    let end = group.spec.ttl.as_ref().and_then(|it| ttl::group_expiry(it, anchors));
    let due = end.map(|end| ttl::expiry_status(ttl_start(group, end), end, now));
    let again = match due {
        Some(ExpiryStatus::Pending { recheck_after: after, .. }) => Some(after),
        Some(ExpiryStatus::Expired) | None => None,
    };
    let again = if routes.is_late {
        Some(again.unwrap_or(STALE_TABLE_REQUEUE).min(STALE_TABLE_REQUEUE))
    } else {
        again
    };
    GroupDecision {
        spec_changed_at: changed,
        unmatched_since: unmatched,
        expires_at: end,
        expiry: due,
        requeue_after: again,
    }
}

/// When the spec last changed, as observed by the controller.
fn spec_changed_at(group: &RouteGroup, now: Timestamp) -> Timestamp {
    let before = group.status.as_ref();
    let is_seen = before.is_some_and(|it| it.observed_generation == group.metadata.generation);
    let noted = before.and_then(|it| it.spec_changed_time.as_ref()).filter(|_| is_seen).map(|it| it.0);
    let is_first = group.metadata.generation.is_none_or(|it| it <= 1);
    let created = group.metadata.creation_timestamp.as_ref().map(|it| it.0).filter(|_| is_first);
    noted.or(created).unwrap_or_else(|| whole_seconds(now))
}

/// Start of the TTL that ends at `end`.
fn ttl_start(group: &RouteGroup, end: Timestamp) -> Timestamp {
    let length = group.spec.ttl.as_ref().and_then(|it| ttl::parse_duration(&it.duration)).unwrap_or_default();
    end.checked_sub(length).unwrap_or(end)
}
