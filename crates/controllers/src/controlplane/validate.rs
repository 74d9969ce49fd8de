//! Validates a control plane together with its Cluster and network. Pure.

use capt_kinds::api::{CaptControlPlane, WorkspaceTemplateApply, conditions::reasons, names as words};
use capt_model::model::{
    Limits, Parse as _, Problem,
    control_plane::{self, ValidatedControlPlane},
    network::{self, NetworkSource},
    newtypes::{ClusterName, Namespace, Region},
};

use super::dereference::{ClusterNetwork, ControlPlaneReferences};

/// A validated EKS cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ValidatedEksCluster {
    /// The EKS cluster.
    pub control_plane: ValidatedControlPlane,
    /// Name of the Cluster.
    pub cluster_name: String,
    /// Its name in EKS.
    pub eks_name: ClusterName,
    /// Its AWS region.
    pub region: Region,
    /// Name of the identity: its own, else the network's.
    pub identity: Option<String>,
}

/// Why a control plane is rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InvalidControlPlane {
    /// Condition reason.
    pub reason: &'static str,
    /// Condition message: all problems with their field paths.
    pub message: String,
}

impl InvalidControlPlane {
    fn from_problems(problems: &[Problem]) -> Self {
        let message = problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        Self { reason: reasons::INVALID_SPEC, message }
    }

    fn from_problem(path: &str, message: String, remedy: &str) -> Self {
        Self::from_problems(&[Problem { path: path.to_owned(), message, remedy: remedy.to_owned() }])
    }
}

/// Validates the spec against limits, Cluster, network and existing workspace.
pub(crate) fn validate(
    object: &CaptControlPlane,
    references: &ControlPlaneReferences,
    limits: &Limits,
) -> Result<ValidatedEksCluster, InvalidControlPlane> {
    let home = object.metadata.namespace.as_deref().unwrap_or_default();
    let home = Namespace::parse(home).map_err(|malformed| {
        InvalidControlPlane::from_problem(
            "metadata.namespace",
            malformed.to_string(),
            "use another namespace",
        )
    })?;
    let control_plane = control_plane::validate(&object.spec, &home, limits)
        .map_err(|problems| InvalidControlPlane::from_problems(&problems))?;
    let eks_name = resolve_eks_name(&control_plane, references)?;
    let region = resolve_region(&control_plane, references)?;
    validate_service_cidr(&control_plane, references.network.as_ref(), &home)?;
    let identity = control_plane.identity.as_ref().map(ToString::to_string);
    let identity = identity.or_else(|| references.network.as_ref().and_then(ClusterNetwork::identity_name));
    Ok(ValidatedEksCluster {
        control_plane,
        cluster_name: references.cluster.name.clone(),
        eks_name,
        region,
        identity,
    })
}

/// The name of the spec, else the recorded name of the workspace, else the name of the Cluster.
fn resolve_eks_name(
    control_plane: &ValidatedControlPlane,
    references: &ControlPlaneReferences,
) -> Result<ClusterName, InvalidControlPlane> {
    let recorded = references.eks_workspace.as_ref().and_then(recorded_eks_name);
    let path = "spec.eksClusterName";
    match (&control_plane.eks_name, recorded) {
        (Some(wanted), Some(recorded)) if wanted.as_str() != recorded => {
            Err(InvalidControlPlane::from_problem(
                path,
                format!("is {wanted}, but the cluster was created as {recorded}"),
                "restore the old name or create a new object",
            ))
        }
        (Some(wanted), _) => Ok(wanted.clone()),
        (None, recorded) => {
            let name = recorded.unwrap_or(&references.cluster.name);
            ClusterName::parse(name).map_err(|malformed| {
                let message = format!("{malformed}; the name of the Cluster is used as EKS cluster name");
                InvalidControlPlane::from_problem("metadata.name", message, "set eksClusterName")
            })
        }
    }
}

