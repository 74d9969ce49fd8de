//! Custom resource definitions: the kind itself, and what follows from one.

mod approval;
mod check;
mod columns;
mod custom;
mod definition;
mod formats;
mod jsonpath;
mod keeper;
mod order;
mod resources;
mod status;
mod view;

#[cfg(test)]
pub mod tests;

use std::sync::Arc;

use serde::{Deserialize, de::IgnoredAny};

pub use self::{
    definition::FINALIZER,
    keeper::{Cleaner, Keeper},
};
use crate::{failure::GroupResource, object::Document, registry::Rules};

/// Defaults, checks and the first delete of a CRD.
pub fn rules() -> Arc<dyn Rules> {
    Arc::new(definition::Definition)
}

/// Why nothing new of a kind is made whose CRD goes.
pub const ENDING: &str = "create not allowed while custom resource definition is terminating";

/// Where the CRD of a resource is kept.
pub fn key(resource: &GroupResource) -> String {
    format!("apiextensions.k8s.io/customresourcedefinitions//{}.{}", resource.resource, resource.group)
}

/// Whether a CRD goes. Asked on every create, so that the schemas are passed over and not made into values.
pub fn is_ending(crd: &Document) -> bool {
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
