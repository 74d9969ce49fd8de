//! The CRDs as installed.
//!
//! kube's derive generates the schemas; this module adds what it cannot express: `spec` is optional (upstream admits objects
//! without one), nulls are dropped by the API server as with upstream's CRDs, and the labels by which Cluster API and
//! clusterctl find a provider.

use std::collections::BTreeMap;

use crate::sandbox::drop_nullable;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt as _;

use super::{
    CaptCluster, CaptClusterTemplate, CaptControlPlane, CaptControlPlaneTemplate, CaptIdentity,
    WorkspaceTemplate, WorkspaceTemplateApply, names,
};

/// A CRD that cannot be written as YAML.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the CRD {name} as YAML")]
pub struct CrdYamlError {
    name: String,
    #[source]
    source: serde_saphyr::ser::Error,
}

/// All CRDs, in installation order.
pub fn crds() -> Vec<CustomResourceDefinition> {
    cluster_crds().into_iter().chain(crate::sandbox::crds().into_iter().map(of_provider)).collect()
}

/// The CRDs of Cluster API's contract, which the admission webhook reviews.
pub fn cluster_crds() -> Vec<CustomResourceDefinition> {
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

/// Labels a Sandbox CRD, which is not part of Cluster API's contract, so that clusterctl installs and removes it too.
fn of_provider(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    let labels = crd.metadata.labels.get_or_insert_with(BTreeMap::new);
    labels.insert(names::PROVIDER_LABEL.to_owned(), "infrastructure-capt".to_owned());
    crd
}

/// The CRD as a YAML document.
pub fn crd_yaml(crd: &CustomResourceDefinition) -> Result<String, CrdYamlError> {
    serde_saphyr::to_string(crd)
        .map_err(|source| CrdYamlError { name: crd.metadata.name.clone().unwrap_or_default(), source })
}

/// File name of a CRD: `<group>_<plural>.yaml`.
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
