//! Decides what to do with a template: protect it, release it, or report whether it is valid. Pure.

use capt_kinds::api::{WorkspaceTemplate, names};
use kube::ResourceExt;

use super::dereference::TemplateUsers;

/// What to do with a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TemplateDecision {
    /// Unused: remove the finalizer.
    RemoveFinalizer,
    /// Workspaces use it: add the finalizer. Their destroy needs the template.
    AddFinalizer,
    /// Report its validity, and validate it first if that has not been done.
    Report,
}

/// Decides from the object and its users.
pub(super) fn decide(object: &WorkspaceTemplate, users: &TemplateUsers) -> TemplateDecision {
    let held = object.finalizers().iter().any(|it| it == names::TEMPLATE_FINALIZER);
    let deleting = object.metadata.deletion_timestamp.is_some();
    match (users.0.is_empty(), held) {
        (true, true) => TemplateDecision::RemoveFinalizer,
        (false, false) if !deleting => TemplateDecision::AddFinalizer,
        (true | false, _) => TemplateDecision::Report,
    }
}
