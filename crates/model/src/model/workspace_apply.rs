//! Validation of a `WorkspaceTemplateApply`.

use std::collections::BTreeMap;

use capt_kinds::api::{self, BuiltInModule, InputFormat};
use serde_json::Value;

use super::{
    newtypes::{Namespace, ObjectName, Region},
    problem::{FieldPath, Problem, Problems},
    references::{self, ObjectKey},
};

/// A validated `WorkspaceTemplateApply`.
#[derive(Clone, Debug, PartialEq)]
pub struct ValidatedApply {
    /// The Terraform configuration to run.
    pub source: TerraformSource,
    /// The region, if set.
    pub region: Option<Region>,
    /// The AWS identity, if set.
    pub identity: Option<ObjectName>,
    /// The Secret that receives the outputs.
    pub connection_secret: Option<ObjectKey>,
    /// Secrets that must exist first.
    pub wait_for_secrets: Vec<ObjectKey>,
    /// Workspaces that must be ready first.
    pub wait_for_workspaces: Vec<ObjectKey>,
    /// Whether the resources are retained when the object is deleted.
    pub retain: bool,
}

/// The Terraform configuration to run.
#[derive(Clone, Debug, PartialEq)]
pub enum TerraformSource {
    /// A template.
    Template {
        /// Its reference.
        template: ObjectKey,
        /// Values for its placeholders.
        variables: BTreeMap<String, String>,
    },
    /// A built-in module.
    Module {
        /// Its reference.
        module: BuiltInModule,
        /// Its variables.
        inputs: BTreeMap<String, Value>,
        /// Its variables whose values are in Secrets.
        from: Vec<ValidatedInput>,
    },
}

/// A variable whose value is in a Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidatedInput {
    /// The variable.
    pub input: String,
    /// The Secret.
    pub secret: ObjectKey,
    /// The key in it.
    pub key: String,
    /// How the value is written there.
    pub format: InputFormat,
}

/// Validates the spec of a `WorkspaceTemplateApply` in this namespace.
pub fn validate(
    spec: &api::WorkspaceTemplateApplySpec,
    home: &Namespace,
) -> Result<ValidatedApply, Vec<Problem>> {
    let mut problems = Problems::default();
    let valid = check_spec(&FieldPath::root("spec"), spec, home, &mut problems);
    problems.into_result(valid)
}

fn check_spec(
    path: &FieldPath<'_>,
    spec: &api::WorkspaceTemplateApplySpec,
    home: &Namespace,
    problems: &mut Problems,
) -> Option<ValidatedApply> {
    let region = problems.parse_option(&path.field("region"), spec.region.as_deref());
    let identity =
        references::check_identity(&path.field("identityRef"), spec.identity_ref.as_ref(), problems);
    let secret_path = path.field("writeConnectionSecretToRef");
    let connection_secret = spec
        .write_connection_secret_to_ref
        .as_ref()
        .and_then(|reference| references::check_secret(&secret_path, reference, problems));
    let secrets = spec.wait_for_secrets.iter().enumerate();
    let secrets_path = path.field("waitForSecrets");
    let wait_for_secrets = secrets
        .filter_map(|(at, it)| references::check_secret(&secrets_path.index(at), it, problems))
        .collect();
    let workspaces = spec.wait_for_workspaces.iter().enumerate();
    let workspaces_path = path.field("waitForWorkspaces");
    let wait_for_workspaces = workspaces
        .filter_map(|(at, it)| {
            let namespace = it.namespace.as_deref().filter(|it| !it.is_empty()).unwrap_or(home.as_str());
            references::check_key(&workspaces_path.index(at), namespace, &it.name, problems)
        })
        .collect();
    let work = check_source(path, spec, home, problems);
    Some(ValidatedApply {
        source: work?,
        region,
        identity,
        connection_secret,
        wait_for_secrets,
        wait_for_workspaces,
        retain: spec.retain_workspace_on_delete.unwrap_or(false),
    })
}

fn check_source(
    path: &FieldPath<'_>,
    spec: &api::WorkspaceTemplateApplySpec,
    home: &Namespace,
    problems: &mut Problems,
) -> Option<TerraformSource> {
    if spec.inputs.is_some() && spec.module.is_none() {
        problems.add(&path.field("inputs"), "are only for a built-in module", "use variables for a template");
    }
    if !spec.inputs_from.is_empty() && spec.module.is_none() {
        let message = "are only for a built-in module";
        problems.add(&path.field("inputsFrom"), message, "use varFiles in the template");
    }
    match (&spec.template_ref, spec.module) {
        (Some(reference), None) => {
            let template = references::check_template(&path.field("templateRef"), reference, home, problems)?;
            Some(TerraformSource::Template { template, variables: spec.variables.clone() })
        }
        (None, Some(module)) => {
            if !spec.variables.is_empty() {
                problems.add(
                    &path.field("variables"),
                    "are only for a template",
                    "use inputs for a built-in module",
                );
            }
            if spec.region.is_none() {
                problems.add(&path.field("region"), "a built-in module needs a region", "add one");
            }
            let from = check_inputs_from(&path.field("inputsFrom"), spec, problems);
            Some(TerraformSource::Module { module, inputs: spec.inputs.clone().unwrap_or_default(), from })
        }
        (Some(_), Some(_)) => {
            problems.add(path, "has both templateRef and module", "remove one of them");
            None
        }
        (None, None) => {
            problems.add(path, "has neither templateRef nor module", "add one of them");
            None
        }
    }
}

fn check_inputs_from(
    path: &FieldPath<'_>,
    spec: &api::WorkspaceTemplateApplySpec,
    problems: &mut Problems,
) -> Vec<ValidatedInput> {
    let mut valid: Vec<ValidatedInput> = Vec::new();
    for (at, it) in spec.inputs_from.iter().enumerate() {
        let path = path.index(at);
        let said_twice = valid.iter().any(|other| other.input == it.input)
            || spec.inputs.as_ref().is_some_and(|inputs| inputs.contains_key(&it.input));
        if said_twice {
            problems.add(&path.field("input"), "already has a value", "remove one of the two");
        }
        for (field, text, most) in [("input", &it.input, 128), ("key", &it.key, 253)] {
            if !(1..=most).contains(&text.chars().count()) {
                problems.add(&path.field(field), format!("must have 1 to {most} characters"), "correct it");
            }
        }
        if let Some(secret) = references::check_secret(&path.field("secretRef"), &it.secret_ref, problems) {
            valid.push(ValidatedInput {
                input: it.input.clone(),
                secret,
                key: it.key.clone(),
                format: it.format,
            });
        }
    }
    valid
}
