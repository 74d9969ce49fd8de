//! From a blueprint and what is known of other workspaces to what the driver renders. Pure.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use terraform_driver::{
    command::UserArgs,
    output::Outputs,
    render::{LocalEndpoint, ProviderBlock, Request, Source, VarFile},
};
use thiserror::Error;

use super::{
    Blueprint, Body, Handed, Key,
    fill::{language, template_request},
};
use crate::{
    manifest::ValidatedManifests,
    model::template::{DataSource, EnvValue, ExtraArgs, ValidatedTemplate},
};

/// What is known while the work goes on.
#[derive(Debug, Default)]
pub struct Known {
    /// The outputs of the workspaces that are there.
    pub outputs: BTreeMap<Key, Outputs>,
}

/// Where the work goes on.
#[derive(Debug, Clone)]
pub struct Place {
    /// The local AWS; none for the real one.
    pub local_endpoint: Option<String>,
    /// The region of objects that name none.
    pub default_region: String,
}

/// A value that is not there.
#[derive(Debug, Clone, Error, PartialEq, Eq)]
pub enum ResolveError {
    /// It comes from a workspace that has not been applied.
    #[error("{variable} comes from {from}, which has not been applied yet")]
    NotYet {
        /// The variable.
        variable: String,
        /// Whose output it is.
        from: Key,
    },
    /// The workspace is there and has no such output.
    #[error("{from} has no output `{output}`; add it to its template, or set the value in the spec")]
    NoOutput {
        /// The output.
        output: String,
        /// Whose it should be.
        from: Key,
    },
    /// A Secret or `ConfigMap` that nobody knows.
    #[error(
        "{what} is in none of the files and no workspace writes it; add its file, or correct the reference"
    )]
    NoData {
        /// Object and key.
        what: String,
    },
}

/// What the driver needs.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// What is rendered.
    pub request: Request,
    /// The template's additions to the environment.
    pub env: Vec<(String, String)>,
    /// The template's additions to the commands.
    pub args: UserArgs,
    /// What is left out because the workspace that it comes from is not there yet.
    pub missing: Vec<ResolveError>,
}

/// Fills in everything that comes from elsewhere.
pub fn resolve(
    blueprint: &Blueprint,
    known: &Known,
    manifests: &ValidatedManifests,
    secrets: &BTreeMap<String, Key>,
    place: &Place,
) -> Result<Resolved, ResolveError> {
    let mut finder = Finder { known, manifests, secrets, missing: Vec::new() };
    let (mut request, env, args) = match &blueprint.body {
        Body::Module { module, inputs } => {
            let key = &blueprint.key;
            let mut request = Request::new(&key.namespace, &key.name, Source::Module(module.files()));
            request.variables.clone_from(inputs);
            (request, Vec::new(), UserArgs::default())
        }
        Body::Template { template, variables, file } => {
            let mut request = template_request(&blueprint.key, template, variables, file);
            request.var_files = finder.var_files(template)?;
            (request, finder.env(template)?, args(&template.args))
        }
    };
    request.upstream = finder.upstream(blueprint)?;
    request.provider = Some(ProviderBlock {
        region: blueprint.region.clone().unwrap_or_else(|| place.default_region.clone()),
        local: place.local_endpoint.clone().map(|url| LocalEndpoint { url }),
        ..ProviderBlock::default()
    });
    Ok(Resolved { request, env, args, missing: finder.missing })
}

fn args(extra: &ExtraArgs) -> UserArgs {
    let ExtraArgs { init, plan, apply, destroy } = extra.clone();
    UserArgs { init, plan, apply, destroy }
}

/// Looks values up: in the files, or among what other workspaces make.
struct Finder<'a> {
    known: &'a Known,
    manifests: &'a ValidatedManifests,
    secrets: &'a BTreeMap<String, Key>,
    missing: Vec<ResolveError>,
}

impl Finder<'_> {
    /// The values that come from other workspaces, in the order of the blueprint.
    fn upstream(&mut self, blueprint: &Blueprint) -> Result<Map<String, Value>, ResolveError> {
        let mut values = Map::new();
        for Handed { from, name } in &blueprint.handed {
            let Some(outputs) = self.outputs(from, name) else { continue };
            let output = outputs
                .get(name)
                .ok_or_else(|| ResolveError::NoOutput { output: (*name).to_owned(), from: from.clone() })?;
            values.insert((*name).to_owned(), output.expose().clone());
        }
        Ok(values)
    }

    fn outputs(&mut self, from: &Key, variable: &str) -> Option<&Outputs> {
        let outputs = self.known.outputs.get(from);
        if outputs.is_none() {
            self.missing.push(ResolveError::NotYet { variable: variable.to_owned(), from: from.clone() });
        }
        outputs
    }

    fn var_files(&mut self, template: &ValidatedTemplate) -> Result<Vec<VarFile>, ResolveError> {
        let mut files = Vec::new();
        for file in &template.var_files {
            if let Some((origin, text)) = self.text(&file.from)? {
                files.push(VarFile { origin, format: language(file.format), text });
            }
        }
        Ok(files)
    }

    fn env(&mut self, template: &ValidatedTemplate) -> Result<Vec<(String, String)>, ResolveError> {
        let mut env = Vec::new();
        for variable in &template.env {
            let value = match &variable.value {
                EnvValue::Literal(text) => Some(text.clone()),
                EnvValue::From(source) => self.text(source)?.map(|(_, text)| text),
            };
            env.extend(value.map(|value| (variable.name.clone(), value)));
        }
        Ok(env)
    }

    /// Where it is, and what it says; nothing if the workspace that makes it is not there yet.
    fn text(&mut self, source: &DataSource) -> Result<Option<(String, String)>, ResolveError> {
        let (kind, reference) = match source {
            DataSource::ConfigMap(reference) => ("ConfigMap", reference),
            DataSource::Secret(reference) => ("Secret", reference),
        };
        let what = format!("{kind} {}/{} key {}", reference.namespace, reference.name, reference.key);
        let missing = || ResolveError::NoData { what: what.clone() };
        let data = source.resolve().map_err(|_| missing())?;
        let text = match source {
            DataSource::ConfigMap(_) => {
                let map = self.manifests.config_maps.get(&data.object).ok_or_else(missing)?;
                map.data.get(&data.key).cloned()
            }
            DataSource::Secret(_) => match self.manifests.secrets.get(&data.object) {
                Some(secret) => {
                    secret.value(&data.key).map(|value| String::from_utf8_lossy(value.reveal()).into_owned())
                }
                None => {
                    let maker = self.secrets.get(&data.object.to_string()).cloned().ok_or_else(missing)?;
                    let Some(outputs) = self.outputs(&maker, &what) else { return Ok(None) };
                    outputs.connection_strings().get(&data.key).map(|value| value.expose().clone())
                }
            },
        };
        Ok(Some((what.clone(), text.ok_or_else(missing)?)))
    }
}
