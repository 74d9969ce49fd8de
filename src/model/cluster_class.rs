//! The templates of a `ClusterClass`: checked like the objects made from them, and free of what belongs to one cluster.

use crate::api;

use super::{
    control_plane,
    limits::Limits,
    network,
    problem::{Path, Problem, Problems},
    text::Namespace,
};

/// Looks at the spec of a `CAPTClusterTemplate` in this namespace.
pub fn cluster(spec: &api::CaptClusterTemplateSpec, home: &Namespace) -> Result<(), Vec<Problem>> {
    let mut problems = Problems::default();
    let root = Path::root("spec");
    let template = root.field("template");
    let path = template.field("spec");
    let inner = &spec.template.spec;
    let _ = network::check(&path, inner, home, &mut problems);
    refuse(&path, "controlPlaneEndpoint", inner.control_plane_endpoint.is_some(), &mut problems);
    refuse(&path, "workspaceTemplateApplyName", inner.workspace_template_apply_name.is_some(), &mut problems);
    problems.into_result(Some(()))
}

/// Looks at the spec of a `CAPTControlPlaneTemplate` in this namespace.
pub fn control_plane(
    spec: &api::CaptControlPlaneTemplateSpec,
    home: &Namespace,
    limits: &Limits,
) -> Result<(), Vec<Problem>> {
    let mut problems = Problems::default();
    let root = Path::root("spec");
    let template = root.field("template");
    let path = template.field("spec");
    let inner = &spec.template.spec;
    let _ = control_plane::check(&path, inner, (home, limits), &mut problems);
    let has_endpoint =
        inner.control_plane_endpoint.as_ref().is_some_and(|endpoint| !endpoint.host.is_empty());
    refuse(&path, "controlPlaneEndpoint", has_endpoint, &mut problems);
    refuse(&path, "workspaceTemplateApplyName", inner.workspace_template_apply_name.is_some(), &mut problems);
    refuse(&path, "eksClusterName", inner.eks_cluster_name.is_some(), &mut problems);
    problems.into_result(Some(()))
}

fn refuse(path: &Path<'_>, field: &str, present: bool, problems: &mut Problems) {
    if present {
        problems.add(&path.field(field), "belongs to a single cluster, not to a template", "remove it");
    }
}
