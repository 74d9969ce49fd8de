//! The AWS identity of a workspace's runs.

use std::collections::BTreeMap;

use capt_engine::aws::Principal;
use capt_kinds::api::{CaptIdentity, CaptIdentitySpec, WorkspaceTemplateApply, conditions::reasons};
use capt_model::{
    model::{
        Problem,
        identity::{self, CredentialSource, ValidatedIdentity},
    },
    workspaces::WorkspaceSource,
};
use k8s_openapi::api::core::v1::Secret;
use terraform_driver::{
    environment::TerraformCredentials,
    render::{AssumeRole, FileContents, RenderRequest},
};

use super::{
    WorkspaceContext,
    input_error::InputError,
    observation::ConditionReason,
    reference_index::{ReferenceKind, ReferenceTarget},
    reference_reader::ReferenceReader,
};
use crate::common::identity::{IdentityError, build_principal, is_namespace_allowed};

/// Crossplane's name of the provider configuration that is used when none is named.
const DEFAULT_PROVIDER_CONFIG: &str = "default";

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
    let Some(name) = name else { return Ok(RunIdentity::default()) };
    reader.record_target(ReferenceTarget::new(ReferenceKind::Identity, "", name));
    let Some(found) = ctx.common.kube.get::<CaptIdentity>(None, name).await? else {
        if name == DEFAULT_PROVIDER_CONFIG {
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
