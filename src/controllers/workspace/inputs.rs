//! Everything that goes into a run, from the object and from what it refers to.
//!
//! An object of the API server and what it refers to are the same as a file that holds them all; so the meaning is
//! found with what the command line uses for files.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use serde_json::Value;

use super::{
    Context,
    digest::digest,
    facts::{Known, Policies, Reason},
    halt::Halt,
    identity,
    read::Reader,
};
use crate::{
    api::{
        InputFormat, ManagementPolicy, SecretRef, WorkspaceTemplate, WorkspaceTemplateApply,
        conditions::reasons, names as api_names,
    },
    blueprint::{self, Blueprint, Body, ResolveError, Resolved, blueprints, resolve},
    manifest::{Checked, Origin, ValidatedManifests},
    model::{
        ObjectKey, Problem,
        apply::{self, ValidatedApply, ValidatedInput, Work},
        template::{self, DataSource, EnvValue, TemplateSource, ValidatedTemplate},
    },
    work::Assignment,
};

/// Reads everything, or says what is missing.
pub async fn inputs(
    object: &WorkspaceTemplateApply,
    ctx: &Context,
    reader: &mut Reader<'_>,
) -> Result<Known, Halt> {
    let key = key_of(object)?;
    let valid = apply::validate(&object.spec, &key.namespace).map_err(|it| invalid_spec(&it))?;
    wait(&valid, reader).await?;
    let mut manifests = manifests(object, &key, valid.clone(), reader).await?;
    let mut blueprint = blueprint_of(&manifests)?;
    if let Some(cluster) = object.annotations().get(api_names::EKS_CLUSTER_ANNOTATION) {
        blueprint.eks_cluster = Some(cluster.clone());
    }
    data(&blueprint, reader, &mut manifests).await?;
    let nothing = blueprint::Known::default();
    let mut resolved =
        resolve(&blueprint, &nothing, &manifests, &BTreeMap::new(), &ctx.place).map_err(missing)?;
    from_secrets(&valid, reader, &mut resolved).await?;
    let named = identity::named(object, &blueprint.body);
    let acting = identity::acting(named.as_deref(), ctx, reader).await?;
    acting.put_into(&mut resolved.request);
    let policies = policies(&blueprint.body);
    let mut assignment = Assignment::of(&blueprint, resolved);
    assignment.region = assignment.region.or_else(|| Some(ctx.place.default_region.clone()));
    assignment.retained |= !policies.delete;
    assignment.principal.clone_from(&acting.principal);
    Ok(Known {
        hash: digest(&assignment.resolved, &acting.digest),
        assignment,
        policies,
        connection_secret: blueprint.connection_secret.as_ref().map(secret_ref),
        identity: acting.name,
    })
}

fn key_of(object: &WorkspaceTemplateApply) -> Result<ObjectKey, Halt> {
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    ObjectKey::parse(&namespace, &name)
        .map_err(|error| Halt::Invalid(Reason::new(reasons::INVALID_SPEC, error.to_string())))
}

fn invalid_spec(problems: &[Problem]) -> Halt {
    let all: Vec<String> = problems.iter().map(ToString::to_string).collect();
    Halt::Invalid(Reason::new(reasons::INVALID_SPEC, all.join("; ")))
}

/// Waits for what the spec says must be there first.
async fn wait(valid: &ValidatedApply, reader: &mut Reader<'_>) -> Result<(), Halt> {
    let mut missing = Vec::new();
    let from: &[ValidatedInput] = match &valid.work {
        Work::Module { from, .. } => from,
        Work::Template { .. } => &[],
    };
    for key in valid.wait_for_secrets.iter().chain(from.iter().map(|it| &it.secret)) {
        if reader.secret(key).await?.is_none() && !missing.contains(&key.to_string()) {
            missing.push(key.to_string());
        }
    }
    if !missing.is_empty() {
        let message = format!("waits for Secret {}", missing.join(", "));
        return Err(Halt::Waiting(Reason::new(reasons::WAITING_FOR_SECRETS, message)));
    }
    for key in &valid.wait_for_workspaces {
        if !reader.is_ready(key).await? {
            let message = format!("waits until workspace {key} is ready");
            return Err(Halt::Waiting(Reason::new(reasons::WAITING_FOR_WORKSPACE, message)));
        }
    }
    Ok(())
}

