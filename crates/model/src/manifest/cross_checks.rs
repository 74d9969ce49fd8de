//! Cross-object checks: references, regions, CIDR overlaps, EKS names.

use std::collections::BTreeMap;

use capt_kinds::api::{CaptCluster, CaptControlPlane, WorkspaceTemplate, WorkspaceTemplateApply};

use crate::model::{
    ObjectKey, Parse as _, Problem,
    control_plane::ValidatedControlPlane,
    network::{NetworkSource, ValidatedNetwork},
    newtypes::{ClusterName, ObjectName, Region},
    template::ValidatedTemplate,
    workspace_apply::{TerraformSource, ValidatedApply},
};

use super::{
    cluster_pairs::ClusterPair,
    error::{FieldError, Origin},
    load::Manifests,
    validate::{ValidatedCluster, ValidatedObject},
};

/// Objects that are individually valid.
pub(super) struct ValidatedObjects {
    pub(super) networks: BTreeMap<ObjectKey, ValidatedObject<CaptCluster, ValidatedNetwork>>,
    pub(super) control_planes: BTreeMap<ObjectKey, ValidatedObject<CaptControlPlane, ValidatedControlPlane>>,
    pub(super) applies: BTreeMap<ObjectKey, ValidatedObject<WorkspaceTemplateApply, ValidatedApply>>,
    pub(super) templates: BTreeMap<ObjectKey, ValidatedObject<WorkspaceTemplate, ValidatedTemplate>>,
}

/// Collects problems of one object.
struct ProblemReporter<'a> {
    origin: &'a Origin,
    object: String,
    errors: &'a mut Vec<FieldError>,
}

impl ProblemReporter<'_> {
    fn add(&mut self, path: &str, message: String, remedy: &str) {
        let problem = Problem { path: path.to_owned(), message, remedy: remedy.to_owned() };
        self.errors.push(FieldError::new(self.origin, &self.object, problem));
    }

    fn template(&mut self, path: &str, template: &ObjectKey, manifests: &Manifests) {
        if !manifests.templates.contains_key(template) {
            self.add(path, format!("WorkspaceTemplate {template} is not in the manifests"), "add it");
        }
    }

    fn identity(&mut self, path: &str, identity: Option<&ObjectName>, manifests: &Manifests) {
        if let Some(name) = identity.filter(|name| !manifests.identities.contains_key(*name)) {
            self.add(path, format!("CAPTIdentity {name} is not in the manifests"), "add it");
        }
    }
}

/// Checks that every reference resolves to an object of the manifests.
pub(super) fn check_references(
    found: &ValidatedObjects,
    manifests: &Manifests,
    errors: &mut Vec<FieldError>,
) {
    for (key, ValidatedObject { valid, origin, .. }) in &found.networks {
        let mut report = ProblemReporter { origin, object: format!("CAPTCluster {key}"), errors };
        if let NetworkSource::Template(template) = &valid.source {
            report.template("spec.vpcTemplateRef", template, manifests);
        }
        report.identity("spec.identityRef", valid.identity.as_ref(), manifests);
    }
    for (key, ValidatedObject { valid, origin, .. }) in &found.control_planes {
        let mut report = ProblemReporter { origin, object: format!("CAPTControlPlane {key}"), errors };
        if let Some(template) = &valid.template {
            report.template("spec.workspaceTemplateRef", template, manifests);
        }
        for (index, profile) in valid.profiles.iter().enumerate() {
            if let Some(template) = &profile.template {
                let path = format!("spec.additionalFargateProfiles[{index}].workspaceTemplateRef");
                report.template(&path, template, manifests);
            }
        }
        report.identity("spec.identityRef", valid.identity.as_ref(), manifests);
    }
    for (key, ValidatedObject { valid, origin, .. }) in &found.applies {
        let mut report = ProblemReporter { origin, object: format!("WorkspaceTemplateApply {key}"), errors };
        if let TerraformSource::Template { template, .. } = &valid.source {
            report.template("spec.templateRef", template, manifests);
        }
        report.identity("spec.identityRef", valid.identity.as_ref(), manifests);
    }
}

