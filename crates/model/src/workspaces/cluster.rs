//! The workspaces of one cluster: VPC, EKS, and one per Fargate profile. Their names match upstream.

use std::collections::{BTreeMap, BTreeSet};

use capt_kinds::api::{CaptCluster, CaptControlPlane};

use super::{
    DesiredWorkspace, DesiredWorkspaceError, EKS_INPUTS_FROM_VPC, FARGATE_INPUT_FROM_EKS,
    FARGATE_INPUT_FROM_VPC, OutputRef, WorkspaceKey, WorkspaceRole, WorkspaceSource, module_inputs,
    user_templates::{has_orphan_policy, template_connection_secret, template_source},
};
use crate::{
    manifest::{ValidatedCluster, ValidatedManifests, ValidatedObject},
    model::{
        ObjectKey, Parse,
        control_plane::ValidatedControlPlane,
        fargate::ValidatedProfile,
        names,
        network::{NetworkSource, ValidatedNetwork},
        newtypes::{ClusterName, ObjectName, Region},
    },
    modules::EmbeddedModule,
};

type CheckedNetwork = ValidatedObject<CaptCluster, ValidatedNetwork>;
type CheckedControlPlane = ValidatedObject<CaptControlPlane, ValidatedControlPlane>;

type WorkspaceResult = Result<DesiredWorkspace, Vec<DesiredWorkspaceError>>;

pub(super) fn cluster_workspaces(
    unit: &ValidatedCluster,
    manifests: &ValidatedManifests,
) -> Result<Vec<DesiredWorkspace>, Vec<DesiredWorkspaceError>> {
    let vpc = unit.network.as_ref().map(|network| vpc_workspace(unit, network, manifests)).transpose()?;
    let Some(control_plane) = &unit.control_plane else { return Ok(vpc.into_iter().collect()) };
    let vpc_key = vpc.as_ref().map(|vpc| vpc.key.clone());
    let eks = eks_workspace(unit, control_plane, vpc_key.as_ref(), manifests)?;
    let mut all: Vec<DesiredWorkspace> = vpc.into_iter().collect();
    let mut errors = Vec::new();
    for profile in &control_plane.valid.profiles {
        match fargate_workspace(unit, control_plane, profile, (vpc_key.as_ref(), &eks.key), manifests) {
            Ok(blueprint) => all.push(blueprint),
            Err(more) => errors.extend(more),
        }
    }
    let place = usize::from(vpc_key.is_some());
    all.insert(place, eks);
    if errors.is_empty() { Ok(all) } else { Err(errors) }
}

fn vpc_workspace(
    unit: &ValidatedCluster,
    network: &CheckedNetwork,
    manifests: &ValidatedManifests,
) -> WorkspaceResult {
    let key = workspace_key(&network.key, &names::vpc_apply(network.key.name.as_str()));
    let body = match (&network.valid.source, module_inputs::vpc_inputs(&network.valid, &unit.eks_name)) {
        (NetworkSource::Template(template), _) => {
            let name = network.valid.vpc_name.as_ref();
            let variables = [
                ("cluster_name", unit.key.name.to_string()),
                (
                    "vpc_name",
                    name.map_or_else(|| names::vpc_name(unit.key.name.as_str()), ToString::to_string),
                ),
                ("environment", "production".to_owned()),
            ];
            template_source(&key, template, to_owned_map(variables), manifests)?
        }
        (_, inputs) => {
            WorkspaceSource::Module { module: EmbeddedModule::Vpc, inputs: inputs.unwrap_or_default() }
        }
    };
    Ok(DesiredWorkspace {
        role: WorkspaceRole::Vpc,
        owner: format!("CAPTCluster {}", network.key),
        eks_cluster: None,
        region: Some(unit.region.to_string()),
        connection_secret: connection_secret(
            &network.key,
            &names::vpc_connection_secret(network.key.name.as_str()),
            &body,
        ),
        output_refs: Vec::new(),
        depends_on: BTreeSet::new(),
        retained: network.valid.retain || has_orphan_policy(&body),
        key,
        source: body,
    })
}

