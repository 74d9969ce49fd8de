//! Resolves the inputs of a run from the object and the objects that it references.

use std::collections::BTreeMap;

use capt_engine::pipeline::WorkspaceJob;
use capt_kinds::{
    api::{
        InputFormat, SecretRef, WorkspaceTemplate, WorkspaceTemplateApply, conditions::reasons,
        names as api_names,
    },
    grant::{self, Granted},
};
use capt_kube::k8s::{K8sError, secrets::claim_existing};
use capt_model::{
    model::{
        ObjectKey,
        template::{DataSource, EnvValue},
        workspace_apply::{TerraformSource, ValidatedApply, ValidatedInput},
    },
    workspaces::{
        self, DataLookup, DesiredWorkspace, ReferencedData, ResolveError, ResolvedWorkspace, TemplateOrigin,
        WorkspaceSource, apply_workspace, resolve_references, template_workspace_source,
    },
};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Resource, ResourceExt};
use serde_json::Value;

use super::{
    WorkspaceContext,
    input_error::InputError,
    inputs_hash::hash_inputs,
    observation::{ConditionReason, ResolvedInputs},
    reference_reader::{ReferenceReader, template_not_found},
    run_identity,
    validate::{allowed_operations, invalid_spec, invalid_template, validate, validate_template},
};
use crate::common::template_policy::{LabelledNamespace, check_template_use};

/// Resolves all inputs, or returns what is missing or invalid.
pub async fn resolve_inputs(
    object: &WorkspaceTemplateApply,
    ctx: &WorkspaceContext,
    reader: &mut ReferenceReader<'_>,
) -> Result<ResolvedInputs, InputError> {
    let (key, valid) = validate(object)?;
    check_prerequisites(&valid, reader).await?;
    let template = get_template(&key, &valid, (ctx, reader)).await?;
    let mut blueprint = desired_workspace(&key, &valid, template.as_ref())?;
    if let Some(cluster) = object.annotations().get(api_names::EKS_CLUSTER_ANNOTATION) {
        blueprint.eks_cluster = Some(cluster.clone());
    }
    let data = load_template_data(&blueprint, reader).await?;
    let nothing = workspaces::AppliedOutputs::default();
    let connection_secret = granted_connection_secret(object, &blueprint, reader).await?;
    let mut resolved =
        resolve_references(&blueprint, &nothing, &data, &BTreeMap::new(), &ctx.provider_defaults)
            .map_err(unresolved_reference)?;
    resolve_secret_inputs(&valid, reader, &mut resolved).await?;
    let named = run_identity::identity_name(object, &blueprint.source);
    let acting = run_identity::resolve_identity(named.as_deref(), ctx, reader).await?;
    acting.apply_to_request(&mut resolved.request);
    let policies = allowed_operations(&blueprint.source);
    let mut assignment = WorkspaceJob::new(&blueprint, resolved);
    assignment.region = assignment.region.or_else(|| Some(ctx.provider_defaults.default_region.clone()));
    assignment.retained |= !policies.destroy;
    assignment.principal.clone_from(&acting.principal);
    Ok(ResolvedInputs {
        hash: hash_inputs(&assignment.resolved, &acting.digest),
        job: assignment,
        allowed: policies,
        connection_secret,
        identity: acting.name,
    })
}

/// Checks that the Secrets and workspaces that the spec waits for exist and are ready.
async fn check_prerequisites(
    valid: &ValidatedApply,
    reader: &mut ReferenceReader<'_>,
) -> Result<(), InputError> {
    let mut missing = Vec::new();
    let from: &[ValidatedInput] = match &valid.source {
        TerraformSource::Module { from, .. } => from,
        TerraformSource::Template { .. } => &[],
    };
    for key in valid.wait_for_secrets.iter().chain(from.iter().map(|it| &it.secret)) {
        if reader.get_secret(key).await?.is_none() && !missing.contains(&key.to_string()) {
            missing.push(key.to_string());
        }
    }
    if !missing.is_empty() {
        let message = format!("waiting for Secret {}", missing.join(", "));
        return Err(InputError::Waiting(ConditionReason::new(reasons::WAITING_FOR_SECRETS, message)));
    }
    for key in &valid.wait_for_workspaces {
        if !reader.is_workspace_ready(key).await? {
            let message = format!("waiting for workspace {key} to become ready");
            return Err(InputError::Waiting(ConditionReason::new(reasons::WAITING_FOR_WORKSPACE, message)));
        }
    }
    Ok(())
}

