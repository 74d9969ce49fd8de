//! Instantiates a `WorkspaceTemplate`: substitutes its placeholders and builds its render request. Pure: no I/O.

use std::{collections::BTreeMap, ops::Deref};

use capt_kinds::api::{FileFormat, WorkspaceSpec, WorkspaceTemplateSpec};
use serde_json::{Map, Value};
use terraform_driver::{
    render::{InlineFormat, RenderRequest, RootSource, TemplateVar},
    source::{LocalModules, ModuleSource, SourceError},
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
    /// The address of its module is refused.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The result is not a valid template spec.
    #[error("{0}")]
    Invalid(String),
}

/// Where a template comes from, which decides what its module may be.
#[derive(Debug, Clone, Copy)]
pub enum TemplateOrigin<'a> {
    /// An object of the Kubernetes API: no local modules.
    ApiObject,
    /// A file of manifests.
    File {
        /// Its path; relative module paths start at its directory.
        path: &'a str,
        /// Permission to use local modules.
        local: Option<LocalModules>,
    },
}

/// A template with its placeholders substituted, and its source parsed.
#[derive(Debug, Clone)]
pub struct InstantiatedTemplate {
    /// The template.
    pub template: ValidatedTemplate,
    root: RootSource,
}

impl Deref for InstantiatedTemplate {
    type Target = ValidatedTemplate;

    fn deref(&self) -> &ValidatedTemplate {
        &self.template
    }
}

/// Substitutes the placeholders of a template for a workspace and validates the result.
pub fn instantiate_template(
    spec: &WorkspaceTemplateSpec,
    workspace: &str,
    variables: &BTreeMap<String, String>,
    origin: TemplateOrigin<'_>,
) -> Result<InstantiatedTemplate, Vec<TemplateError>> {
    let shape = |error: serde_json::Error| vec![TemplateError::Invalid(error.to_string())];
    let inner = serde_json::to_value(&spec.template.spec).map_err(shape)?;
    let filled = substitute_placeholders(&inner, &PlaceholderValues::new(workspace, variables))
        .map_err(|errors| errors.into_iter().map(TemplateError::from).collect::<Vec<_>>())?;
    let filled: WorkspaceSpec = serde_json::from_value(filled).map_err(shape)?;
    let mut whole = spec.clone();
    whole.template.spec = filled;
    let template = template::validate(&whole)
        .map_err(|problems| problems.into_iter().map(TemplateError::Field).collect::<Vec<_>>())?;
    let root = root_source(&template.source, origin).map_err(|error| vec![error.into()])?;
    Ok(InstantiatedTemplate { template, root })
}

/// Render request of a template, without the values from Secrets and config maps.
pub fn template_request(
    key: &WorkspaceKey,
    template: &InstantiatedTemplate,
    variables: &BTreeMap<String, String>,
) -> RenderRequest {
    let mut request = RenderRequest::new(&key.namespace, &key.name, template.root.clone());
    request.entrypoint.clone_from(&template.entrypoint);
    request.variables =
        variables.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str()))).collect();
    request.vars = vars(template);
    request.varmap = varmap(template);
    request
}

/// Parses the source. The placeholders are filled: an address may consist of them.
fn root_source(source: &TemplateSource, origin: TemplateOrigin<'_>) -> Result<RootSource, SourceError> {
    let address = match source {
        TemplateSource::Inline { format, text } => {
            return Ok(RootSource::Inline { format: inline_format(*format), text: text.clone() });
        }
        TemplateSource::Remote { address } => address,
    };
    let source = match origin {
        TemplateOrigin::File { path, local: Some(local) } => {
            ModuleSource::parse_with_local(address, parent_dir(path), local)?
        }
        TemplateOrigin::File { local: None, .. } | TemplateOrigin::ApiObject => ModuleSource::parse(address)?,
    };
    Ok(RootSource::Remote { source, fetched: None })
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
