//! As whom a workspace's runs act.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use terraform_driver::{
    environment::Credentials,
    render::{AssumeRole, Contents, Request},
};

use super::{
    Context,
    facts::Reason,
    halt::Halt,
    index::{Target, TargetKind},
    read::Reader,
};
use crate::{
    api::{CaptIdentity, CaptIdentitySpec, WorkspaceTemplateApply, conditions::reasons},
    aws::Principal,
    blueprint::Body,
    controllers::common::identity::{IdentityError, allowed, principal},
    model::{
        Problem,
        identity::{self, CredentialSource, ValidatedIdentity},
    },
};

/// What Crossplane calls the configuration that is used when none is named.
const DEFAULT: &str = "default";

/// As whom a run acts, and what comes with that.
#[derive(Default)]
pub struct Acting {
    /// The identity, if it is not the operator's own.
    pub name: Option<String>,
    /// As whom, if not as the operator itself.
    pub principal: Option<Principal>,
    /// Changes whenever the credentials do.
    pub digest: String,
    keys: bool,
    roles: Vec<AssumeRole>,
    files: BTreeMap<String, Contents>,
}

impl Acting {
    /// Adds roles to the provider, and the files that the identity brings.
    pub fn put_into(&self, request: &mut Request) {
        if let Some(provider) = &mut request.provider {
            provider.assume_roles.clone_from(&self.roles);
            provider.keys_from_environment = self.keys;
        }
        request.extra.extend(self.files.clone());
    }
}

/// The identity that an object or its template names.
pub fn named(object: &WorkspaceTemplateApply, body: &Body) -> Option<String> {
    let own = object.spec.identity_ref.as_ref().map(|reference| reference.name.clone());
    own.or_else(|| match body {
        Body::Template { template, .. } => Some(template.provider_config.clone()),
        Body::Module { .. } => None,
    })
}

/// Reads the identity, and whether it may be used here.
pub async fn acting(name: Option<&str>, ctx: &Context, reader: &mut Reader<'_>) -> Result<Acting, Halt> {
    let Some(name) = name else { return Ok(Acting::default()) };
    reader.note(Target::new(TargetKind::Identity, "", name));
    let Some(found) = ctx.common.kube.get::<CaptIdentity>(None, name).await? else {
        if name == DEFAULT {
            return Ok(Acting::default());
        }
        let message = format!("CAPTIdentity {name} does not exist; create it, or correct the reference");
        return Err(Halt::Waiting(Reason::new(reasons::IDENTITY_NOT_ALLOWED, message)));
    };
    let valid = identity::validate(&found.spec).map_err(|problems| invalid(name, &problems))?;
    let (home, labels) = reader.home().await?;
    if !allowed(&found.spec, &home, &labels) {
        let message = format!(
            "CAPTIdentity {name} may not be used in namespace {home}; add the namespace to its allowedNamespaces"
        );
        return Err(Halt::Invalid(Reason::new(reasons::IDENTITY_NOT_ALLOWED, message)));
    }
    assemble((name, &home), &found.spec, &valid, (ctx, reader)).await
}

async fn assemble(
    (name, home): (&str, &str),
    spec: &CaptIdentitySpec,
    valid: &ValidatedIdentity,
    (ctx, reader): (&Context, &mut Reader<'_>),
) -> Result<Acting, Halt> {
    let secret = match &valid.source {
        CredentialSource::Secret(key) => Some(reader.credentials(key).await?),
        CredentialSource::Default | CredentialSource::WebIdentity { .. } => None,
    };
    let data = secret.and_then(|secret| secret.data);
    let principal = principal((name, home), spec, data.as_ref()).map_err(|it| refused(&it))?;
    let (credentials, roles) = principal.terraform(&ctx.runs.site().cloud);
    let mut files = BTreeMap::new();
    if let Some(text) = &valid.configuration {
        files.insert("identity.tf".to_owned(), Contents::plain(text.clone().into_bytes()));
    }
    if let Some(text) = &valid.backend {
        files.insert("identity-backend.tf".to_owned(), Contents::plain(text.clone().into_bytes()));
    }
    for file in &valid.files {
        let secret = reader.credentials(&file.secret).await?;
        let bytes = value(&secret, &file.key).ok_or_else(|| {
            let message = format!("CAPTIdentity {name}: Secret {} has no key {}", file.secret, file.key);
            Halt::Invalid(Reason::new(reasons::IDENTITY_NOT_ALLOWED, message))
        })?;
        files.insert(file.name.to_string(), Contents::secret(bytes));
    }
    Ok(Acting {
        name: Some(name.to_owned()),
        digest: principal.digest(),
        keys: matches!(credentials, Credentials::Static { .. }),
        principal: Some(principal),
        roles,
        files,
    })
}

fn value(secret: &Secret, key: &str) -> Option<Vec<u8>> {
    secret.data.as_ref().and_then(|data| data.get(key)).map(|bytes| bytes.0.clone())
}

fn invalid(name: &str, problems: &[Problem]) -> Halt {
    let all: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let message = format!("CAPTIdentity {name}: {}", all.join("; "));
    Halt::Invalid(Reason::new(reasons::IDENTITY_NOT_ALLOWED, message))
}

fn refused(why: &IdentityError) -> Halt {
    Halt::Invalid(Reason::new(reasons::IDENTITY_NOT_ALLOWED, why.whole()))
}