fn eks_workspace(
    unit: &ValidatedCluster,
    control_plane: &CheckedControlPlane,
    vpc: Option<&WorkspaceKey>,
    manifests: &ValidatedManifests,
) -> WorkspaceResult {
    let name = control_plane.key.name.as_str();
    let key = workspace_key(&control_plane.key, &names::eks_apply(name));
    let (body, handed) = match &control_plane.valid.template {
        Some(template) => {
            let variables = eks_template_variables(&control_plane.valid, &unit.eks_name, &unit.region);
            (template_source(&key, template, variables, manifests)?, Vec::new())
        }
        None => {
            let inputs = module_inputs::eks_inputs(&control_plane.valid, &unit.eks_name, None);
            let take = |name| vpc.map(|vpc| OutputRef { from: vpc.clone(), name });
            (
                WorkspaceSource::Module { module: EmbeddedModule::Eks, inputs },
                EKS_INPUTS_FROM_VPC.into_iter().filter_map(take).collect(),
            )
        }
    };
    Ok(DesiredWorkspace {
        role: WorkspaceRole::Eks,
        owner: format!("CAPTControlPlane {}", control_plane.key),
        eks_cluster: Some(unit.eks_name.to_string()),
        region: Some(unit.region.to_string()),
        connection_secret: connection_secret(&control_plane.key, &names::eks_connection_secret(name), &body),
        output_refs: handed,
        depends_on: vpc.cloned().into_iter().collect(),
        retained: has_orphan_policy(&body),
        key,
        source: body,
    })
}

/// Variables for an EKS template, as upstream's controller provides them.
pub fn eks_template_variables(
    control_plane: &ValidatedControlPlane,
    cluster: &ClusterName,
    region: &Region,
) -> BTreeMap<String, String> {
    let mut variables = to_owned_map([
        ("cluster_name", cluster.to_string()),
        ("kubernetes_version", control_plane.version.to_string()),
        ("region", region.to_string()),
        ("endpoint_public_access", control_plane.endpoint.public.to_string()),
        ("endpoint_private_access", control_plane.endpoint.private.to_string()),
    ]);
    variables.extend(control_plane.tags.iter().map(|(name, value)| (format!("tags_{name}"), value.clone())));
    variables
}

fn fargate_workspace(
    unit: &ValidatedCluster,
    control_plane: &CheckedControlPlane,
    profile: &ValidatedProfile,
    (vpc, eks): (Option<&WorkspaceKey>, &WorkspaceKey),
    manifests: &ValidatedManifests,
) -> WorkspaceResult {
    let key = workspace_key(
        &control_plane.key,
        &names::fargate_apply(control_plane.key.name.as_str(), profile.name.as_str()),
    );
    let (body, handed) = match &profile.template {
        Some(template) => (
            template_source(&key, template, fargate_template_variables(profile, &unit.eks_name), manifests)?,
            Vec::new(),
        ),
        None => {
            let subnets = vpc.filter(|_| profile.subnets.is_empty());
            let role = Some(eks).filter(|_| profile.pod_execution_role.is_none());
            let handed = subnets
                .map(|from| OutputRef { from: from.clone(), name: FARGATE_INPUT_FROM_VPC })
                .into_iter()
                .chain(role.map(|from| OutputRef { from: from.clone(), name: FARGATE_INPUT_FROM_EKS }))
                .collect();
            let inputs = module_inputs::fargate_inputs(profile, &unit.eks_name);
            (WorkspaceSource::Module { module: EmbeddedModule::Fargate, inputs }, handed)
        }
    };
    Ok(DesiredWorkspace {
        role: WorkspaceRole::Fargate { profile: profile.name.to_string() },
        owner: format!("CAPTControlPlane {}", control_plane.key),
        eks_cluster: Some(unit.eks_name.to_string()),
        region: Some(unit.region.to_string()),
        connection_secret: template_connection_secret(&body),
        output_refs: handed,
        depends_on: vpc.cloned().into_iter().chain([eks.clone()]).collect(),
        retained: has_orphan_policy(&body),
        key,
        source: body,
    })
}

/// Variables for a Fargate profile template.
pub fn fargate_template_variables(
    profile: &ValidatedProfile,
    cluster: &ClusterName,
) -> BTreeMap<String, String> {
    let inputs = module_inputs::fargate_inputs(profile, cluster);
    to_owned_map([
        ("cluster_name", cluster.to_string()),
        ("profile_name", profile.name.to_string()),
        ("selectors", inputs.get("selectors").map(ToString::to_string).unwrap_or_default()),
    ])
}

fn to_owned_map<const N: usize>(variables: [(&str, String); N]) -> BTreeMap<String, String> {
    variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Connection Secret: the given name for a built-in module, the one in its spec for a template.
fn connection_secret(object: &ObjectKey, name: &str, body: &WorkspaceSource) -> Option<ObjectKey> {
    match body {
        WorkspaceSource::Module { .. } => {
            Some(ObjectKey { namespace: object.namespace.clone(), name: ObjectName::parse(name).ok()? })
        }
        WorkspaceSource::Template { .. } => template_connection_secret(body),
    }
}

fn workspace_key(object: &ObjectKey, apply: &str) -> WorkspaceKey {
    WorkspaceKey::new(object.namespace.as_str(), names::workspace_name(apply))
}
