//! The unit of Terraform work, from a `WorkspaceTemplateApply`.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::api::{self, BuiltInModule};

use super::{
    problem::{Path, Problem, Problems},
    references::{self, ObjectKey},
    text::{Namespace, ObjectName, Region},
};

/// The unit of Terraform work.
#[derive(Clone, Debug, PartialEq)]
pub struct ValidatedApply {
    /// What is run.
    pub work: Work,
    /// The region, if it is said here.
    pub region: Option<Region>,
    /// The AWS identity, if it is said here.
    pub identity: Option<ObjectName>,
    /// The Secret that gets the outputs.
    pub connection_secret: Option<ObjectKey>,
    /// Secrets that must exist first.
    pub wait_for_secrets: Vec<ObjectKey>,
    /// Workspaces that must be ready first.
    pub wait_for_workspaces: Vec<ObjectKey>,
    /// Whether the resources stay when the object goes.
    pub retain: bool,
}

/// What is run.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// A template.
    Template {
        /// Which.
        template: ObjectKey,
        /// Values for its placeholders.
        variables: BTreeMap<String, String>,
    },
    /// A built-in module.
    Module {
        /// Which.
        module: BuiltInModule,
        /// Its variables.
        inputs: BTreeMap<String, Value>,
    },
}

/// Looks at the spec of a `WorkspaceTemplateApply` in this namespace.
pub fn validate(
    spec: &api::WorkspaceTemplateApplySpec,
    home: &Namespace,
) -> Result<ValidatedApply, Vec<Problem>> {
    let mut problems = Problems::default();
    let valid = check(&Path::root("spec"), spec, home, &mut problems);
    problems.into_result(valid)
}

fn check(
    path: &Path<'_>,
    spec: &api::WorkspaceTemplateApplySpec,
    home: &Namespace,
    problems: &mut Problems,
) -> Option<ValidatedApply> {
    let region = problems.parse_option(&path.field("region"), spec.region.as_deref());
    let identity = references::identity(&path.field("identityRef"), spec.identity_ref.as_ref(), problems);
    let secret_path = path.field("writeConnectionSecretToRef");
    let connection_secret = spec
        .write_connection_secret_to_ref
        .as_ref()
        .and_then(|reference| references::secret(&secret_path, reference, problems));
    let secrets = spec.wait_for_secrets.iter().enumerate();
    let secrets_path = path.field("waitForSecrets");
    let wait_for_secrets =
        secrets.filter_map(|(at, it)| references::secret(&secrets_path.index(at), it, problems)).collect();
    let workspaces = spec.wait_for_workspaces.iter().enumerate();
    let workspaces_path = path.field("waitForWorkspaces");
    let wait_for_workspaces = workspaces
        .filter_map(|(at, it)| {
            let namespace = it.namespace.as_deref().filter(|it| !it.is_empty()).unwrap_or(home.as_str());
            references::key(&workspaces_path.index(at), namespace, &it.name, problems)
        })
        .collect();
    let work = work(path, spec, home, problems);
    Some(ValidatedApply {
        work: work?,
        region,
        identity,
        connection_secret,
        wait_for_secrets,
        wait_for_workspaces,
        retain: spec.retain_workspace_on_delete.unwrap_or(false),
    })
}

fn work(
    path: &Path<'_>,
    spec: &api::WorkspaceTemplateApplySpec,
    home: &Namespace,
    problems: &mut Problems,
) -> Option<Work> {
    if spec.inputs.is_some() && spec.module.is_none() {
        problems.add(
            &path.field("inputs"),
            "are the variables of a built-in module",
            "use variables for a template",
        );
    }
    match (&spec.template_ref, spec.module) {
        (Some(reference), None) => {
            let template = references::template(&path.field("templateRef"), reference, home, problems)?;
            Some(Work::Template { template, variables: spec.variables.clone() })
        }
        (None, Some(module)) => {
            if !spec.variables.is_empty() {
                problems.add(
                    &path.field("variables"),
                    "are for a template",
                    "use inputs for a built-in module",
                );
            }
            if spec.region.is_none() {
                problems.add(&path.field("region"), "a built-in module needs a region", "add one");
            }
            Some(Work::Module { module, inputs: spec.inputs.clone().unwrap_or_default() })
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
