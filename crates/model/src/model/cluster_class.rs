//! `ClusterClass` templates: validated like the objects created from them, without fields of a single cluster.

use capt_kinds::api;

use super::{
    control_plane,
    limits::Limits,
    network,
    newtypes::Namespace,
    problem::{FieldPath, Problem, Problems},
};

/// Validates the spec of a `CAPTClusterTemplate` in this namespace.
pub fn validate_cluster_template(
    spec: &api::CaptClusterTemplateSpec,
    home: &Namespace,
) -> Result<(), Vec<Problem>> {
    let mut problems = Problems::default();
    let root = FieldPath::root("spec");
    let template = root.field("template");
    let path = template.field("spec");
    let inner = &spec.template.spec;
    let _ = network::check_spec(&path, inner, home, &mut problems);
    reject_field(&path, "controlPlaneEndpoint", inner.control_plane_endpoint.is_some(), &mut problems);
    reject_field(
        &path,
        "workspaceTemplateApplyName",
        inner.workspace_template_apply_name.is_some(),
        &mut problems,
    );
    problems.into_result(Some(()))
}

/// Validates the spec of a `CAPTControlPlaneTemplate` in this namespace.
pub fn validate_control_plane_template(
    spec: &api::CaptControlPlaneTemplateSpec,
    home: &Namespace,
    limits: &Limits,
) -> Result<(), Vec<Problem>> {
    let mut problems = Problems::default();
    let root = FieldPath::root("spec");
    let template = root.field("template");
    let path = template.field("spec");
    let inner = &spec.template.spec;
    let _ = control_plane::check_spec(&path, inner, (home, limits), &mut problems);
    let has_endpoint =
        inner.control_plane_endpoint.as_ref().is_some_and(|endpoint| !endpoint.host.is_empty());
    reject_field(&path, "controlPlaneEndpoint", has_endpoint, &mut problems);
    reject_field(
        &path,
        "workspaceTemplateApplyName",
        inner.workspace_template_apply_name.is_some(),
        &mut problems,
    );
    reject_field(&path, "eksClusterName", inner.eks_cluster_name.is_some(), &mut problems);
    problems.into_result(Some(()))
}

fn reject_field(path: &FieldPath<'_>, field: &str, present: bool, problems: &mut Problems) {
    if present {
        problems.add(
            &path.field(field),
            "is specific to one cluster and not allowed in a template",
            "remove it",
        );
    }
}
