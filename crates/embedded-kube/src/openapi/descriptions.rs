//! What types and fields mean, in the words of the types of `k8s-openapi`, for as long as a document is made.

use std::collections::BTreeSet;

use k8s_openapi::{
    api::{
        apps::v1 as apps, authentication::v1 as authentication, authorization::v1 as authorization,
        autoscaling::v1 as autoscaling, coordination::v1 as coordination, core::v1 as core,
        discovery::v1 as discovery, events::v1 as events, policy::v1 as policy, rbac::v1 as rbac,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1 as apiextensions,
    apimachinery::pkg::apis::meta::v1 as meta,
};
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value};

/// Descriptions by type.
pub struct Descriptions {
    schemas: Map<String, Value>,
}

impl Descriptions {
    /// Of these types, given by their `OpenAPI` names, and all that they refer to.
    pub fn of<'a>(roots: impl IntoIterator<Item = &'a str>) -> Self {
        let roots: BTreeSet<&str> = roots.into_iter().collect();
        let mut generator = SchemaGenerator::default();
        for (name, add) in KNOWN {
            if roots.contains(name) {
                add(&mut generator);
            }
        }
        Self { schemas: generator.take_definitions(false) }
    }

    /// Of a type; empty if there is none.
    pub fn of_type(&self, model: &str) -> &str {
        text(self.schemas.get(model))
    }

    /// Of a field; empty if there is none.
    pub fn of_field(&self, model: &str, field: &str) -> &str {
        let properties = self.schemas.get(model).and_then(|schema| schema.get("properties"));
        text(properties.and_then(|properties| properties.get(field)))
    }
}

fn text(schema: Option<&Value>) -> &str {
    schema.and_then(|schema| schema.get("description")).and_then(Value::as_str).unwrap_or_default()
}

type Add = fn(&mut SchemaGenerator);

fn add<T: JsonSchema>(generator: &mut SchemaGenerator) {
    generator.subschema_for::<T>();
}

/// Every kind of the table that `k8s-openapi` has.
const KNOWN: &[(&str, Add)] = &[
    ("io.k8s.api.core.v1.Namespace", add::<core::Namespace>),
    ("io.k8s.api.core.v1.Secret", add::<core::Secret>),
    ("io.k8s.api.core.v1.ConfigMap", add::<core::ConfigMap>),
    ("io.k8s.api.core.v1.Event", add::<core::Event>),
    ("io.k8s.api.core.v1.Service", add::<core::Service>),
    ("io.k8s.api.core.v1.ServiceAccount", add::<core::ServiceAccount>),
    ("io.k8s.api.core.v1.Pod", add::<core::Pod>),
    ("io.k8s.api.core.v1.Node", add::<core::Node>),
    ("io.k8s.api.core.v1.Endpoints", add::<core::Endpoints>),
    ("io.k8s.api.core.v1.Binding", add::<core::Binding>),
    ("io.k8s.api.apps.v1.Deployment", add::<apps::Deployment>),
    ("io.k8s.api.apps.v1.ReplicaSet", add::<apps::ReplicaSet>),
    ("io.k8s.api.discovery.v1.EndpointSlice", add::<discovery::EndpointSlice>),
    ("io.k8s.api.coordination.v1.Lease", add::<coordination::Lease>),
    ("io.k8s.api.events.v1.Event", add::<events::Event>),
    ("io.k8s.api.rbac.v1.Role", add::<rbac::Role>),
    ("io.k8s.api.rbac.v1.RoleBinding", add::<rbac::RoleBinding>),
    ("io.k8s.api.rbac.v1.ClusterRole", add::<rbac::ClusterRole>),
    ("io.k8s.api.rbac.v1.ClusterRoleBinding", add::<rbac::ClusterRoleBinding>),
    (
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
        add::<apiextensions::CustomResourceDefinition>,
    ),
    ("io.k8s.api.authentication.v1.TokenReview", add::<authentication::TokenReview>),
    ("io.k8s.api.authentication.v1.TokenRequest", add::<authentication::TokenRequest>),
    ("io.k8s.api.authentication.v1.SelfSubjectReview", add::<authentication::SelfSubjectReview>),
    ("io.k8s.api.authorization.v1.SubjectAccessReview", add::<authorization::SubjectAccessReview>),
    ("io.k8s.api.authorization.v1.LocalSubjectAccessReview", add::<authorization::LocalSubjectAccessReview>),
    ("io.k8s.api.authorization.v1.SelfSubjectAccessReview", add::<authorization::SelfSubjectAccessReview>),
    ("io.k8s.api.authorization.v1.SelfSubjectRulesReview", add::<authorization::SelfSubjectRulesReview>),
    ("io.k8s.api.autoscaling.v1.Scale", add::<autoscaling::Scale>),
    ("io.k8s.api.policy.v1.Eviction", add::<policy::Eviction>),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions", add::<meta::DeleteOptions>),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.Status", add::<meta::Status>),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", add::<meta::ObjectMeta>),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta", add::<meta::ListMeta>),
];
