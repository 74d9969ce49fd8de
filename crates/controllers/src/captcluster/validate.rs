//! Validates the spec of a `CAPTCluster`. Pure: no I/O.

use capt_kinds::api::{CaptCluster, CaptControlPlane, WorkspaceTemplateApply, conditions::reasons};
use capt_model::model::{
    Parse as _, Problem,
    network::{self, NetworkSource, ValidatedNetwork},
    newtypes::{ClusterName, Namespace},
};

use super::dereference::NetworkReferences;

/// Validated spec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ValidatedCaptCluster {
    /// The network.
    pub network: ValidatedNetwork,
    /// Name of the Cluster.
    pub cluster: String,
    /// Name of the EKS cluster, which its subnets are tagged with.
    pub eks_name: Option<ClusterName>,
}

/// Why a spec or the workspace derived from it was rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NetworkRejection {
    /// Condition reason.
    pub reason: &'static str,
    /// Condition message, which names the fields.
    pub message: String,
}

/// Validates a `CAPTCluster` together with its references.
pub(super) fn validate(
    object: &CaptCluster,
    seen: &NetworkReferences,
) -> Result<ValidatedCaptCluster, NetworkRejection> {
    let home = object.metadata.namespace.as_deref().unwrap_or_default();
    let home =
        Namespace::parse(home).map_err(|malformed| reject(&[namespace_problem(malformed.to_string())]))?;
    let network = network::validate(&object.spec, &home).map_err(|problems| reject(&problems))?;
    let cluster = seen.cluster.name.clone();
    let wanted = effective_eks_name(seen.control_plane.as_ref(), seen.apply.as_ref())
        .unwrap_or_else(|| cluster.clone());
    let eks_name = match (ClusterName::parse(&wanted), &network.source) {
        (Ok(name), _) => Some(name),
        // A template gets the Cluster's name, even if EKS would reject it.
        (Err(_), NetworkSource::Template(_)) => None,
        (Err(malformed), _) => {
            let message = format!("{malformed}; the Cluster's name is used as the EKS cluster name");
            let remedy = "set eksClusterName of the CAPTControlPlane".to_owned();
            return Err(reject(&[Problem { path: "metadata.name".to_owned(), message, remedy }]));
        }
    };
    Ok(ValidatedCaptCluster { network, cluster, eks_name })
}

/// The name in the control plane's spec. Without a control plane, the name in the live workspace: deleting the control
/// plane first must not change the network.
fn effective_eks_name(
    control_plane: Option<&CaptControlPlane>,
    apply: Option<&WorkspaceTemplateApply>,
) -> Option<String> {
    match control_plane {
        Some(control_plane) => control_plane.spec.eks_cluster_name.clone(),
        None => Some(apply?.spec.inputs.as_ref()?.get("cluster_name")?.as_str()?.to_owned()),
    }
}

fn namespace_problem(message: String) -> Problem {
    Problem { path: "metadata.namespace".to_owned(), message, remedy: "use another namespace".to_owned() }
}

fn reject(problems: &[Problem]) -> NetworkRejection {
    let about_vpc = |problem: &Problem| {
        ["spec.vpcConfig", "spec.existingVpcId", "spec.vpcTemplateRef"]
            .iter()
            .any(|it| problem.path.starts_with(it))
            || problem.path == "spec"
    };
    let reason =
        if problems.iter().any(about_vpc) { reasons::INVALID_VPC_CONFIG } else { reasons::INVALID_SPEC };
    let message = problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    NetworkRejection { reason, message }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::captcluster::fixtures::{captcluster, references, workspace};
    use capt_kinds::api::CaptControlPlaneSpec;

    fn validate_spec(spec: &Value) -> Result<ValidatedCaptCluster, NetworkRejection> {
        validate(&captcluster(spec), &references())
    }

    #[test]
    fn what_is_wrong_is_told_with_its_field() {
        for (spec, reason, path) in [
            (json!({"region": "Mars"}), reasons::INVALID_SPEC, "spec.region"),
            (Value::Null, reasons::INVALID_SPEC, "spec.region"),
            (
                json!({"region": "eu-central-1", "vpcConfig": {"cidr": "10.0.0.0/8"}}),
                reasons::INVALID_VPC_CONFIG,
                "spec.vpcConfig.cidr",
            ),
            (
                json!({"region": "eu-central-1", "existingVpcId": "vpc-0123456789abcdef0", "vpcTemplateRef": {"name": "t"}}),
                reasons::INVALID_VPC_CONFIG,
                "spec: has both",
            ),
            (
                json!({"region": "eu-central-1", "existingVpcId": "mine"}),
                reasons::INVALID_VPC_CONFIG,
                "spec.existingVpcId",
            ),
        ] {
            let refusal = validate_spec(&spec).unwrap_err();
            assert_eq!(refusal.reason, reason, "{spec}");
            assert!(refusal.message.contains(path), "{}", refusal.message);
        }
    }

    #[test]
    fn the_eks_name_is_the_control_planes_or_the_clusters() {
        let spec = json!({"region": "eu-central-1"});
        assert_eq!(validate_spec(&spec).unwrap().eks_name.unwrap().as_str(), "demo");
        let mut seen = references();
        let mut control_plane = CaptControlPlane::new("cp", CaptControlPlaneSpec::default());
        control_plane.spec.eks_cluster_name = Some("prod".to_owned());
        seen.control_plane = Some(control_plane);
        assert_eq!(validate(&captcluster(&spec), &seen).unwrap().eks_name.unwrap().as_str(), "prod");
    }

    #[test]
    fn a_control_plane_that_was_deleted_leaves_its_name() {
        let mut seen = references();
        seen.apply = Some(workspace(&json!({"inputs": {"cluster_name": "prod"}}), &json!({})));
        let valid = validate(&captcluster(&json!({"region": "eu-central-1"})), &seen).unwrap();
        assert_eq!(valid.eks_name.unwrap().as_str(), "prod");
    }

    #[test]
    fn a_cluster_name_that_eks_refuses_is_told_and_a_template_may_have_it() {
        let mut seen = references();
        seen.cluster.name = "demo.example".to_owned();
        let refusal = validate(&captcluster(&json!({"region": "eu-central-1"})), &seen).unwrap_err();
        assert!(refusal.message.contains("set eksClusterName"), "{}", refusal.message);
        let with_template = json!({"region": "eu-central-1", "vpcTemplateRef": {"name": "t"}});
        assert_eq!(validate(&captcluster(&with_template), &seen).unwrap().eks_name, None);
    }
}
