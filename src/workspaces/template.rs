//! A template with its placeholders filled in, and what the driver renders of it. Pure.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use terraform_driver::{
    render::{InlineFormat, Request, Source, Var},
    substitute::{SubstituteError, Values, substitute},
};
use thiserror::Error;

use super::{Key, directory_of};
use crate::{
    api::{FileFormat, WorkspaceSpec, WorkspaceTemplateSpec},
    model::{
        Problem,
        template::{self, TemplateSource, ValidatedTemplate},
    },
};

/// Why a template cannot be filled in.
#[derive(Debug, Clone, Error, PartialEq, Eq)]
pub enum FillError {
    /// A placeholder that no variable fills, or not so.
    #[error(transparent)]
    Placeholder(#[from] SubstituteError),
    /// A field that is wrong once it is filled in.
    #[error("{}: {}", .0.path, .0.message)]
    Field(Problem),
    /// No template any more once it is filled in.
    #[error("{0}")]
    Shape(String),
}

/// Fills in the placeholders of a template for this workspace, and looks at the result.
pub fn fill(
    spec: &WorkspaceTemplateSpec,
    workspace: &str,
    variables: &BTreeMap<String, String>,
) -> Result<ValidatedTemplate, Vec<FillError>> {
    let shape = |error: serde_json::Error| vec![FillError::Shape(error.to_string())];
    let inner = serde_json::to_value(&spec.template.spec).map_err(shape)?;
    let filled = substitute(&inner, &Values::new(workspace, variables))
        .map_err(|errors| errors.into_iter().map(FillError::from).collect::<Vec<_>>())?;
    let filled: WorkspaceSpec = serde_json::from_value(filled).map_err(shape)?;
    let mut whole = spec.clone();
    whole.template.spec = filled;
    template::validate(&whole).map_err(|problems| problems.into_iter().map(FillError::Field).collect())
}

/// What the driver renders of a template, as far as the template itself says it: what comes out of Secrets and config maps
/// is not there yet. `file` is the file that it stands in; a relative path of a module starts there.
pub fn template_request(
    key: &Key,
    template: &ValidatedTemplate,
    variables: &BTreeMap<String, String>,
    file: &str,
) -> Request {
    let mut request = Request::new(&key.namespace, &key.name, source(template, file));
    request.entrypoint.clone_from(&template.entrypoint);
    request.variables =
        variables.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str()))).collect();
    request.vars = vars(template);
    request.varmap = varmap(template);
    request
}

fn source(template: &ValidatedTemplate, file: &str) -> Source {
    match &template.source {
        TemplateSource::Inline { format, text } => {
            Source::Inline { format: language(*format), text: text.clone() }
        }
        TemplateSource::Remote { address } if address.starts_with('.') => {
            let address = directory_of(file).join(address).display().to_string();
            Source::Remote { address: explicit(address), fetched: None }
        }
        TemplateSource::Remote { address } => Source::Remote { address: address.clone(), fetched: None },
    }
}

/// Terraform takes a path for one only if it begins like one.
fn explicit(path: String) -> String {
    if path.starts_with(['/', '.']) { path } else { format!("./{path}") }
}

pub(super) const fn language(format: FileFormat) -> InlineFormat {
    match format {
        FileFormat::Hcl => InlineFormat::Hcl,
        FileFormat::Json => InlineFormat::Json,
    }
}

fn vars(template: &ValidatedTemplate) -> Vec<Var> {
    template.vars.iter().map(|(key, value)| Var { key: key.clone(), value: value.clone() }).collect()
}

fn varmap(template: &ValidatedTemplate) -> Map<String, Value> {
    match &template.varmap {
        Some(Value::Object(map)) => map.clone(),
        _ => Map::new(),
    }
}
