//! Instantiates a `WorkspaceTemplate`: substitutes its placeholders and builds its render request. Pure: no I/O.

use std::collections::BTreeMap;

use capt_kinds::api::{FileFormat, WorkspaceSpec, WorkspaceTemplateSpec};
use serde_json::{Map, Value};
use terraform_driver::{
    render::{InlineFormat, RenderRequest, RootSource, TemplateVar},
    substitute::{PlaceholderValues, SubstituteError, substitute_placeholders},
};
use thiserror::Error;

use super::{WorkspaceKey, parent_dir};
use crate::model::{
    Problem,
    template::{self, TemplateSource, ValidatedTemplate},
};

/// Why a template cannot be instantiated.
#[derive(Debug, Clone, Error, PartialEq, Eq)]
pub enum TemplateError {
    /// A placeholder is unresolved or its value is not allowed there.
    #[error(transparent)]
    Placeholder(#[from] SubstituteError),
    /// A field is invalid after substitution.
    #[error("{}: {}", .0.path, .0.message)]
    Field(Problem),
    /// The result is not a valid template spec.
    #[error("{0}")]
    Invalid(String),
}

/// Substitutes the placeholders of a template for a workspace and validates the result.
pub fn instantiate_template(
    spec: &WorkspaceTemplateSpec,
    workspace: &str,
    variables: &BTreeMap<String, String>,
) -> Result<ValidatedTemplate, Vec<TemplateError>> {
    let shape = |error: serde_json::Error| vec![TemplateError::Invalid(error.to_string())];
    let inner = serde_json::to_value(&spec.template.spec).map_err(shape)?;
    let filled = substitute_placeholders(&inner, &PlaceholderValues::new(workspace, variables))
        .map_err(|errors| errors.into_iter().map(TemplateError::from).collect::<Vec<_>>())?;
    let filled: WorkspaceSpec = serde_json::from_value(filled).map_err(shape)?;
    let mut whole = spec.clone();
    whole.template.spec = filled;
    template::validate(&whole).map_err(|problems| problems.into_iter().map(TemplateError::Field).collect())
}

/// Render request of a template, without the values from Secrets and config maps. `file` is the manifest of the template;
/// relative module paths start at its directory.
pub fn template_request(
    key: &WorkspaceKey,
    template: &ValidatedTemplate,
    variables: &BTreeMap<String, String>,
    file: &str,
) -> RenderRequest {
    let mut request = RenderRequest::new(&key.namespace, &key.name, render_source(template, file));
    request.entrypoint.clone_from(&template.entrypoint);
    request.variables =
        variables.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str()))).collect();
    request.vars = vars(template);
    request.varmap = varmap(template);
    request
}

fn render_source(template: &ValidatedTemplate, file: &str) -> RootSource {
    match &template.source {
        TemplateSource::Inline { format, text } => {
            RootSource::Inline { format: inline_format(*format), text: text.clone() }
        }
        TemplateSource::Remote { address } if address.starts_with('.') => {
            let address = parent_dir(file).join(address).display().to_string();
            RootSource::Remote { address: explicit_local_path(address), fetched: None }
        }
        TemplateSource::Remote { address } => RootSource::Remote { address: address.clone(), fetched: None },
    }
}

/// Terraform recognises a local path only by a leading `/` or `.`.
fn explicit_local_path(path: String) -> String {
    if path.starts_with(['/', '.']) { path } else { format!("./{path}") }
}

pub(super) const fn inline_format(format: FileFormat) -> InlineFormat {
    match format {
        FileFormat::Hcl => InlineFormat::Hcl,
        FileFormat::Json => InlineFormat::Json,
    }
}

fn vars(template: &ValidatedTemplate) -> Vec<TemplateVar> {
    template.vars.iter().map(|(key, value)| TemplateVar { key: key.clone(), value: value.clone() }).collect()
}

fn varmap(template: &ValidatedTemplate) -> Map<String, Value> {
    match &template.varmap {
        Some(Value::Object(map)) => map.clone(),
        _ => Map::new(),
    }
}
