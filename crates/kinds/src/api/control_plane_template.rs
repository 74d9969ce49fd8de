//! `CAPTControlPlaneTemplate`: the `CAPTControlPlane` template of a `ClusterClass`.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{absent_spec::spec_may_be_absent, common::TemplateMeta, control_plane::CaptControlPlaneSpec};

/// A template of `CAPTControlPlane` objects.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "controlplane.cluster.x-k8s.io",
    version = "v1beta1",
    kind = "CAPTControlPlaneTemplate",
    root = "CaptControlPlaneTemplate",
    plural = "captcontrolplanetemplates",
    namespaced,
    derive = "PartialEq",
    doc = "A template of CAPTControlPlane objects, for ClusterClass.",
    category = "cluster-api",
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", remote = "Self")]
#[x_kube(validation = Rule::new("(!has(self.template.spec.controlPlaneEndpoint) || self.template.spec.controlPlaneEndpoint.host == '') && !has(self.template.spec.workspaceTemplateApplyName) && !has(self.template.spec.eksClusterName)")
    .message("a template holds nothing of a single cluster; remove controlPlaneEndpoint, workspaceTemplateApplyName and eksClusterName").field_path(".template"))]
pub struct CaptControlPlaneTemplateSpec {
    /// The object to create.
    pub template: CaptControlPlaneTemplateResource,
}

spec_may_be_absent!(CaptControlPlaneTemplateSpec);

/// The object that a template creates.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CaptControlPlaneTemplateResource {
    /// Labels and annotations of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMeta>,
    /// The object's spec.
    pub spec: CaptControlPlaneSpec,
}
