//! The workspaces of one cluster: VPC, EKS, and one per Fargate profile. Names are upstream's.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Blueprint, BlueprintError, Body, EKS_FROM_VPC, FARGATE_FROM_EKS, FARGATE_FROM_VPC, Handed, Key, Role,
    inputs,
    users::{is_orphaned, own_secret, template_body},
};
use crate::{
    api::{CaptCluster, CaptControlPlane},
    manifest::{Checked, Unit, ValidatedManifests},
    model::{
        ObjectKey, Parse,
        control_plane::ValidatedControlPlane,
        fargate::ValidatedProfile,
        names,
        network::{NetworkSource, ValidatedNetwork},
        text::{ClusterName, ObjectName, Region},
    },
    modules::Builtin,
};

type Network = Checked<CaptCluster, ValidatedNetwork>;
type ControlPlane = Checked<CaptControlPlane, ValidatedControlPlane>;

type Outcome = Result<Blueprint, Vec<BlueprintError>>;

pub(super) fn workspaces(
    unit: &Unit,
    manifests: &ValidatedManifests,
) -> Result<Vec<Blueprint>, Vec<BlueprintError>> {
    let vpc = unit.network.as_ref().map(|network| vpc(unit, network, manifests)).transpose()?;
    let Some(control_plane) = &unit.control_plane else { return Ok(vpc.into_iter().collect()) };
    let vpc_key = vpc.as_ref().map(|vpc| vpc.key.clone());
    let eks = eks(unit, control_plane, vpc_key.as_ref(), manifests)?;
    let mut all: Vec<Blueprint> = vpc.into_iter().collect();
    let mut errors = Vec::new();
    for profile in &control_plane.valid.profiles {
        match fargate(unit, control_plane, profile, (vpc_key.as_ref(), &eks.key), manifests) {
            Ok(blueprint) => all.push(blueprint),
            Err(more) => errors.extend(more),
        }
    }
    let place = usize::from(vpc_key.is_some());
    all.insert(place, eks);
    if errors.is_empty() { Ok(all) } else { Err(errors) }
}

fn vpc(unit: &Unit, network: &Network, manifests: &ValidatedManifests) -> Outcome {
    let key = key(&network.key, &names::vpc_apply(network.key.name.as_str()));
    let body = match (&network.valid.source, inputs::vpc(&network.valid, &unit.eks_name)) {
        (NetworkSource::Template(template), _) => {
            let name = network.valid.vpc_name.as_ref();
            let variables = [
                ("cluster_name", unit.key.name.to_string()),
                ("vpc_name", name.map_or_else(|| names::vpc(unit.key.name.as_str()), ToString::to_string)),
                ("environment", "production".to_owned()),
            ];
            template_body(&key, template, owned(variables), manifests)?
        }
        (_, inputs) => Body::Module { module: Builtin::Vpc, inputs: inputs.unwrap_or_default() },
    };
    Ok(Blueprint {
        role: Role::Vpc,
        owner: format!("CAPTCluster {}", network.key),
        eks_cluster: None,
        region: Some(unit.region.to_string()),
        connection_secret: secret(
            &network.key,
            &names::vpc_connection_secret(network.key.name.as_str()),
            &body,
        ),
        handed: Vec::new(),
        after: BTreeSet::new(),
        retained: network.valid.retain || is_orphaned(&body),
        key,
        body,
    })
}

fn eks(
    unit: &Unit,
    control_plane: &ControlPlane,
    vpc: Option<&Key>,
    manifests: &ValidatedManifests,
) -> Outcome {
    let name = control_plane.key.name.as_str();
    let key = key(&control_plane.key, &names::eks_apply(name));
    let (body, handed) = match &control_plane.valid.template {
        Some(template) => {
            let variables = eks_variables(&control_plane.valid, &unit.eks_name, &unit.region);
            (template_body(&key, template, variables, manifests)?, Vec::new())
        }
        None => {
            let inputs = inputs::eks(&control_plane.valid, &unit.eks_name);
            let take = |name| vpc.map(|vpc| Handed { from: vpc.clone(), name });
            (
                Body::Module { module: Builtin::Eks, inputs },
                EKS_FROM_VPC.into_iter().filter_map(take).collect(),
            )
        }
    };
    Ok(Blueprint {
        role: Role::Eks,
        owner: format!("CAPTControlPlane {}", control_plane.key),
        eks_cluster: Some(unit.eks_name.to_string()),
        region: Some(unit.region.to_string()),
        connection_secret: secret(&control_plane.key, &names::eks_connection_secret(name), &body),
        handed,
        after: vpc.cloned().into_iter().collect(),
        retained: is_orphaned(&body),
        key,
        body,
    })
}

