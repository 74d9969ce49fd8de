//! What can be said of a template by looking at it. Pure.

use std::collections::BTreeMap;

use terraform_driver::render::{self, Request, Source};

use crate::{
    api::{WorkspaceTemplate, conditions::types},
    blueprint::{FillError, Key, fill, template_request},
};

/// What is said of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing is wrong, as far as was looked.
    Valid(String),
    /// Something is.
    Invalid(String),
}

/// A verdict, or a configuration for terraform to look at.
#[derive(Debug)]
pub enum Judged {
    /// There is no more to be found out.
    Settled(Verdict),
    /// Terraform may find more.
    Ask(Box<Request>),
}

/// What is said of a template when terraform had nothing to say.
const NOTHING_WRONG: &str = "terraform finds nothing wrong";

impl Verdict {
    /// Of what terraform found.
    pub(super) fn of_findings(findings: &[String]) -> Self {
        if findings.is_empty() {
            return Self::Valid(NOTHING_WRONG.to_owned());
        }
        Self::Invalid(findings.join("; "))
    }
}

/// What terraform said of this generation before we were started. It costs seconds of a provider to ask again, and whoever
/// applies the template asks in any case.
pub(super) fn remembered(template: &WorkspaceTemplate) -> Option<Verdict> {
    let conditions = &template.status.as_ref()?.conditions;
    let said = conditions.iter().find(|it| it.type_ == types::VALID)?;
    if said.observed_generation != template.metadata.generation {
        return None;
    }
    match said.status.as_str() {
        "False" => Some(Verdict::Invalid(said.message.clone())),
        // Other words mean that terraform could not look at it.
        "True" if said.message == NOTHING_WRONG => Some(Verdict::Valid(said.message.clone())),
        _ => None,
    }
}

/// Looks at a template alone. Its placeholders are filled in by whoever applies it, and so is what comes out of Secrets.
pub fn judge(key: &Key, template: &WorkspaceTemplate) -> Judged {
    let nothing = BTreeMap::new();
    let filled = match fill(&template.spec, &key.name, &nothing) {
        Ok(filled) => filled,
        Err(errors) => return Judged::Settled(of(&errors)),
    };
    let request = template_request(key, &filled, &nothing, "");
    if let Source::Remote { address, .. } = &request.source {
        let note = format!("{address} is looked at when it is applied");
        return Judged::Settled(Verdict::Valid(note));
    }
    match render::render(&request) {
        Ok(_) => Judged::Ask(Box::new(request)),
        Err(error) => Judged::Settled(Verdict::Invalid(error.to_string())),
    }
}

/// Placeholders are no fault of a template.
fn of(errors: &[FillError]) -> Verdict {
    let faults: Vec<String> = errors
        .iter()
        .filter(|error| !matches!(error, FillError::Placeholder(_)))
        .map(ToString::to_string)
        .collect();
    if faults.is_empty() {
        return Verdict::Valid(
            "its placeholders are filled in when it is applied; the rest is looked at then".to_owned(),
        );
    }
    Verdict::Invalid(faults.join("; "))
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

    fn judged(module: &str) -> Judged {
        judge(&Key::new("default", "t"), &template(module))
    }

    #[test]
    fn what_does_not_parse_is_told_with_its_place() {
        let Judged::Settled(Verdict::Invalid(why)) = judged("resource {") else { panic!("is taken") };
        assert!(why.contains("main.tf"), "{why}");
    }

    #[test]
    fn what_parses_goes_to_terraform() {
        assert!(matches!(judged("resource \"terraform_data\" \"x\" {}"), Judged::Ask(_)));
    }

    #[test]
    fn what_was_said_of_this_generation_is_not_asked_again() {
        let mut template = template("");
        template.metadata.generation = Some(3);
        assert_eq!(remembered(&template), None, "nothing was said");
        let mut after = |status: &str, message: &str, generation: i64| {
            let said = json!({
                "type": types::VALID, "status": status, "reason": "R", "message": message,
                "observedGeneration": generation, "lastTransitionTime": "2026-01-01T00:00:00Z",
            });
            template.status = Some(serde_json::from_value(json!({"conditions": [said]})).unwrap());
            remembered(&template)
        };
        assert_eq!(after("True", NOTHING_WRONG, 3), Some(Verdict::Valid(NOTHING_WRONG.to_owned())));
        assert_eq!(
            after("False", "no such argument", 3),
            Some(Verdict::Invalid("no such argument".to_owned()))
        );
        assert_eq!(after("True", "terraform could not look at it: no provider", 3), None);
        assert_eq!(after("True", NOTHING_WRONG, 2), None, "of an older one");
    }

    #[test]
    fn placeholders_are_no_fault() {
        let text = "resource \"terraform_data\" \"x\" {\n  input = \"${region}\"\n}";
        assert!(matches!(judged(text), Judged::Settled(Verdict::Valid(_))));
    }
}