/// Builds the clusters. Clusters with an invalid part are skipped; that part is reported already.
pub(super) fn validate_clusters(
    found: &ValidatedObjects,
    pairs: BTreeMap<ObjectKey, ClusterPair>,
    manifests: &Manifests,
    errors: &mut Vec<FieldError>,
) -> Vec<ValidatedCluster> {
    let mut units: Vec<ValidatedCluster> = Vec::with_capacity(pairs.len());
    for (key, pair) in pairs {
        let broken = pair.network.as_ref().is_some_and(|it| !found.networks.contains_key(it))
            || pair.control_plane.as_ref().is_some_and(|it| !found.control_planes.contains_key(it));
        if broken {
            continue;
        }
        let network = pair.network.as_ref().and_then(|it| found.networks.get(it));
        let control_plane = pair.control_plane.as_ref().and_then(|it| found.control_planes.get(it));
        let Some(origin) = network.map(|it| &it.origin).or_else(|| control_plane.map(|it| &it.origin)) else {
            continue;
        };
        let object = network
            .map_or_else(|| describe_control_plane(control_plane), |it| format!("CAPTCluster {}", it.key));
        let mut report = ProblemReporter { origin, object, errors };
        let eks_name = resolve_eks_name(&key, control_plane, manifests, &mut report);
        let region = resolve_region(network, control_plane, report.errors);
        check_cidr_overlap(network, control_plane, report.errors);
        if let (Some(eks_name), Some(region)) = (eks_name, region) {
            let (network, control_plane) = (network.cloned(), control_plane.cloned());
            let unit =
                ValidatedCluster { key, eks_name, region, paused: pair.paused, network, control_plane };
            check_unique_eks_name(&units, &unit, report.errors);
            units.push(unit);
        }
    }
    units
}

fn describe_control_plane(
    control_plane: Option<&ValidatedObject<CaptControlPlane, ValidatedControlPlane>>,
) -> String {
    control_plane.map_or_else(String::new, |it| format!("CAPTControlPlane {}", it.key))
}

fn resolve_eks_name(
    key: &ObjectKey,
    control_plane: Option<&ValidatedObject<CaptControlPlane, ValidatedControlPlane>>,
    manifests: &Manifests,
    report: &mut ProblemReporter<'_>,
) -> Option<ClusterName> {
    if let Some(name) = control_plane.and_then(|it| it.valid.eks_name.clone()) {
        return Some(name);
    }
    match ClusterName::parse(key.name.as_str()) {
        Ok(name) => Some(name),
        Err(malformed) => {
            let of = if manifests.clusters.contains_key(key) {
                "the name of the Cluster"
            } else {
                "metadata.name"
            };
            report.add(
                "metadata.name",
                format!("{malformed}, but {of} is used as the EKS cluster name"),
                "set eksClusterName",
            );
            None
        }
    }
}

fn resolve_region(
    network: Option<&ValidatedObject<CaptCluster, ValidatedNetwork>>,
    control_plane: Option<&ValidatedObject<CaptControlPlane, ValidatedControlPlane>>,
    errors: &mut Vec<FieldError>,
) -> Option<Region> {
    let here = network.map(|it| it.valid.region.clone());
    let Some(control_plane) = control_plane else { return here };
    let mut report = ProblemReporter {
        origin: &control_plane.origin,
        object: describe_control_plane(Some(control_plane)),
        errors,
    };
    let path = "spec.controlPlaneConfig.region";
    match (here, &control_plane.valid.region) {
        (Some(here), Some(there)) if here != *there => {
            report.add(
                path,
                format!("is {there}, but the CAPTCluster is in {here}"),
                "use the same region, or remove the field",
            );
            None
        }
        (None, there) => {
            if control_plane.valid.template.is_none() {
                let message = "this control plane has no CAPTCluster".to_owned();
                report.add("metadata", message, "add one with the same name or cluster-name label");
            }
            if there.is_none() {
                report.add(path, "is missing, and no CAPTCluster sets the region".to_owned(), "add it");
            }
            there.clone()
        }
        (Some(here), _) => Some(here),
    }
}

fn check_cidr_overlap(
    network: Option<&ValidatedObject<CaptCluster, ValidatedNetwork>>,
    control_plane: Option<&ValidatedObject<CaptControlPlane, ValidatedControlPlane>>,
    errors: &mut Vec<FieldError>,
) {
    let (Some(network), Some(control_plane)) = (network, control_plane) else { return };
    let NetworkSource::BuiltIn(vpc) = &network.valid.source else { return };
    if let Some(services) = control_plane.valid.service_cidr.filter(|it| it.overlaps(&vpc.cidr)) {
        let mut report = ProblemReporter {
            origin: &control_plane.origin,
            object: describe_control_plane(Some(control_plane)),
            errors,
        };
        let message = format!("{services} overlaps the VPC's {}", vpc.cidr);
        report.add("spec.controlPlaneConfig.serviceIpv4Cidr", message, "choose another range");
    }
}

/// EKS identifies a cluster by name and region.
fn check_unique_eks_name(units: &[ValidatedCluster], unit: &ValidatedCluster, errors: &mut Vec<FieldError>) {
    let Some(control_plane) = &unit.control_plane else { return };
    let same = |other: &&ValidatedCluster| {
        other.control_plane.is_some() && other.eks_name == unit.eks_name && other.region == unit.region
    };
    if let Some(other) = units.iter().find(same) {
        let mut report = ProblemReporter {
            origin: &control_plane.origin,
            object: describe_control_plane(Some(control_plane)),
            errors,
        };
        let message =
            format!("{} is also the EKS name of cluster {} in {}", unit.eks_name, other.key, unit.region);
        report.add("spec.eksClusterName", message, "use unique names");
    }
}
