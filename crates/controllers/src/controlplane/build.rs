//! Builds the desired `WorkspaceTemplateApply` of an EKS cluster. Pure.

use std::collections::BTreeMap;

use capt_kinds::api::{
    BuiltInModule, CaptControlPlane, IdentityRef, InputFormat, InputFrom, SecretRef, TemplateRef,
    WorkspaceRef, WorkspaceTemplateApply, WorkspaceTemplateApplySpec, names as words,
};
use capt_model::{
    model::{KubernetesVersion, ObjectKey, control_plane::ValidatedControlPlane, names},
    workspaces::{self, EKS_INPUTS_FROM_VPC},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::{Resource as _, ResourceExt as _};

use super::{dereference::ClusterNetwork, validate::ValidatedEksCluster};

/// Annotations that workspaces inherit from their control plane.
const INHERITED_ANNOTATIONS: [&str; 2] = [words::DRIFT_ANNOTATION, words::DRIFT_INTERVAL_ANNOTATION];

/// Variable of EKS templates with the value of the owner tag.
const OWNER_VARIABLE: &str = "capt_owner";

/// Name of the `WorkspaceTemplateApply`: the recorded one, which may be upstream's, else one derived from the control plane's
/// name.
pub(crate) fn apply_name(object: &CaptControlPlane) -> String {
    let recorded = object.spec.workspace_template_apply_name.clone().filter(|name| !name.is_empty());
    recorded.unwrap_or_else(|| names::eks_apply(&object.name_any()))
}

/// The Secret with the outputs of the EKS cluster.
pub(crate) fn eks_connection_secret_ref(object: &CaptControlPlane) -> SecretRef {
    SecretRef {
        name: names::eks_connection_secret(&object.name_any()),
        namespace: object.namespace().unwrap_or_default(),
    }
}

/// The controller owner reference to a control plane.
pub(crate) fn owner_reference(object: &CaptControlPlane) -> Option<OwnerReference> {
    let owner = object.controller_owner_ref(&())?;
    Some(OwnerReference { block_owner_deletion: Some(true), ..owner })
}

/// Metadata of all workspaces of a control plane.
pub(super) fn workspace_metadata(
    object: &CaptControlPlane,
    valid: &ValidatedEksCluster,
    name: String,
) -> ObjectMeta {
    let copied = |all: &BTreeMap<String, String>, keys: &[&str]| -> BTreeMap<String, String> {
        keys.iter().filter_map(|key| Some(((*key).to_owned(), all.get(*key)?.clone()))).collect()
    };
    let mut labels = copied(object.labels(), &[words::WATCH_FILTER_LABEL]);
    labels.insert(words::CLUSTER_NAME_LABEL.to_owned(), valid.cluster_name.clone());
    let mut annotations = copied(object.annotations(), &INHERITED_ANNOTATIONS);
    annotations.insert(words::EKS_CLUSTER_ANNOTATION.to_owned(), valid.eks_name.to_string());
    ObjectMeta {
        name: Some(name),
        namespace: object.namespace(),
        labels: Some(labels),
        annotations: Some(annotations),
        owner_references: owner_reference(object).map(|owner| vec![owner]),
        ..ObjectMeta::default()
    }
}

pub(super) fn identity_ref(valid: &ValidatedEksCluster) -> Option<IdentityRef> {
    valid.identity.clone().map(|name| IdentityRef { name })
}

pub(super) fn template_ref(template: &ObjectKey) -> TemplateRef {
    TemplateRef { name: template.name.to_string(), namespace: Some(template.namespace.to_string()) }
}

/// An input taken from the output of the same name of another workspace.
pub(super) fn input_from_output(name: &str, secret: &SecretRef, format: InputFormat) -> InputFrom {
    InputFrom { input: name.to_owned(), secret_ref: secret.clone(), key: name.to_owned(), format }
}

/// List outputs are stored as JSON in a connection Secret, others as text.
pub(super) fn output_format(output: &str) -> InputFormat {
    if output.ends_with("subnets") { InputFormat::Json } else { InputFormat::Text }
}

/// The workspace of the EKS cluster, with this Kubernetes version.
pub(crate) fn build_eks_workspace(
    object: &CaptControlPlane,
    valid: &ValidatedEksCluster,
    network: Option<&ClusterNetwork>,
    version: &KubernetesVersion,
) -> WorkspaceTemplateApply {
    let control_plane = ValidatedControlPlane { version: version.clone(), ..valid.control_plane.clone() };
    let secrets: Vec<SecretRef> = network.map(ClusterNetwork::connection_secret_ref).into_iter().collect();
    let common = WorkspaceTemplateApplySpec {
        region: Some(valid.region.to_string()),
        identity_ref: identity_ref(valid),
        write_connection_secret_to_ref: Some(eks_connection_secret_ref(object)),
        ..WorkspaceTemplateApplySpec::default()
    };
    let spec = match &control_plane.template {
        Some(template) => WorkspaceTemplateApplySpec {
            template_ref: Some(template_ref(template)),
            variables: template_variables(object, valid, &control_plane),
            wait_for_workspaces: network.map(ClusterNetwork::workspace_ref).into_iter().collect(),
            ..common
        },
        None => WorkspaceTemplateApplySpec {
            module: Some(BuiltInModule::Eks),
            inputs: Some(
                workspaces::eks_inputs(&control_plane, &valid.eks_name, object.metadata.uid.as_deref())
                    .into_iter()
                    .collect(),
            ),
            inputs_from: secrets
                .iter()
                .flat_map(|secret| {
                    EKS_INPUTS_FROM_VPC.map(|name| input_from_output(name, secret, output_format(name)))
                })
                .collect(),
            wait_for_secrets: secrets,
            ..common
        },
    };
    WorkspaceTemplateApply {
        metadata: workspace_metadata(object, valid, apply_name(object)),
        spec,
        status: None,
    }
}

/// Upstream's variables, and the uid for the owner tag.
fn template_variables(
    object: &CaptControlPlane,
    valid: &ValidatedEksCluster,
    control_plane: &ValidatedControlPlane,
) -> BTreeMap<String, String> {
    let mut all = workspaces::eks_template_variables(control_plane, &valid.eks_name, &valid.region);
    all.extend(object.uid().map(|uid| (OWNER_VARIABLE.to_owned(), uid)));
    all
}

/// The Kubernetes version that a workspace requests.
pub(crate) fn requested_version(apply: &WorkspaceTemplateApply) -> Option<&str> {
    let input = || apply.spec.inputs.as_ref()?.get("kubernetes_version")?.as_str();
    apply.spec.variables.get("kubernetes_version").map(String::as_str).or_else(input)
}

impl ClusterNetwork {
    /// Name of the identity of the network.
    pub(crate) fn identity_name(&self) -> Option<String> {
        self.object.spec.identity_ref.as_ref().map(|it| it.name.clone())
    }

    /// Name of its `WorkspaceTemplateApply`.
    pub(crate) fn apply_name(object: &capt_kinds::api::CaptCluster) -> String {
        let recorded = object.spec.workspace_template_apply_name.clone().filter(|name| !name.is_empty());
        recorded.unwrap_or_else(|| names::vpc_apply(&object.name_any()))
    }

    /// Reference to its workspace.
    pub(crate) fn workspace_ref(&self) -> WorkspaceRef {
        let said = self.workspace.as_ref().and_then(|apply| apply.status.as_ref()?.workspace_name.clone());
        let name = said.unwrap_or_else(|| names::workspace_name(&Self::apply_name(&self.object)).to_owned());
        WorkspaceRef { name, namespace: self.object.namespace() }
    }

    /// Reference to the connection Secret with its outputs.
    pub(crate) fn connection_secret_ref(&self) -> SecretRef {
        let said =
            self.workspace.as_ref().and_then(|apply| apply.status.as_ref()?.connection_secret_ref.clone());
        said.unwrap_or_else(|| SecretRef {
            name: names::vpc_connection_secret(&self.object.name_any()),
            namespace: self.object.namespace().unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::controlplane::{
        fixtures::{control_plane, network, references, workspace as existing},
        validate::validate,
    };
    use capt_model::model::Limits;

    fn built(spec: &Value, network: Option<&ClusterNetwork>) -> Value {
        let object = control_plane(spec);
        let valid = validate(&object, &references(), &Limits::default()).unwrap();
        let version = valid.control_plane.version.clone();
        serde_json::to_value(build_eks_workspace(&object, &valid, network, &version)).unwrap()
    }

    #[test]
    fn the_built_in_module_gets_the_inputs_of_the_command_line_and_the_networks_outputs() {
        let net = network(&json!({"region": "eu-central-1"}));
        let made = built(&json!({"version": "v1.33.2", "identityRef": {"name": "prod"}}), Some(&net));
        let spec = &made["spec"];
        assert_eq!((&spec["module"], &spec["region"]), (&json!("eks"), &json!("eu-central-1")));
        assert_eq!(spec["inputs"]["kubernetes_version"], "1.33");
        assert_eq!(spec["inputs"]["cluster_name"], "demo");
        assert_eq!(spec["identityRef"]["name"], "prod");
        let secret = json!({"name": "net-vpc-connection", "namespace": "team"});
        assert_eq!(
            spec["inputsFrom"],
            json!([
                {"input": "vpc_id", "secretRef": secret, "key": "vpc_id", "format": "Text"},
                {"input": "private_subnets", "secretRef": secret, "key": "private_subnets", "format": "JSON"},
            ])
        );
        assert_eq!(spec["waitForSecrets"], json!([secret]));
        assert_eq!(
            spec["writeConnectionSecretToRef"],
            json!({"name": "cp-eks-connection", "namespace": "team"})
        );
        let meta = &made["metadata"];
        assert_eq!(meta["name"], "cp-eks-controlplane-apply");
        assert_eq!(meta["labels"]["cluster.x-k8s.io/cluster-name"], "demo");
        assert_eq!(meta["annotations"]["capt.x-k8s.io/eks-cluster"], "demo");
        let owner = &meta["ownerReferences"][0];
        assert_eq!((&owner["kind"], &owner["uid"]), (&json!("CAPTControlPlane"), &json!("c1")));
        assert_eq!((&owner["controller"], &owner["blockOwnerDeletion"]), (&json!(true), &json!(true)));
    }

    #[test]
    fn a_template_gets_upstreams_variables_and_waits_for_the_networks_workspace() {
        let net = network(&json!({"region": "eu-central-1"}));
        let spec = json!({"version": "v1.33.0", "workspaceTemplateRef": {"name": "eks"}, "additionalTags": {"a": "b"},
            "controlPlaneConfig": {"endpointAccess": {"private": false}}});
        let made = built(&spec, Some(&net));
        let spec = &made["spec"];
        assert_eq!(spec["templateRef"], json!({"name": "eks", "namespace": "team"}));
        let variables = json!({"cluster_name": "demo", "kubernetes_version": "1.33", "region": "eu-central-1",
            "endpoint_public_access": "true", "endpoint_private_access": "false", "tags_a": "b", "capt_owner": "c1"});
        assert_eq!(spec["variables"], variables);
        assert_eq!(spec["waitForWorkspaces"], json!([{"name": "net-vpc", "namespace": "team"}]));
        assert_eq!(spec["writeConnectionSecretToRef"]["name"], "cp-eks-connection");
        assert!(spec.get("module").is_none() && spec.get("inputs").is_none());
        assert_eq!(spec["region"], "eu-central-1", "of its provider, where EKS is asked, too");
    }

    #[test]
    fn the_networks_secret_is_the_one_that_its_workspace_names() {
        let mut net = network(&json!({"region": "eu-central-1"}));
        let status =
            json!({"connectionSecretRef": {"name": "demo-vpc-vpc-connection", "namespace": "default"}});
        net.workspace = Some(existing("net-vpc", &json!({}), &status));
        let made = built(&json!({"version": "1.33"}), Some(&net));
        assert_eq!(
            made["spec"]["waitForSecrets"],
            json!([{"name": "demo-vpc-vpc-connection", "namespace": "default"}])
        );
    }

    #[test]
    fn a_recorded_name_is_used_and_marks_are_inherited() {
        let mut object =
            control_plane(&json!({"version": "1.33", "workspaceTemplateApplyName": "old-apply"}));
        object.annotations_mut().insert(words::DRIFT_ANNOTATION.to_owned(), "off".to_owned());
        object.annotations_mut().insert("theirs".to_owned(), "x".to_owned());
        object.labels_mut().insert(words::WATCH_FILTER_LABEL.to_owned(), "blue".to_owned());
        let valid = validate(&object, &references(), &Limits::default()).unwrap();
        let made = build_eks_workspace(&object, &valid, None, &valid.control_plane.version.clone());
        assert_eq!(made.name_any(), "old-apply");
        assert_eq!(made.annotations().get(words::DRIFT_ANNOTATION).map(String::as_str), Some("off"));
        assert!(!made.annotations().contains_key("theirs"));
        assert_eq!(made.labels().get(words::WATCH_FILTER_LABEL).map(String::as_str), Some("blue"));
    }

    #[test]
    fn the_version_is_the_one_of_the_step_and_nothing_else_changes() {
        let object = control_plane(&json!({"version": "1.35"}));
        let valid = validate(&object, &references(), &Limits::default()).unwrap();
        let goal = build_eks_workspace(&object, &valid, None, &valid.control_plane.version.clone());
        let mut step =
            build_eks_workspace(&object, &valid, None, &capt_model::model::Parse::parse("1.34").unwrap());
        assert_eq!(requested_version(&step), Some("1.34"));
        step.spec.inputs.as_mut().unwrap().insert("kubernetes_version".to_owned(), json!("1.35"));
        assert_eq!(step, goal);
    }
}
