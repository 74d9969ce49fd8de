//! `CustomResourceDefinition`s: validation, status, and the resources that they define.

mod accessors;
mod approval;
mod controller;
mod crd_strategy;
mod custom_resource;
mod jsonpath;
mod printer_columns;
mod resources;
mod status;
mod unknown_formats;
mod validation;
mod version_priority;

#[cfg(test)]
pub mod tests;

use std::sync::Arc;

use serde::{Deserialize, de::IgnoredAny};

pub use self::{
    controller::{CrdController, ObjectDeleter},
    crd_strategy::FINALIZER,
};
use crate::{object::Document, registry::ResourceStrategy, status_error::GroupResource};

/// Strategy of the kind `CustomResourceDefinition`.
pub fn strategy() -> Arc<dyn ResourceStrategy> {
    Arc::new(crd_strategy::CrdStrategy)
}

/// Message that rejects a create while the CRD is terminating.
pub const CRD_TERMINATING_MESSAGE: &str =
    "create not allowed while custom resource definition is terminating";

/// Storage key of the CRD that defines a resource.
pub fn crd_key(resource: &GroupResource) -> String {
    format!("apiextensions.k8s.io/customresourcedefinitions//{}.{}", resource.resource, resource.group)
}

/// Whether a CRD is being deleted. Called on every create, so it skips the schemas instead of parsing them.
pub fn is_terminating(crd: &Document) -> bool {
    #[derive(Default, Deserialize)]
    struct Definition {
        metadata: Metadata,
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata {
        deletion_timestamp: Option<IgnoredAny>,
    }
    let read: Definition = serde_json::from_slice(crd.bytes()).unwrap_or_default();
    read.metadata.deletion_timestamp.is_some()
}
