//! Events of a template. Pure.

use capt_kube::k8s::EventSpec;

use super::validate::TemplateValidity;

/// The event of an invalid template. Repetitions are suppressed when it is published.
pub(super) fn validity_event(validity: Option<&TemplateValidity>) -> Option<EventSpec> {
    match validity? {
        TemplateValidity::Valid(_) => None,
        TemplateValidity::Invalid(why) => {
            Some(EventSpec::warning("Validate", "TemplateInvalid", why.clone()))
        }
    }
}
