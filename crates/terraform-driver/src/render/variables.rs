//! Renders the tfvars files. Terraform reads their values as literals.

use serde_json::{Map, Value};

use super::{
    FileSet, RenderError,
    generated::to_pretty_json,
    inspect::{self, RootInspection, VariableType},
    literal,
    request::{FileContents, InlineFormat, RenderRequest, RootSource, VarFile},
};

/// Adds the tfvars files and returns the variables that the template does not declare.
pub(super) fn add_variable_files(
    request: &RenderRequest,
    root: &RootInspection,
    files: &mut FileSet,
) -> Result<Vec<String>, RenderError> {
    let (values, dropped) = match &request.source {
        RootSource::Module(_) => (with_vars(request.variables.clone(), request, root)?, Vec::new()),
        RootSource::Inline { .. } | RootSource::Remote { .. } => {
            let (offered, dropped) = declared_variables(request, root)?;
            (with_vars(offered, request, root)?, dropped)
        }
    };
    let name = match &request.source {
        RootSource::Module(_) | RootSource::Inline { .. } => "terraform.tfvars.json",
        // A remote root may contain its own terraform.tfvars.json.
        RootSource::Remote { .. } => "user.auto.tfvars.json",
    };
    add_json_file(files, name, &values);
    add_json_file(files, "upstream.auto.tfvars.json", &request.upstream_outputs);
    for (index, file) in request.var_files.iter().enumerate() {
        let (end, contents) = check_var_file(file)?;
        files.add(&format!("varfile-{index:03}.auto.{end}"), contents);
    }
    add_json_file(files, "varmap.auto.tfvars.json", &request.varmap);
    Ok(dropped)
}

fn add_json_file(files: &mut FileSet, name: &str, values: &Map<String, Value>) {
    if !values.is_empty() {
        files.add(name, FileContents::secret(to_pretty_json(&Value::Object(values.clone()))));
    }
}

/// The controller's variables that a user's template declares.
fn declared_variables(
    request: &RenderRequest,
    root: &RootInspection,
) -> Result<(Map<String, Value>, Vec<String>), RenderError> {
    let mut taken = Map::new();
    let mut dropped = Vec::new();
    for (name, value) in &request.variables {
        match (root.variables.get(name), value) {
            (Some(ty), Value::String(text)) => {
                taken.insert(name.clone(), parse_typed(name, text, ty)?);
            }
            (Some(_), value) => {
                taken.insert(name.clone(), value.clone());
            }
            (None, _) => dropped.push(name.clone()),
        }
    }
    dropped.sort();
    Ok((taken, dropped))
}

fn with_vars(
    mut values: Map<String, Value>,
    request: &RenderRequest,
    root: &RootInspection,
) -> Result<Map<String, Value>, RenderError> {
    for var in &request.vars {
        let value = match root.variables.get(&var.key) {
            Some(ty) => parse_typed(&var.key, &var.value, ty)?,
            None if root.is_complete => return Err(RenderError::Undeclared { name: var.key.clone() }),
            None => Value::from(var.value.as_str()),
        };
        values.insert(var.key.clone(), value);
    }
    Ok(values)
}

/// Parses a text as `-var name=text` for a variable of that type.
fn parse_typed(name: &str, text: &str, ty: &VariableType) -> Result<Value, RenderError> {
    match ty {
        VariableType::Text => Ok(Value::from(text)),
        VariableType::Expression(ty) => literal::parse_literal(text)
            .ok_or_else(|| RenderError::NotLiteral { name: name.to_owned(), ty: ty.clone() }),
    }
}

/// Passed on unchanged; parsed only so that an error names its origin instead of a generated file.
fn check_var_file(file: &VarFile) -> Result<(&'static str, FileContents), RenderError> {
    let VarFile { origin, format, text } = file;
    let end = match format {
        InlineFormat::Hcl => {
            inspect::hcl_body(origin, text)?;
            "tfvars"
        }
        InlineFormat::Json => {
            inspect::json_object(origin, text.as_bytes())?;
            "tfvars.json"
        }
    };
    Ok((end, FileContents::secret(text.clone().into_bytes())))
}
