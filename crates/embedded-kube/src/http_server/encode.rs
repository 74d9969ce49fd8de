//! Replies into bytes. Stored objects are copied, never parsed, unless a table or YAML is asked for.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::{
    accept::{Format, View, Wanted},
    table::{Include, Printer, partial},
};
use crate::{
    clock,
    failure::{Answer, Failure},
    object::{Meta, MetaMut},
    registry::Resource,
    request::{Body, List},
};

/// What an answer is made of, decided before the verb runs: resource, representation, contents of rows.
#[derive(Debug, Clone)]
pub struct Encoder {
    /// Representation.
    pub wanted: Wanted,
    /// What rows of a table carry.
    pub include: Include,
}

impl Encoder {
    /// Media type of what [`Encoder`] gives.
    pub fn content_type(&self) -> &'static str {
        match self.wanted.format {
            Format::Json => "application/json",
            Format::Yaml => "application/yaml",
        }
    }

    /// One object, or a `Status`.
    pub fn object(&self, resource: &Resource, object: &Body) -> Answer<Bytes> {
        let plain = self.wanted.format == Format::Json && !self.wanted.pretty;
        if let (Body::Stored(document), View::Whole, true) = (object, &self.wanted.view, plain) {
            return Ok(with_newline(document.bytes()));
        }
        let value = self.view(resource, object.value(), true)?;
        self.write(&value)
    }

    /// The object as the client wants to see it.
    pub fn view(&self, resource: &Resource, object: Value, headings: bool) -> Answer<Value> {
        if object.get("kind").is_some_and(|kind| kind == "Status")
            && object.get("apiVersion").is_some_and(|v| v == "v1")
        {
            return Ok(object);
        }
        match &self.wanted.view {
            View::Whole => Ok(object),
            View::Partial(version) => Ok(partial(&object, version)),
            View::PartialList(_) => Err(unfit(&format!(
                "you requested PartialObjectMetadataList, but the requested object is not a list ({})",
                go_type(resource, &resource.kind)
            ))),
            View::Table(version) => {
                let meta = json!({ "resourceVersion": object.resource_version() });
                Ok(self.printer(resource, version).table(&[object], &meta, headings))
            }
        }
    }

    fn printer<'a>(&self, resource: &'a Resource, version: &'a str) -> Printer<'a> {
        Printer { resource, version, include: self.include, now: clock::now() }
    }

    /// A list.
    pub fn list(&self, resource: &Resource, list: &List) -> Answer<Bytes> {
        if self.wanted.view == View::Whole && self.wanted.format == Format::Json && !self.wanted.pretty {
            return concatenated(resource, list);
        }
        let values = || list.items.iter().map(Body::value);
        let meta = list_meta(list, resource.custom && self.wanted.view == View::Whole);
        let value = match &self.wanted.view {
            View::Whole => {
                let items: Vec<Value> = values().map(|item| as_item(resource, item)).collect();
                json!({ "kind": resource.list_kind, "apiVersion": resource.api_version(), "metadata": meta, "items": items })
            }
            View::PartialList(version) => json!({
                "kind": "PartialObjectMetadataList", "apiVersion": format!("meta.k8s.io/{version}"), "metadata": meta,
                "items": values().map(|item| partial(&item, version)).collect::<Vec<_>>(),
            }),
            View::Partial(_) => {
                return Err(unfit(&format!(
                    "you requested PartialObjectMetadata, but the requested object is a list ({})",
                    go_type(resource, &resource.list_kind)
                )));
            }
            View::Table(version) => {
                self.printer(resource, version).table(&values().collect::<Vec<_>>(), &meta, true)
            }
        };
        self.write(&value)
    }

    /// A value in the negotiated encoding.
    pub fn write(&self, value: &Value) -> Answer<Bytes> {
        match (self.wanted.format, self.wanted.pretty) {
            (Format::Yaml, _) => {
                let text = serde_saphyr::to_string(&sorted(value)).map_err(Failure::internal)?;
                Ok(text.into())
            }
            (Format::Json, true) => serde_json::to_vec_pretty(value).map(lines).map_err(Failure::internal),
            (Format::Json, false) => serde_json::to_vec(value).map(lines).map_err(Failure::internal),
        }
    }
}

