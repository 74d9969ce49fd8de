//! Immutable fields. The CRDs contain the same rules as CEL transition rules.

use capt_kinds::api;

use super::{
    newtypes::{Parse as _, Region},
    problem::{FieldPath, Problem, Problems},
    version::KubernetesVersion,
};

/// Validates an update of a `CAPTCluster`.
pub fn check_cluster_update(old: &api::CaptClusterSpec, new: &api::CaptClusterSpec) -> Vec<Problem> {
    let mut problems = Problems::default();
    let path = FieldPath::root("spec");
    if new.region != old.region && Region::parse(&new.region).is_err() {
        problems.add(&path.field("region"), "is not an AWS region", "write one such as eu-central-1");
    }
    problems.into_vec()
}

/// Validates an update of a `CAPTControlPlane`.
pub fn check_control_plane_update(
    old: &api::CaptControlPlaneSpec,
    new: &api::CaptControlPlaneSpec,
) -> Vec<Problem> {
    let mut problems = Problems::default();
    let path = FieldPath::root("spec");
    if new.version != old.version && KubernetesVersion::parse(&new.version).is_err() {
        problems.add(
            &path.field("version"),
            "is not a Kubernetes version",
            "write one such as v1.33.0 or \"1.33\"",
        );
    }
    if old.eks_cluster_name.is_some() && old.eks_cluster_name != new.eks_cluster_name {
        reject_change(&path.field("eksClusterName"), &mut problems);
    }
    if let (Some(old), Some(new)) = (&old.control_plane_config, &new.control_plane_config) {
        check_config_update(&path.field("controlPlaneConfig"), old, new, &mut problems);
    }
    problems.into_vec()
}

/// Validates an update of a `WorkspaceTemplateApply`.
pub fn check_apply_update(
    old: &api::WorkspaceTemplateApplySpec,
    new: &api::WorkspaceTemplateApplySpec,
) -> Vec<Problem> {
    let mut problems = Problems::default();
    let path = FieldPath::root("spec");
    if old.module.is_some() && old.module != new.module {
        reject_change(&path.field("module"), &mut problems);
    }
    if old.region.is_some() && old.region != new.region {
        reject_change(&path.field("region"), &mut problems);
    }
    problems.into_vec()
}

fn check_config_update(
    path: &FieldPath<'_>,
    old: &api::ControlPlaneConfig,
    new: &api::ControlPlaneConfig,
    problems: &mut Problems,
) {
    if old.service_ipv4_cidr.is_some() && old.service_ipv4_cidr != new.service_ipv4_cidr {
        reject_change(&path.field("serviceIpv4Cidr"), problems);
    }
    if old.bootstrap_cluster_creator_admin != new.bootstrap_cluster_creator_admin {
        reject_change(&path.field("bootstrapClusterCreatorAdmin"), problems);
    }
    let (old, new) = (old.encryption.clone().unwrap_or_default(), new.encryption.clone().unwrap_or_default());
    let path = path.field("encryption");
    if old.enabled && !new.enabled {
        problems.add(
            &path.field("enabled"),
            "encryption cannot be disabled once it is enabled",
            "set it to true",
        );
    }
    if old.enabled && old.kms_key_arn != new.kms_key_arn {
        reject_change(&path.field("kmsKeyArn"), problems);
    }
}

fn reject_change(path: &FieldPath<'_>, problems: &mut Problems) {
    problems.add(
        path,
        "is immutable: AWS would replace the resources",
        "restore the old value, or create a new object",
    );
}
