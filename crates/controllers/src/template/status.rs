//! Computes the status of a template from its validity and its users. Pure.

use capt_kinds::api::{
    WorkspaceTemplate, WorkspaceTemplateObjectStatus,
    conditions::{reasons, types},
};
use capt_kube::k8s::conditions::{self, ConditionUpdate};
use jiff::Timestamp;

use super::{dereference::TemplateUsers, validate::TemplateValidity};

/// The status; while terraform validates, the condition `Valid` stays as it is.
pub(super) fn observed(
    object: &WorkspaceTemplate,
    validity: Option<&TemplateValidity>,
    users: &TemplateUsers,
    now: Timestamp,
) -> WorkspaceTemplateObjectStatus {
    let mut status = object.status.clone().unwrap_or_default();
    let generation = object.metadata.generation;
    let valid = validity.map(|validity| match validity {
        TemplateValidity::Valid(note) => {
            ConditionUpdate::status_true(types::VALID, reasons::TEMPLATE_VALID, note.clone())
        }
        TemplateValidity::Invalid(why) => {
            ConditionUpdate::status_false(types::VALID, reasons::TEMPLATE_INVALID, why.clone())
        }
    });
    let deleting = object.metadata.deletion_timestamp.is_some().then(|| {
        let message = format!("in use by {}", users.0.join(", "));
        ConditionUpdate::status_true(types::DELETING, reasons::IN_USE, message)
    });
    for update in valid.into_iter().chain(deleting) {
        let _transition = conditions::set(&mut status.conditions, update, generation, now);
    }
    status.observed_generation = generation;
    status
}
