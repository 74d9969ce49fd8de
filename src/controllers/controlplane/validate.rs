//! What an EKS cluster shall be and where, or what is wrong with it. Pure.

use crate::{
    api::{CaptControlPlane, WorkspaceTemplateApply, conditions::reasons, names as words},
    model::{
        Limits, Parse as _, Problem,
        control_plane::{self, ValidatedControlPlane},
        network::{self, NetworkSource},
        text::{ClusterName, Namespace, Region},
    },
};

use super::dereference::{Network, Seen};

/// An EKS cluster with nothing left to question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Validated {
    /// The EKS cluster.
    pub control_plane: ValidatedControlPlane,
    /// Name of the Cluster.
    pub cluster: String,
    /// Its name in EKS.
    pub eks_name: ClusterName,
    /// Where it is.
    pub region: Region,
    /// The identity that acts: its own, else the network's.
    pub identity: Option<String>,
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// In one word.
    pub reason: &'static str,
    /// Field by field.
    pub message: String,
}

impl Refusal {
    fn of(problems: &[Problem]) -> Self {
        let message = problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        Self { reason: reasons::INVALID_SPEC, message }
    }

    fn one(path: &str, message: String, remedy: &str) -> Self {
        Self::of(&[Problem { path: path.to_owned(), message, remedy: remedy.to_owned() }])
    }
}

/// Looks at a control plane and at what belongs to the same Cluster.
pub(crate) fn validate(
    object: &CaptControlPlane,
    seen: &Seen,
    limits: &Limits,
) -> Result<Validated, Refusal> {
    let home = object.metadata.namespace.as_deref().unwrap_or_default();
    let home = Namespace::parse(home).map_err(|malformed| {
        Refusal::one("metadata.namespace", malformed.to_string(), "use another namespace")
    })?;
    let control_plane =
        control_plane::validate(&object.spec, &home, limits).map_err(|problems| Refusal::of(&problems))?;
    let eks_name = eks_name(&control_plane, seen)?;
    let region = region(&control_plane, seen)?;
    check_ranges(&control_plane, seen.network.as_ref(), &home)?;
    let identity = control_plane.identity.as_ref().map(ToString::to_string);
    let identity = identity.or_else(|| seen.network.as_ref().and_then(Network::identity));
    Ok(Validated { control_plane, cluster: seen.cluster.name.clone(), eks_name, region, identity })
}

/// The spec's name, the one that its workspace has already, or the Cluster's.
fn eks_name(control_plane: &ValidatedControlPlane, seen: &Seen) -> Result<ClusterName, Refusal> {
    let recorded = seen.eks.as_ref().and_then(recorded_name);
    let path = "spec.eksClusterName";
    match (&control_plane.eks_name, recorded) {
        (Some(wanted), Some(recorded)) if wanted.as_str() != recorded => Err(Refusal::one(
            path,
            format!("is {wanted}, and the cluster was made as {recorded}"),
            "write the old name, or make a new object",
        )),
        (Some(wanted), _) => Ok(wanted.clone()),
        (None, recorded) => {
            let name = recorded.unwrap_or(&seen.cluster.name);
            ClusterName::parse(name).map_err(|malformed| {
                let message = format!("{malformed}, and the Cluster's name is what EKS gets");
                Refusal::one("metadata.name", message, "set eksClusterName")
            })
        }
    }
}

/// The name that a workspace was given for its EKS cluster.
pub(crate) fn recorded_name(apply: &WorkspaceTemplateApply) -> Option<&str> {
    let annotations = apply.metadata.annotations.as_ref();
    let annotation = annotations.and_then(|all| all.get(words::EKS_CLUSTER_ANNOTATION)).map(String::as_str);
    let input = || apply.spec.inputs.as_ref()?.get("cluster_name")?.as_str();
    let variable = || apply.spec.variables.get("cluster_name").map(String::as_str);
    annotation.or_else(input).or_else(variable)
}

fn region(control_plane: &ValidatedControlPlane, seen: &Seen) -> Result<Region, Refusal> {
    let path = "spec.controlPlaneConfig.region";
    let network = seen.network.as_ref().map(|network| network.object.spec.region.as_str());
    let region = match (&control_plane.region, network) {
        (Some(here), Some(there)) if here.as_str() != there => {
            let message = format!("is {here}, and the CAPTCluster is in {there}");
            return Err(Refusal::one(path, message, "make them equal, or remove it"));
        }
        (Some(here), _) => here.clone(),
        (None, Some(there)) => parse_region(there, "spec.region of the CAPTCluster")?,
        (None, None) => match &seen.cluster.region {
            Some(noted) => {
                parse_region(noted, &format!("annotation {} of the Cluster", words::REGION_ANNOTATION))?
            }
            None => {
                let message = "is missing, and no CAPTCluster says the region".to_owned();
                return Err(Refusal::one(path, message, "add it"));
            }
        },
    };
    let made_in = seen.eks.as_ref().and_then(|apply| apply.spec.region.as_deref());
    match made_in.filter(|it| *it != region.as_str()) {
        Some(before) => {
            let message = format!("is {region}, and the cluster was made in {before}");
            Err(Refusal::one(path, message, "write the old region, or make a new object"))
        }
        None => Ok(region),
    }
}

