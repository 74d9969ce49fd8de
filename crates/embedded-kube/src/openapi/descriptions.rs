//! Descriptions of types and fields from `k8s-openapi`, loaded while a document is built.

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
    /// Descriptions of these types, given by their `OpenAPI` names, and of all types they reference.
    pub fn from_roots<'a>(roots: impl IntoIterator<Item = &'a str>) -> Self {
        let roots: BTreeSet<&str> = roots.into_iter().collect();
        let mut generator = SchemaGenerator::default();
        for (name, add) in KIND_SCHEMAS {
            if roots.contains(name) {
                add(&mut generator);
            }
        }
        Self { schemas: generator.take_definitions(false) }
    }

    /// Description of a type; empty if there is none.
    pub fn type_description(&self, model: &str) -> &str {
        description_of(self.schemas.get(model))
    }

    /// Description of a field; empty if there is none.
    pub fn field_description(&self, model: &str, field: &str) -> &str {
        let properties = self.schemas.get(model).and_then(|schema| schema.get("properties"));
        description_of(properties.and_then(|properties| properties.get(field)))
    }
}

fn description_of(schema: Option<&Value>) -> &str {
    schema.and_then(|schema| schema.get("description")).and_then(Value::as_str).unwrap_or_default()
}

type AddSchema = fn(&mut SchemaGenerator);

fn add_schema<T: JsonSchema>(generator: &mut SchemaGenerator) {
    generator.subschema_for::<T>();
}

/// Every kind of the type table that `k8s-openapi` has.
const KIND_SCHEMAS: &[(&str, AddSchema)] = &[
    ("io.k8s.api.core.v1.Namespace", add_schema::<core::Namespace>),
    ("io.k8s.api.core.v1.Secret", add_schema::<core::Secret>),
    ("io.k8s.api.core.v1.ConfigMap", add_schema::<core::ConfigMap>),
    ("io.k8s.api.core.v1.Event", add_schema::<core::Event>),
    ("io.k8s.api.core.v1.Service", add_schema::<core::Service>),
    ("io.k8s.api.core.v1.ServiceAccount", add_schema::<core::ServiceAccount>),
    ("io.k8s.api.core.v1.Pod", add_schema::<core::Pod>),
    ("io.k8s.api.core.v1.Node", add_schema::<core::Node>),
    ("io.k8s.api.core.v1.Endpoints", add_schema::<core::Endpoints>),
    ("io.k8s.api.core.v1.Binding", add_schema::<core::Binding>),
    ("io.k8s.api.apps.v1.Deployment", add_schema::<apps::Deployment>),
    ("io.k8s.api.apps.v1.ReplicaSet", add_schema::<apps::ReplicaSet>),
    ("io.k8s.api.discovery.v1.EndpointSlice", add_schema::<discovery::EndpointSlice>),
    ("io.k8s.api.coordination.v1.Lease", add_schema::<coordination::Lease>),
    ("io.k8s.api.events.v1.Event", add_schema::<events::Event>),
    ("io.k8s.api.rbac.v1.Role", add_schema::<rbac::Role>),
    ("io.k8s.api.rbac.v1.RoleBinding", add_schema::<rbac::RoleBinding>),
    ("io.k8s.api.rbac.v1.ClusterRole", add_schema::<rbac::ClusterRole>),
    ("io.k8s.api.rbac.v1.ClusterRoleBinding", add_schema::<rbac::ClusterRoleBinding>),
    (
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
        add_schema::<apiextensions::CustomResourceDefinition>,
    ),
    ("io.k8s.api.authentication.v1.TokenReview", add_schema::<authentication::TokenReview>),
    ("io.k8s.api.authentication.v1.TokenRequest", add_schema::<authentication::TokenRequest>),
    ("io.k8s.api.authentication.v1.SelfSubjectReview", add_schema::<authentication::SelfSubjectReview>),
    ("io.k8s.api.authorization.v1.SubjectAccessReview", add_schema::<authorization::SubjectAccessReview>),
    (
        "io.k8s.api.authorization.v1.LocalSubjectAccessReview",
        add_schema::<authorization::LocalSubjectAccessReview>,
    ),
    (
        "io.k8s.api.authorization.v1.SelfSubjectAccessReview",
        add_schema::<authorization::SelfSubjectAccessReview>,
    ),
    (
        "io.k8s.api.authorization.v1.SelfSubjectRulesReview",
        add_schema::<authorization::SelfSubjectRulesReview>,
    ),
    ("io.k8s.api.autoscaling.v1.Scale", add_schema::<autoscaling::Scale>),
    ("io.k8s.api.policy.v1.Eviction", add_schema::<policy::Eviction>),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions", add_schema::<meta::DeleteOptions>),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.Status", add_schema::<meta::Status>),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", add_schema::<meta::ObjectMeta>),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta", add_schema::<meta::ListMeta>),
];
