//! Validation of a `WorkspaceTemplate`: a Terraform configuration supplied by a user.

use capt_kinds::api::{self, DeletionPolicy, FileFormat, ManagementPolicy, ModuleSource, VarFileSource};
use serde_json::Value;

use super::{
    problem::{FieldPath, Problem, Problems},
    references::{self, DataKey, ObjectKey},
};

/// A validated `WorkspaceTemplate`, with unfilled placeholders.
#[derive(Clone, Debug, PartialEq)]
pub struct ValidatedTemplate {
    /// The configuration.
    pub source: TemplateSource,
    /// Subdirectory in which terraform runs.
    pub entrypoint: String,
    /// Variables as text, in order.
    pub vars: Vec<(String, String)>,
    /// Variable files, in order.
    pub var_files: Vec<ValidatedVarFile>,
    /// Variables as a JSON object.
    pub varmap: Option<Value>,
    /// Environment of terraform.
    pub env: Vec<ValidatedEnvVar>,
    /// Extra arguments.
    pub args: ExtraArgs,
    /// What happens to the resources when the apply is deleted.
    pub deletion_policy: DeletionPolicy,
    /// Allowed operations on the resources.
    pub management_policies: Vec<ManagementPolicy>,
    /// Name of the identity; `default` is the operator's own.
    pub provider_config: String,
    /// The Secret that receives the outputs. Unparsed, because it may contain placeholders.
    pub connection_secret: Option<api::SecretRef>,
}

/// Source of a template's configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemplateSource {
    /// In the template.
    Inline {
        /// Its language.
        format: FileFormat,
        /// Its text.
        text: String,
    },
    /// A module address that terraform fetches.
    Remote {
        /// The address.
        address: String,
    },
}

/// A variable file. Its reference is unparsed, because it may contain placeholders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidatedVarFile {
    /// Its language.
    pub format: FileFormat,
    /// Its source.
    pub from: DataSource,
}

/// A variable of terraform's environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidatedEnvVar {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: EnvValue,
}

/// Value of an environment variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnvValue {
    /// A literal.
    Literal(String),
    /// From another object.
    From(DataSource),
}

/// A key of another object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataSource {
    /// Of a `ConfigMap`.
    ConfigMap(api::KeyRef),
    /// Of a Secret.
    Secret(api::KeyRef),
}

impl DataSource {
    /// Parses the reference, after placeholders are filled.
    pub fn resolve(&self) -> Result<DataKey, Vec<Problem>> {
        let (Self::ConfigMap(reference) | Self::Secret(reference)) = self;
        let mut problems = Problems::default();
        let key = references::check_data_key(&FieldPath::root("keyRef"), reference, &mut problems);
        problems.into_result(key)
    }
}

/// Parses a Secret reference, after placeholders are filled.
pub fn resolve_secret(reference: &api::SecretRef) -> Result<ObjectKey, Vec<Problem>> {
    let mut problems = Problems::default();
    let key =
        references::check_secret(&FieldPath::root("writeConnectionSecretToRef"), reference, &mut problems);
    problems.into_result(key)
}

/// Extra arguments of terraform commands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtraArgs {
    /// Of init.
    pub init: Vec<String>,
    /// Of plan.
    pub plan: Vec<String>,
    /// Of apply.
    pub apply: Vec<String>,
    /// Of destroy.
    pub destroy: Vec<String>,
}

/// Validates the spec of a `WorkspaceTemplate`.
pub fn validate(spec: &api::WorkspaceTemplateSpec) -> Result<ValidatedTemplate, Vec<Problem>> {
    let mut problems = Problems::default();
    let root = FieldPath::root("spec");
    let template = root.field("template");
    let path = template.field("spec");
    let valid = check_spec(&path, &spec.template.spec, &mut problems);
    problems.into_result(Some(valid))
}

