//! Encodes replies. Stored objects are copied without parsing, unless a table or YAML is requested.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::{
    negotiation::{Format, Projection, Representation},
    table::{IncludeObject, TablePrinter, partial_metadata},
};
use crate::{
    clock,
    object::{MetaAccessor, MetaAccessorMut},
    registry::Resource,
    request::{ObjectBody, ObjectList},
    status_error::{ApiResult, StatusError},
};

/// Encodes the reply of a request, configured before the handler runs.
#[derive(Debug, Clone)]
pub struct Encoder {
    /// Representation.
    pub representation: Representation,
    /// What table rows contain.
    pub include: IncludeObject,
}

impl Encoder {
    /// Media type of the encoded reply.
    pub fn content_type(&self) -> &'static str {
        match self.representation.format {
            Format::Json => "application/json",
            Format::Yaml => "application/yaml",
        }
    }

    /// Encodes an object or a `Status`.
    pub fn encode_object(&self, resource: &Resource, object: &ObjectBody) -> ApiResult<Bytes> {
        let plain = self.representation.format == Format::Json && !self.representation.pretty;
        if let (ObjectBody::Stored(document), Projection::Whole, true) =
            (object, &self.representation.projection, plain)
        {
            return Ok(with_newline(document.bytes()));
        }
        let value = self.project(resource, object.value(), true)?;
        self.encode_value(&value)
    }

    /// Projects an object to the negotiated representation.
    pub fn project(&self, resource: &Resource, object: Value, headings: bool) -> ApiResult<Value> {
        if object.get("kind").is_some_and(|kind| kind == "Status")
            && object.get("apiVersion").is_some_and(|v| v == "v1")
        {
            return Ok(object);
        }
        match &self.representation.projection {
            Projection::Whole => Ok(object),
            Projection::PartialMetadata(version) => Ok(partial_metadata(&object, version)),
            Projection::PartialMetadataList(_) => Err(not_a_table_error(&format!(
                "you requested PartialObjectMetadataList, but the requested object is not a list ({})",
                go_type(resource, &resource.kind)
            ))),
            Projection::Table(version) => {
                let meta = json!({ "resourceVersion": object.resource_version() });
                Ok(self.printer(resource, version).table(&[object], &meta, headings))
            }
        }
    }

    fn printer<'a>(&self, resource: &'a Resource, version: &'a str) -> TablePrinter<'a> {
        TablePrinter { resource, version, include: self.include, now: clock::now() }
    }

    /// Encodes a list.
    pub fn encode_list(&self, resource: &Resource, list: &ObjectList) -> ApiResult<Bytes> {
        if self.representation.projection == Projection::Whole
            && self.representation.format == Format::Json
            && !self.representation.pretty
        {
            return concatenate_list(resource, list);
        }
        let values = || list.items.iter().map(ObjectBody::value);
        let meta = list_meta(list, resource.is_custom && self.representation.projection == Projection::Whole);
        let value = match &self.representation.projection {
            Projection::Whole => {
                let items: Vec<Value> = values().map(|item| strip_item_type(resource, item)).collect();
                json!({ "kind": resource.list_kind, "apiVersion": resource.api_version(), "metadata": meta, "items": items })
            }
            Projection::PartialMetadataList(version) => json!({
                "kind": "PartialObjectMetadataList", "apiVersion": format!("meta.k8s.io/{version}"), "metadata": meta,
                "items": values().map(|item| partial_metadata(&item, version)).collect::<Vec<_>>(),
            }),
            Projection::PartialMetadata(_) => {
                return Err(not_a_table_error(&format!(
                    "you requested PartialObjectMetadata, but the requested object is a list ({})",
                    go_type(resource, &resource.list_kind)
                )));
            }
            Projection::Table(version) => {
                self.printer(resource, version).table(&values().collect::<Vec<_>>(), &meta, true)
            }
        };
        self.encode_value(&value)
    }

    /// Encodes a value.
    pub fn encode_value(&self, value: &Value) -> ApiResult<Bytes> {
        match (self.representation.format, self.representation.pretty) {
            (Format::Yaml, _) => {
                let text = serde_saphyr::to_string(&sort_keys(value)).map_err(StatusError::internal)?;
                Ok(text.into())
            }
            (Format::Json, true) => {
                serde_json::to_vec_pretty(value).map(append_newline).map_err(StatusError::internal)
            }
            (Format::Json, false) => {
                serde_json::to_vec(value).map(append_newline).map_err(StatusError::internal)
            }
        }
    }
}

