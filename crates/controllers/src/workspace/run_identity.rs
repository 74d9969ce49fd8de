//! The AWS identity of a workspace's runs.

use std::collections::BTreeMap;

use capt_engine::aws::Principal;
use capt_kinds::api::{CaptIdentity, CaptIdentitySpec, WorkspaceTemplateApply, conditions::reasons, names};
use capt_kube::k8s::K8sError;
use capt_model::{
    model::{
        Problem,
        identity::{self, CredentialSource, ValidatedIdentity},
    },
    workspaces::WorkspaceSource,
};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use terraform_driver::{
    environment::TerraformCredentials,
    render::{AssumeRole, FileContents, RenderRequest},
};

use super::{
    WorkspaceContext,
    input_error::InputError,
    observation::{ConditionReason, DestroyIdentity},
    reference_index::{ReferenceKind, ReferenceTarget},
    reference_reader::ReferenceReader,
};
use crate::common::identity::{DEFAULT_IDENTITY, IdentityError, build_principal, is_namespace_allowed};

/// Identity of a run: principal, roles and files for the configuration.
#[derive(Default)]
pub struct RunIdentity {
    /// Name of the `CAPTIdentity`; none for the operator's own identity.
    pub name: Option<String>,
    /// AWS principal; none for the operator's own credentials.
    pub principal: Option<Principal>,
    /// Digest that changes with the credentials.
    pub digest: String,
    has_static_keys: bool,
    roles: Vec<AssumeRole>,
    files: BTreeMap<String, FileContents>,
}

impl RunIdentity {
    /// Adds the roles to the provider block and the identity's files to the configuration.
    pub fn apply_to_request(&self, request: &mut RenderRequest) {
        if let Some(provider) = &mut request.provider {
            provider.assume_roles.clone_from(&self.roles);
            provider.keys_from_environment = self.has_static_keys;
        }
        request.extra_files.extend(self.files.clone());
    }
}

/// Name of the identity in the object or, failing that, in its template.
pub fn identity_name(object: &WorkspaceTemplateApply, body: &WorkspaceSource) -> Option<String> {
    let own = object.spec.identity_ref.as_ref().map(|reference| reference.name.clone());
    own.or_else(|| match body {
        WorkspaceSource::Template { template, .. } => Some(template.provider_config.clone()),
        WorkspaceSource::Module { .. } => None,
    })
}

/// Reads the identity and checks that the object's namespace may use it.
pub async fn resolve_identity(
    name: Option<&str>,
    ctx: &WorkspaceContext,
    reader: &mut ReferenceReader<'_>,
) -> Result<RunIdentity, InputError> {
    let required = ctx.common.settings.require_identity;
    let Some(name) = name.or_else(|| required.then_some(DEFAULT_IDENTITY)) else {
        return Ok(RunIdentity::default());
    };
    reader.record_target(ReferenceTarget::new(ReferenceKind::Identity, "", name));
    let Some(found) = ctx.common.kube.get::<CaptIdentity>(None, name).await? else {
        if name == DEFAULT_IDENTITY && required {
            let message = IdentityError::Required { identity: name.to_owned() }.to_string();
            return Err(InputError::Waiting(ConditionReason::new(reasons::IDENTITY_REQUIRED, message)));
        }
        if name == DEFAULT_IDENTITY {
            return Ok(RunIdentity::default());
        }
        let message = format!("CAPTIdentity {name} does not exist; create it, or correct the reference");
        return Err(InputError::Waiting(ConditionReason::new(reasons::IDENTITY_NOT_ALLOWED, message)));
    };
    let valid = identity::validate(&found.spec).map_err(|problems| invalid_identity(name, &problems))?;
    let (home, labels) = reader.get_own_namespace().await?;
    if !is_namespace_allowed(&found.spec, &home, &labels) {
        let message = format!(
            "CAPTIdentity {name} may not be used in namespace {home}; add the namespace to its allowedNamespaces"
        );
        return Err(InputError::Invalid(ConditionReason::new(reasons::IDENTITY_NOT_ALLOWED, message)));
    }
    build_identity((name, &home), &found.spec, &valid, (ctx, reader)).await
}