fn check_spec(path: &FieldPath<'_>, spec: &api::WorkspaceSpec, problems: &mut Problems) -> ValidatedTemplate {
    let api::WorkspaceSpec {
        for_provider,
        deletion_policy,
        management_policies,
        provider_config_ref,
        write_connection_secret_to_ref,
        publish_connection_details_to,
    } = spec;
    if publish_connection_details_to.is_some() {
        problems.add(
            &path.field("publishConnectionDetailsTo"),
            "external secret stores are not supported",
            "use writeConnectionSecretToRef",
        );
    }
    let parameters = path.field("forProvider");
    let vars = vars(&parameters.field("vars"), &for_provider.vars, problems);
    let var_files = for_provider.var_files.iter().enumerate();
    let var_files =
        var_files.filter_map(|(at, file)| var_file(&parameters.field("varFiles").index(at), file, problems));
    let var_files = var_files.collect();
    let env = for_provider.env.iter().enumerate();
    let env = env
        .filter_map(|(at, variable)| env_var(&parameters.field("env").index(at), variable, problems))
        .collect();
    ValidatedTemplate {
        source: source(&parameters, for_provider, problems),
        entrypoint: for_provider.entrypoint.clone(),
        vars,
        var_files,
        varmap: varmap(&parameters.field("varmap"), for_provider.varmap.as_ref(), problems),
        env,
        args: ExtraArgs {
            init: for_provider.init_args.clone(),
            plan: for_provider.plan_args.clone(),
            apply: for_provider.apply_args.clone(),
            destroy: for_provider.destroy_args.clone(),
        },
        deletion_policy: *deletion_policy,
        management_policies: management_policies.clone(),
        provider_config: provider_config_ref.name.clone(),
        connection_secret: write_connection_secret_to_ref.clone(),
    }
}

fn source(
    path: &FieldPath<'_>,
    parameters: &api::WorkspaceParameters,
    problems: &mut Problems,
) -> TemplateSource {
    let module = parameters.module.clone();
    if module.trim().is_empty() {
        problems.add(
            &path.field("module"),
            "must not be empty",
            "use a configuration, or the address of one",
        );
    }
    match parameters.source {
        ModuleSource::Inline => {
            TemplateSource::Inline { format: parameters.inline_format.unwrap_or_default(), text: module }
        }
        ModuleSource::Remote => TemplateSource::Remote { address: module },
    }
}

fn vars(path: &FieldPath<'_>, vars: &[api::Var], problems: &mut Problems) -> Vec<(String, String)> {
    for (index, var) in vars.iter().enumerate() {
        if var.key.is_empty() {
            problems.add(&path.index(index).field("key"), "must not be empty", "use the name of a variable");
        }
    }
    vars.iter().map(|var| (var.key.clone(), var.value.clone())).collect()
}

fn var_file(path: &FieldPath<'_>, file: &api::VarFile, problems: &mut Problems) -> Option<ValidatedVarFile> {
    let from = match file.source {
        VarFileSource::ConfigMapKey => file.config_map_key_ref.clone().map(DataSource::ConfigMap),
        VarFileSource::SecretKey => file.secret_key_ref.clone().map(DataSource::Secret),
    };
    let Some(from) = from else {
        let (field, source) = match file.source {
            VarFileSource::ConfigMapKey => ("configMapKeyRef", "ConfigMapKey"),
            VarFileSource::SecretKey => ("secretKeyRef", "SecretKey"),
        };
        problems.add(
            &path.field(field),
            format!("is required by source {source}"),
            "add it, or change source",
        );
        return None;
    };
    Some(ValidatedVarFile { format: file.format, from })
}

fn env_var(path: &FieldPath<'_>, variable: &api::EnvVar, problems: &mut Problems) -> Option<ValidatedEnvVar> {
    let api::EnvVar { name, value, config_map_key_ref, secret_key_ref } = variable;
    if name.is_empty() || name.contains(['=', '\0']) {
        problems.add(
            &path.field("name"),
            format!("{name:?} is not a valid variable name"),
            "use a name such as HELM_CACHE_HOME",
        );
    }
    let value = match (value, config_map_key_ref, secret_key_ref) {
        (value, None, None) => EnvValue::Literal(value.clone().unwrap_or_default()),
        (None, Some(key), None) => EnvValue::From(DataSource::ConfigMap(key.clone())),
        (None, None, Some(key)) => EnvValue::From(DataSource::Secret(key.clone())),
        _ => {
            problems.add(
                path,
                "has more than one of value, configMapKeyRef and secretKeyRef",
                "keep one of them",
            );
            return None;
        }
    };
    Some(ValidatedEnvVar { name: name.clone(), value })
}

fn varmap(path: &FieldPath<'_>, varmap: Option<&Value>, problems: &mut Problems) -> Option<Value> {
    if varmap.is_some_and(|value| !value.is_object()) {
        problems.add(path, "is not a map", "use a map of variables");
    }
    varmap.cloned()
}