fn append_newline(mut bytes: Vec<u8>) -> Bytes {
    bytes.push(b'\n');
    bytes.into()
}

fn with_newline(bytes: &Bytes) -> Bytes {
    let mut out = Vec::with_capacity(bytes.len() + 1);
    out.extend_from_slice(bytes);
    out.push(b'\n');
    out.into()
}

fn not_a_table_error(text: &str) -> StatusError {
    StatusError::new(406, "NotAcceptable", text, None)
}

/// The Go type name that kube-apiserver includes in this error.
fn go_type(resource: &Resource, kind: &str) -> String {
    if resource.is_custom {
        let list = if kind == resource.list_kind { "List" } else { "" };
        return format!("*unstructured.Unstructured{list}");
    }
    let package = match resource.id.group.split('.').next() {
        None | Some("") => "core",
        Some(first) => first,
    };
    format!("*{package}.{kind}")
}

/// Metadata of a list. `always` adds an empty `continue`, as for whole lists of custom resources.
fn list_meta(list: &ObjectList, always: bool) -> Value {
    let mut meta = json!({ "resourceVersion": list.resource_version });
    if always || !list.continue_token.is_empty() {
        meta["continue"] = list.continue_token.as_str().into();
    }
    if let Some(remaining) = list.remaining_items {
        meta["remainingItemCount"] = remaining.into();
    }
    meta
}

/// Items of built-in lists have no type of their own.
fn strip_item_type(resource: &Resource, mut item: Value) -> Value {
    if !resource.is_custom {
        item.drop_field("apiVersion");
        item.drop_field("kind");
    }
    item
}

/// Builds the list in one buffer of the exact size: stored objects are copied once.
fn concatenate_list(resource: &Resource, list: &ObjectList) -> ApiResult<Bytes> {
    let made: Vec<Option<Vec<u8>>> = list
        .items
        .iter()
        .map(|item| match item {
            ObjectBody::Stored(_) => Ok(None),
            ObjectBody::Value(value) => serde_json::to_vec(&strip_item_type(resource, value.clone()))
                .map(Some)
                .map_err(StatusError::internal),
        })
        .collect::<ApiResult<_>>()?;
    let head = json!({
        "kind": resource.list_kind, "apiVersion": resource.api_version(), "metadata": list_meta(list, resource.is_custom),
    });
    let mut head = serde_json::to_vec(&head).map_err(StatusError::internal)?;
    head.pop();
    head.extend_from_slice(br#","items":["#);
    let pieces = || {
        list.items.iter().zip(&made).map(|(item, made)| match (item, made) {
            (_, Some(bytes)) => (false, bytes.as_slice()),
            (ObjectBody::Stored(document), None) if resource.is_custom => (false, document.bytes().as_ref()),
            (ObjectBody::Stored(document), None) => (true, document.body()),
            (ObjectBody::Value(_), None) => (false, b"null".as_slice()),
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

/// Sorts keys, as kube-apiserver's YAML does.
fn sort_keys(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut pairs: Vec<(&String, &Value)> = fields.iter().collect();
            pairs.sort_by_key(|(key, _)| *key);
            Value::Object(
                pairs.into_iter().map(|(key, value)| (key.clone(), sort_keys(value))).collect::<Map<_, _>>(),
            )
        }
        Value::Array(items) => Value::Array(items.iter().map(sort_keys).collect()),
        other => other.clone(),
    }
}
