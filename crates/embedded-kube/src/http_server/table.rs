//! Objects as rows of a `Table`, and as `PartialObjectMetadata`.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::query::Query;
use crate::{
    failure::{Answer, Failure, quoted},
    kinds::columns,
    object::{Meta, at},
    registry::{Column, Resource},
};

/// How much of each object a row carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Include {
    /// Nothing.
    None,
    /// Its metadata.
    Metadata,
    /// All of it.
    Object,
}

impl Include {
    /// By `includeObject`.
    pub fn of(query: &Query) -> Answer<Self> {
        match query.get("includeObject").unwrap_or_default() {
            "" | "Metadata" => Ok(Self::Metadata),
            "Object" => Ok(Self::Object),
            "None" => Ok(Self::None),
            other => Err(Failure::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {}: must be 'Metadata', 'Object', 'None', or empty",
                quoted(other)
            ))),
        }
    }
}

/// One printing of a table: version, what rows carry, and when "now" is for ages.
#[derive(Debug, Clone)]
pub struct Printer<'a> {
    /// The resource whose columns are printed.
    pub resource: &'a Resource,
    /// Version of `meta.k8s.io`.
    pub version: &'a str,
    /// What rows carry.
    pub include: Include,
    /// Ages count from here.
    pub now: Timestamp,
}

impl Printer<'_> {
    /// A table of these objects. Later events of a watch carry no headings.
    pub fn table(&self, objects: &[Value], list_meta: &Value, headings: bool) -> Value {
        let scale = objects.first().is_some_and(is_scale).then(|| columns::built_in("Scale"));
        let shown = scale.as_ref().unwrap_or(&self.resource.columns);
        let columns: Value = if headings { shown.iter().map(definition).collect() } else { Value::Null };
        json!({
            "kind": "Table", "apiVersion": format!("meta.k8s.io/{}", self.version),
            "metadata": list_meta,
            "columnDefinitions": columns,
            "rows": objects.iter().map(|object| self.row(object)).collect::<Vec<_>>(),
        })
    }

    fn row(&self, object: &Value) -> Value {
        let cells = cells(self.resource, object, self.now);
        let shown = match self.include {
            // The end of the initial events is told by an annotation, so that row always carries metadata.
            Include::None if is_end_of_initial_events(object) => partial(object, self.version),
            Include::None => Value::Null,
            Include::Metadata => partial(object, self.version),
            Include::Object => object.clone(),
        };
        let mut row = json!({ "cells": cells });
        if let Some(conditions) = columns::row_conditions(&self.resource.kind, object) {
            row["conditions"] = conditions;
        }
        row["object"] = shown;
        row
    }
}

fn is_end_of_initial_events(object: &Value) -> bool {
    at(object, &["metadata", "annotations", "k8s.io/initial-events-end"]).is_some()
}

/// The subresource, whatever the resource is.
fn is_scale(object: &Value) -> bool {
    at(object, &["kind"]).and_then(Value::as_str) == Some("Scale")
        && at(object, &["apiVersion"]).and_then(Value::as_str) == Some("autoscaling/v1")
}

fn definition(column: &Column) -> Value {
    json!({
        "name": column.name, "type": column.kind, "format": column.format,
        "description": column.description, "priority": column.priority,
    })
}

/// Cells of a row, one per column.
fn cells(resource: &Resource, object: &Value, now: Timestamp) -> Vec<Value> {
    if is_scale(object) {
        return columns::scale_cells(object, now);
    }
    resource.rules.cells(object, now).unwrap_or_else(|| vec![Value::String(object.name().to_owned())])
}

/// Only the metadata of an object.
pub fn partial(object: &Value, version: &str) -> Value {
    let metadata = object.get("metadata").cloned().unwrap_or_else(|| Value::Object(Map::new()));
    json!({
        "kind": "PartialObjectMetadata", "apiVersion": format!("meta.k8s.io/{version}"), "metadata": metadata,
    })
}
