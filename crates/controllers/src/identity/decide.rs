//! Decides what to do with an identity: hold it and its Secret, verify it, or release both. Pure.

use capt_kinds::api::{CaptIdentity, names};
use capt_model::model::identity::ValidatedIdentity;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;

use super::dereference::IdentityReferences;

/// What to do with an identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum IdentityDecision {
    /// Unused: remove the finalizers, which completes its deletion.
    Release,
    /// Add the missing finalizers; the spec is invalid, with these problems.
    Reject(MissingFinalizers, String),
    /// Add the missing finalizers and ask AWS who it is.
    Verify(MissingFinalizers),
}

/// The objects that lack our finalizer. A destroy needs the identity and its Secret.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct MissingFinalizers {
    /// The identity.
    pub(super) object: bool,
    /// Its Secret.
    pub(super) secret: bool,
}

/// Decides from the object, its validated spec and its references.
pub(super) fn decide(
    object: &CaptIdentity,
    valid: Result<&ValidatedIdentity, &String>,
    references: &IdentityReferences,
) -> IdentityDecision {
    let deleting = object.metadata.deletion_timestamp.is_some();
    if deleting && references.users.is_empty() {
        return IdentityDecision::Release;
    }
    let missing =
        if deleting { MissingFinalizers::default() } else { missing_finalizers(object, references) };
    match valid {
        Ok(_) => IdentityDecision::Verify(missing),
        Err(problems) => IdentityDecision::Reject(missing, problems.clone()),
    }
}

fn missing_finalizers(object: &CaptIdentity, references: &IdentityReferences) -> MissingFinalizers {
    let is_held = |all: &[String]| all.iter().any(|it| it == names::IN_USE_FINALIZER);
    // No finalizer can be added to an object that is being deleted.
    let lacks =
        |secret: &Secret| secret.metadata.deletion_timestamp.is_none() && !is_held(secret.finalizers());
    MissingFinalizers {
        object: !is_held(object.finalizers()),
        secret: references.secret.as_ref().is_some_and(lacks),
    }
}
