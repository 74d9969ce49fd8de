//! Claims on routing keys: the oldest object that claims a key holds it.

use std::collections::HashMap;

use capt_kinds::sandbox::{RouteGroup, Routing, Sandbox};
use http::HeaderName;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use sandbox_router::table::Route;

use super::RouteObjects;
use crate::digest::routing_key;

/// The Sandbox or group that owns routes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RouteOwner {
    /// Of the object.
    pub namespace: String,
    /// Of the object.
    pub name: String,
    /// Of the object.
    pub kind: OwnerKind,
}

/// Kind of a route owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum OwnerKind {
    /// A sandbox.
    Sandbox,
    /// A group of sandboxes.
    RouteGroup,
}

impl RouteOwner {
    /// A sandbox.
    pub fn sandbox(sandbox: &Sandbox) -> Self {
        Self::from_object(sandbox, OwnerKind::Sandbox)
    }

    /// A group.
    pub fn group(group: &RouteGroup) -> Self {
        Self::from_object(group, OwnerKind::RouteGroup)
    }

    fn from_object(object: &impl ResourceExt, kind: OwnerKind) -> Self {
        Self { namespace: object.namespace().unwrap_or_default(), name: object.name_any(), kind }
    }
}

impl std::fmt::Display for RouteOwner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// A claim on a routing key.
#[derive(Debug)]
pub(super) struct Claim<'a> {
    pub(super) owner: RouteOwner,
    pub(super) key: String,
    /// The older object that holds the key.
    pub(super) key_holder: Option<RouteOwner>,
    /// The object is being deleted, and its routes are withdrawn.
    pub(super) deleting: bool,
    pub(super) sandbox: Option<&'a Sandbox>,
    pub(super) group: Option<&'a RouteGroup>,
}

/// The routing key of a spec, or the one generated from the uid.
pub fn effective_key(asked: Option<&str>, uid: Option<&str>) -> String {
    match asked.filter(|it| !it.is_empty()) {
        Some(asked) => asked.to_owned(),
        None => uid.filter(|it| !it.is_empty()).map(routing_key).unwrap_or_default(),
    }
}

/// All claims, oldest first. Of two claims on the same key, the older one holds it.
pub(super) fn collect_claims<'a>(objects: &RouteObjects<'a>) -> Vec<Claim<'a>> {
    let sandboxes = objects.sandboxes.iter().map(|it| (created_at(*it), sandbox_claim(it)));
    let groups = objects.groups.iter().map(|it| (created_at(*it), group_claim(it)));
    let mut all: Vec<_> = sandboxes.chain(groups).collect();
    // An object without a creation time is the youngest: it is not stored yet.
    all.sort_by(|(one, claim), (other, against)| {
        (one.is_none(), one, &claim.owner).cmp(&(other.is_none(), other, &against.owner))
    });
    let mut taken: HashMap<&str, &RouteOwner> = HashMap::with_capacity(all.len());
    let mut lost = Vec::new();
    for (at, (_, claim)) in all.iter().enumerate().filter(|(_, (_, it))| !it.deleting && !it.key.is_empty()) {
        match taken.get(claim.key.as_str()) {
            Some(older) => lost.push((at, (*older).clone())),
            None => drop(taken.insert(&claim.key, &claim.owner)),
        }
    }
    for (at, older) in lost {
        all[at].1.key_holder = Some(older);
    }
    all.into_iter().map(|(_, claim)| claim).collect()
}

fn sandbox_claim(sandbox: &Sandbox) -> Claim<'_> {
    Claim {
        owner: RouteOwner::sandbox(sandbox),
        key: effective_key(sandbox.spec.routing_key.as_deref(), sandbox.metadata.uid.as_deref()),
        key_holder: None,
        deleting: sandbox.metadata.deletion_timestamp.is_some(),
        sandbox: Some(sandbox),
        group: None,
    }
}

fn group_claim(group: &RouteGroup) -> Claim<'_> {
    Claim {
        owner: RouteOwner::group(group),
        key: effective_key(group.spec.routing_key.as_deref(), group.metadata.uid.as_deref()),
        key_holder: None,
        deleting: group.metadata.deletion_timestamp.is_some(),
        sandbox: None,
        group: Some(group),
    }
}

fn created_at(object: &impl ResourceExt) -> Option<Time> {
    object.creation_timestamp()
}

/// Adds the custom headers and the query parameter in which a group's key may occur.
pub(super) fn add_key_locations(route: &mut Route, routing: &Routing) {
    for name in &routing.custom_headers {
        if let Ok(name) = HeaderName::try_from(name.as_str()) {
            route.add_key_header(name);
        }
    }
    if let Some(query) = routing.query_param.as_deref().filter(|it| !it.is_empty()) {
        route.add_key_query(query);
    }
}

/// The line of these locations in a digest.
pub(super) fn key_locations_line(routing: &Routing) -> String {
    let query = routing.query_param.as_deref().filter(|it| !it.is_empty());
    if routing.custom_headers.is_empty() && query.is_none() {
        return String::new();
    }
    format!(" in {:?} {}", routing.custom_headers, query.unwrap_or_default())
}

/// `namespace/name`.
pub(super) fn full_name(object: &impl ResourceExt) -> String {
    format!("{}/{}", object.namespace().unwrap_or_default(), object.name_any())
}