/// The object and its template, as if they stood in a file.
async fn manifests(
    object: &WorkspaceTemplateApply,
    key: &ObjectKey,
    valid: ValidatedApply,
    reader: &mut Reader<'_>,
) -> Result<ValidatedManifests, Halt> {
    let mut manifests = ValidatedManifests::default();
    if let Work::Template { template: wanted, .. } = &valid.work {
        let found = reader.template(wanted).await?;
        let meaning = template::validate(&found.spec).map_err(|problems| in_template(wanted, &problems))?;
        refuse_paths(wanted, &meaning)?;
        manifests.templates.insert(wanted.clone(), checked(wanted, found, meaning));
    }
    manifests.applies.insert(key.clone(), checked(key, object.clone(), valid));
    Ok(manifests)
}

fn checked<T, V>(key: &ObjectKey, object: T, valid: V) -> Checked<T, V> {
    let origin = Origin { file: "the API server".to_owned(), document: 1, line: 1 };
    Checked { key: key.clone(), object, valid, origin }
}

fn in_template(key: &ObjectKey, problems: &[Problem]) -> Halt {
    let all: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let message = format!("WorkspaceTemplate {key}: {}", all.join("; "));
    Halt::Invalid(Reason::new(reasons::TEMPLATE_INVALID, message))
}

/// A path of the operator's own machine is nothing that a user of the cluster may read.
fn refuse_paths(key: &ObjectKey, template: &ValidatedTemplate) -> Result<(), Halt> {
    match &template.source {
        TemplateSource::Remote { address } if address.starts_with(['.', '/', '~']) => {
            let message = format!(
                "WorkspaceTemplate {key}: the module {address} is a path of the operator's machine; use an address \
                 that terraform can fetch, or write the configuration inline"
            );
            Err(Halt::Invalid(Reason::new(reasons::TEMPLATE_INVALID, message)))
        }
        _ => Ok(()),
    }
}

fn blueprint_of(manifests: &ValidatedManifests) -> Result<Blueprint, Halt> {
    let invalid = |message: String| Halt::Invalid(Reason::new(reasons::TEMPLATE_INVALID, message));
    let all = blueprints(manifests).map_err(|errors| {
        let all: Vec<String> = errors.iter().map(ToString::to_string).collect();
        // There is no file here that a reader could open.
        invalid(all.join("; ").replace("the API server: ", ""))
    })?;
    all.into_iter().next().ok_or_else(|| invalid("asks for nothing".to_owned()))
}

/// Reads what the template's files of variables and environment come from.
async fn data(
    blueprint: &Blueprint,
    reader: &mut Reader<'_>,
    manifests: &mut ValidatedManifests,
) -> Result<(), Halt> {
    let Body::Template { template, .. } = &blueprint.body else { return Ok(()) };
    let files = template.var_files.iter().map(|file| &file.from);
    let env = template.env.iter().filter_map(|variable| match &variable.value {
        EnvValue::From(source) => Some(source),
        EnvValue::Literal(_) => None,
    });
    for source in files.chain(env) {
        let key = source.resolve().map_err(|problems| invalid_spec(&problems))?.object;
        match source {
            DataSource::ConfigMap(_) => {
                if let Some(found) = reader.config_map(&key).await? {
                    manifests.config_maps.insert(key, convert(&found)?);
                }
            }
            DataSource::Secret(_) => {
                if let Some(found) = reader.secret(&key).await? {
                    manifests.secrets.insert(key, convert(&found)?);
                }
            }
        }
    }
    Ok(())
}

/// From the client's type to the one that files are read into.
fn convert<A: serde::Serialize, B: serde::de::DeserializeOwned>(object: &A) -> Result<B, Halt> {
    serde_json::to_value(object).and_then(serde_json::from_value).map_err(|error| {
        Halt::Invalid(Reason::new(reasons::INVALID_INPUT, format!("an object cannot be read: {error}")))
    })
}

fn missing(error: ResolveError) -> Halt {
    let message = match error {
        ResolveError::NoData { what } => {
            format!("{what} does not exist; create it, or correct the reference")
        }
        other => other.to_string(),
    };
    Halt::Waiting(Reason::new(reasons::REFERENCE_NOT_FOUND, message))
}

