//! Matches Sandboxes with a `RouteGroup`.

use capt_kinds::{
    grant::{self, Granted},
    sandbox::{Clause, LabelMatch, Match, NamespaceScope, RouteGroup, Sandbox},
};
use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt as _;

use crate::labels::{Labels, glob_matches, selects};

/// The Sandboxes that match a group, sorted by name, without those being deleted. A group changes the routes and headers of its
/// members' namespaces, so a Sandbox of another namespace is a member only if it, or its namespace, grants that to the group's.
pub fn group_members<'a>(
    group: &RouteGroup,
    sandboxes: &[&'a Sandbox],
    namespaces: &[&Namespace],
) -> Vec<Granted<&'a Sandbox>> {
    let from = group.metadata.namespace.as_deref().unwrap_or_default();
    let belongs = |sandbox: &&Sandbox| {
        sandbox.metadata.deletion_timestamp.is_none()
            && label_match(&group.spec.matches, sandbox.labels())
            && is_namespace_selected(group, sandbox.metadata.namespace.as_deref(), namespaces)
    };
    let granted = |sandbox: &'a Sandbox| {
        let home = find_namespace(sandbox.metadata.namespace.as_deref(), namespaces);
        grant::borrowed_reference(from, sandbox, home)
    };
    let mut members: Vec<_> = sandboxes.iter().copied().filter(belongs).filter_map(granted).collect();
    members.sort_by(|one, other| {
        let (one, other) = (&one.metadata, &other.metadata);
        (&one.namespace, &one.name).cmp(&(&other.namespace, &other.name))
    });
    members
}

fn find_namespace<'a>(name: Option<&str>, namespaces: &[&'a Namespace]) -> Option<&'a Namespace> {
    namespaces.iter().copied().find(|it| it.metadata.name.as_deref() == name)
}

fn is_namespace_selected(group: &RouteGroup, namespace: Option<&str>, namespaces: &[&Namespace]) -> bool {
    match group.spec.namespaces.from {
        NamespaceScope::Same => group.metadata.namespace.as_deref() == namespace,
        NamespaceScope::All => true,
        NamespaceScope::Selector => {
            let Some(selector) = &group.spec.namespaces.selector else { return false };
            find_namespace(namespace, namespaces).is_some_and(|it| selects(selector, it.labels()))
        }
    }
}

/// Whether labels match. An invalid match, with none or several alternatives, matches nothing.
fn label_match(wanted: &Match, labels: &Labels) -> bool {
    match wanted {
        Match { label: Some(label), any: None, all: None } => has_label(label, labels),
        Match { label: None, any: Some(any), all: None } => any.iter().any(|it| clause_matches(it, labels)),
        Match { label: None, any: None, all: Some(all) } => {
            !all.is_empty() && all.iter().all(|it| clause_matches(it, labels))
        }
        _ => false,
    }
}

fn clause_matches(wanted: &Clause, labels: &Labels) -> bool {
    match wanted {
        Clause { label: Some(label), any: None, all: None } => has_label(label, labels),
        Clause { label: None, any: Some(any), all: None } => {
            any.iter().any(|it| has_label(&it.label, labels))
        }
        Clause { label: None, any: None, all: Some(all) } => {
            !all.is_empty() && all.iter().all(|it| has_label(&it.label, labels))
        }
        _ => false,
    }
}

fn has_label(wanted: &LabelMatch, labels: &Labels) -> bool {
    labels.get(&wanted.key).is_some_and(|value| glob_matches(&wanted.value, value))
}
