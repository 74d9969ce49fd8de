//! What the network of a cluster shall be, or what is wrong with it. Pure.

use crate::{
    api::{CaptCluster, CaptControlPlane, WorkspaceTemplateApply, conditions::reasons},
    model::{
        Parse as _, Problem,
        network::{self, NetworkSource, ValidatedNetwork},
        text::{ClusterName, Namespace},
    },
};

use super::dereference::Seen;

/// A network with nothing left to question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Validated {
    /// The network.
    pub network: ValidatedNetwork,
    /// Name of the Cluster.
    pub cluster: String,
    /// Name of the EKS cluster, which its subnets are tagged with.
    pub eks_name: Option<ClusterName>,
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    /// In one word.
    pub reason: &'static str,
    /// Field by field.
    pub message: String,
}

/// Looks at a `CAPTCluster` of this Cluster.
pub(super) fn validate(object: &CaptCluster, seen: &Seen) -> Result<Validated, Refusal> {
    let home = object.metadata.namespace.as_deref().unwrap_or_default();
    let home = Namespace::parse(home).map_err(|malformed| refuse(&[problem(malformed.to_string())]))?;
    let network = network::validate(&object.spec, &home).map_err(|problems| refuse(&problems))?;
    let cluster = seen.cluster.name.clone();
    let wanted =
        eks_name(seen.control_plane.as_ref(), seen.apply.as_ref()).unwrap_or_else(|| cluster.clone());
    let eks_name = match (ClusterName::parse(&wanted), &network.source) {
        (Ok(name), _) => Some(name),
        // A template gets the Cluster's name, whatever EKS thinks of it.
        (Err(_), NetworkSource::Template(_)) => None,
        (Err(malformed), _) => {
            let message = format!("{malformed}, and the Cluster's name is what EKS gets");
            let remedy = "set eksClusterName of the CAPTControlPlane".to_owned();
            return Err(refuse(&[Problem { path: "metadata.name".to_owned(), message, remedy }]));
        }
    };
    Ok(Validated { network, cluster, eks_name })
}

/// The control plane's word; while there is none, what was said before: a network must not be changed because its
/// control plane was deleted a moment before it.
fn eks_name(
    control_plane: Option<&CaptControlPlane>,
    apply: Option<&WorkspaceTemplateApply>,
) -> Option<String> {
    match control_plane {
        Some(control_plane) => control_plane.spec.eks_cluster_name.clone(),
        None => Some(apply?.spec.inputs.as_ref()?.get("cluster_name")?.as_str()?.to_owned()),
    }
}

fn problem(message: String) -> Problem {
    Problem { path: "metadata.namespace".to_owned(), message, remedy: "use another namespace".to_owned() }
}

fn refuse(problems: &[Problem]) -> Refusal {
    let about_vpc = |problem: &Problem| {
        ["spec.vpcConfig", "spec.existingVpcId", "spec.vpcTemplateRef"]
            .iter()
            .any(|it| problem.path.starts_with(it))
            || problem.path == "spec"
    };
    let reason =
        if problems.iter().any(about_vpc) { reasons::INVALID_VPC_CONFIG } else { reasons::INVALID_SPEC };
    let message = problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    Refusal { reason, message }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::api::CaptControlPlaneSpec;
    use crate::controllers::captcluster::fixtures::{captcluster, seen, workspace};

    fn verdict(spec: &Value) -> Result<Validated, Refusal> {
        validate(&captcluster(spec), &seen())
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
            let refusal = verdict(&spec).unwrap_err();
            assert_eq!(refusal.reason, reason, "{spec}");
            assert!(refusal.message.contains(path), "{}", refusal.message);
        }
    }

    #[test]
    fn the_eks_name_is_the_control_planes_or_the_clusters() {
        let spec = json!({"region": "eu-central-1"});
        assert_eq!(verdict(&spec).unwrap().eks_name.unwrap().as_str(), "demo");
        let mut seen = seen();
        let mut control_plane = CaptControlPlane::new("cp", CaptControlPlaneSpec::default());
        control_plane.spec.eks_cluster_name = Some("prod".to_owned());
        seen.control_plane = Some(control_plane);
        assert_eq!(validate(&captcluster(&spec), &seen).unwrap().eks_name.unwrap().as_str(), "prod");
    }

    #[test]
    fn a_control_plane_that_was_deleted_leaves_its_name() {
        let mut seen = seen();
        seen.apply = Some(workspace(&json!({"inputs": {"cluster_name": "prod"}}), &json!({})));
        let valid = validate(&captcluster(&json!({"region": "eu-central-1"})), &seen).unwrap();
        assert_eq!(valid.eks_name.unwrap().as_str(), "prod");
    }

    #[test]
    fn a_cluster_name_that_eks_refuses_is_told_and_a_template_may_have_it() {
        let mut seen = seen();
        seen.cluster.name = "demo.example".to_owned();
        let refusal = validate(&captcluster(&json!({"region": "eu-central-1"})), &seen).unwrap_err();
        assert!(refusal.message.contains("set eksClusterName"), "{}", refusal.message);
        let with_template = json!({"region": "eu-central-1", "vpcTemplateRef": {"name": "t"}});
        assert_eq!(validate(&captcluster(&with_template), &seen).unwrap().eks_name, None);
    }
}
