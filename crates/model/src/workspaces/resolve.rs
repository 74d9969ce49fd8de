//! Resolves the references of a workspace (outputs of other workspaces, Secrets, config maps) into a render request. Pure: no
//! I/O.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use terraform_driver::{
    command::UserArgs,
    output::Outputs,
    render::{LocalEndpoint, ProviderBlock, RenderRequest, RootSource, VarFile},
};
use thiserror::Error;

use super::{
    DesiredWorkspace, OutputRef, WorkspaceKey, WorkspaceSource,
    template::{inline_format, template_request},
};
use crate::{
    manifest::ValidatedManifests,
    model::{
        ObjectKey,
        template::{DataSource, EnvValue, ExtraArgs, ValidatedTemplate},
    },
};

/// Outputs of the workspaces that are applied so far.
#[derive(Debug, Default)]
pub struct AppliedOutputs {
    /// Outputs by workspace.
    pub by_workspace: BTreeMap<WorkspaceKey, Outputs>,
}

/// Defaults of the AWS provider block.
#[derive(Debug, Clone)]
pub struct ProviderDefaults {
    /// Endpoint of the local AWS; `None` for the real AWS.
    pub local_endpoint: Option<String>,
    /// Region of objects that do not set one.
    pub default_region: String,
}

/// A reference that cannot be resolved.
#[derive(Debug, Clone, Error, PartialEq, Eq)]
pub enum ResolveError {
    /// The workspace that has the output is not applied.
    #[error("{variable} comes from {from}, which has not been applied yet")]
    NotApplied {
        /// The variable.
        variable: String,
        /// The workspace that has the output.
        from: WorkspaceKey,
    },
    /// The workspace is applied and has no such output.
    #[error("{from} has no output `{output}`; add it to its template, or set the value in the spec")]
    MissingOutput {
        /// The output.
        output: String,
        /// The workspace.
        from: WorkspaceKey,
    },
    /// A Secret or `ConfigMap` that does not exist.
    #[error(
        "{what} is neither in the manifests nor written by a workspace; add it, or correct the reference"
    )]
    MissingData {
        /// The object and its key.
        what: String,
    },
}

/// Looks up the Secrets and config maps that templates refer to.
pub trait ReferencedData {
    /// The value of a key of a `ConfigMap`.
    fn config_map_value(&self, object: &ObjectKey, key: &str) -> DataLookup;

    /// The value of a key of a Secret.
    fn secret_value(&self, object: &ObjectKey, key: &str) -> DataLookup;
}

/// Result of looking up one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DataLookup {
    /// The value.
    Found(String),
    /// The object has no such key.
    NoKey,
    /// The object does not exist.
    NoObject,
}

impl DataLookup {
    /// The value of a key of an existing object.
    pub fn of_key(value: Option<String>) -> Self {
        value.map_or(Self::NoKey, Self::Found)
    }
}

impl ReferencedData for ValidatedManifests {
    fn config_map_value(&self, object: &ObjectKey, key: &str) -> DataLookup {
        let found = self.config_maps.get(object);
        found.map_or(DataLookup::NoObject, |map| DataLookup::of_key(map.data.get(key).cloned()))
    }

    fn secret_value(&self, object: &ObjectKey, key: &str) -> DataLookup {
        let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
        self.secrets.get(object).map_or(DataLookup::NoObject, |secret| {
            DataLookup::of_key(secret.value(key).map(|value| text(value.reveal())))
        })
    }
}

/// Input of the driver.
#[derive(Debug, Clone)]
pub struct ResolvedWorkspace {
    /// Render request.
    pub request: RenderRequest,
    /// Environment variables of the template.
    pub env: Vec<(String, String)>,
    /// Extra arguments of the template.
    pub args: UserArgs,
    /// References that were left out because their workspace is not applied yet.
    pub missing: Vec<ResolveError>,
}

