//! Builds the desired workspace of a Fargate profile. Pure.

use capt_kinds::api::{
    BuiltInModule, CaptControlPlane, SecretRef, WorkspaceTemplateApply, WorkspaceTemplateApplySpec,
    names as words,
};
use capt_model::{
    model::{fargate::ValidatedProfile, names},
    workspaces::{self, FARGATE_INPUT_FROM_EKS, FARGATE_INPUT_FROM_VPC},
};
use kube::ResourceExt as _;

use crate::controlplane::{
    build::{
        eks_connection_secret_ref, identity_ref, input_from_output, output_format, template_ref,
        workspace_metadata,
    },
    dereference::ClusterNetwork,
    validate::ValidatedEksCluster,
};

/// Name of the `WorkspaceTemplateApply` of a profile.
pub(crate) fn apply_name(object: &CaptControlPlane, profile: &str) -> String {
    names::fargate_apply(&object.name_any(), profile)
}

/// The workspace of a profile. Its own controller waits for the connection Secrets of the network and the cluster.
pub(crate) fn build_profile_workspace(
    object: &CaptControlPlane,
    valid: &ValidatedEksCluster,
    network: Option<&ClusterNetwork>,
    profile: &ValidatedProfile,
) -> WorkspaceTemplateApply {
    let cluster = eks_connection_secret_ref(object);
    let network = network.map(ClusterNetwork::connection_secret_ref);
    let common = WorkspaceTemplateApplySpec {
        region: Some(valid.region.to_string()),
        identity_ref: identity_ref(valid),
        wait_for_secrets: network.iter().chain([&cluster]).cloned().collect(),
        ..WorkspaceTemplateApplySpec::default()
    };
    let spec = match &profile.template {
        Some(template) => WorkspaceTemplateApplySpec {
            template_ref: Some(template_ref(template)),
            variables: workspaces::fargate_template_variables(profile, &valid.eks_name),
            ..common
        },
        None => WorkspaceTemplateApplySpec {
            module: Some(BuiltInModule::Fargate),
            inputs: Some(workspaces::fargate_inputs(profile, &valid.eks_name).into_iter().collect()),
            inputs_from: inputs_from_workspaces(profile, network.as_ref(), &cluster),
            ..common
        },
    };
    let mut metadata = workspace_metadata(object, valid, apply_name(object, profile.name.as_str()));
    let label = names::profile_label(profile.name.as_str());
    metadata.labels.get_or_insert_default().insert(words::FARGATE_PROFILE_LABEL.to_owned(), label);
    WorkspaceTemplateApply { metadata, spec, status: None }
}

/// Inputs that the profile does not set, taken from the outputs of the network and the cluster.
fn inputs_from_workspaces(
    profile: &ValidatedProfile,
    network: Option<&SecretRef>,
    cluster: &SecretRef,
) -> Vec<capt_kinds::api::InputFrom> {
    let subnets =
        network.filter(|_| profile.subnets.is_empty()).map(|secret| (FARGATE_INPUT_FROM_VPC, secret));
    let role = profile.pod_execution_role.is_none().then_some((FARGATE_INPUT_FROM_EKS, cluster));
    subnets
        .into_iter()
        .chain(role)
        .map(|(name, secret)| input_from_output(name, secret, output_format(name)))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::controlplane::{
        fixtures::{control_plane, network, references},
        validate::validate,
    };
    use capt_model::model::Limits;

    fn built(profile: &Value) -> Value {
        let object = control_plane(&json!({"version": "1.33", "additionalFargateProfiles": [profile]}));
        let valid = validate(&object, &references(), &Limits::default()).unwrap();
        let net = network(&json!({"region": "eu-central-1"}));
        serde_json::to_value(build_profile_workspace(
            &object,
            &valid,
            Some(&net),
            &valid.control_plane.profiles[0],
        ))
        .unwrap()
    }

    #[test]
    fn a_profile_takes_subnets_and_role_from_the_others_unless_it_names_them() {
        let made =
            built(&json!({"name": "apps", "selectors": [{"namespace": "apps", "labels": {"a": "b"}}]}));
        let spec = &made["spec"];
        assert_eq!((&spec["module"], &spec["region"]), (&json!("fargate"), &json!("eu-central-1")));
        let (vpc, eks) = (
            json!({"name": "net-vpc-connection", "namespace": "team"}),
            json!({"name": "cp-eks-connection", "namespace": "team"}),
        );
        assert_eq!(
            spec["inputsFrom"],
            json!([
                {"input": "private_subnets", "secretRef": vpc, "key": "private_subnets", "format": "JSON"},
                {"input": "pod_execution_role_arn", "secretRef": eks, "key": "pod_execution_role_arn", "format": "Text"},
            ])
        );
        assert_eq!(spec["waitForSecrets"], json!([vpc, eks]));
        assert_eq!(spec["inputs"]["profile_name"], "apps");
        assert_eq!(spec["inputs"]["cluster_name"], "demo");
        assert_eq!(made["metadata"]["name"], "cp-apps-fargate-apply");
        assert_eq!(made["metadata"]["labels"]["capt.x-k8s.io/fargate-profile"], "apps");
        assert_eq!(made["metadata"]["annotations"]["capt.x-k8s.io/eks-cluster"], "demo");

        let own = built(&json!({"name": "own", "selectors": [{"namespace": "apps"}],
            "subnetIds": ["subnet-0123456789abcdef0"],
            "podExecutionRoleArn": "arn:aws:iam::111122223333:role/pods"}));
        assert!(own["spec"].get("inputsFrom").is_none(), "{own}");
        assert_eq!(own["spec"]["inputs"]["private_subnets"], json!(["subnet-0123456789abcdef0"]));
    }

    #[test]
    fn a_template_gets_the_variables_of_the_original_design() {
        let made = built(
            &json!({"name": "apps", "selectors": [{"namespace": "apps"}], "workspaceTemplateRef": {"name": "t"}}),
        );
        let spec = &made["spec"];
        assert_eq!(spec["templateRef"], json!({"name": "t", "namespace": "team"}));
        assert_eq!(
            spec["variables"],
            json!({"cluster_name": "demo", "profile_name": "apps", "selectors": "[{\"namespace\":\"apps\",\"labels\":{}}]"})
        );
        assert_eq!(spec["waitForSecrets"].as_array().map(Vec::len), Some(2));
        assert!(spec.get("module").is_none());
        assert_eq!(spec["region"], "eu-central-1");
    }
}
