//! The workspace of a Fargate profile as it shall be. Pure.

use kube::ResourceExt as _;

use crate::{
    api::{
        BuiltInModule, CaptControlPlane, SecretRef, WorkspaceTemplateApply, WorkspaceTemplateApplySpec,
        names as words,
    },
    blueprint::{self, FARGATE_FROM_EKS, FARGATE_FROM_VPC},
    controllers::controlplane::{
        build::{connection_secret, format_of, handed, identity, metadata, template_ref},
        dereference::Network,
        validate::Validated,
    },
    model::{fargate::ValidatedProfile, names},
};

/// Name of the workspace of a profile.
pub(crate) fn apply_name(object: &CaptControlPlane, profile: &str) -> String {
    names::fargate_apply(&object.name_any(), profile)
}

/// The workspace of a profile. It waits by itself for the Secrets of the network and of the cluster.
pub(crate) fn workspace(
    object: &CaptControlPlane,
    valid: &Validated,
    network: Option<&Network>,
    profile: &ValidatedProfile,
) -> WorkspaceTemplateApply {
    let cluster = connection_secret(object);
    let network = network.map(Network::secret);
    let common = WorkspaceTemplateApplySpec {
        region: Some(valid.region.to_string()),
        identity_ref: identity(valid),
        wait_for_secrets: network.iter().chain([&cluster]).cloned().collect(),
        ..WorkspaceTemplateApplySpec::default()
    };
    let spec = match &profile.template {
        Some(template) => WorkspaceTemplateApplySpec {
            template_ref: Some(template_ref(template)),
            variables: blueprint::fargate_variables(profile, &valid.eks_name),
            ..common
        },
        None => WorkspaceTemplateApplySpec {
            module: Some(BuiltInModule::Fargate),
            inputs: Some(blueprint::fargate(profile, &valid.eks_name).into_iter().collect()),
            inputs_from: taken(profile, network.as_ref(), &cluster),
            ..common
        },
    };
    let mut metadata = metadata(object, valid, apply_name(object, profile.name.as_str()));
    let label = names::profile_label(profile.name.as_str());
    metadata.labels.get_or_insert_default().insert(words::FARGATE_PROFILE_LABEL.to_owned(), label);
    WorkspaceTemplateApply { metadata, spec, status: None }
}

/// What the profile does not say itself.
fn taken(
    profile: &ValidatedProfile,
    network: Option<&SecretRef>,
    cluster: &SecretRef,
) -> Vec<crate::api::InputFrom> {
    let subnets = network.filter(|_| profile.subnets.is_empty()).map(|secret| (FARGATE_FROM_VPC, secret));
    let role = profile.pod_execution_role.is_none().then_some((FARGATE_FROM_EKS, cluster));
    subnets.into_iter().chain(role).map(|(name, secret)| handed(name, secret, format_of(name))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        controllers::controlplane::{
            fixtures::{control_plane, network, seen},
            validate::validate,
        },
        model::Limits,
    };

    fn built(profile: &Value) -> Value {
        let object = control_plane(&json!({"version": "1.33", "additionalFargateProfiles": [profile]}));
        let valid = validate(&object, &seen(), &Limits::default()).unwrap();
        let net = network(&json!({"region": "eu-central-1"}));
        serde_json::to_value(workspace(&object, &valid, Some(&net), &valid.control_plane.profiles[0]))
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
