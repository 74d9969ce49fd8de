//! Formats objects as `Table` rows and as `PartialObjectMetadata`.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::query::Query;
use crate::{
    kinds::columns,
    object::{MetaAccessor, get_path},
    registry::{Column, Resource},
    status_error::{ApiResult, StatusError, go_quote},
};

/// `includeObject`: what each row contains of the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IncludeObject {
    /// Nothing.
    None,
    /// Its metadata.
    Metadata,
    /// All of it.
    Object,
}

impl IncludeObject {
    /// Parses `includeObject`.
    pub fn from_query(query: &Query) -> ApiResult<Self> {
        match query.get("includeObject").unwrap_or_default() {
            "" | "Metadata" => Ok(Self::Metadata),
            "Object" => Ok(Self::Object),
            "None" => Ok(Self::None),
            other => Err(StatusError::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {}: must be 'Metadata', 'Object', 'None', or empty",
                go_quote(other)
            ))),
        }
    }
}

/// Prints tables of one resource.
#[derive(Debug, Clone)]
pub struct TablePrinter<'a> {
    /// The resource whose columns are printed.
    pub resource: &'a Resource,
    /// Version of `meta.k8s.io`.
    pub version: &'a str,
    /// What rows contain.
    pub include: IncludeObject,
    /// Reference time for ages.
    pub now: Timestamp,
}

impl TablePrinter<'_> {
    /// A table of these objects. Later watch events have no column definitions.
    pub fn table(&self, objects: &[Value], list_meta: &Value, headings: bool) -> Value {
        let scale = objects.first().is_some_and(is_scale).then(|| columns::built_in_columns("Scale"));
        let shown = scale.as_ref().unwrap_or(&self.resource.columns);
        let columns: Value =
            if headings { shown.iter().map(column_definition).collect() } else { Value::Null };
        json!({
            "kind": "Table", "apiVersion": format!("meta.k8s.io/{}", self.version),
            "metadata": list_meta,
            "columnDefinitions": columns,
            "rows": objects.iter().map(|object| self.row(object)).collect::<Vec<_>>(),
        })
    }

    fn row(&self, object: &Value) -> Value {
        let cells = row_cells(self.resource, object, self.now);
        let shown = match self.include {
            // The end of the initial events is an annotation, so this row always contains metadata.
            IncludeObject::None if is_end_of_initial_events(object) => partial_metadata(object, self.version),
            IncludeObject::None => Value::Null,
            IncludeObject::Metadata => partial_metadata(object, self.version),
            IncludeObject::Object => object.clone(),
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
    get_path(object, &["metadata", "annotations", "k8s.io/initial-events-end"]).is_some()
}

/// Whether the object is a `Scale`, whatever the resource.
fn is_scale(object: &Value) -> bool {
    get_path(object, &["kind"]).and_then(Value::as_str) == Some("Scale")
        && get_path(object, &["apiVersion"]).and_then(Value::as_str) == Some("autoscaling/v1")
}

fn column_definition(column: &Column) -> Value {
    json!({
        "name": column.name, "type": column.kind, "format": column.format,
        "description": column.description, "priority": column.priority,
    })
}

/// Cells of a row, one per column.
fn row_cells(resource: &Resource, object: &Value, now: Timestamp) -> Vec<Value> {
    if is_scale(object) {
        return columns::scale_cells(object, now);
    }
    resource.strategy.cells(object, now).unwrap_or_else(|| vec![Value::String(object.name().to_owned())])
}

/// Reduces an object to its metadata.
pub fn partial_metadata(object: &Value, version: &str) -> Value {
    let metadata = object.get("metadata").cloned().unwrap_or_else(|| Value::Object(Map::new()));
    json!({
        "kind": "PartialObjectMetadata", "apiVersion": format!("meta.k8s.io/{version}"), "metadata": metadata,
    })
}
