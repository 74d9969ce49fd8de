//! The CRDs as they are installed.
//!
//! kube's derive makes the schema; three things are put right here because it cannot say them: `spec` is optional (upstream
//! admits objects without one), a null is dropped by the API server as upstream's CRDs let it (kube would store it), and the
//! labels by which Cluster API and clusterctl find a provider.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt as _;

use super::{
    CaptCluster, CaptClusterTemplate, CaptControlPlane, CaptControlPlaneTemplate, CaptIdentity,
    WorkspaceTemplate, WorkspaceTemplateApply, names,
};

/// A CRD that cannot be written as YAML.
#[derive(Debug, thiserror::Error)]
#[error("writing the CRD {name} as YAML")]
pub struct CrdYamlError {
    name: String,
    #[source]
    source: serde_saphyr::ser::Error,
}

/// All CRDs, in the order in which they are installed.
pub fn crds() -> Vec<CustomResourceDefinition> {
    [
        CaptCluster::crd(),
        CaptClusterTemplate::crd(),
        CaptControlPlane::crd(),
        CaptControlPlaneTemplate::crd(),
        CaptIdentity::crd(),
        WorkspaceTemplate::crd(),
        WorkspaceTemplateApply::crd(),
    ]
    .into_iter()
    .map(finish)
    .collect()
}

/// The CRD as a YAML document.
pub fn crd_yaml(crd: &CustomResourceDefinition) -> Result<String, CrdYamlError> {
    serde_saphyr::to_string(crd)
        .map_err(|source| CrdYamlError { name: crd.metadata.name.clone().unwrap_or_default(), source })
}

/// The name of the file that holds a CRD: `<group>_<plural>.yaml`.
pub fn crd_file_name(crd: &CustomResourceDefinition) -> String {
    format!("{}_{}.yaml", crd.spec.group, crd.spec.names.plural)
}

fn finish(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    let provider = if crd.spec.group == names::CONTROL_PLANE_GROUP {
        "control-plane-capt"
    } else {
        "infrastructure-capt"
    };
    crd.metadata.labels.get_or_insert_with(BTreeMap::new).extend([
        (names::PROVIDER_LABEL.to_owned(), provider.to_owned()),
        (names::CONTRACT_LABEL.to_owned(), names::VERSION.to_owned()),
    ]);
    for version in &mut crd.spec.versions {
        if let Some(schema) = version.schema.as_mut().and_then(|it| it.open_api_v3_schema.as_mut()) {
            schema.required = None;
            schema.title = None;
            drop_nullable(schema);
        }
    }
    crd
}

fn drop_nullable(schema: &mut JSONSchemaProps) {
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