/// The template that the spec names.
async fn get_template(
    key: &ObjectKey,
    valid: &ValidatedApply,
    (ctx, reader): (&WorkspaceContext, &mut ReferenceReader<'_>),
) -> Result<Option<Granted<WorkspaceTemplate>>, InputError> {
    let TerraformSource::Template { template: wanted, .. } = &valid.source else { return Ok(None) };
    check_template_policy(key.namespace.as_str(), wanted, (ctx, reader)).await?;
    let found = reader.get_template(wanted).await?;
    validate_template(wanted, &found)?;
    Ok(Some(found))
}

/// Checks that the object's namespace may use a template. Before the template is read, and whatever is in it.
async fn check_template_policy(
    namespace: &str,
    wanted: &ObjectKey,
    (ctx, reader): (&WorkspaceContext, &mut ReferenceReader<'_>),
) -> Result<(), InputError> {
    let home = wanted.namespace.as_str();
    let labels = reader.get_namespace_labels(namespace).await?;
    let home_labels =
        if home == namespace { labels.clone() } else { reader.get_namespace_labels(home).await? };
    let user = LabelledNamespace { name: namespace, labels: &labels };
    let home = LabelledNamespace { name: home, labels: &home_labels };
    check_template_use(user, home, &ctx.common.settings).map_err(|refused| {
        InputError::Invalid(ConditionReason::new(reasons::TEMPLATE_NOT_ALLOWED, refused.to_string()))
    })
}

/// The workspace of the object.
fn desired_workspace(
    key: &ObjectKey,
    valid: &ValidatedApply,
    found: Option<&Granted<WorkspaceTemplate>>,
) -> Result<DesiredWorkspace, InputError> {
    apply_workspace(key, valid, |workspace, template, variables| {
        let found = found.ok_or_else(|| template_not_found(template))?;
        template_workspace_source(&found.spec, &workspace.name, variables.clone(), TemplateOrigin::ApiObject)
            .map_err(|errors| invalid_template(template, &errors))
    })
}

/// The `ConfigMap`s and Secrets that a template's variable files and environment come from.
#[derive(Default)]
struct TemplateData {
    config_maps: BTreeMap<ObjectKey, Granted<ConfigMap>>,
    secrets: BTreeMap<ObjectKey, Granted<Secret>>,
}

impl ReferencedData for TemplateData {
    fn config_map_value(&self, object: &ObjectKey, key: &str) -> DataLookup {
        let value = |map: &Granted<ConfigMap>| map.data.as_ref().and_then(|data| data.get(key)).cloned();
        self.config_maps.get(object).map_or(DataLookup::NoObject, |map| DataLookup::of_key(value(map)))
    }

    fn secret_value(&self, object: &ObjectKey, key: &str) -> DataLookup {
        let value = |secret: &Granted<Secret>| {
            let bytes = secret.data.as_ref().and_then(|data| data.get(key));
            bytes.map(|bytes| String::from_utf8_lossy(&bytes.0).into_owned())
        };
        self.secrets.get(object).map_or(DataLookup::NoObject, |secret| DataLookup::of_key(value(secret)))
    }
}

/// Reads the objects that the template refers to. Missing ones are reported by the resolution.
async fn load_template_data(
    blueprint: &DesiredWorkspace,
    reader: &mut ReferenceReader<'_>,
) -> Result<TemplateData, InputError> {
    let mut data = TemplateData::default();
    let WorkspaceSource::Template { template, .. } = &blueprint.source else { return Ok(data) };
    let files = template.var_files.iter().map(|file| &file.from);
    let env = template.env.iter().filter_map(|variable| match &variable.value {
        EnvValue::From(source) => Some(source),
        EnvValue::Literal(_) => None,
    });
    for source in files.chain(env) {
        let key = source.resolve().map_err(|problems| invalid_spec(&problems))?.object;
        match source {
            DataSource::ConfigMap(_) => {
                data.config_maps.extend(reader.get_config_map(&key).await?.map(|found| (key, found)));
            }
            DataSource::Secret(_) => {
                data.secrets.extend(reader.get_secret(&key).await?.map(|found| (key, found)));
            }
        }
    }
    Ok(data)
}

fn unresolved_reference(error: ResolveError) -> InputError {
    let message = match error {
        ResolveError::MissingData { what } => {
            format!("{what} does not exist; create it, or correct the reference")
        }
        other => other.to_string(),
    };
    InputError::Waiting(ConditionReason::new(reasons::REFERENCE_NOT_FOUND, message))
}

/// Resolves the inputs of a built-in module that come from Secrets.
async fn resolve_secret_inputs(
    valid: &ValidatedApply,
    reader: &mut ReferenceReader<'_>,
    resolved: &mut ResolvedWorkspace,
) -> Result<(), InputError> {
    let TerraformSource::Module { from, .. } = &valid.source else { return Ok(()) };
    for wanted in from {
        let secret = reader.get_secret(&wanted.secret).await?;
        let value = parse_secret_input(wanted, secret.as_ref())
            .map_err(|message| InputError::Invalid(ConditionReason::new(reasons::INVALID_INPUT, message)))?;
        resolved.request.upstream_outputs.insert(wanted.input.clone(), value);
    }
    Ok(())
}

/// Parses the value of one key. Error messages never contain the value, because it may be sensitive.
fn parse_secret_input(wanted: &ValidatedInput, secret: Option<&Granted<Secret>>) -> Result<Value, String> {
    let place = format!("Secret {} key {}", wanted.secret, wanted.key);
    let bytes = secret.and_then(|secret| secret.data.as_ref()?.get(&wanted.key));
    let bytes = bytes.ok_or_else(|| {
        format!(
            "{place} (input {}) is missing; the workspace that writes the Secret has no such output",
            wanted.input
        )
    })?;
    let text = String::from_utf8(bytes.0.clone()).map_err(|_| format!("{place} is not valid UTF-8"))?;
    match wanted.format {
        InputFormat::Text if text.trim().is_empty() => Err(format!("{place} is empty")),
        InputFormat::Text => Ok(Value::String(text)),
        InputFormat::Json => serde_json::from_str(&text).map_err(|_| {
            format!(
                "{place} (input {}) is not JSON; correct the Secret, or delete it so that it is written again",
                wanted.input
            )
        }),
    }
}

/// The Secret that receives the outputs, if the object may write it. Checked before anything runs: outputs without a place would be
/// found out only after everything is made.
async fn granted_connection_secret(
    object: &WorkspaceTemplateApply,
    blueprint: &DesiredWorkspace,
    reader: &mut ReferenceReader<'_>,
) -> Result<Option<Granted<SecretRef>>, InputError> {
    let Some(key) = &blueprint.connection_secret else { return Ok(None) };
    let namespace = object.namespace().unwrap_or_default();
    let to = SecretRef { name: key.name.to_string(), namespace: key.namespace.to_string() };
    let Some(target) = grant::connection_secret(&namespace, to) else {
        let message = format!(
            "connection Secret {key} is not in namespace {namespace}; a workspace writes its outputs to its own namespace only: change \
             writeConnectionSecretToRef, or override the one of the template"
        );
        return Err(InputError::Invalid(ConditionReason::new(reasons::REFERENCE_NOT_GRANTED, message)));
    };
    let found = reader.get_secret(key).await?;
    let writer = object.controller_owner_ref(&());
    let Some((found, writer)) = found.zip(writer) else { return Ok(Some(target)) };
    match claim_existing(&found, &writer) {
        Ok(_) => Ok(Some(target)),
        // The garbage collector deletes it.
        Err(error @ K8sError::Stale { .. }) => Err(InputError::Api(error)),
        Err(error) => Err(InputError::Invalid(ConditionReason::new(
            reasons::REFERENCE_NOT_GRANTED,
            format!("connection {error}"),
        ))),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;

    use super::*;

    fn wanted(format: InputFormat) -> ValidatedInput {
        let secret = ObjectKey::parse("team", "vpc-out").unwrap();
        ValidatedInput { input: "private_subnets".to_owned(), secret, key: "subnets".to_owned(), format }
    }

    fn secret(text: &str) -> Granted<Secret> {
        let data = BTreeMap::from([("subnets".to_owned(), ByteString(text.as_bytes().to_vec()))]);
        granted(Secret { data: Some(data), ..Secret::default() })
    }

    fn granted(mut secret: Secret) -> Granted<Secret> {
        secret.metadata.namespace = Some("team".to_owned());
        grant::reference("team", secret, None).unwrap()
    }

    #[test]
    fn values_are_read_as_they_are_written() {
        assert_eq!(parse_secret_input(&wanted(InputFormat::Text), Some(&secret("vpc-1"))).unwrap(), "vpc-1");
        let list = parse_secret_input(&wanted(InputFormat::Json), Some(&secret("[\"a\"]"))).unwrap();
        assert_eq!(list, serde_json::json!(["a"]));
    }

    #[test]
    fn garbage_is_named_and_not_repeated() {
        let said = parse_secret_input(&wanted(InputFormat::Json), Some(&secret("hunter2"))).unwrap_err();
        assert!(said.contains("Secret team/vpc-out key subnets") && !said.contains("hunter2"), "{said}");
        let said = parse_secret_input(&wanted(InputFormat::Text), None).unwrap_err();
        assert!(said.contains("is missing"), "{said}");
        assert!(parse_secret_input(&wanted(InputFormat::Text), Some(&secret(" "))).is_err());
    }
}
