//! Template checks, using the renderer of the run pipeline.

use std::collections::BTreeMap;

use capt_kinds::api::{CaptIdentitySpec, ModuleSource, WorkspaceTemplateSpec};
use capt_model::{
    model::{ObjectKey, Problem},
    workspaces::{
        InstantiatedTemplate, TemplateError, TemplateOrigin, WorkspaceKey, instantiate_template,
        template_request,
    },
};
use terraform_driver::{
    render::{InlineFormat, RenderError, RenderRequest, RootSource, render},
    substitute::SubstituteError,
};

use super::validate::ReviewFindings;

const FOR_PROVIDER_PATH: &str = "spec.template.spec.forProvider";

/// Whether the configuration parses, whatever the values of its placeholders.
pub(super) fn template_problems(spec: &WorkspaceTemplateSpec) -> Vec<Problem> {
    let mut template = match fill_with_dummies(spec) {
        Ok(template) => template,
        Err(mut errors) => {
            // An address with placeholders is checked when they are filled.
            if has_placeholder_in_address(spec) {
                errors.retain(|error| !matches!(error, TemplateError::Source(_)));
            }
            return errors.into_iter().map(fill_problem).collect();
        }
    };
    // The type of a value with placeholders is unknown, so it is not checked.
    let written = spec.template.spec.for_provider.vars.iter();
    let known: Vec<bool> = written.map(|var| !format!("{}{}", var.key, var.value).contains("${")).collect();
    let mut known = known.into_iter();
    template.template.vars.retain(|_| known.next().unwrap_or(true));
    let request = template_request(&WorkspaceKey::new("any", "any"), &template, &BTreeMap::new());
    render(&request).err().map(|error| render_problem(&error)).into_iter().collect()
}

fn has_placeholder_in_address(spec: &WorkspaceTemplateSpec) -> bool {
    let parameters = &spec.template.spec.for_provider;
    parameters.source == ModuleSource::Remote && parameters.module.contains("${")
}

/// Fills every placeholder with a unique identifier, which is valid wherever a value is.
fn fill_with_dummies(spec: &WorkspaceTemplateSpec) -> Result<InstantiatedTemplate, Vec<TemplateError>> {
    let mut variables = BTreeMap::new();
    loop {
        let errors = match instantiate_template(spec, "any", &variables, TemplateOrigin::ApiObject) {
            Ok(template) => return Ok(template),
            Err(errors) => errors,
        };
        let before = variables.len();
        for error in &errors {
            if let TemplateError::Placeholder(SubstituteError::Unresolved { name, .. }) = error {
                let value = format!("capt_{}", variables.len());
                variables.entry(name.clone()).or_insert(value);
            }
        }
        // Terminates: placeholders come only from the finite text.
        if variables.len() == before {
            return Err(errors);
        }
    }
}

fn fill_problem(error: TemplateError) -> Problem {
    match error {
        TemplateError::Field(problem) => problem,
        TemplateError::Source(error) => Problem {
            path: format!("{FOR_PROVIDER_PATH}.module"),
            message: error.to_string(),
            remedy: "correct the address".to_owned(),
        },
        error => Problem {
            path: "spec.template.spec".to_owned(),
            message: one_line(&error.to_string()),
            remedy: "correct the template".to_owned(),
        },
    }
}

fn render_problem(error: &RenderError) -> Problem {
    let (field, message, remedy) = match error {
        RenderError::Parse { file, line, reason } => (
            "module",
            format!("does not parse: {file}, line {line}: {}", one_line(reason)),
            "correct the configuration there",
        ),
        RenderError::Undeclared { name } => (
            "vars",
            format!("the module declares no variable {name:?}"),
            "add a variable block, or remove the value",
        ),
        RenderError::NotLiteral { name, ty } => (
            "vars",
            format!("the value of {name:?} is not a literal of type {ty}"),
            "write one such as [\"a\", \"b\"]",
        ),
        RenderError::BadPath { path } => (
            "entrypoint",
            format!("{path:?} is not a path inside the module"),
            "use a directory of the module",
        ),
        RenderError::Reserved { .. } | RenderError::BackendTemplate { .. } => {
            ("module", error.to_string(), "correct the template")
        }
    };
    Problem { path: format!("{FOR_PROVIDER_PATH}.{field}"), message, remedy: remedy.to_owned() }
}

/// Fills the template with the variables of an apply. Errors in the variables are problems; errors of the template itself
/// are warnings, because the template can be corrected independently.
pub(super) fn fill_for_apply(
    workspace: &WorkspaceKey,
    (key, spec): (&ObjectKey, &WorkspaceTemplateSpec),
    variables: &BTreeMap<String, String>,
    findings: &mut ReviewFindings,
) -> Option<InstantiatedTemplate> {
    let template = match instantiate_template(spec, &workspace.name, variables, TemplateOrigin::ApiObject) {
        Ok(template) => template,
        Err(errors) => {
            for error in errors {
                match error {
                    TemplateError::Source(error) if has_placeholder_in_address(spec) => {
                        findings.problems.push(Problem {
                            path: "spec.variables".to_owned(),
                            message: format!("WorkspaceTemplate {key}: {error}"),
                            remedy: "correct the variables in the address".to_owned(),
                        });
                    }
                    error => report_fill_error(key, error, findings),
                }
            }
            return None;
        }
    };
    match render(&template_request(workspace, &template, variables)) {
        Err(RenderError::NotLiteral { name, ty }) if variables.contains_key(&name) => {
            findings.problems.push(Problem {
                path: format!("spec.variables[{name:?}]"),
                message: format!("is not a literal of type {ty}, which WorkspaceTemplate {key} requires"),
                remedy: "write one such as [\"a\", \"b\"]".to_owned(),
            });
        }
        Err(error) => findings.warn(format!("WorkspaceTemplate {key}: {}", one_line(&error.to_string()))),
        Ok(_) => {}
    }
    Some(template)
}

fn report_fill_error(key: &ObjectKey, error: TemplateError, findings: &mut ReviewFindings) {
    let (message, remedy) = match error {
        TemplateError::Placeholder(SubstituteError::Unresolved { path, name }) => (
            format!("placeholder ${{{name}}} in {path} of WorkspaceTemplate {key} has no value"),
            format!("add {name}"),
        ),
        TemplateError::Placeholder(SubstituteError::NotLiteral { path, name }) => (
            format!(
                "{name} is used outside of quotes in {path} of WorkspaceTemplate {key}, but is neither a literal nor an identifier"
            ),
            "use a literal, or put the placeholder in quotes".to_owned(),
        ),
        error => {
            return findings.warn(format!("WorkspaceTemplate {key}: {}", one_line(&error.to_string())));
        }
    };
    findings.problems.push(Problem { path: "spec.variables".to_owned(), message, remedy });
}

/// Parse errors in the HCL of an identity, which is added to every workspace that uses it.
pub(super) fn identity_problems(spec: &CaptIdentitySpec) -> Vec<Problem> {
    [("configuration", &spec.configuration), ("backendFile", &spec.backend_file)]
        .into_iter()
        .filter_map(|(field, text)| {
            let source = RootSource::Inline { format: InlineFormat::Hcl, text: text.clone()? };
            match render(&RenderRequest::new("any", "any", source)) {
                Err(RenderError::Parse { line, reason, .. }) => Some(Problem {
                    path: format!("spec.{field}"),
                    message: format!("does not parse: line {line}: {}", one_line(&reason)),
                    remedy: "correct the text there".to_owned(),
                }),
                _ => None,
            }
        })
        .collect()
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
