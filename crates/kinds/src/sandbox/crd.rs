//! The CRDs as installed: kube's derived schema without `nullable`, so that the API server drops nulls instead of storing them.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt as _;

use super::{LocalWorkload, RouteGroup, Sandbox};

/// All sandbox CRDs, in installation order.
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

/// Removes `nullable` from a schema, recursively. kube sets it on every optional field, and a null would be stored then.
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
