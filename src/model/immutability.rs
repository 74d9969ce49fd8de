//! What may not change once it exists. The CRDs say the same with transition rules.

use crate::api;

use super::{
    problem::{Path, Problem, Problems},
    text::{Parse as _, Region},
    version::KubernetesVersion,
};

/// Looks at a change of a `CAPTCluster`.
pub fn cluster(old: &api::CaptClusterSpec, new: &api::CaptClusterSpec) -> Vec<Problem> {
    let mut problems = Problems::default();
    let path = Path::root("spec");
    if new.region != old.region && Region::parse(&new.region).is_err() {
        problems.add(&path.field("region"), "is not an AWS region", "write one such as eu-central-1");
    }
    problems.into_vec()
}

/// Looks at a change of a `CAPTControlPlane`.
pub fn control_plane(old: &api::CaptControlPlaneSpec, new: &api::CaptControlPlaneSpec) -> Vec<Problem> {
    let mut problems = Problems::default();
    let path = Path::root("spec");
    if new.version != old.version && KubernetesVersion::parse(&new.version).is_err() {
        problems.add(
            &path.field("version"),
            "is not a Kubernetes version",
            "write one such as v1.33.0 or \"1.33\"",
        );
    }
    if old.eks_cluster_name.is_some() && old.eks_cluster_name != new.eks_cluster_name {
        immutable(&path.field("eksClusterName"), &mut problems);
    }
    if let (Some(old), Some(new)) = (&old.control_plane_config, &new.control_plane_config) {
        config(&path.field("controlPlaneConfig"), old, new, &mut problems);
    }
    problems.into_vec()
}

/// Looks at a change of a `WorkspaceTemplateApply`.
pub fn apply(old: &api::WorkspaceTemplateApplySpec, new: &api::WorkspaceTemplateApplySpec) -> Vec<Problem> {
    let mut problems = Problems::default();
    let path = Path::root("spec");
    if old.module.is_some() && old.module != new.module {
        immutable(&path.field("module"), &mut problems);
    }
    if old.region.is_some() && old.region != new.region {
        immutable(&path.field("region"), &mut problems);
    }
    problems.into_vec()
}

fn config(
    path: &Path<'_>,
    old: &api::ControlPlaneConfig,
    new: &api::ControlPlaneConfig,
    problems: &mut Problems,
) {
    if old.service_ipv4_cidr.is_some() && old.service_ipv4_cidr != new.service_ipv4_cidr {
        immutable(&path.field("serviceIpv4Cidr"), problems);
    }
    if old.bootstrap_cluster_creator_admin != new.bootstrap_cluster_creator_admin {
        immutable(&path.field("bootstrapClusterCreatorAdmin"), problems);
    }
    let (old, new) = (old.encryption.clone().unwrap_or_default(), new.encryption.clone().unwrap_or_default());
    let path = path.field("encryption");
    if old.enabled && !new.enabled {
        problems.add(
            &path.field("enabled"),
            "encryption cannot be switched off once it is on",
            "set it to true again",
        );
    }
    if old.enabled && old.kms_key_arn != new.kms_key_arn {
        immutable(&path.field("kmsKeyArn"), problems);
    }
}

fn immutable(path: &Path<'_>, problems: &mut Problems) {
    problems.add(
        path,
        "cannot be changed: AWS would make everything anew",
        "write the old value, or make a new object",
    );
}