/// The EKS cluster name recorded in a workspace.
pub(crate) fn recorded_eks_name(apply: &WorkspaceTemplateApply) -> Option<&str> {
    let annotations = apply.metadata.annotations.as_ref();
    let annotation = annotations.and_then(|all| all.get(words::EKS_CLUSTER_ANNOTATION)).map(String::as_str);
    let input = || apply.spec.inputs.as_ref()?.get("cluster_name")?.as_str();
    let variable = || apply.spec.variables.get("cluster_name").map(String::as_str);
    annotation.or_else(input).or_else(variable)
}

fn resolve_region(
    control_plane: &ValidatedControlPlane,
    references: &ControlPlaneReferences,
) -> Result<Region, InvalidControlPlane> {
    let path = "spec.controlPlaneConfig.region";
    let network = references.network.as_ref().map(|network| network.object.spec.region.as_str());
    let region = match (&control_plane.region, network) {
        (Some(here), Some(there)) if here.as_str() != there => {
            let message = format!("is {here}, but the CAPTCluster is in {there}");
            return Err(InvalidControlPlane::from_problem(path, message, "make them equal, or remove it"));
        }
        (Some(here), _) => here.clone(),
        (None, Some(there)) => parse_region(there, "spec.region of the CAPTCluster")?,
        (None, None) => match &references.cluster.region {
            Some(noted) => {
                parse_region(noted, &format!("annotation {} of the Cluster", words::REGION_ANNOTATION))?
            }
            None => {
                let message = "is missing, and no CAPTCluster sets the region".to_owned();
                return Err(InvalidControlPlane::from_problem(path, message, "add it"));
            }
        },
    };
    let made_in = references.eks_workspace.as_ref().and_then(|apply| apply.spec.region.as_deref());
    match made_in.filter(|it| *it != region.as_str()) {
        Some(before) => {
            let message = format!("is {region}, but the cluster was created in {before}");
            Err(InvalidControlPlane::from_problem(
                path,
                message,
                "restore the old region or create a new object",
            ))
        }
        None => Ok(region),
    }
}

fn parse_region(text: &str, place: &str) -> Result<Region, InvalidControlPlane> {
    Region::parse(text).map_err(|malformed| {
        InvalidControlPlane::from_problem(place, malformed.to_string(), malformed.remedy)
    })
}

