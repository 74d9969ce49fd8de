//! The CRDs as they are installed. kube's derive makes the schema; a null is dropped by the API server, not stored.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt as _;

use super::{LocalWorkload, RouteGroup, Sandbox};

/// All CRDs of sandboxes, in the order in which they are installed.
pub fn crds() -> Vec<CustomResourceDefinition> {
    [Sandbox::crd(), RouteGroup::crd(), LocalWorkload::crd()].into_iter().map(finish).collect()
}

fn finish(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    for version in &mut crd.spec.versions {
        if let Some(schema) = version.schema.as_mut().and_then(|it| it.open_api_v3_schema.as_mut()) {
            schema.title = None;
            drop_nullable(schema);
        }
    }
    crd
}

/// Takes `nullable` off a schema, everywhere in it: kube says it of every optional field, and then a null would be stored.
pub fn drop_nullable(schema: &mut JSONSchemaProps) {
    schema.nullable = None;
    for property in schema.properties.iter_mut().flatten() {
        drop_nullable(property.1);
    }
    match &mut schema.items {
        Some(JSONSchemaPropsOrArray::Schema(item)) => drop_nullable(item),
        Some(JSONSchemaPropsOrArray::Schemas(items)) => items.iter_mut().for_each(drop_nullable),
        None => {}
    }
    if let Some(JSONSchemaPropsOrBool::Schema(value)) = &mut schema.additional_properties {
        drop_nullable(value);
    }
}
