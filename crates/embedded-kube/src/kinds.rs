//! Built-in kinds: what is served from the start, with its defaults, checks and columns.
//!
//! One file per kind or small family. Nothing here reads a clock or does I/O; the few random choices that the real
//! server makes too (an address of a Service, the name of a token volume) are made in `prepare_create`.

mod access;
pub mod columns;
mod common;
mod endpoints;
mod event;
mod lease;
mod namespace;
mod node;
mod pod;
mod quantity;
mod secret;
mod service;
#[cfg(test)]
mod tests;
mod workload;

use std::sync::Arc;

use self::common::{Decoded, Plain};
use crate::{
    registry::{Resource, ResourceId, Rules, Scale},
    shape::{Node, Shape},
    types,
};

const ALL_VERBS: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const NAMESPACE_VERBS: &[&str] = &["create", "delete", "get", "list", "patch", "update", "watch"];
const REVIEW_VERBS: &[&str] = &["create"];

/// Every built-in resource.
pub fn resources() -> Vec<Resource> {
    let mut all = core();
    all.extend(workloads());
    all.extend(network());
    all.extend(access());
    all.extend(reviews());
    all
}

fn core() -> Vec<Resource> {
    vec![
        Resource { verbs: NAMESPACE_VERBS, ..plain("", "namespaces", "Namespace") }
            .short(&["ns"])
            .cluster_wide()
            .with_status()
            .selectable(&["status.phase"]),
        plain("", "secrets", "Secret").selectable(&["type"]),
        plain("", "configmaps", "ConfigMap").short(&["cm"]),
        plain("", "events", "Event").short(&["ev"]).selectable(&[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ]),
        plain("", "services", "Service")
            .short(&["svc"])
            .in_all()
            .with_status()
            .selectable(&["spec.clusterIP", "spec.type"]),
        plain("", "serviceaccounts", "ServiceAccount").short(&["sa"]),
        plain("", "pods", "Pod").short(&["po"]).in_all().with_status().selectable(&[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
            "spec.host",
        ]),
        plain("", "nodes", "Node")
            .short(&["no"])
            .cluster_wide()
            .with_status()
            .selectable(&["spec.unschedulable"]),
        Resource { singular: "endpoints".to_owned(), ..plain("", "endpoints", "Endpoints") }.short(&["ep"]),
    ]
}

fn workloads() -> Vec<Resource> {
    vec![
        plain("apps", "deployments", "Deployment").short(&["deploy"]).in_all().with_status().with_scale(),
        plain("apps", "replicasets", "ReplicaSet").short(&["rs"]).in_all().with_status().with_scale(),
        plain("coordination.k8s.io", "leases", "Lease"),
    ]
}

fn network() -> Vec<Resource> {
    let event = plain("events.k8s.io", "events", "Event").short(&["ev"]).selectable(&[
        "reason",
        "regarding.kind",
        "regarding.namespace",
        "regarding.name",
        "regarding.uid",
        "regarding.apiVersion",
        "regarding.resourceVersion",
        "regarding.fieldPath",
        "reportingController",
        "type",
    ]);
    vec![
        plain("discovery.k8s.io", "endpointslices", "EndpointSlice"),
        Resource { storage: "/events".to_owned(), ..event },
    ]
}

fn access() -> Vec<Resource> {
    const RBAC: &str = "rbac.authorization.k8s.io";
    vec![
        plain(RBAC, "roles", "Role"),
        plain(RBAC, "rolebindings", "RoleBinding"),
        plain(RBAC, "clusterroles", "ClusterRole").cluster_wide(),
        plain(RBAC, "clusterrolebindings", "ClusterRoleBinding").cluster_wide(),
        Resource {
            categories: vec!["api-extensions".to_owned()],
            ..plain("apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition")
        }
        .short(&["crd", "crds"])
        .cluster_wide()
        .with_status(),
    ]
}

