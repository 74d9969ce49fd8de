//! Who has which key.

use std::collections::HashMap;

use http::HeaderName;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use sandbox_router::table::Route;

use super::Objects;
use crate::{
    api::{RouteGroup, Routing, Sandbox},
    digest::routing_key,
};

/// A sandbox or a group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// Of the object.
    pub namespace: String,
    /// Of the object.
    pub name: String,
    /// Of the object.
    pub kind: Kind,
}

/// What has a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A sandbox.
    Sandbox,
    /// A group of sandboxes.
    RouteGroup,
}

impl Owner {
    /// A sandbox.
    pub fn sandbox(sandbox: &Sandbox) -> Self {
        Self::of(sandbox, Kind::Sandbox)
    }

    /// A group.
    pub fn group(group: &RouteGroup) -> Self {
        Self::of(group, Kind::RouteGroup)
    }

    fn of(object: &impl ResourceExt, kind: Kind) -> Self {
        Self { namespace: object.namespace().unwrap_or_default(), name: object.name_any(), kind }
    }
}

impl std::fmt::Display for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// An object that wants a key.
#[derive(Debug)]
pub(super) struct Claim<'a> {
    pub(super) owner: Owner,
    pub(super) key: String,
    /// The older object that has the key.
    pub(super) older: Option<Owner>,
    /// It is on its way out, and so are its routes.
    pub(super) deleting: bool,
    pub(super) sandbox: Option<&'a Sandbox>,
    pub(super) group: Option<&'a RouteGroup>,
}

/// The key that an object asks for, or has by its uid.
pub fn key_of(asked: Option<&str>, uid: Option<&str>) -> String {
    match asked.filter(|it| !it.is_empty()) {
        Some(asked) => asked.to_owned(),
        None => uid.filter(|it| !it.is_empty()).map(routing_key).unwrap_or_default(),
    }
}

/// Everybody who wants a key, the oldest first. Of two that want the same one, the older has it.
pub(super) fn claims<'a>(objects: &Objects<'a>) -> Vec<Claim<'a>> {
    let sandboxes = objects.sandboxes.iter().map(|it| (age(*it), of_sandbox(it)));
    let groups = objects.groups.iter().map(|it| (age(*it), of_group(it)));
    let mut all: Vec<_> = sandboxes.chain(groups).collect();
    // An object without a time is younger than all others: it is not stored yet.
    all.sort_by(|(one, claim), (other, against)| {
        (one.is_none(), one, &claim.owner).cmp(&(other.is_none(), other, &against.owner))
    });
    let mut taken: HashMap<&str, &Owner> = HashMap::with_capacity(all.len());
    let mut lost = Vec::new();
    for (at, (_, claim)) in all.iter().enumerate().filter(|(_, (_, it))| !it.deleting && !it.key.is_empty()) {
        match taken.get(claim.key.as_str()) {
            Some(older) => lost.push((at, (*older).clone())),
            None => drop(taken.insert(&claim.key, &claim.owner)),
        }
    }
    for (at, older) in lost {
        all[at].1.older = Some(older);
    }
    all.into_iter().map(|(_, claim)| claim).collect()
}

fn of_sandbox(sandbox: &Sandbox) -> Claim<'_> {
    Claim {
        owner: Owner::sandbox(sandbox),
        key: key_of(sandbox.spec.routing_key.as_deref(), sandbox.metadata.uid.as_deref()),
        older: None,
        deleting: sandbox.metadata.deletion_timestamp.is_some(),
        sandbox: Some(sandbox),
        group: None,
    }
}

fn of_group(group: &RouteGroup) -> Claim<'_> {
    Claim {
        owner: Owner::group(group),
        key: key_of(group.spec.routing_key.as_deref(), group.metadata.uid.as_deref()),
        older: None,
        deleting: group.metadata.deletion_timestamp.is_some(),
        sandbox: None,
        group: Some(group),
    }
}

fn age(object: &impl ResourceExt) -> Option<Time> {
    object.creation_timestamp()
}

/// Where a group's key may stand beside the usual places.
pub(super) fn places(route: &mut Route, routing: &Routing) {
    for name in &routing.custom_headers {
        if let Ok(name) = HeaderName::try_from(name.as_str()) {
            route.add_header(name);
        }
    }
    if let Some(query) = routing.query_param.as_deref().filter(|it| !it.is_empty()) {
        route.add_query(query);
    }
}

/// What a digest says of where a group's key may stand.
pub(super) fn places_line(routing: &Routing) -> String {
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