fn lines(mut bytes: Vec<u8>) -> Bytes {
    bytes.push(b'\n');
    bytes.into()
}

fn with_newline(bytes: &Bytes) -> Bytes {
    let mut out = Vec::with_capacity(bytes.len() + 1);
    out.extend_from_slice(bytes);
    out.push(b'\n');
    out.into()
}

fn unfit(text: &str) -> Failure {
    Failure::new(406, "NotAcceptable", text, None)
}

/// The name of the type that the real server has for it, which it shows to clients here.
fn go_type(resource: &Resource, kind: &str) -> String {
    if resource.custom {
        let list = if kind == resource.list_kind { "List" } else { "" };
        return format!("*unstructured.Unstructured{list}");
    }
    let package = match resource.id.group.split('.').next() {
        None | Some("") => "core",
        Some(first) => first,
    };
    format!("*{package}.{kind}")
}

/// Metadata of a list. Whole lists of custom resources always say whether there is more (`always`).
fn list_meta(list: &List, always: bool) -> Value {
    let mut meta = json!({ "resourceVersion": list.resource_version });
    if always || !list.continue_token.is_empty() {
        meta["continue"] = list.continue_token.as_str().into();
    }
    if let Some(remaining) = list.remaining {
        meta["remainingItemCount"] = remaining.into();
    }
    meta
}

/// Items of built-in lists carry no type: the list's says it.
fn as_item(resource: &Resource, mut item: Value) -> Value {
    if !resource.custom {
        item.drop_field("apiVersion");
        item.drop_field("kind");
    }
    item
}

/// The list as one buffer of exactly the right size: stored objects are copied once.
fn concatenated(resource: &Resource, list: &List) -> Answer<Bytes> {
    let made: Vec<Option<Vec<u8>>> = list
        .items
        .iter()
        .map(|item| match item {
            Body::Stored(_) => Ok(None),
            Body::Value(value) => {
                serde_json::to_vec(&as_item(resource, value.clone())).map(Some).map_err(Failure::internal)
            }
        })
        .collect::<Answer<_>>()?;
    let head = json!({
        "kind": resource.list_kind, "apiVersion": resource.api_version(), "metadata": list_meta(list, resource.custom),
    });
    let mut head = serde_json::to_vec(&head).map_err(Failure::internal)?;
    head.pop();
    head.extend_from_slice(br#","items":["#);
    let pieces = || {
        list.items.iter().zip(&made).map(|(item, made)| match (item, made) {
            (_, Some(bytes)) => (false, bytes.as_slice()),
            (Body::Stored(document), None) if resource.custom => (false, document.bytes().as_ref()),
            (Body::Stored(document), None) => (true, document.body()),
            (Body::Value(_), None) => (false, b"null".as_slice()),
        })
    };
    let size: usize = pieces().map(|(brace, bytes)| bytes.len() + 1 + usize::from(brace)).sum();
    let mut out = Vec::with_capacity(head.len() + size + 3);
    out.extend_from_slice(&head);
    for (index, (brace, bytes)) in pieces().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        if brace {
            out.push(b'{');
        }
        out.extend_from_slice(bytes);
    }
    out.extend_from_slice(b"]}\n");
    Ok(out.into())
}

/// Keys in order, as the real server's YAML has them.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut pairs: Vec<(&String, &Value)> = fields.iter().collect();
            pairs.sort_by_key(|(key, _)| *key);
            Value::Object(
                pairs.into_iter().map(|(key, value)| (key.clone(), sorted(value))).collect::<Map<_, _>>(),
            )
        }
        Value::Array(items) => Value::Array(items.iter().map(sorted).collect()),
        other => other.clone(),
    }
}