/// Questions rather than objects: create-only, never stored (`storage` is empty), answered by `auth`.
fn reviews() -> Vec<Resource> {
    const AUTHENTICATION: &str = "authentication.k8s.io";
    const AUTHORIZATION: &str = "authorization.k8s.io";
    let review = |group: &str, plural: &str, kind: &str, namespaced: bool| Resource {
        namespaced,
        verbs: REVIEW_VERBS,
        storage: String::new(),
        ..plain(group, plural, kind)
    };
    vec![
        review(AUTHENTICATION, "tokenreviews", "TokenReview", false),
        review(AUTHENTICATION, "selfsubjectreviews", "SelfSubjectReview", false),
        review(AUTHORIZATION, "subjectaccessreviews", "SubjectAccessReview", false),
        review(AUTHORIZATION, "localsubjectaccessreviews", "LocalSubjectAccessReview", true),
        review(AUTHORIZATION, "selfsubjectaccessreviews", "SelfSubjectAccessReview", false),
        review(AUTHORIZATION, "selfsubjectrulesreviews", "SelfSubjectRulesReview", false),
    ]
}

/// A namespaced resource at `v1` with all verbs and nothing special.
fn plain(group: &str, plural: &str, kind: &str) -> Resource {
    Resource {
        id: ResourceId { group: group.to_owned(), version: "v1".to_owned(), plural: plural.to_owned() },
        kind: kind.to_owned(),
        list_kind: format!("{kind}List"),
        singular: kind.to_ascii_lowercase(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: true,
        verbs: ALL_VERBS,
        status: false,
        scale: None,
        shape: shape(group, kind),
        columns: columns::built_in(kind),
        selectable: Vec::new(),
        storage: format!("{group}/{plural}"),
        storage_version: "v1".to_owned(),
        custom: false,
        schema_since: 0,
        rules: rules(group, kind),
    }
}

fn shape(group: &str, kind: &str) -> Shape {
    types::shape_of(group, "v1", kind).unwrap_or_else(|| Shape::own(Node::Any))
}

fn rules(group: &str, kind: &str) -> Arc<dyn Rules> {
    let shape = shape(group, kind);
    match (group, kind) {
        ("apiextensions.k8s.io", "CustomResourceDefinition") => crate::crd::rules(),
        ("", "Namespace") => decoded(shape, namespace::Namespace),
        ("", "Secret") => decoded(shape, secret::Secret),
        ("", "ConfigMap") => decoded(shape, secret::ConfigMap),
        ("", "Service") => decoded(shape, service::Service),
        ("", "Pod") => decoded(shape, pod::Pod),
        ("", "Node") => decoded(shape, node::Node),
        ("", "Endpoints") => decoded(shape, endpoints::Endpoints),
        ("", "Event") => decoded(shape, event::Event { core: true }),
        ("events.k8s.io", "Event") => decoded(shape, event::Event { core: false }),
        ("apps", "Deployment") => decoded(shape, workload::Workload { deployment: true }),
        ("apps", "ReplicaSet") => decoded(shape, workload::Workload { deployment: false }),
        (_, "EndpointSlice") => decoded(shape, endpoints::EndpointSlice),
        (_, "Lease") => decoded(shape, lease::Lease),
        (_, "Role") => decoded(shape, access::Role { namespaced: true }),
        (_, "ClusterRole") => decoded(shape, access::Role { namespaced: false }),
        (_, "RoleBinding") => decoded(shape, access::Binding { namespaced: true }),
        (_, "ClusterRoleBinding") => decoded(shape, access::Binding { namespaced: false }),
        (_, "CustomResourceDefinition") => decoded(shape, Plain { dated: true }),
        _ => decoded(shape, Plain { dated: false }),
    }
}

fn decoded(shape: Shape, rules: impl Rules + 'static) -> Arc<dyn Rules> {
    Arc::new(Decoded { shape, rules })
}

impl Resource {
    fn short(mut self, names: &[&str]) -> Self {
        self.short_names = names.iter().map(|name| (*name).to_owned()).collect();
        self
    }

    fn in_all(mut self) -> Self {
        self.categories = vec!["all".to_owned()];
        self
    }

    fn cluster_wide(mut self) -> Self {
        self.namespaced = false;
        self
    }

    fn with_status(mut self) -> Self {
        self.status = true;
        self
    }

    /// The selector of built-in kinds is an object; its text form is made by `selectors::LabelSelector`.
    fn with_scale(mut self) -> Self {
        self.scale = Some(Scale {
            spec: "spec.replicas".to_owned(),
            status: "status.replicas".to_owned(),
            selector: Some("spec.selector".to_owned()),
        });
        self
    }

    fn selectable(mut self, fields: &[&str]) -> Self {
        self.selectable = fields.iter().map(|field| (*field).to_owned()).collect();
        self
    }
}
