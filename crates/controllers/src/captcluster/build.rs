//! Builds the `WorkspaceTemplateApply` of the network. Pure and deterministic.

use std::collections::BTreeMap;

use capt_kinds::api::{
    BuiltInModule, CaptCluster, IdentityRef, SecretRef, TemplateRef, WorkspaceTemplateApply,
    WorkspaceTemplateApplySpec, names as words,
};
use capt_model::{
    model::{names, network::NetworkSource},
    workspaces,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::{Resource as _, ResourceExt as _};

use super::{dereference::NetworkReferences, validate::ValidatedCaptCluster};

/// Annotations that a `CAPTCluster` passes on to its workspace.
const INHERITED_ANNOTATIONS: [&str; 2] = [words::DRIFT_ANNOTATION, words::DRIFT_INTERVAL_ANNOTATION];

/// Name of the workspace: the recorded one, which may come from upstream, else derived from the object's name.
pub(super) fn apply_name(object: &CaptCluster) -> String {
    let recorded = object.spec.workspace_template_apply_name.clone().filter(|name| !name.is_empty());
    recorded.unwrap_or_else(|| names::vpc_apply(&object.name_any()))
}

/// Owner reference of the workspace.
pub(super) fn workspace_owner(object: &CaptCluster) -> Option<OwnerReference> {
    let owner = object.controller_owner_ref(&())?;
    Some(OwnerReference { block_owner_deletion: Some(true), ..owner })
}

/// The desired workspace.
pub(super) fn build_workspace(
    object: &CaptCluster,
    valid: &ValidatedCaptCluster,
    references: &NetworkReferences,
) -> WorkspaceTemplateApply {
    let metadata = ObjectMeta {
        name: Some(apply_name(object)),
        namespace: object.namespace(),
        labels: Some(BTreeMap::from([(words::CLUSTER_NAME_LABEL.to_owned(), valid.cluster.clone())])),
        annotations: Some(inherited_annotations(object)).filter(|all| !all.is_empty()),
        owner_references: workspace_owner(object).map(|owner| vec![owner]),
        ..ObjectMeta::default()
    };
    let identity = valid.network.identity.as_ref().map(|name| IdentityRef { name: name.to_string() });
    let spec = WorkspaceTemplateApplySpec {
        identity_ref: identity,
        // Always explicit: a workspace that was retained once still has the value true.
        retain_workspace_on_delete: Some(valid.network.retain),
        ..source_spec(object, valid, references)
    };
    WorkspaceTemplateApply { metadata, spec, status: None }
}

/// The source: a template with upstream's variables, or the built-in module.
fn source_spec(
    object: &CaptCluster,
    valid: &ValidatedCaptCluster,
    references: &NetworkReferences,
) -> WorkspaceTemplateApplySpec {
    let inputs = valid.eks_name.as_ref().and_then(|name| workspaces::vpc_inputs(&valid.network, name));
    match (&valid.network.source, inputs) {
        (NetworkSource::Template(template), _) => {
            let vpc_name = valid.network.vpc_name.as_ref();
            let variables = [
                ("cluster_name", valid.cluster.clone()),
                ("vpc_name", vpc_name.map_or_else(|| names::vpc_name(&valid.cluster), ToString::to_string)),
                ("environment", "production".to_owned()),
            ];
            WorkspaceTemplateApplySpec {
                template_ref: Some(TemplateRef {
                    name: template.name.to_string(),
                    namespace: Some(template.namespace.to_string()),
                }),
                region: Some(valid.network.region.to_string()),
                variables: variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
                write_connection_secret_to_ref: template_connection_secret(object, references),
                ..WorkspaceTemplateApplySpec::default()
            }
        }
        (_, inputs) => WorkspaceTemplateApplySpec {
            module: Some(BuiltInModule::Vpc),
            region: Some(valid.network.region.to_string()),
            inputs: Some(inputs.unwrap_or_default().into_iter().collect()),
            write_connection_secret_to_ref: Some(default_connection_secret(object)),
            ..WorkspaceTemplateApplySpec::default()
        },
    }
}

/// The template's connection Secret takes precedence over the default one. While the template does not exist, the live
/// value stays.
fn template_connection_secret(object: &CaptCluster, references: &NetworkReferences) -> Option<SecretRef> {
    match references.template_names_secret {
        Some(true) => None,
        Some(false) => Some(default_connection_secret(object)),
        None => references.apply.as_ref().and_then(|apply| apply.spec.write_connection_secret_to_ref.clone()),
    }
}

fn default_connection_secret(object: &CaptCluster) -> SecretRef {
    SecretRef {
        name: names::vpc_connection_secret(&object.name_any()),
        namespace: object.namespace().unwrap_or_default(),
    }
}

fn inherited_annotations(object: &CaptCluster) -> BTreeMap<String, String> {
    let all = object.annotations();
    let own = |name: &str| all.get(name).map(|value| (name.to_owned(), value.clone()));
    INHERITED_ANNOTATIONS.into_iter().filter_map(own).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::captcluster::{
        fixtures::{captcluster, references, workspace as existing},
        validate::validate,
    };

    fn built(spec: &Value, references: &NetworkReferences) -> Value {
        let object = captcluster(spec);
        let valid = validate(&object, references).unwrap();
        serde_json::to_value(build_workspace(&object, &valid, references)).unwrap()
    }

    #[test]
    fn without_a_template_the_built_in_module_gets_the_variables_of_the_command_line() {
        let made = built(&json!({"region": "eu-central-1", "identityRef": {"name": "prod"}}), &references());
        let spec = &made["spec"];
        assert_eq!((&spec["module"], &spec["region"]), (&json!("vpc"), &json!("eu-central-1")));
        assert_eq!(spec["inputs"]["name"], "demo-vpc");
        assert_eq!(spec["inputs"]["cluster_name"], "demo");
        assert_eq!(spec["identityRef"]["name"], "prod");
        assert_eq!(
            spec["writeConnectionSecretToRef"],
            json!({"name": "net-vpc-connection", "namespace": "team"})
        );
        assert_eq!((spec.get("templateRef"), &spec["retainWorkspaceOnDelete"]), (None, &json!(false)));
        let meta = &made["metadata"];
        assert_eq!(meta["name"], "net-vpc");
        assert_eq!(meta["labels"]["cluster.x-k8s.io/cluster-name"], "demo");
        let owner = &meta["ownerReferences"][0];
        assert_eq!((&owner["kind"], &owner["uid"]), (&json!("CAPTCluster"), &json!("n1")));
        assert_eq!((&owner["controller"], &owner["blockOwnerDeletion"]), (&json!(true), &json!(true)));
    }

    #[test]
    fn an_existing_vpc_goes_through_the_module_too_because_it_finds_the_subnets() {
        let made = built(
            &json!({"region": "eu-central-1", "existingVpcId": "vpc-0123456789abcdef0"}),
            &references(),
        );
        assert_eq!(made["spec"]["module"], "vpc");
        assert_eq!(made["spec"]["inputs"]["existing_vpc_id"], "vpc-0123456789abcdef0");
    }

    #[test]
    fn a_template_gets_upstreams_variables() {
        let spec = json!({"region": "eu-central-1", "vpcTemplateRef": {"name": "vpc-template"}, "vpcConfig": {"name": "mine"}});
        let made = built(&spec, &references());
        assert_eq!(made["spec"]["templateRef"], json!({"name": "vpc-template", "namespace": "team"}));
        let variables = json!({"cluster_name": "demo", "vpc_name": "mine", "environment": "production"});
        assert_eq!(made["spec"]["variables"], variables);
        assert!(made["spec"].get("module").is_none() && made["spec"].get("inputs").is_none());
        assert_eq!(made["spec"]["region"], "eu-central-1");
    }

    #[test]
    fn a_template_without_a_secret_gets_ours_and_its_loss_changes_nothing() {
        let spec = json!({"region": "eu-central-1", "vpcTemplateRef": {"name": "t"}});
        let of = |names_secret: Option<bool>, live: Value| {
            let mut references = references();
            references.template_names_secret = names_secret;
            references.apply = Some(existing(&live, &json!({})));
            built(&spec, &references)["spec"]["writeConnectionSecretToRef"].clone()
        };
        let ours = json!({"name": "net-vpc-connection", "namespace": "team"});
        assert_eq!(of(Some(true), json!({})), Value::Null);
        assert_eq!(of(Some(false), json!({})), ours);
        assert_eq!(of(None, json!({"writeConnectionSecretToRef": ours})), ours);
        assert_eq!(of(None, json!({})), Value::Null);
    }

    #[test]
    fn a_recorded_name_is_used_and_drift_settings_are_inherited() {
        let mut object =
            captcluster(&json!({"region": "eu-central-1", "workspaceTemplateApplyName": "old-vpc",
            "retainVpcOnDelete": true}));
        object.annotations_mut().insert(words::DRIFT_ANNOTATION.to_owned(), "detect".to_owned());
        object.annotations_mut().insert("theirs".to_owned(), "x".to_owned());
        let valid = validate(&object, &references()).unwrap();
        let made = build_workspace(&object, &valid, &references());
        assert_eq!(made.name_any(), "old-vpc");
        assert_eq!(made.spec.retain_workspace_on_delete, Some(true));
        let annotations: Vec<_> = made.annotations().iter().collect();
        assert_eq!(annotations, [(&words::DRIFT_ANNOTATION.to_owned(), &"detect".to_owned())]);
    }
}
