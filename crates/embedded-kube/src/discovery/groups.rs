//! A catalogue in the order of discovery: groups as the real server ranks them, versions best first.

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

use crate::registry::{Catalogue, Resource};

/// The real server's order; groups of CRDs come after, by name.
const ORDER: [&str; 12] = [
    "",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "policy",
    "rbac.authorization.k8s.io",
    "apiextensions.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "apiregistration.k8s.io",
];

/// One group.
pub struct Group<'a> {
    /// Its name; empty for core.
    pub name: &'a str,
    /// Its versions, best first, with their resources by name.
    pub versions: Vec<(&'a str, Vec<&'a Arc<Resource>>)>,
}

impl<'a> Group<'a> {
    /// Versions, best first.
    pub fn version_names(&self) -> impl Iterator<Item = &'a str> {
        self.versions.iter().map(|(version, _)| *version)
    }
}

/// All groups of a catalogue.
pub fn groups(catalogue: &Catalogue) -> Vec<Group<'_>> {
    let mut by_group: BTreeMap<&str, BTreeMap<&str, Vec<&Arc<Resource>>>> = BTreeMap::new();
    for (id, resource) in catalogue {
        by_group.entry(&id.group).or_default().entry(&id.version).or_default().push(resource);
    }
    let mut groups: Vec<Group<'_>> = by_group
        .into_iter()
        .map(|(name, versions)| {
            let mut versions: Vec<_> = versions.into_iter().collect();
            versions.sort_by_key(|(version, _)| Reverse(rank(version)));
            Group { name, versions }
        })
        .collect();
    groups.sort_by_key(|group| ORDER.iter().position(|one| *one == group.name).unwrap_or(ORDER.len()));
    groups
}

/// Stable before beta before alpha, high before low, everything else last and by name backwards.
pub fn rank(version: &str) -> (u8, u32, u32, Reverse<&str>) {
    let other = (0, 0, 0, Reverse(version));
    let Some(rest) = version.strip_prefix('v') else { return other };
    let (major, stage) = rest.split_at(rest.find(|one: char| !one.is_ascii_digit()).unwrap_or(rest.len()));
    let Ok(major) = major.parse() else { return other };
    let minor = |prefix: &str| stage.strip_prefix(prefix).and_then(|minor| minor.parse().ok());
    match (stage, minor("beta"), minor("alpha")) {
        ("", _, _) => (3, major, 0, Reverse("")),
        (_, Some(beta), _) => (2, major, beta, Reverse("")),
        (_, _, Some(alpha)) => (1, major, alpha, Reverse("")),
        _ => other,
    }
}