/// What upstream's controller offers to the template of an EKS cluster.
pub fn eks_variables(
    control_plane: &ValidatedControlPlane,
    cluster: &ClusterName,
    region: &Region,
) -> BTreeMap<String, String> {
    let mut variables = owned([
        ("cluster_name", cluster.to_string()),
        ("kubernetes_version", control_plane.version.to_string()),
        ("region", region.to_string()),
        ("endpoint_public_access", control_plane.endpoint.public.to_string()),
        ("endpoint_private_access", control_plane.endpoint.private.to_string()),
    ]);
    variables.extend(control_plane.tags.iter().map(|(name, value)| (format!("tags_{name}"), value.clone())));
    variables
}

fn fargate(
    unit: &Unit,
    control_plane: &ControlPlane,
    profile: &ValidatedProfile,
    (vpc, eks): (Option<&Key>, &Key),
    manifests: &ValidatedManifests,
) -> Outcome {
    let key = key(
        &control_plane.key,
        &names::fargate_apply(control_plane.key.name.as_str(), profile.name.as_str()),
    );
    let (body, handed) = match &profile.template {
        Some(template) => (
            template_body(&key, template, fargate_variables(profile, &unit.eks_name), manifests)?,
            Vec::new(),
        ),
        None => {
            let subnets = vpc.filter(|_| profile.subnets.is_empty());
            let role = Some(eks).filter(|_| profile.pod_execution_role.is_none());
            let handed = subnets
                .map(|from| Handed { from: from.clone(), name: FARGATE_FROM_VPC })
                .into_iter()
                .chain(role.map(|from| Handed { from: from.clone(), name: FARGATE_FROM_EKS }))
                .collect();
            let inputs = inputs::fargate(profile, &unit.eks_name);
            (Body::Module { module: Builtin::Fargate, inputs }, handed)
        }
    };
    Ok(Blueprint {
        role: Role::Fargate { profile: profile.name.to_string() },
        owner: format!("CAPTControlPlane {}", control_plane.key),
        eks_cluster: Some(unit.eks_name.to_string()),
        region: Some(unit.region.to_string()),
        connection_secret: own_secret(&body),
        handed,
        after: vpc.cloned().into_iter().chain([eks.clone()]).collect(),
        retained: is_orphaned(&body),
        key,
        body,
    })
}

/// What is offered to the template of a Fargate profile.
pub fn fargate_variables(profile: &ValidatedProfile, cluster: &ClusterName) -> BTreeMap<String, String> {
    let inputs = inputs::fargate(profile, cluster);
    owned([
        ("cluster_name", cluster.to_string()),
        ("profile_name", profile.name.to_string()),
        ("selectors", inputs.get("selectors").map(ToString::to_string).unwrap_or_default()),
    ])
}

fn owned<const N: usize>(variables: [(&str, String); N]) -> BTreeMap<String, String> {
    variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Our own Secret for a built-in module; a template names its own.
fn secret(object: &ObjectKey, name: &str, body: &Body) -> Option<ObjectKey> {
    match body {
        Body::Module { .. } => {
            Some(ObjectKey { namespace: object.namespace.clone(), name: ObjectName::parse(name).ok()? })
        }
        Body::Template { .. } => own_secret(body),
    }
}

fn key(object: &ObjectKey, apply: &str) -> Key {
    Key::new(object.namespace.as_str(), names::workspace(apply))
}
