//! `CAPTClusterTemplate`: the `CAPTCluster` template of a `ClusterClass`.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{absent_spec::spec_may_be_absent, cluster::CaptClusterSpec, common::TemplateMeta};

/// A template of `CAPTCluster` objects.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta1",
    kind = "CAPTClusterTemplate",
    root = "CaptClusterTemplate",
    plural = "captclustertemplates",
    namespaced,
    derive = "PartialEq",
    doc = "A template of CAPTCluster objects, for ClusterClass.",
    category = "cluster-api",
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", remote = "Self")]
#[x_kube(validation = Rule::new("!has(self.template.spec.controlPlaneEndpoint) && !has(self.template.spec.workspaceTemplateApplyName)")
    .message("a template holds nothing of a single cluster; remove controlPlaneEndpoint and workspaceTemplateApplyName").field_path(".template"))]
pub struct CaptClusterTemplateSpec {
    /// The object to create.
    pub template: CaptClusterTemplateResource,
}

spec_may_be_absent!(CaptClusterTemplateSpec);

/// The object that a template creates.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CaptClusterTemplateResource {
    /// Labels and annotations of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMeta>,
    /// The object's spec.
    pub spec: CaptClusterSpec,
}