/// Values of a built-in module that are in Secrets.
async fn from_secrets(
    valid: &ValidatedApply,
    reader: &mut Reader<'_>,
    resolved: &mut Resolved,
) -> Result<(), Halt> {
    let Work::Module { from, .. } = &valid.work else { return Ok(()) };
    for wanted in from {
        let secret = reader.secret(&wanted.secret).await?.unwrap_or_default();
        let value = value_of(wanted, &secret)
            .map_err(|message| Halt::Invalid(Reason::new(reasons::INVALID_INPUT, message)))?;
        resolved.request.upstream.insert(wanted.input.clone(), value);
    }
    Ok(())
}

/// The value of one key, or what is wrong with it. The value itself is never repeated: it may be a secret.
fn value_of(wanted: &ValidatedInput, secret: &Secret) -> Result<Value, String> {
    let place = format!("Secret {} key {}", wanted.secret, wanted.key);
    let bytes = secret.data.as_ref().and_then(|data| data.get(&wanted.key));
    let bytes = bytes.ok_or_else(|| {
        format!(
            "{place}, the value of {}, is missing; the workspace that writes it has no such output",
            wanted.input
        )
    })?;
    let text = String::from_utf8(bytes.0.clone()).map_err(|_| format!("{place} is not text"))?;
    match wanted.format {
        InputFormat::Text if text.trim().is_empty() => Err(format!("{place} is empty")),
        InputFormat::Text => Ok(Value::String(text)),
        InputFormat::Json => serde_json::from_str(&text).map_err(|_| {
            format!(
                "{place}, the value of {}, is not JSON; it was written by somebody else, or damaged",
                wanted.input
            )
        }),
    }
}

fn policies(body: &Body) -> Policies {
    let Body::Template { template, .. } = body else { return Policies { change: true, delete: true } };
    let has = |wanted: ManagementPolicy| {
        template.management_policies.iter().any(|it| *it == wanted || *it == ManagementPolicy::All)
    };
    Policies {
        change: has(ManagementPolicy::Create) && has(ManagementPolicy::Update),
        delete: has(ManagementPolicy::Delete),
    }
}

fn secret_ref(key: &ObjectKey) -> SecretRef {
    SecretRef { name: key.name.to_string(), namespace: key.namespace.to_string() }
}

/// Whether a template says that its resources outlive their object.
pub fn keeps(found: &WorkspaceTemplate) -> bool {
    template::validate(&found.spec).is_ok_and(|meaning| {
        meaning.deletion_policy == crate::api::DeletionPolicy::Orphan
            || !meaning
                .management_policies
                .iter()
                .any(|it| matches!(it, ManagementPolicy::All | ManagementPolicy::Delete))
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;

    use super::*;

    fn wanted(format: InputFormat) -> ValidatedInput {
        let secret = ObjectKey::parse("team", "vpc-out").unwrap();
        ValidatedInput { input: "private_subnets".to_owned(), secret, key: "subnets".to_owned(), format }
    }

    fn secret(text: &str) -> Secret {
        let data = BTreeMap::from([("subnets".to_owned(), ByteString(text.as_bytes().to_vec()))]);
        Secret { data: Some(data), ..Secret::default() }
    }

    #[test]
    fn values_are_read_as_they_are_written() {
        assert_eq!(value_of(&wanted(InputFormat::Text), &secret("vpc-1")).unwrap(), "vpc-1");
        let list = value_of(&wanted(InputFormat::Json), &secret("[\"a\"]")).unwrap();
        assert_eq!(list, serde_json::json!(["a"]));
    }

    #[test]
    fn garbage_is_named_and_not_repeated() {
        let said = value_of(&wanted(InputFormat::Json), &secret("hunter2")).unwrap_err();
        assert!(said.contains("Secret team/vpc-out key subnets") && !said.contains("hunter2"), "{said}");
        let said = value_of(&wanted(InputFormat::Text), &Secret::default()).unwrap_err();
        assert!(said.contains("is missing"), "{said}");
        assert!(value_of(&wanted(InputFormat::Text), &secret(" ")).is_err());
    }
}