/// Resolves all references of a workspace. `secrets` maps connection Secrets to the workspaces that write them.
pub fn resolve_references(
    blueprint: &DesiredWorkspace,
    known: &AppliedOutputs,
    data: &dyn ReferencedData,
    secrets: &BTreeMap<String, WorkspaceKey>,
    place: &ProviderDefaults,
) -> Result<ResolvedWorkspace, ResolveError> {
    let mut finder =
        ReferenceResolver { applied: known, data, secret_producers: secrets, missing: Vec::new() };
    let (mut request, env, args) = match &blueprint.source {
        WorkspaceSource::Module { module, inputs } => {
            let key = &blueprint.key;
            let mut request =
                RenderRequest::new(&key.namespace, &key.name, RootSource::Module(module.files()));
            request.variables.clone_from(inputs);
            (request, Vec::new(), UserArgs::default())
        }
        WorkspaceSource::Template { template, variables, file: _ } => {
            let mut request = template_request(&blueprint.key, template, variables);
            request.var_files = finder.var_files(template)?;
            (request, finder.env(template)?, user_args(&template.args))
        }
    };
    request.upstream_outputs = finder.upstream_values(blueprint)?;
    request.provider = Some(ProviderBlock {
        region: blueprint.region.clone().unwrap_or_else(|| place.default_region.clone()),
        local: place.local_endpoint.clone().map(|url| LocalEndpoint { url }),
        ..ProviderBlock::default()
    });
    Ok(ResolvedWorkspace { request, env, args, missing: finder.missing })
}

fn user_args(extra: &ExtraArgs) -> UserArgs {
    let ExtraArgs { init, plan, apply, destroy } = extra.clone();
    UserArgs { init, plan, apply, destroy }
}

/// Looks up references in the referenced objects and in the outputs of other workspaces.
struct ReferenceResolver<'a> {
    applied: &'a AppliedOutputs,
    data: &'a dyn ReferencedData,
    secret_producers: &'a BTreeMap<String, WorkspaceKey>,
    missing: Vec<ResolveError>,
}

impl ReferenceResolver<'_> {
    /// Variables from outputs of other workspaces, in declaration order.
    fn upstream_values(&mut self, blueprint: &DesiredWorkspace) -> Result<Map<String, Value>, ResolveError> {
        let mut values = Map::new();
        for OutputRef { from, name } in &blueprint.output_refs {
            let Some(outputs) = self.outputs_of(from, name) else { continue };
            let output = outputs.get(name).ok_or_else(|| ResolveError::MissingOutput {
                output: (*name).to_owned(),
                from: from.clone(),
            })?;
            values.insert((*name).to_owned(), output.expose().clone());
        }
        Ok(values)
    }

    fn outputs_of(&mut self, from: &WorkspaceKey, variable: &str) -> Option<&Outputs> {
        let outputs = self.applied.by_workspace.get(from);
        if outputs.is_none() {
            self.missing.push(ResolveError::NotApplied { variable: variable.to_owned(), from: from.clone() });
        }
        outputs
    }

    fn var_files(&mut self, template: &ValidatedTemplate) -> Result<Vec<VarFile>, ResolveError> {
        let mut files = Vec::new();
        for file in &template.var_files {
            if let Some((origin, text)) = self.read_data_source(&file.from)? {
                files.push(VarFile { origin, format: inline_format(file.format), text });
            }
        }
        Ok(files)
    }

    fn env(&mut self, template: &ValidatedTemplate) -> Result<Vec<(String, String)>, ResolveError> {
        let mut env = Vec::new();
        for variable in &template.env {
            let value = match &variable.value {
                EnvValue::Literal(text) => Some(text.clone()),
                EnvValue::From(source) => self.read_data_source(source)?.map(|(_, text)| text),
            };
            env.extend(value.map(|value| (variable.name.clone(), value)));
        }
        Ok(env)
    }

    /// Description and text of a Secret or `ConfigMap` key; `None` if the workspace that writes it is not applied yet.
    fn read_data_source(&mut self, source: &DataSource) -> Result<Option<(String, String)>, ResolveError> {
        let (kind, reference) = match source {
            DataSource::ConfigMap(reference) => ("ConfigMap", reference),
            DataSource::Secret(reference) => ("Secret", reference),
        };
        let what = format!("{kind} {}/{} key {}", reference.namespace, reference.name, reference.key);
        let missing = || ResolveError::MissingData { what: what.clone() };
        let data = source.resolve().map_err(|_| missing())?;
        let found = match source {
            DataSource::ConfigMap(_) => self.data.config_map_value(&data.object, &data.key),
            DataSource::Secret(_) => self.data.secret_value(&data.object, &data.key),
        };
        let text = match (found, source) {
            (DataLookup::Found(text), _) => Some(text),
            (DataLookup::NoKey, _) | (DataLookup::NoObject, DataSource::ConfigMap(_)) => None,
            (DataLookup::NoObject, DataSource::Secret(_)) => {
                let maker =
                    self.secret_producers.get(&data.object.to_string()).cloned().ok_or_else(missing)?;
                let Some(outputs) = self.outputs_of(&maker, &what) else { return Ok(None) };
                outputs.connection_strings().get(&data.key).map(|value| value.expose().clone())
            }
        };
        Ok(Some((what.clone(), text.ok_or_else(missing)?)))
    }
}
