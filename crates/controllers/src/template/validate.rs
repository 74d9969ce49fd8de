//! Static validation of templates, without terraform. Pure: no I/O.

use std::collections::BTreeMap;

use capt_kinds::api::{WorkspaceTemplate, conditions::types};
use capt_model::workspaces::{
    TemplateError, TemplateOrigin, WorkspaceKey, instantiate_template, template_request,
};
use terraform_driver::render::{self, RenderRequest, RootSource};

/// Validity of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TemplateValidity {
    /// No errors found; the note says what was not validated.
    Valid(String),
    /// Invalid, with the errors.
    Invalid(String),
}

/// Result of the static validation.
#[derive(Debug)]
pub enum StaticValidation {
    /// Final.
    Complete(TemplateValidity),
    /// No static errors; terraform has to validate this configuration.
    NeedsTerraform(Box<RenderRequest>),
}

/// Condition message of a template that terraform validated without errors. Read back from the status after a restart:
/// templates with another message are validated again.
const VALID_MESSAGE: &str = "terraform finds nothing wrong";

impl TemplateValidity {
    /// Validity from terraform's diagnostics.
    pub(super) fn from_findings(findings: &[String]) -> Self {
        if findings.is_empty() {
            return Self::Valid(VALID_MESSAGE.to_owned());
        }
        Self::Invalid(findings.join("; "))
    }
}

/// Validity of this generation as recorded in the status by an earlier process. Saves a validation that takes seconds; an
/// apply validates the template anyway.
pub(super) fn recorded_validity(template: &WorkspaceTemplate) -> Option<TemplateValidity> {
    let conditions = &template.status.as_ref()?.conditions;
    let said = conditions.iter().find(|it| it.type_ == types::VALID)?;
    if said.observed_generation != template.metadata.generation {
        return None;
    }
    match said.status.as_str() {
        "False" => Some(TemplateValidity::Invalid(said.message.clone())),
        // With any other message, terraform has not validated it.
        "True" if said.message == VALID_MESSAGE => Some(TemplateValidity::Valid(said.message.clone())),
        _ => None,
    }
}

/// Validates a template on its own. Placeholders and values from Secrets are filled in only when it is applied.
pub fn validate_statically(key: &WorkspaceKey, template: &WorkspaceTemplate) -> StaticValidation {
    let nothing = BTreeMap::new();
    let filled = match instantiate_template(&template.spec, &key.name, &nothing, TemplateOrigin::ApiObject) {
        Ok(filled) => filled,
        Err(errors) => return StaticValidation::Complete(validity_from_fill_errors(&errors)),
    };
    let request = template_request(key, &filled, &nothing);
    if let RootSource::Remote { source, .. } = &request.source {
        let note = format!("module {source} is validated when it is applied");
        return StaticValidation::Complete(TemplateValidity::Valid(note));
    }
    match render::render(&request) {
        Ok(_) => StaticValidation::NeedsTerraform(Box::new(request)),
        Err(error) => StaticValidation::Complete(TemplateValidity::Invalid(error.to_string())),
    }
}

/// Unfilled placeholders are not errors of the template.
fn validity_from_fill_errors(errors: &[TemplateError]) -> TemplateValidity {
    let faults: Vec<String> = errors
        .iter()
        .filter(|error| !matches!(error, TemplateError::Placeholder(_)))
        .map(ToString::to_string)
        .collect();
    if faults.is_empty() {
        return TemplateValidity::Valid("contains placeholders; validated when it is applied".to_owned());
    }
    TemplateValidity::Invalid(faults.join("; "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn template(module: &str) -> WorkspaceTemplate {
        serde_json::from_value(json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "WorkspaceTemplate",
            "metadata": {"name": "t", "namespace": "default"},
            "spec": {"template": {"spec": {"forProvider": {"source": "Inline", "module": module}}}},
        }))
        .unwrap()
    }

    fn validated(module: &str) -> StaticValidation {
        validate_statically(&WorkspaceKey::new("default", "t"), &template(module))
    }

    #[test]
    fn what_does_not_parse_is_told_with_its_place() {
        let StaticValidation::Complete(TemplateValidity::Invalid(why)) = validated("resource {") else {
            panic!("is taken")
        };
        assert!(why.contains("main.tf"), "{why}");
    }

    #[test]
    fn what_parses_goes_to_terraform() {
        assert!(matches!(
            validated("resource \"terraform_data\" \"x\" {}"),
            StaticValidation::NeedsTerraform(_)
        ));
    }

    #[test]
    fn what_was_said_of_this_generation_is_not_asked_again() {
        let mut template = template("");
        template.metadata.generation = Some(3);
        assert_eq!(recorded_validity(&template), None, "nothing was said");
        let mut after = |status: &str, message: &str, generation: i64| {
            let said = json!({
                "type": types::VALID, "status": status, "reason": "R", "message": message,
                "observedGeneration": generation, "lastTransitionTime": "2026-01-01T00:00:00Z",
            });
            template.status = Some(serde_json::from_value(json!({"conditions": [said]})).unwrap());
            recorded_validity(&template)
        };
        assert_eq!(after("True", VALID_MESSAGE, 3), Some(TemplateValidity::Valid(VALID_MESSAGE.to_owned())));
        assert_eq!(
            after("False", "no such argument", 3),
            Some(TemplateValidity::Invalid("no such argument".to_owned()))
        );
        assert_eq!(after("True", "terraform could not validate it: no provider", 3), None);
        assert_eq!(after("True", VALID_MESSAGE, 2), None, "of an older one");
    }

    #[test]
    fn placeholders_are_no_fault() {
        let text = "resource \"terraform_data\" \"x\" {\n  input = \"${region}\"\n}";
        assert!(matches!(validated(text), StaticValidation::Complete(TemplateValidity::Valid(_))));
    }
}
