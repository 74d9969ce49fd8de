//! Known fields of a kind at a path, for errors about unknown fields.

use std::sync::LazyLock;

use capt_kinds::api::crds;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};

/// Built lazily: it is slower than reading a manifest and only needed for unknown fields.
static CRDS: LazyLock<Vec<CustomResourceDefinition>> = LazyLock::new(crds);

/// The valid fields beside `path`; `None` if the CRD has no schema there.
pub(super) fn known_fields(kind: &str, path: &str) -> Option<String> {
    let crd = CRDS.iter().find(|crd| crd.spec.names.kind == kind)?;
    let schema = crd.spec.versions.first()?.schema.as_ref()?.open_api_v3_schema.as_ref()?;
    let parent = path.rsplit_once('.').map(|(parent, _)| parent);
    let place = parent.map_or(Some(schema), |parent| descend(schema, parent))?;
    let names: Vec<&str> = place.properties.as_ref()?.keys().map(String::as_str).collect();
    Some(names.join(", "))
}

fn descend<'a>(schema: &'a JSONSchemaProps, path: &str) -> Option<&'a JSONSchemaProps> {
    path.split(['.', '[']).try_fold(schema, |place, step| {
        if step.ends_with(']') {
            return match place.items.as_ref()? {
                JSONSchemaPropsOrArray::Schema(item) => Some(item.as_ref()),
                JSONSchemaPropsOrArray::Schemas(_) => None,
            };
        }
        match place.properties.as_ref().and_then(|properties| properties.get(step)) {
            Some(property) => Some(property),
            None => match place.additional_properties.as_ref()? {
                JSONSchemaPropsOrBool::Schema(value) => Some(value.as_ref()),
                JSONSchemaPropsOrBool::Bool(_) => None,
            },
        }
    })
}
