//! Whether the objects of a namespace may use `WorkspaceTemplate`s: Terraform of a tenant's choice is code that the operator executes.
//!
//! An administrator decides with a label of the namespace. Built-in modules need no permission.

use std::{collections::BTreeMap, str::FromStr};

use capt_kinds::api::names::TEMPLATES_LABEL;

use super::context::Settings;

/// Which templates a namespace may use. Stricter values are smaller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, strum::Display, strum::EnumString)]
#[strum(serialize_all = "lowercase")]
pub enum TemplatePolicy {
    /// None.
    #[default]
    None,
    /// Its own, and those of other namespaces that may use templates themselves.
    Trusted,
    /// Every one that it may refer to.
    All,
}

/// Why a template may not be used. Its message names the setting and who sets it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateRefusal {
    /// The namespace may not use templates.
    #[error(
        "namespace {namespace} may not use WorkspaceTemplates, which run Terraform code in the operator; an administrator allows \
         it with the label {TEMPLATES_LABEL}=trusted of the Namespace, or for all namespaces with the operator's flag --templates"
    )]
    Namespace {
        /// The namespace.
        namespace: String,
    },
    /// The namespace may use only templates of namespaces that are trusted, too.
    #[error(
        "the WorkspaceTemplate is in namespace {home}, which is not trusted, and namespace {namespace} may use trusted ones only; an \
         administrator sets the label {TEMPLATES_LABEL}: trusted on Namespace {home}, or all on Namespace {namespace}"
    )]
    Home {
        /// The namespace that uses it.
        namespace: String,
        /// The namespace that holds it.
        home: String,
    },
    /// The kernel cannot confine the runs of templates.
    #[error(
        "WorkspaceTemplates are refused, because their runs cannot be confined here: {0}; an administrator moves the operator to a newer \
         kernel, or starts it with --isolation=off"
    )]
    Unconfined(String),
    /// The label has another value.
    #[error(
        "the label {TEMPLATES_LABEL} of Namespace {namespace} is {value:?}; an administrator sets it to none, trusted or all"
    )]
    BadLabel {
        /// The namespace.
        namespace: String,
        /// The value.
        value: String,
    },
}

/// A namespace with its labels.
#[derive(Debug, Clone, Copy)]
pub struct LabelledNamespace<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its labels.
    pub labels: &'a BTreeMap<String, String>,
}

impl LabelledNamespace<'_> {
    /// The policy of the label, or the operator's default.
    pub fn policy(&self, default: TemplatePolicy) -> Result<TemplatePolicy, TemplateRefusal> {
        let Some(value) = self.labels.get(TEMPLATES_LABEL) else { return Ok(default) };
        TemplatePolicy::from_str(value)
            .map_err(|_| TemplateRefusal::BadLabel { namespace: self.name.to_owned(), value: value.clone() })
    }
}

/// Checks that an object in a namespace may use a template of another, or of its own.
pub fn check_template_use(
    user: LabelledNamespace<'_>,
    home: LabelledNamespace<'_>,
    settings: &Settings,
) -> Result<(), TemplateRefusal> {
    if let Some(problem) = &settings.isolation_problem {
        return Err(TemplateRefusal::Unconfined(problem.clone()));
    }
    let default = settings.templates;
    match user.policy(default)? {
        TemplatePolicy::None => Err(TemplateRefusal::Namespace { namespace: user.name.to_owned() }),
        TemplatePolicy::Trusted
            if home.name != user.name && home.policy(default)? == TemplatePolicy::None =>
        {
            Err(TemplateRefusal::Home { namespace: user.name.to_owned(), home: home.name.to_owned() })
        }
        TemplatePolicy::Trusted | TemplatePolicy::All => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(value: Option<&str>) -> BTreeMap<String, String> {
        value.map(|it| (TEMPLATES_LABEL.to_owned(), it.to_owned())).into_iter().collect()
    }

    fn is_allowed(user: Option<&str>, home: Option<(&str, Option<&str>)>, default: TemplatePolicy) -> bool {
        let (ours, theirs) = (labels(user), labels(home.and_then(|it| it.1)));
        let user = LabelledNamespace { name: "team-a", labels: &ours };
        let home = home.map_or(user, |(name, _)| LabelledNamespace { name, labels: &theirs });
        let settings = Settings { templates: default, ..Settings::default() };
        check_template_use(user, home, &settings).is_ok()
    }

    #[test]
    fn c1_a_namespace_without_the_label_uses_no_template() {
        use TemplatePolicy::{All, None as Never, Trusted};
        assert!(!is_allowed(None, None, Never));
        assert!(is_allowed(Some("trusted"), None, Never));
        assert!(is_allowed(Some("all"), None, Never));
        assert!(is_allowed(None, None, Trusted) && is_allowed(None, None, All));
        for default in [Never, Trusted, All] {
            assert!(!is_allowed(Some("none"), None, default), "the label is stronger than {default}");
            assert!(!is_allowed(Some("yes"), None, default), "a typing error permits nothing");
        }
    }

    #[test]
    fn c1_a_trusted_namespace_uses_no_template_of_one_that_is_not() {
        let never = TemplatePolicy::None;
        assert!(!is_allowed(Some("trusted"), Some(("team-b", None)), never));
        assert!(is_allowed(Some("trusted"), Some(("platform", Some("trusted"))), never));
        assert!(is_allowed(Some("all"), Some(("team-b", None)), never));
    }

    #[test]
    fn c1_a_kernel_that_cannot_confine_refuses_every_template() {
        let all = labels(Some("all"));
        let user = LabelledNamespace { name: "team-a", labels: &all };
        let problem = Some("no Landlock".to_owned());
        let settings = Settings { isolation_problem: problem, ..Settings::default() };
        let said = check_template_use(user, user, &settings).unwrap_err().to_string();
        assert!(said.contains("no Landlock") && said.contains("--isolation=off"), "{said}");
    }

    #[test]
    fn the_message_names_the_setting_and_who_sets_it() {
        let none = BTreeMap::new();
        let user = LabelledNamespace { name: "team-a", labels: &none };
        let said = check_template_use(user, user, &Settings::default()).unwrap_err().to_string();
        for word in ["team-a", "capt.x-k8s.io/templates=trusted", "administrator", "--templates"] {
            assert!(said.contains(word), "{said}");
        }
    }
}
