//! What several objects must agree on: references that lead somewhere, one region, ranges that do not overlap, one name.

use std::collections::BTreeMap;

use crate::{
    api::{CaptCluster, CaptControlPlane, WorkspaceTemplate, WorkspaceTemplateApply},
    model::{
        ObjectKey, Parse as _, Problem,
        apply::{ValidatedApply, Work},
        control_plane::ValidatedControlPlane,
        network::{NetworkSource, ValidatedNetwork},
        template::ValidatedTemplate,
        text::{ClusterName, ObjectName, Region},
    },
};

use super::{
    error::{FieldError, Origin},
    load::Manifests,
    pair::Pair,
    validate::{Checked, Unit},
};

/// Objects that were each found valid.
pub(super) struct Found {
    pub(super) networks: BTreeMap<ObjectKey, Checked<CaptCluster, ValidatedNetwork>>,
    pub(super) control_planes: BTreeMap<ObjectKey, Checked<CaptControlPlane, ValidatedControlPlane>>,
    pub(super) applies: BTreeMap<ObjectKey, Checked<WorkspaceTemplateApply, ValidatedApply>>,
    pub(super) templates: BTreeMap<ObjectKey, Checked<WorkspaceTemplate, ValidatedTemplate>>,
}

/// Notes problems of one object.
struct Reporter<'a> {
    origin: &'a Origin,
    object: String,
    errors: &'a mut Vec<FieldError>,
}

impl Reporter<'_> {
    fn add(&mut self, path: &str, message: String, remedy: &str) {
        let problem = Problem { path: path.to_owned(), message, remedy: remedy.to_owned() };
        self.errors.push(FieldError::new(self.origin, &self.object, problem));
    }

    fn template(&mut self, path: &str, template: &ObjectKey, manifests: &Manifests) {
        if !manifests.templates.contains_key(template) {
            self.add(path, format!("WorkspaceTemplate {template} is in none of the files"), "add its file");
        }
    }

    fn identity(&mut self, path: &str, identity: Option<&ObjectName>, manifests: &Manifests) {
        if let Some(name) = identity.filter(|name| !manifests.identities.contains_key(*name)) {
            self.add(path, format!("CAPTIdentity {name} is in none of the files"), "add its file");
        }
    }
}

/// Every reference leads to an object of the files.
pub(super) fn check_references(found: &Found, manifests: &Manifests, errors: &mut Vec<FieldError>) {
    for (key, Checked { valid, origin, .. }) in &found.networks {
        let mut report = Reporter { origin, object: format!("CAPTCluster {key}"), errors };
        if let NetworkSource::Template(template) = &valid.source {
            report.template("spec.vpcTemplateRef", template, manifests);
        }
        report.identity("spec.identityRef", valid.identity.as_ref(), manifests);
    }
    for (key, Checked { valid, origin, .. }) in &found.control_planes {
        let mut report = Reporter { origin, object: format!("CAPTControlPlane {key}"), errors };
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
    for (key, Checked { valid, origin, .. }) in &found.applies {
        let mut report = Reporter { origin, object: format!("WorkspaceTemplateApply {key}"), errors };
        if let Work::Template { template, .. } = &valid.work {
            report.template("spec.templateRef", template, manifests);
        }
        report.identity("spec.identityRef", valid.identity.as_ref(), manifests);
    }
}

/// The clusters. A part that is not valid by itself was reported already and is not looked at again.
pub(super) fn units(
    found: &Found,
    pairs: BTreeMap<ObjectKey, Pair>,
    manifests: &Manifests,
    errors: &mut Vec<FieldError>,
) -> Vec<Unit> {
    let mut units: Vec<Unit> = Vec::with_capacity(pairs.len());
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
        let object =
            network.map_or_else(|| object_name(control_plane), |it| format!("CAPTCluster {}", it.key));
        let mut report = Reporter { origin, object, errors };
        let eks_name = eks_name(&key, control_plane, manifests, &mut report);
        let region = region(network, control_plane, report.errors);
        check_ranges(network, control_plane, report.errors);
        if let (Some(eks_name), Some(region)) = (eks_name, region) {
            let (network, control_plane) = (network.cloned(), control_plane.cloned());
            let unit = Unit { key, eks_name, region, paused: pair.paused, network, control_plane };
            check_unique(&units, &unit, report.errors);
            units.push(unit);
        }
    }
    units
}

