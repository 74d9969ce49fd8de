//! Built-in kinds: defaults, validation and printer columns.
//!
//! One file per kind or group of kinds. Nothing here reads a clock or does I/O; the random choices that kube-apiserver
//! makes too (a cluster IP, the name of a token volume) are made in `prepare_create`.

pub mod columns;
mod common;
mod endpoints;
mod event;
mod lease;
mod namespace;
mod node;
mod pod;
mod rbac;
mod secret;
mod service;
#[cfg(test)]
mod tests;
mod workload;

use std::sync::Arc;

use self::common::{DefaultStrategy, NormalizingStrategy};
use crate::{
    registry::{Resource, ResourceId, ResourceStrategy, Scale},
    shape::{Node, Shape},
    types,
};

const ALL_VERBS: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const NAMESPACE_VERBS: &[&str] = &["create", "delete", "get", "list", "patch", "update", "watch"];
const REVIEW_VERBS: &[&str] = &["create"];

/// Every built-in resource.
pub fn resources() -> Vec<Resource> {
    let mut all = core_resources();
    all.extend(workload_resources());
    all.extend(network_resources());
    all.extend(rbac_resources());
    all.extend(review_resources());
    all
}

fn core_resources() -> Vec<Resource> {
    vec![
        Resource { verbs: NAMESPACE_VERBS, ..namespaced_v1("", "namespaces", "Namespace") }
            .with_short_names(&["ns"])
            .cluster_scoped()
            .with_status()
            .with_selectable_fields(&["status.phase"]),
        namespaced_v1("", "secrets", "Secret").with_selectable_fields(&["type"]),
        namespaced_v1("", "configmaps", "ConfigMap").with_short_names(&["cm"]),
        namespaced_v1("", "events", "Event").with_short_names(&["ev"]).with_selectable_fields(&[
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
        namespaced_v1("", "services", "Service")
            .with_short_names(&["svc"])
            .in_category_all()
            .with_status()
            .with_selectable_fields(&["spec.clusterIP", "spec.type"]),
        namespaced_v1("", "serviceaccounts", "ServiceAccount").with_short_names(&["sa"]),
        namespaced_v1("", "pods", "Pod")
            .with_short_names(&["po"])
            .in_category_all()
            .with_status()
            .with_selectable_fields(&[
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
        namespaced_v1("", "nodes", "Node")
            .with_short_names(&["no"])
            .cluster_scoped()
            .with_status()
            .with_selectable_fields(&["spec.unschedulable"]),
        Resource { singular: "endpoints".to_owned(), ..namespaced_v1("", "endpoints", "Endpoints") }
            .with_short_names(&["ep"]),
    ]
}

fn workload_resources() -> Vec<Resource> {
    vec![
        namespaced_v1("apps", "deployments", "Deployment")
            .with_short_names(&["deploy"])
            .in_category_all()
            .with_status()
            .with_scale(),
        namespaced_v1("apps", "replicasets", "ReplicaSet")
            .with_short_names(&["rs"])
            .in_category_all()
            .with_status()
            .with_scale(),
        namespaced_v1("coordination.k8s.io", "leases", "Lease"),
    ]
}

fn network_resources() -> Vec<Resource> {
    let event = namespaced_v1("events.k8s.io", "events", "Event")
        .with_short_names(&["ev"])
        .with_selectable_fields(&[
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
        namespaced_v1("discovery.k8s.io", "endpointslices", "EndpointSlice"),
        Resource { storage_prefix: "/events".to_owned(), ..event },
    ]
}

fn rbac_resources() -> Vec<Resource> {
    const RBAC: &str = "rbac.authorization.k8s.io";
    vec![
        namespaced_v1(RBAC, "roles", "Role"),
        namespaced_v1(RBAC, "rolebindings", "RoleBinding"),
        namespaced_v1(RBAC, "clusterroles", "ClusterRole").cluster_scoped(),
        namespaced_v1(RBAC, "clusterrolebindings", "ClusterRoleBinding").cluster_scoped(),
        Resource {
            categories: vec!["api-extensions".to_owned()],
            ..namespaced_v1("apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition")
        }
        .with_short_names(&["crd", "crds"])
        .cluster_scoped()
        .with_status(),
    ]
}

/// Virtual resources: create-only, never stored (`storage_prefix` is empty), answered by `auth`.
fn review_resources() -> Vec<Resource> {
    const AUTHENTICATION: &str = "authentication.k8s.io";
    const AUTHORIZATION: &str = "authorization.k8s.io";
    let review = |group: &str, plural: &str, kind: &str, namespaced: bool| Resource {
        namespaced,
        verbs: REVIEW_VERBS,
        storage_prefix: String::new(),
        ..namespaced_v1(group, plural, kind)
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

/// A namespaced resource at `v1` with all verbs and the default settings.
fn namespaced_v1(group: &str, plural: &str, kind: &str) -> Resource {
    Resource {
        id: ResourceId { group: group.to_owned(), version: "v1".to_owned(), plural: plural.to_owned() },
        kind: kind.to_owned(),
        list_kind: format!("{kind}List"),
        singular: kind.to_ascii_lowercase(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: true,
        verbs: ALL_VERBS,
        has_status: false,
        scale: None,
        shape: shape_for(group, kind),
        columns: columns::built_in_columns(kind),
        selectable_fields: Vec::new(),
        storage_prefix: format!("{group}/{plural}"),
        storage_version: "v1".to_owned(),
        is_custom: false,
        schema_revision: 0,
        strategy: strategy_for(group, kind),
    }
}

fn shape_for(group: &str, kind: &str) -> Shape {
    types::shape_of(group, "v1", kind).unwrap_or_else(|| Shape::owned(Node::Any))
}

fn strategy_for(group: &str, kind: &str) -> Arc<dyn ResourceStrategy> {
    let shape = shape_for(group, kind);
    match (group, kind) {
        ("apiextensions.k8s.io", "CustomResourceDefinition") => crate::crd::strategy(),
        ("", "Namespace") => normalized(shape, namespace::NamespaceStrategy),
        ("", "Secret") => normalized(shape, secret::SecretStrategy),
        ("", "ConfigMap") => normalized(shape, secret::ConfigMapStrategy),
        ("", "Service") => normalized(shape, service::ServiceStrategy),
        ("", "Pod") => normalized(shape, pod::PodStrategy),
        ("", "Node") => normalized(shape, node::NodeStrategy),
        ("", "Endpoints") => normalized(shape, endpoints::EndpointsStrategy),
        ("", "Event") => normalized(shape, event::EventStrategy { core: true }),
        ("events.k8s.io", "Event") => normalized(shape, event::EventStrategy { core: false }),
        ("apps", "Deployment") => normalized(shape, workload::WorkloadStrategy { deployment: true }),
        ("apps", "ReplicaSet") => normalized(shape, workload::WorkloadStrategy { deployment: false }),
        (_, "EndpointSlice") => normalized(shape, endpoints::EndpointSliceStrategy),
        (_, "Lease") => normalized(shape, lease::LeaseStrategy),
        (_, "Role") => normalized(shape, rbac::RoleStrategy { namespaced: true }),
        (_, "ClusterRole") => normalized(shape, rbac::RoleStrategy { namespaced: false }),
        (_, "RoleBinding") => normalized(shape, rbac::RoleBindingStrategy { namespaced: true }),
        (_, "ClusterRoleBinding") => normalized(shape, rbac::RoleBindingStrategy { namespaced: false }),
        (_, "CustomResourceDefinition") => normalized(shape, DefaultStrategy { shows_created_at: true }),
        _ => normalized(shape, DefaultStrategy { shows_created_at: false }),
    }
}

fn normalized(shape: Shape, rules: impl ResourceStrategy + 'static) -> Arc<dyn ResourceStrategy> {
    Arc::new(NormalizingStrategy { shape, strategy: rules })
}

impl Resource {
    fn with_short_names(mut self, names: &[&str]) -> Self {
        self.short_names = names.iter().map(|name| (*name).to_owned()).collect();
        self
    }

    fn in_category_all(mut self) -> Self {
        self.categories = vec!["all".to_owned()];
        self
    }

    fn cluster_scoped(mut self) -> Self {
        self.namespaced = false;
        self
    }

    fn with_status(mut self) -> Self {
        self.has_status = true;
        self
    }

    /// Built-in kinds have a selector object; `selectors::LabelSelector` formats it as text.
    fn with_scale(mut self) -> Self {
        self.scale = Some(Scale {
            spec: "spec.replicas".to_owned(),
            status: "status.replicas".to_owned(),
            selector: Some("spec.selector".to_owned()),
        });
        self
    }

    fn with_selectable_fields(mut self, fields: &[&str]) -> Self {
        self.selectable_fields = fields.iter().map(|field| (*field).to_owned()).collect();
        self
    }
}
