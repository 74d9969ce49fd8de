//! Reads the credentials Secret of an identity and the workspaces that use it. Read only, decides nothing.

use capt_kinds::api::{CaptIdentity, WorkspaceTemplateApply};
use capt_kube::k8s::K8sError;
use capt_model::model::identity::{CredentialSource, ValidatedIdentity};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;

use super::IdentityContext;
use crate::common::invalid_object::filter_valid;

/// The objects around an identity.
#[derive(Debug, Clone, Default)]
pub(super) struct IdentityReferences {
    /// Its credentials Secret, if it has one and the Secret exists.
    pub(super) secret: Option<Secret>,
    /// Workspaces that use it, or used it in their last run.
    pub(super) users: Vec<String>,
}

/// Reads the objects. The Secret of an invalid spec is unknown.
pub(super) async fn dereference(
    object: &CaptIdentity,
    valid: Option<&ValidatedIdentity>,
    ctx: &IdentityContext,
) -> Result<IdentityReferences, K8sError> {
    let users = list_users(object, ctx).await?;
    let secret = match valid {
        Some(valid) => get_credentials_secret(valid, ctx).await?,
        None => None,
    };
    Ok(IdentityReferences { secret, users })
}

async fn get_credentials_secret(
    valid: &ValidatedIdentity,
    ctx: &IdentityContext,
) -> Result<Option<Secret>, K8sError> {
    match &valid.source {
        CredentialSource::Secret(key) => {
            ctx.common.kube.get(Some(key.namespace.as_str()), key.name.as_str()).await
        }
        CredentialSource::Default | CredentialSource::WebIdentity { .. } => Ok(None),
    }
}

/// Workspaces that use the identity, or used it in their last run.
async fn list_users(object: &CaptIdentity, ctx: &IdentityContext) -> Result<Vec<String>, K8sError> {
    let name = object.name_any();
    let all = ctx.common.kube.list(ctx.common.settings.namespace.as_deref(), "").await?;
    let all = filter_valid::<WorkspaceTemplateApply>(all);
    let uses = |it: &&WorkspaceTemplateApply| {
        let asked = it.spec.identity_ref.as_ref();
        let used = it.status.as_ref().and_then(|status| status.identity_ref.as_ref());
        asked.into_iter().chain(used).any(|reference| reference.name == name)
    };
    let mut names: Vec<String> = all
        .iter()
        .filter(uses)
        .map(|it| format!("{}/{}", it.namespace().unwrap_or_default(), it.name_any()))
        .collect();
    names.sort();
    Ok(names)
}