fn object_name(control_plane: Option<&Checked<CaptControlPlane, ValidatedControlPlane>>) -> String {
    control_plane.map_or_else(String::new, |it| format!("CAPTControlPlane {}", it.key))
}

fn eks_name(
    key: &ObjectKey,
    control_plane: Option<&Checked<CaptControlPlane, ValidatedControlPlane>>,
    manifests: &Manifests,
    report: &mut Reporter<'_>,
) -> Option<ClusterName> {
    if let Some(name) = control_plane.and_then(|it| it.valid.eks_name.clone()) {
        return Some(name);
    }
    match ClusterName::parse(key.name.as_str()) {
        Ok(name) => Some(name),
        Err(malformed) => {
            let of =
                if manifests.clusters.contains_key(key) { "the Cluster's name" } else { "metadata.name" };
            report.add(
                "metadata.name",
                format!("{malformed}, and {of} is what EKS gets"),
                "set eksClusterName",
            );
            None
        }
    }
}

fn region(
    network: Option<&Checked<CaptCluster, ValidatedNetwork>>,
    control_plane: Option<&Checked<CaptControlPlane, ValidatedControlPlane>>,
    errors: &mut Vec<FieldError>,
) -> Option<Region> {
    let here = network.map(|it| it.valid.region.clone());
    let Some(control_plane) = control_plane else { return here };
    let mut report =
        Reporter { origin: &control_plane.origin, object: object_name(Some(control_plane)), errors };
    let path = "spec.controlPlaneConfig.region";
    match (here, &control_plane.valid.region) {
        (Some(here), Some(there)) if here != *there => {
            report.add(
                path,
                format!("is {there}, and the CAPTCluster is in {here}"),
                "make them equal, or remove it",
            );
            None
        }
        (None, there) => {
            if control_plane.valid.template.is_none() {
                let message = "no CAPTCluster belongs to this control plane".to_owned();
                report.add("metadata", message, "add one of the same name or cluster-name label");
            }
            if there.is_none() {
                report.add(path, "is missing, and no CAPTCluster says the region".to_owned(), "add it");
            }
            there.clone()
        }
        (Some(here), _) => Some(here),
    }
}

fn check_ranges(
    network: Option<&Checked<CaptCluster, ValidatedNetwork>>,
    control_plane: Option<&Checked<CaptControlPlane, ValidatedControlPlane>>,
    errors: &mut Vec<FieldError>,
) {
    let (Some(network), Some(control_plane)) = (network, control_plane) else { return };
    let NetworkSource::BuiltIn(vpc) = &network.valid.source else { return };
    if let Some(services) = control_plane.valid.service_cidr.filter(|it| it.overlaps(&vpc.cidr)) {
        let mut report =
            Reporter { origin: &control_plane.origin, object: object_name(Some(control_plane)), errors };
        let message = format!("{services} overlaps the VPC's {}", vpc.cidr);
        report.add("spec.controlPlaneConfig.serviceIpv4Cidr", message, "choose another range");
    }
}

/// EKS knows a cluster by name and region alone.
fn check_unique(units: &[Unit], unit: &Unit, errors: &mut Vec<FieldError>) {
    let Some(control_plane) = &unit.control_plane else { return };
    let same = |other: &&Unit| {
        other.control_plane.is_some() && other.eks_name == unit.eks_name && other.region == unit.region
    };
    if let Some(other) = units.iter().find(same) {
        let mut report =
            Reporter { origin: &control_plane.origin, object: object_name(Some(control_plane)), errors };
        let message =
            format!("{} is also the EKS name of cluster {} in {}", unit.eks_name, other.key, unit.region);
        report.add("spec.eksClusterName", message, "give each its own name");
    }
}
