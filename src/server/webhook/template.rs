//! Whether a template can be rendered. The same code that renders it for terraform is asked.

use std::collections::BTreeMap;

use terraform_driver::{
    render::{InlineFormat, RenderError, Request, Source, render},
    substitute::SubstituteError,
};

use crate::{
    api::{CaptIdentitySpec, WorkspaceTemplateSpec},
    blueprint::{FillError, Key, fill, template_request},
    model::{ObjectKey, Problem, template::ValidatedTemplate},
};

use super::check::Findings;

const PARAMETERS: &str = "spec.template.spec.forProvider";

/// Whether the text of a template can be read, whatever its placeholders will be.
pub(super) fn of_template(spec: &WorkspaceTemplateSpec) -> Vec<Problem> {
    let mut template = match filled_with_anything(spec) {
        Ok(template) => template,
        Err(errors) => return errors.into_iter().map(misfit).collect(),
    };
    // What a placeholder will be is not known, so neither is the type of a value that is made from one.
    let written = spec.template.spec.for_provider.vars.iter();
    let known: Vec<bool> = written.map(|var| !format!("{}{}", var.key, var.value).contains("${")).collect();
    let mut known = known.into_iter();
    template.vars.retain(|_| known.next().unwrap_or(true));
    let request = template_request(&Key::new("any", "any"), &template, &BTreeMap::new(), "");
    render(&request).err().map(|error| unrenderable(&error)).into_iter().collect()
}

/// Every placeholder gets a name of its own, which may stand wherever a value may.
fn filled_with_anything(spec: &WorkspaceTemplateSpec) -> Result<ValidatedTemplate, Vec<FillError>> {
    let mut variables = BTreeMap::new();
    loop {
        let errors = match fill(spec, "any", &variables) {
            Ok(template) => return Ok(template),
            Err(errors) => errors,
        };
        let before = variables.len();
        for error in &errors {
            if let FillError::Placeholder(SubstituteError::Unresolved { name, .. }) = error {
                let value = format!("capt_{}", variables.len());
                variables.entry(name.clone()).or_insert(value);
            }
        }
        // Names are only ever found in the text itself, so this ends.
        if variables.len() == before {
            return Err(errors);
        }
    }
}

fn misfit(error: FillError) -> Problem {
    match error {
        FillError::Field(problem) => problem,
        error => Problem {
            path: "spec.template.spec".to_owned(),
            message: one_line(&error.to_string()),
            remedy: "correct the template".to_owned(),
        },
    }
}

fn unrenderable(error: &RenderError) -> Problem {
    let (field, message, remedy) = match error {
        RenderError::Parse { file, line, reason } => (
            "module",
            format!("does not parse: {file}, line {line}: {}", one_line(reason)),
            "correct the text there",
        ),
        RenderError::Undeclared { name } => (
            "vars",
            format!("the module declares no variable {name:?}"),
            "add a variable block, or take the value out",
        ),
        RenderError::NotLiteral { name, ty } => (
            "vars",
            format!("the value of {name:?} is no literal of the type {ty}"),
            "write one such as [\"a\", \"b\"]",
        ),
        RenderError::BadPath { path } => {
            ("entrypoint", format!("{path:?} is no path inside of the module"), "write a directory of it")
        }
        RenderError::Reserved { .. } | RenderError::BackendTemplate { .. } => {
            ("module", error.to_string(), "correct the template")
        }
    };
    Problem { path: format!("{PARAMETERS}.{field}"), message, remedy: remedy.to_owned() }
}

/// The template with the variables of the object that applies it. What is the object's fault is a problem; what is the
/// template's own is only worth a warning, because the template can be corrected without touching the object.
pub(super) fn of_apply(
    workspace: &Key,
    (key, spec): (&ObjectKey, &WorkspaceTemplateSpec),
    variables: &BTreeMap<String, String>,
    findings: &mut Findings,
) -> Option<ValidatedTemplate> {
    let template = match fill(spec, &workspace.name, variables) {
        Ok(template) => template,
        Err(errors) => {
            for error in errors {
                unfilled(key, error, findings);
            }
            return None;
        }
    };
    match render(&template_request(workspace, &template, variables, "")) {
        Err(RenderError::NotLiteral { name, ty }) if variables.contains_key(&name) => {
            findings.problems.push(Problem {
                path: format!("spec.variables[{name:?}]"),
                message: format!("is no literal of the type {ty}, which WorkspaceTemplate {key} asks for"),
                remedy: "write one such as [\"a\", \"b\"]".to_owned(),
            });
        }
        Err(error) => findings.warn(format!("WorkspaceTemplate {key}: {}", one_line(&error.to_string()))),
        Ok(_) => {}
    }
    Some(template)
}

fn unfilled(key: &ObjectKey, error: FillError, findings: &mut Findings) {
    let (message, remedy) = match error {
        FillError::Placeholder(SubstituteError::Unresolved { path, name }) => (
            format!("no variable fills ${{{name}}} in {path} of WorkspaceTemplate {key}"),
            format!("add {name}"),
        ),
        FillError::Placeholder(SubstituteError::NotLiteral { path, name }) => (
            format!(
                "{name} stands outside of quotes in {path} of WorkspaceTemplate {key} and is neither a literal nor an identifier"
            ),
            "write a literal, or put the placeholder in quotes".to_owned(),
        ),
        error => {
            return findings.warn(format!("WorkspaceTemplate {key}: {}", one_line(&error.to_string())));
        }
    };
    findings.problems.push(Problem { path: "spec.variables".to_owned(), message, remedy });
}

/// The HCL of an identity, which is added to every workspace that uses it.
pub(super) fn of_identity(spec: &CaptIdentitySpec) -> Vec<Problem> {
    [("configuration", &spec.configuration), ("backendFile", &spec.backend_file)]
        .into_iter()
        .filter_map(|(field, text)| {
            let source = Source::Inline { format: InlineFormat::Hcl, text: text.clone()? };
            match render(&Request::new("any", "any", source)) {
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
