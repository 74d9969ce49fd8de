//! The tfvars files. Values in them are literals for terraform, whatever they contain.

use serde_json::{Map, Value};

use super::{
    Files, RenderError,
    generated::pretty,
    inspect::{self, Inspected, VariableType},
    literal,
    request::{Contents, InlineFormat, Request, Source, VarFile},
};

/// Writes the files and returns the variables of the controller that the template does not declare.
pub(super) fn write(
    request: &Request,
    root: &Inspected,
    files: &mut Files,
) -> Result<Vec<String>, RenderError> {
    let (values, dropped) = match &request.source {
        Source::Module(_) => (with_vars(request.variables.clone(), request, root)?, Vec::new()),
        Source::Inline { .. } | Source::Remote { .. } => {
            let (offered, dropped) = offered(request, root)?;
            (with_vars(offered, request, root)?, dropped)
        }
    };
    let name = match &request.source {
        Source::Module(_) | Source::Inline { .. } => "terraform.tfvars.json",
        // A remote root may bring a terraform.tfvars.json of its own.
        Source::Remote { .. } => "user.auto.tfvars.json",
    };
    write_map(files, name, &values);
    write_map(files, "upstream.auto.tfvars.json", &request.upstream);
    for (index, file) in request.var_files.iter().enumerate() {
        let (end, contents) = var_file(file)?;
        files.add(&format!("varfile-{index:03}.auto.{end}"), contents);
    }
    write_map(files, "varmap.auto.tfvars.json", &request.varmap);
    Ok(dropped)
}

fn write_map(files: &mut Files, name: &str, values: &Map<String, Value>) {
    if !values.is_empty() {
        files.add(name, Contents::secret(pretty(&Value::Object(values.clone()))));
    }
}

/// The controller's variables that a user's template declares.
fn offered(request: &Request, root: &Inspected) -> Result<(Map<String, Value>, Vec<String>), RenderError> {
    let mut taken = Map::new();
    let mut dropped = Vec::new();
    for (name, value) in &request.variables {
        match (root.variables.get(name), value) {
            (Some(ty), Value::String(text)) => {
                taken.insert(name.clone(), typed(name, text, ty)?);
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
    request: &Request,
    root: &Inspected,
) -> Result<Map<String, Value>, RenderError> {
    for var in &request.vars {
        let value = match root.variables.get(&var.key) {
            Some(ty) => typed(&var.key, &var.value, ty)?,
            None if root.is_complete => return Err(RenderError::Undeclared { name: var.key.clone() }),
            None => Value::from(var.value.as_str()),
        };
        values.insert(var.key.clone(), value);
    }
    Ok(values)
}

/// The meaning that `-var name=text` has for a variable of that type.
fn typed(name: &str, text: &str, ty: &VariableType) -> Result<Value, RenderError> {
    match ty {
        VariableType::Text => Ok(Value::from(text)),
        VariableType::Expression(ty) => literal::parse(text)
            .ok_or_else(|| RenderError::NotLiteral { name: name.to_owned(), ty: ty.clone() }),
    }
}

/// Passed on byte for byte; only looked at, so that the message names the origin and not a file nobody wrote.
fn var_file(file: &VarFile) -> Result<(&'static str, Contents), RenderError> {
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
    Ok((end, Contents::secret(text.clone().into_bytes())))
}
