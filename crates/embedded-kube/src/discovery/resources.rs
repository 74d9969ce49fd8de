//! Discovery entries of a resource and its subresources.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::registry::Resource;

/// kube-apiserver lists the verbs of custom resources in this order.
const CUSTOM_RESOURCE_VERBS: [&str; 8] =
    ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];

/// A subresource: its kind and verbs.
pub struct Subresource<'a> {
    /// Last path segment.
    pub name: &'static str,
    /// Group and version of its kind, if they differ from the resource's.
    pub group_version: Option<(&'static str, &'static str)>,
    /// Kind of its request and response bodies.
    pub kind: &'a str,
    /// Verbs.
    pub verbs: &'static [&'static str],
}

/// The subresources of a resource, in kube-apiserver's order.
pub fn subresources(resource: &Resource) -> Vec<Subresource<'_>> {
    const CHANGE: &[&str] = &["get", "patch", "update"];
    let kind = resource.kind.as_str();
    let status = resource.has_status.then_some(Subresource {
        name: "status",
        group_version: None,
        kind,
        verbs: CHANGE,
    });
    let scale = resource.scale.is_some().then_some(Subresource {
        name: "scale",
        group_version: Some(("autoscaling", "v1")),
        kind: "Scale",
        verbs: CHANGE,
    });
    if resource.is_custom {
        return status.into_iter().chain(scale).collect();
    }
    let create = |name, foreign, kind| Subresource { name, group_version: foreign, kind, verbs: &["create"] };
    let mut all: Vec<_> = match (resource.id.group.as_str(), resource.id.plural.as_str()) {
        ("", "pods") => {
            vec![create("binding", None, "Binding"), create("eviction", Some(("policy", "v1")), "Eviction")]
        }
        ("", "serviceaccounts") => {
            vec![create("token", Some(("authentication.k8s.io", "v1")), "TokenRequest")]
        }
        ("", "namespaces") => {
            vec![Subresource { name: "finalize", group_version: None, kind, verbs: &["update"] }]
        }
        _ => Vec::new(),
    };
    all.extend(scale);
    all.extend(status);
    all
}

fn verbs(resource: &Resource) -> Vec<&str> {
    if resource.is_custom {
        CUSTOM_RESOURCE_VERBS.into_iter().filter(|verb| resource.verbs.contains(verb)).collect()
    } else {
        resource.verbs.to_vec()
    }
}

/// Entries of an `APIResourceList`: the resource, then its subresources.
pub fn api_resource_entries(resource: &Resource) -> Vec<Value> {
    let mut main = json!({
        "name": resource.id.plural, "singularName": resource.singular, "namespaced": resource.namespaced,
        "kind": resource.kind, "verbs": verbs(resource),
    });
    add_names(&mut main, resource);
    if !resource.storage_prefix.is_empty() {
        main["storageVersionHash"] = storage_hash(resource).into();
    }
    let others = subresources(resource).into_iter().map(|sub| {
        let name = format!("{}/{}", resource.id.plural, sub.name);
        let mut entry = json!({"name": name, "singularName": "", "namespaced": resource.namespaced});
        if let Some((group, version)) = sub.group_version {
            entry["group"] = group.into();
            entry["version"] = version.into();
        }
        entry["kind"] = sub.kind.into();
        entry["verbs"] = sub.verbs.into();
        entry
    });
    std::iter::once(main).chain(others).collect()
}

/// Entry of an `APIGroupDiscovery`.
pub fn group_discovery_entry(resource: &Resource) -> Value {
    // Built-in kinds inherit group and version from the enclosing list.
    let own = if resource.is_custom {
        (resource.id.group.as_str(), resource.id.version.as_str())
    } else {
        ("", "")
    };
    let kind = |(group, version): (&str, &str), kind: &str| json!({"group": group, "version": version, "kind": kind});
    let mut value = json!({
        "resource": resource.id.plural, "responseKind": kind(own, &resource.kind),
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular, "verbs": verbs(resource),
    });
    add_names(&mut value, resource);
    let subresources: Vec<Value> = subresources(resource)
        .into_iter()
        .map(|sub| {
            let response = kind(sub.group_version.unwrap_or(own), sub.kind);
            json!({"subresource": sub.name, "responseKind": response, "verbs": sub.verbs})
        })
        .collect();
    if !subresources.is_empty() {
        value["subresources"] = subresources.into();
    }
    value
}

fn add_names(value: &mut Value, resource: &Resource) {
    if !resource.short_names.is_empty() {
        value["shortNames"] = resource.short_names.clone().into();
    }
    if !resource.categories.is_empty() {
        value["categories"] = resource.categories.clone().into();
    }
}

/// Changes with the storage version.
fn storage_hash(resource: &Resource) -> String {
    let group = resource.storage_prefix.split('/').next().unwrap_or_default();
    // kube-apiserver still reports the first CRD version here.
    let version = if group == "apiextensions.k8s.io" { "v1beta1" } else { &resource.storage_version };
    let text = format!("{group}/{version}/{}", resource.kind);
    let digest = Sha256::digest(text.as_bytes());
    STANDARD.encode(digest.iter().copied().take(8).collect::<Vec<u8>>())
}