fn parse_region(text: &str, place: &str) -> Result<Region, Refusal> {
    Region::parse(text).map_err(|malformed| Refusal::one(place, malformed.to_string(), malformed.remedy))
}

/// The range of Services must not meet the VPC's.
fn check_ranges(
    control_plane: &ValidatedControlPlane,
    network: Option<&Network>,
    home: &Namespace,
) -> Result<(), Refusal> {
    let valid = network.and_then(|network| network::validate(&network.object.spec, home).ok());
    let Some(NetworkSource::BuiltIn(vpc)) = valid.map(|network| network.source) else { return Ok(()) };
    match control_plane.service_cidr.filter(|it| it.overlaps(&vpc.cidr)) {
        Some(services) => Err(Refusal::one(
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
    use crate::controllers::controlplane::fixtures::{control_plane, network, seen, workspace};

    fn verdict(spec: &Value, seen: &Seen) -> Result<Validated, Refusal> {
        validate(&control_plane(spec), seen, &Limits::default())
    }

    #[test]
    fn the_eks_name_is_the_specs_or_the_clusters() {
        let plain = verdict(&json!({"version": "1.33"}), &seen()).unwrap();
        assert_eq!(plain.eks_name.as_str(), "demo");
        let named = verdict(&json!({"version": "1.33", "eksClusterName": "prod"}), &seen()).unwrap();
        assert_eq!((named.eks_name.as_str(), named.cluster.as_str()), ("prod", "demo"));
    }

    #[test]
    fn a_cluster_keeps_the_name_that_it_was_made_with() {
        let mut seen = seen();
        seen.eks = Some(workspace(
            "cp-eks-controlplane-apply",
            &json!({"variables": {"cluster_name": "old"}}),
            &json!({}),
        ));
        assert_eq!(verdict(&json!({"version": "1.33"}), &seen).unwrap().eks_name.as_str(), "old");
        let refusal = verdict(&json!({"version": "1.33", "eksClusterName": "new"}), &seen).unwrap_err();
        assert!(refusal.message.contains("was made as old"), "{}", refusal.message);
    }

    #[test]
    fn the_region_is_the_specs_the_networks_or_the_clusters() {
        let spec = |region: Option<&str>| match region {
            Some(region) => json!({"version": "1.33", "controlPlaneConfig": {"region": region}}),
            None => json!({"version": "1.33"}),
        };
        let mut alone = seen();
        alone.network = None;
        let mut noted = alone.clone();
        noted.cluster.region = Some("us-gov-west-1".to_owned());
        let region = |spec: &Value, seen: &Seen| verdict(spec, seen).map(|valid| valid.region.to_string());
        assert_eq!(region(&spec(None), &seen()).unwrap(), "eu-central-1");
        assert_eq!(region(&spec(Some("eu-central-1")), &seen()).unwrap(), "eu-central-1");
        assert_eq!(region(&spec(Some("us-east-1")), &alone).unwrap(), "us-east-1");
        assert_eq!(region(&spec(None), &noted).unwrap(), "us-gov-west-1");
        for (spec, seen, word) in [
            (spec(Some("us-east-1")), seen(), "the CAPTCluster is in eu-central-1"),
            (spec(None), alone, "is missing"),
        ] {
            let refusal = verdict(&spec, &seen).unwrap_err();
            assert!(refusal.message.contains(word), "{}", refusal.message);
            assert_eq!(refusal.reason, reasons::INVALID_SPEC);
        }
    }

    #[test]
    fn a_cluster_stays_in_its_region() {
        let mut seen = seen();
        seen.eks = Some(workspace("cp-eks-controlplane-apply", &json!({"region": "us-east-1"}), &json!({})));
        let refusal = verdict(&json!({"version": "1.33"}), &seen).unwrap_err();
        assert!(refusal.message.contains("was made in us-east-1"), "{}", refusal.message);
    }

    #[test]
    fn every_problem_of_the_spec_is_told_with_its_field() {
        let spec = json!({"version": "latest", "additionalFargateProfiles": [
            {"name": "apps", "selectors": []}, {"name": "apps", "selectors": [{"namespace": "x"}]}]});
        let message = verdict(&spec, &seen()).unwrap_err().message;
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
        assert!(verdict(&spec, &seen()).unwrap_err().message.contains("overlaps"));
        let mut elsewhere = seen();
        elsewhere.network =
            Some(network(&json!({"region": "eu-central-1", "vpcConfig": {"cidr": "10.1.0.0/16"}})));
        assert!(verdict(&spec, &elsewhere).is_ok());
    }

    #[test]
    fn the_identity_is_its_own_or_the_networks() {
        let mut seen = seen();
        seen.network = Some(network(&json!({"region": "eu-central-1", "identityRef": {"name": "net"}})));
        assert_eq!(verdict(&json!({"version": "1.33"}), &seen).unwrap().identity.as_deref(), Some("net"));
        let own = json!({"version": "1.33", "identityRef": {"name": "own"}});
        assert_eq!(verdict(&own, &seen).unwrap().identity.as_deref(), Some("own"));
    }
}
