//! Adds and removes finalizers, and asks AWS for the caller identity.

use capt_engine::aws::{CallerIdentity, get_caller_identity};
use capt_kinds::api::{CaptIdentity, names};
use capt_kube::k8s::K8sError;
use kube::ResourceExt;

use super::{
    IdentityContext,
    decide::{IdentityDecision, MissingFinalizers},
    dereference::IdentityReferences,
};
use crate::common::identity::build_principal;

/// Who an identity is, or why it cannot be used.
pub(super) type Verification = Result<CallerIdentity, String>;

/// Executes the decision. Returns none once the identity is released.
pub(super) async fn act(
    object: &CaptIdentity,
    decision: IdentityDecision,
    references: &IdentityReferences,
    ctx: &IdentityContext,
) -> Result<Option<Verification>, K8sError> {
    match decision {
        IdentityDecision::Release => {
            if let Some(secret) = &references.secret {
                ctx.common.kube.remove_finalizers(secret, &[names::IN_USE_FINALIZER]).await?;
            }
            ctx.common.kube.remove_finalizers(object, &[names::IN_USE_FINALIZER]).await?;
            Ok(None)
        }
        IdentityDecision::Reject(missing, problems) => {
            add_finalizers(object, missing, references, ctx).await?;
            Ok(Some(Err(problems)))
        }
        IdentityDecision::Verify(missing) => {
            add_finalizers(object, missing, references, ctx).await?;
            Ok(Some(verify_with_aws(object, references, ctx).await))
        }
    }
}

async fn add_finalizers(
    object: &CaptIdentity,
    missing: MissingFinalizers,
    references: &IdentityReferences,
    ctx: &IdentityContext,
) -> Result<(), K8sError> {
    if missing.object {
        ctx.common.kube.add_finalizer(object, names::IN_USE_FINALIZER).await?;
    }
    if let Some(secret) = references.secret.as_ref().filter(|_| missing.secret) {
        ctx.common.kube.add_finalizer(secret, names::IN_USE_FINALIZER).await?;
    }
    Ok(())
}

/// Asks AWS STS for the caller identity.
async fn verify_with_aws(
    object: &CaptIdentity,
    references: &IdentityReferences,
    ctx: &IdentityContext,
) -> Verification {
    let data = references.secret.as_ref().and_then(|secret| secret.data.as_ref());
    let principal = build_principal((&object.name_any(), "capt"), &object.spec, data)
        .map_err(|error| error.full_message())?;
    let sdk = ctx.sessions.sdk_config(&principal, Some(&ctx.region)).await;
    get_caller_identity(&sdk).await.map_err(|error| error.to_string())
}
