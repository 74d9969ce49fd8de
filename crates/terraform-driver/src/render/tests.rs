//! Fixtures of the rendering tests; the tests are below.

mod files;
mod generated;
mod properties;
mod variables;

use std::path::Path;

use serde_json::{Map, Value};

use super::*;
use crate::source::{LocalModules, ModuleSource};

fn inline(text: &str) -> RenderRequest {
    let source = RootSource::Inline { format: InlineFormat::Hcl, text: text.to_owned() };
    RenderRequest { provider: Some(provider()), ..RenderRequest::new("default", "demo-vpc", source) }
}

fn module(files: &[(&str, &str)]) -> RenderRequest {
    let files = files.iter().map(|&(name, text)| (name.to_owned(), text.as_bytes().to_vec())).collect();
    RenderRequest {
        provider: Some(provider()),
        ..RenderRequest::new("default", "demo-vpc", RootSource::Module(files))
    }
}

fn remote(address: &str, fetched: Option<&[(&str, &str)]>) -> RenderRequest {
    let fetched = fetched
        .map(|files| files.iter().map(|&(name, text)| (name.to_owned(), text.as_bytes().to_vec())).collect());
    let local = LocalModules::of_the_command_line();
    let source = ModuleSource::parse_with_local(address, Path::new(""), local).unwrap();
    let source = RootSource::Remote { source, fetched };
    RenderRequest { provider: Some(provider()), ..RenderRequest::new("default", "demo-vpc", source) }
}

fn provider() -> ProviderBlock {
    ProviderBlock { region: "eu-west-1".to_owned(), ..ProviderBlock::default() }
}

fn map(value: &Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

fn var(key: &str, value: &str) -> TemplateVar {
    TemplateVar { key: key.to_owned(), value: value.to_owned() }
}

fn text<'a>(rendered: &'a RenderedWorkspace, path: &str) -> &'a str {
    let contents =
        rendered.files.get(path).unwrap_or_else(|| panic!("no {path} in {:?}", rendered.files.keys()));
    std::str::from_utf8(&contents.bytes).unwrap()
}

fn json_of(rendered: &RenderedWorkspace, path: &str) -> Value {
    let mut value: Value = serde_json::from_str(text(rendered, path)).unwrap();
    value.as_object_mut().unwrap().remove("//");
    value
}

fn names(rendered: &RenderedWorkspace) -> Vec<&str> {
    rendered.files.keys().map(String::as_str).collect()
}

const AWS: &str = "resource \"aws_vpc\" \"this\" {}\n";

const TYPED: &str = r#"
variable "plain" {}
variable "name" { type = string }
variable "count_" { type = number }
variable "on" { type = bool }
variable "old" { type = "string" }
variable "azs" { type = list(string) }
variable "tags" {
  type    = map(string)
  default = {}
}
variable "anything" { type = any }
variable "selectors" {
  type = list(object({ namespace = string, labels = optional(map(string), {}) }))
}
"#;
