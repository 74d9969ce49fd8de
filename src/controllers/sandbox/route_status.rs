//! Whether the routers, or a mesh, know the routes of a Sandbox.

use std::{collections::BTreeMap, sync::Arc};

use kube::ResourceExt as _;
use sandbox::{
    api::{
        ForkStatus, Sandbox,
        conditions::{reasons, types},
    },
    condition::{Finding, Status},
    routes::{Kind, Own, Owner, programmed},
};

use super::{
    context::{Context, Ref, known_key, reference},
    rivals,
    status::endpoints,
};
use crate::{controllers::common::board::Picture, k8s::conditions::find};

/// What is said of the routes, and what is to be remembered of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Said {
    /// For the condition.
    pub finding: Finding,
    /// Digest of the routes that all routers had.
    pub digest: Option<String>,
    /// The hosts of its endpoints; none if nobody looked.
    pub hosts: Option<Hosts>,
}

/// Hosts by the names of endpoints.
pub(super) type Hosts = BTreeMap<String, String>;

/// What is said of the routes of a Sandbox with these forks.
pub(super) fn said(object: &Sandbox, forks: &[ForkStatus], picture: Option<&Picture>) -> Said {
    let type_ = types::ROUTES_PROGRAMMED;
    let before = object.status.as_ref().and_then(|it| it.programmed_routes.clone());
    // What is in force may be true and of yesterday.
    let uid = object.uid().unwrap_or_default();
    let own = picture
        .filter(|it| it.knows(&uid, forks))
        .and_then(|it| Some((it, it.routes.owners.get(&Owner::sandbox(object))?)));
    let Some((picture, own)) = own else {
        let why = "its routes are being made";
        return Said { finding: Finding::unknown(type_, reasons::PENDING, why), digest: before, hosts: None };
    };
    if let Some(finding) = picture.mesh.said(&Owner::sandbox(object), own) {
        return Said { finding, digest: None, hosts: Some(own.hosts.clone()) };
    }
    let found = programmed(own, &picture.routes, &picture.routers, before.as_deref());
    let finding = unready(own).filter(|_| found.finding.status == Status::True).unwrap_or(found.finding);
    Said { finding, digest: found.digest, hosts: Some(own.hosts.clone()) }
}

/// Routes that are in force and lead to nobody yet. Who is told that they are programmed sends a request at once.
fn unready(own: &Own) -> Option<Finding> {
    let ports = (!own.unready.is_empty()).then(|| own.unready.join(", "))?;
    let why = format!("requests with its key are answered with 503 until there are pods for {ports}");
    Some(Finding::no(types::ROUTES_PROGRAMMED, reasons::PROGRESSING, why))
}

/// Whether no router and no mesh sends anybody to the forks of a Sandbox that goes. Routers withdraw its routes by themselves
/// when they see that it goes; where none runs there is nobody to wait for.
pub(super) fn are_withdrawn(object: &Sandbox, picture: Option<&Picture>) -> bool {
    let Some(picture) = picture else { return false };
    let is_known = object.uid().is_some_and(|it| picture.going.contains(&it));
    is_known && picture.mesh.is_written() && picture.is_in_force(&object.namespace().unwrap_or_default())
}

/// Wakes Sandboxes of which something else is to be said than what they say, for as long as it is polled.
pub(super) async fn follow(ctx: Arc<Context>) {
    let mut told = ctx.board.told();
    let waker = ctx.waker();
    while told.changed().await.is_ok() {
        let picture = ctx.board.picture();
        for one in ctx.sandboxes().iter().filter_map(|it| it.0.as_ref().ok()) {
            // Nobody listens any more when the controller ends.
            if is_news(one, picture.as_deref()) && waker.unbounded_send(of(one)).is_err() {
                break;
            }
        }
    }
    // Watches end only with us.
    std::future::pending::<()>().await;
}

fn of(object: &Sandbox) -> Ref {
    reference(&super::place::spot(object), &object.name_any())
}

/// Whether a Sandbox that was looked at says something else. One that was not is looked at anyway.
fn is_news(object: &Sandbox, picture: Option<&Picture>) -> bool {
    // One that lives in another cluster has its routes there.
    let Some(status) = object.status.as_ref().filter(|_| object.spec.cluster_ref.is_none()) else {
        return false;
    };
    if is_rivalry_news(object, picture) {
        return true;
    }
    let now = said(object, &status.forks, picture);
    let before = find(&status.conditions, types::ROUTES_PROGRAMMED);
    let is_same = before.is_some_and(|it| {
        it.status == now.finding.status.word()
            && it.reason == now.finding.reason
            && it.message == now.finding.message
    });
    // A spec that is refused says nothing of routes.
    let is_accepted =
        find(&status.conditions, types::BASELINE_RESOLVED).is_some_and(|it| it.status != "Unknown");
    let is_found = status.endpoints == endpoints(object, now.hosts.as_ref());
    is_accepted && !(is_same && is_found && status.programmed_routes == now.digest)
}

/// Whether a group has the key of a Sandbox that does not say so, or has it no more.
fn is_rivalry_news(object: &Sandbox, picture: Option<&Picture>) -> bool {
    let key = known_key(object);
    let groups = picture.and_then(|it| it.groups.get(key.as_ref())).into_iter().flatten();
    let groups: Vec<_> = groups.map(|it| (Kind::RouteGroup, it.clone())).collect();
    let conditions = object.status.iter().flat_map(|it| &it.conditions);
    let told = conditions.into_iter().find(|it| it.type_ == types::ACCEPTED);
    match rivals::check(object, &key, &groups) {
        Err(refusal) => told.is_none_or(|it| it.reason != refusal.reason),
        // Groups are heard of here alone.
        Ok(()) => told.is_some_and(|it| {
            it.reason == reasons::ROUTING_KEY_CONFLICT && it.message.contains(" RouteGroup ")
        }),
    }
}