/// The Service CIDR must not overlap the VPC CIDR.
fn validate_service_cidr(
    control_plane: &ValidatedControlPlane,
    network: Option<&ClusterNetwork>,
    home: &Namespace,
) -> Result<(), InvalidControlPlane> {
    let valid = network.and_then(|network| network::validate(&network.object.spec, home).ok());
    let Some(NetworkSource::BuiltIn(vpc)) = valid.map(|network| network.source) else { return Ok(()) };
    match control_plane.service_cidr.filter(|it| it.overlaps(&vpc.cidr)) {
        Some(services) => Err(InvalidControlPlane::from_problem(
            "spec.controlPlaneConfig.serviceIpv4Cidr",
            format!("{services} overlaps the VPC's {}", vpc.cidr),
            "choose another range",
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::controlplane::fixtures::{control_plane, network, references, workspace};

    fn verdict(
        spec: &Value,
        references: &ControlPlaneReferences,
    ) -> Result<ValidatedEksCluster, InvalidControlPlane> {
        validate(&control_plane(spec), references, &Limits::default())
    }

    #[test]
    fn the_eks_name_is_the_specs_or_the_clusters() {
        let plain = verdict(&json!({"version": "1.33"}), &references()).unwrap();
        assert_eq!(plain.eks_name.as_str(), "demo");
        let named = verdict(&json!({"version": "1.33", "eksClusterName": "prod"}), &references()).unwrap();
        assert_eq!((named.eks_name.as_str(), named.cluster_name.as_str()), ("prod", "demo"));
    }

    #[test]
    fn a_cluster_keeps_the_name_that_it_was_made_with() {
        let mut references = references();
        references.eks_workspace = Some(workspace(
            "cp-eks-controlplane-apply",
            &json!({"variables": {"cluster_name": "old"}}),
            &json!({}),
        ));
        assert_eq!(verdict(&json!({"version": "1.33"}), &references).unwrap().eks_name.as_str(), "old");
        let refusal = verdict(&json!({"version": "1.33", "eksClusterName": "new"}), &references).unwrap_err();
        assert!(refusal.message.contains("was created as old"), "{}", refusal.message);
    }

    #[test]
    fn the_region_is_the_specs_the_networks_or_the_clusters() {
        let spec = |region: Option<&str>| match region {
            Some(region) => json!({"version": "1.33", "controlPlaneConfig": {"region": region}}),
            None => json!({"version": "1.33"}),
        };
        let mut alone = references();
        alone.network = None;
        let mut noted = alone.clone();
        noted.cluster.region = Some("us-gov-west-1".to_owned());
        let region = |spec: &Value, references: &ControlPlaneReferences| {
            verdict(spec, references).map(|valid| valid.region.to_string())
        };
        assert_eq!(region(&spec(None), &references()).unwrap(), "eu-central-1");
        assert_eq!(region(&spec(Some("eu-central-1")), &references()).unwrap(), "eu-central-1");
        assert_eq!(region(&spec(Some("us-east-1")), &alone).unwrap(), "us-east-1");
        assert_eq!(region(&spec(None), &noted).unwrap(), "us-gov-west-1");
        for (spec, references, word) in [
            (spec(Some("us-east-1")), references(), "the CAPTCluster is in eu-central-1"),
            (spec(None), alone, "is missing"),
        ] {
            let refusal = verdict(&spec, &references).unwrap_err();
            assert!(refusal.message.contains(word), "{}", refusal.message);
            assert_eq!(refusal.reason, reasons::INVALID_SPEC);
        }
    }

    #[test]
    fn a_cluster_stays_in_its_region() {
        let mut references = references();
        references.eks_workspace =
            Some(workspace("cp-eks-controlplane-apply", &json!({"region": "us-east-1"}), &json!({})));
        let refusal = verdict(&json!({"version": "1.33"}), &references).unwrap_err();
        assert!(refusal.message.contains("was created in us-east-1"), "{}", refusal.message);
    }

    #[test]
    fn every_problem_of_the_spec_is_told_with_its_field() {
        let spec = json!({"version": "latest", "additionalFargateProfiles": [
            {"name": "apps", "selectors": []}, {"name": "apps", "selectors": [{"namespace": "x"}]}]});
        let message = verdict(&spec, &references()).unwrap_err().message;
        for path in [
            "spec.version",
            "spec.additionalFargateProfiles[0].selectors",
            "spec.additionalFargateProfiles[1].name",
        ] {
            assert!(message.contains(path), "{message}");
        }
    }

    #[test]
    fn services_do_not_meet_the_vpc() {
        let spec = json!({"version": "1.33", "controlPlaneConfig": {"serviceIpv4Cidr": "10.0.0.0/16"}});
        assert!(verdict(&spec, &references()).unwrap_err().message.contains("overlaps"));
        let mut elsewhere = references();
        elsewhere.network =
            Some(network(&json!({"region": "eu-central-1", "vpcConfig": {"cidr": "10.1.0.0/16"}})));
        assert!(verdict(&spec, &elsewhere).is_ok());
    }

    #[test]
    fn the_identity_is_its_own_or_the_networks() {
        let mut references = references();
        references.network =
            Some(network(&json!({"region": "eu-central-1", "identityRef": {"name": "net"}})));
        assert_eq!(
            verdict(&json!({"version": "1.33"}), &references).unwrap().identity.as_deref(),
            Some("net")
        );
        let own = json!({"version": "1.33", "identityRef": {"name": "own"}});
        assert_eq!(verdict(&own, &references).unwrap().identity.as_deref(), Some("own"));
    }
}
