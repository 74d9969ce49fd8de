//! A catalogue in discovery order: groups by kube-apiserver's priority, versions by preference.

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

use crate::registry::{Catalogue, Resource};

/// kube-apiserver's group priority; groups of CRDs follow by name.
const GROUP_PRIORITY: [&str; 12] = [
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

/// An API group.
pub struct ApiGroup<'a> {
    /// Its name; empty for core.
    pub name: &'a str,
    /// Versions by preference, with their resources by name.
    pub versions: Vec<(&'a str, Vec<&'a Arc<Resource>>)>,
}

impl<'a> ApiGroup<'a> {
    /// Versions by preference.
    pub fn version_names(&self) -> impl Iterator<Item = &'a str> {
        self.versions.iter().map(|(version, _)| *version)
    }
}

/// All groups of a catalogue.
pub fn sorted_groups(catalogue: &Catalogue) -> Vec<ApiGroup<'_>> {
    let mut by_group: BTreeMap<&str, BTreeMap<&str, Vec<&Arc<Resource>>>> = BTreeMap::new();
    for (id, resource) in catalogue {
        by_group.entry(&id.group).or_default().entry(&id.version).or_default().push(resource);
    }
    let mut groups: Vec<ApiGroup<'_>> = by_group
        .into_iter()
        .map(|(name, versions)| {
            let mut versions: Vec<_> = versions.into_iter().collect();
            versions.sort_by_key(|(version, _)| Reverse(version_sort_key(version)));
            ApiGroup { name, versions }
        })
        .collect();
    groups.sort_by_key(|group| {
        GROUP_PRIORITY.iter().position(|one| *one == group.name).unwrap_or(GROUP_PRIORITY.len())
    });
    groups
}

/// Sort key: GA before beta before alpha, higher numbers first, other names last in reverse order.
pub fn version_sort_key(version: &str) -> (u8, u32, u32, Reverse<&str>) {
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