/// The identity of a destroy: the assigned one, else that of the object, else that of the last run. The operator's own identity
/// never takes the place of one that is missing or not allowed: what is destroyed is the configuration of a tenant.
pub async fn resolve_destroy_identity(
    object: &WorkspaceTemplateApply,
    ctx: &WorkspaceContext,
) -> Result<DestroyIdentity, K8sError> {
    let assigned = object.annotations().get(names::DESTROY_IDENTITY_ANNOTATION).cloned();
    let last = object.status.as_ref().and_then(|status| status.identity_ref.as_ref());
    let named = object.spec.identity_ref.as_ref().or(last).map(|reference| reference.name.clone());
    // The last run used one, so that a default one that is missing now is not the operator's own.
    let had_one = assigned.is_some() || last.is_some();
    let name = assigned.or(named);
    let namespace = object.namespace().unwrap_or_default();
    let mut reader = ReferenceReader::new(&ctx.common.kube, &namespace);
    match resolve_identity(name.as_deref(), ctx, &mut reader).await {
        Ok(RunIdentity { name: None, .. }) if had_one => Ok(waiting_destroy(&format!(
            "CAPTIdentity {} does not exist; create it",
            name.unwrap_or_default()
        ))),
        Ok(acting) => Ok(DestroyIdentity::Available(acting.principal)),
        Err(InputError::Api(error)) => Err(error),
        Err(InputError::Waiting(why) | InputError::Invalid(why)) => Ok(waiting_destroy(&why.message)),
    }
}

fn waiting_destroy(why: &str) -> DestroyIdentity {
    let message = format!(
        "cannot destroy without the AWS identity: {why}; or assign another one with the annotation {}",
        names::DESTROY_IDENTITY_ANNOTATION
    );
    DestroyIdentity::Unavailable(ConditionReason::new(reasons::WAITING_FOR_IDENTITY, message))
}

async fn build_identity(
    (name, home): (&str, &str),
    spec: &CaptIdentitySpec,
    valid: &ValidatedIdentity,
    (ctx, reader): (&WorkspaceContext, &mut ReferenceReader<'_>),
) -> Result<RunIdentity, InputError> {
    let secret = match &valid.source {
        CredentialSource::Secret(key) => Some(reader.get_credentials_secret(key).await?),
        CredentialSource::Default | CredentialSource::WebIdentity { .. } => None,
    };
    let data = secret.and_then(|secret| secret.data);
    let principal =
        build_principal((name, home), spec, data.as_ref()).map_err(|it| rejected_identity(&it))?;
    let (credentials, roles) = principal.terraform_credentials(&ctx.runs.data_dir().cloud);
    let mut files = BTreeMap::new();
    if let Some(text) = &valid.configuration {
        files.insert("identity.tf".to_owned(), FileContents::plain(text.clone().into_bytes()));
    }
    if let Some(text) = &valid.backend {
        files.insert("identity-backend.tf".to_owned(), FileContents::plain(text.clone().into_bytes()));
    }
    for file in &valid.files {
        let secret = reader.get_credentials_secret(&file.secret).await?;
        let bytes = secret_value(&secret, &file.key).ok_or_else(|| {
            let message = format!("CAPTIdentity {name}: Secret {} has no key {}", file.secret, file.key);
            InputError::Invalid(ConditionReason::new(reasons::IDENTITY_NOT_ALLOWED, message))
        })?;
        files.insert(file.name.to_string(), FileContents::secret(bytes));
    }
    Ok(RunIdentity {
        name: Some(name.to_owned()),
        digest: principal.digest(),
        has_static_keys: matches!(credentials, TerraformCredentials::Static { .. }),
        principal: Some(principal),
        roles,
        files,
    })
}

fn secret_value(secret: &Secret, key: &str) -> Option<Vec<u8>> {
    secret.data.as_ref().and_then(|data| data.get(key)).map(|bytes| bytes.0.clone())
}

fn invalid_identity(name: &str, problems: &[Problem]) -> InputError {
    let all: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let message = format!("CAPTIdentity {name}: {}", all.join("; "));
    InputError::Invalid(ConditionReason::new(reasons::IDENTITY_NOT_ALLOWED, message))
}

fn rejected_identity(why: &IdentityError) -> InputError {
    InputError::Invalid(ConditionReason::new(reasons::IDENTITY_NOT_ALLOWED, why.full_message()))
}
