//! Inspects a root module: its variables, provider blocks and backend. Read-only.

use std::collections::{BTreeMap, BTreeSet};

use hcl_edit::{
    expr::Expression,
    structure::{Block, Body},
};
use serde_json::Value;

use super::{KnownRoot, RenderError, literal};

/// How terraform parses the text of a variable after `-var`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum VariableType {
    /// The text is the value; terraform converts it to a number or bool.
    Text,
    /// The text is an expression of this type.
    Expression(String),
}

/// Blocks that mention resources by their address or contain data sources. They need the provider although nothing declares a
/// resource.
const ADDRESS_BLOCKS: [&str; 4] = ["check", "import", "moved", "removed"];

#[derive(Debug, Default)]
pub(super) struct RootInspection {
    pub(super) variables: BTreeMap<String, VariableType>,
    /// Aliases of the source's own `provider "aws"` blocks; `None` is the default block.
    pub(super) aws_providers: BTreeSet<Option<String>>,
    /// Whether the AWS provider is needed; assumed for modules, which are not inspected.
    pub(super) uses_aws: bool,
    /// The source's own backend.
    pub(super) backend: Option<String>,
    /// Whether all files of the root module were available.
    pub(super) is_complete: bool,
}

pub(super) fn inspect_root(root: &KnownRoot<'_>) -> Result<RootInspection, RenderError> {
    let mut found = RootInspection { is_complete: root.is_complete, ..RootInspection::default() };
    for (path, bytes) in &root.files {
        match extension(path) {
            Some("tf" | "tofu") => found.inspect_hcl(&hcl_body(path, &String::from_utf8_lossy(bytes))?),
            Some("tf.json" | "tofu.json") => found.inspect_json(&json_object(path, bytes)?),
            _ => {}
        }
    }
    Ok(found)
}

/// Full extension of a file in the root module; `None` for files in subdirectories.
fn extension(path: &str) -> Option<&str> {
    let name = (!path.contains('/')).then_some(path)?;
    let plain = name.strip_suffix(".json").unwrap_or(name);
    plain.rfind('.').map(|at| &name[at + 1..])
}

/// Parses HCL; errors name file and line.
pub(super) fn hcl_body(file: &str, text: &str) -> Result<Body, RenderError> {
    text.parse().map_err(|error: hcl_edit::parser::Error| RenderError::Parse {
        file: file.to_owned(),
        line: error.location().line(),
        reason: error.message().to_owned(),
    })
}

/// Parses a JSON object; errors name file and line.
pub(super) fn json_object(file: &str, bytes: &[u8]) -> Result<Value, RenderError> {
    let error = |line, reason| RenderError::Parse { file: file.to_owned(), line, reason };
    let value: Value =
        serde_json::from_slice(bytes).map_err(|cause| error(cause.line(), cause.to_string()))?;
    if value.is_object() { Ok(value) } else { Err(error(1, "not a JSON object".to_owned())) }
}

impl RootInspection {
    fn inspect_hcl(&mut self, body: &Body) {
        for block in body.blocks() {
            let label = |index: usize| block.labels.get(index).map_or("", |label| label.as_str());
            match block.ident.as_str() {
                "variable" => {
                    let ty = block.body.get_attribute("type").map(|attribute| &attribute.value);
                    self.variables.insert(label(0).to_owned(), ty.map_or(VariableType::Text, variable_type));
                }
                "provider" if label(0) == "aws" => {
                    let alias = block.body.get_attribute("alias").and_then(|alias| alias.value.as_str());
                    self.aws_providers.insert(alias.map(str::to_owned));
                }
                "resource" | "data" | "ephemeral" => self.uses_aws |= label(0).starts_with("aws_"),
                "module" => self.uses_aws = true,
                kind if ADDRESS_BLOCKS.contains(&kind) => {
                    self.uses_aws |= block.body.to_string().contains("aws_");
                }
                "terraform" => self.hcl_terraform(block),
                _ => {}
            }
        }
    }

    fn hcl_terraform(&mut self, block: &Block) {
        for inner in block.body.blocks() {
            match inner.ident.as_str() {
                "backend" => self.backend = inner.labels.first().map(|label| label.as_str().to_owned()),
                "cloud" => self.backend = Some("cloud".to_owned()),
                "required_providers" => self.uses_aws |= inner.body.has_attribute("aws"),
                _ => {}
            }
        }
    }

    fn inspect_json(&mut self, root: &Value) {
        for (name, variable) in labelled(root, "variable") {
            let ty = variable.get("type").and_then(Value::as_str);
            let ty = ty.map_or(VariableType::Text, |text| {
                let expression = text.parse::<Expression>();
                expression.map_or_else(|_| VariableType::Expression(text.to_owned()), |ty| variable_type(&ty))
            });
            self.variables.insert(name.to_owned(), ty);
        }
        for (_, provider) in labelled(root, "provider").filter(|(name, _)| *name == "aws") {
            for block in blocks(provider) {
                self.aws_providers.insert(block.get("alias").and_then(Value::as_str).map(str::to_owned));
            }
        }
        let kinds = ["resource", "data", "ephemeral"].into_iter().flat_map(|kind| labelled(root, kind));
        self.uses_aws |= kinds.into_iter().any(|(name, _)| name.starts_with("aws_"));
        self.uses_aws |= labelled(root, "module").next().is_some();
        let addresses = ADDRESS_BLOCKS.iter().filter_map(|kind| root.get(kind));
        self.uses_aws |= addresses.into_iter().any(|block| block.to_string().contains("aws_"));
        for settings in root.get("terraform").into_iter().flat_map(blocks) {
            if let Some((kind, _)) = labelled(settings, "backend").next() {
                self.backend = Some(kind.to_owned());
            }
            if settings.get("cloud").is_some() {
                self.backend = Some("cloud".to_owned());
            }
            self.uses_aws |= labelled(settings, "required_providers").any(|(name, _)| name == "aws");
        }
    }
}

/// Blocks of the JSON syntax: one object, or an array of them.
fn blocks(value: &Value) -> impl Iterator<Item = &Value> {
    let many = value.as_array().map(Vec::as_slice);
    many.unwrap_or_else(|| std::slice::from_ref(value)).iter()
}

/// Blocks with one label: `{"variable": {"name": {…}}}`, with arrays wherever the syntax allows them.
fn labelled<'a>(value: &'a Value, kind: &str) -> impl Iterator<Item = (&'a str, &'a Value)> {
    let objects = value.get(kind).into_iter().flat_map(blocks).filter_map(Value::as_object);
    objects.flatten().map(|(name, block)| (name.as_str(), block))
}

/// Terraform's rule: `string`, `number`, `bool` and untyped variables take the text, all others an expression.
fn variable_type(ty: &Expression) -> VariableType {
    let name = match ty {
        Expression::Variable(name) => Some(name.as_str().to_owned()),
        // The old spelling, `type = "string"`.
        quoted => literal::literal_value(quoted).and_then(|value| value.as_str().map(str::to_owned)),
    };
    match name.as_deref() {
        Some("string" | "number" | "bool") => VariableType::Text,
        _ => VariableType::Expression(ty.to_string().trim().to_owned()),
    }
}
