//! The resources that a CRD defines: one per served version.

use std::sync::Arc;

use serde_json::Value;

use super::{
    accessors::{self, bool_field},
    custom_resource::CustomResourceStrategy,
    printer_columns::PrinterColumns,
};
use crate::{
    object::{get_path, str_at},
    registry::{Resource, ResourceId, Scale, api_version},
    schema::{CompiledSchema, Schema},
};

const VERBS: &[&str] = &["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];

/// Resources of the served versions. `since` is the revision of the last schema change.
pub fn served_resources(crd: &Value, since: u64) -> Vec<Resource> {
    accessors::versions(crd)
        .iter()
        .filter(|version| bool_field(version, "served"))
        .map(|version| version_resource(crd, version, since))
        .collect()
}

/// Resource of the storage version, served or not, to reach all objects.
pub fn storage_resource(crd: &Value) -> Resource {
    let empty = Value::Null;
    let stored = accessors::versions(crd).iter().find(|version| bool_field(version, "storage"));
    version_resource(crd, stored.or_else(|| accessors::versions(crd).first()).unwrap_or(&empty), 0)
}

fn version_resource(crd: &Value, version: &Value, since: u64) -> Resource {
    let names = Some(accessors::accepted_names(crd)).filter(|names| !names.plural.is_empty());
    let names = names.unwrap_or_else(|| accessors::spec_names(crd));
    let (group, name) = (str_at(crd, &["spec", "group"]), str_at(version, &["name"]));
    let storage_version = accessors::storage_version(crd);
    let empty = Value::Null;
    let schema = get_path(version, &["schema", "openAPIV3Schema"]).unwrap_or(&empty);
    let rules = CustomResourceStrategy {
        schema: CompiledSchema::new_unchecked(Schema::parse(schema)),
        source: schema.clone(),
        printer_columns: PrinterColumns::from_version(version),
        has_status: get_path(version, &["subresources", "status"]).is_some_and(|it| !it.is_null()),
        scale: get_path(version, &["subresources", "scale"]).filter(|it| !it.is_null()).map(parse_scale),
        api_version: api_version(group, name),
        storage_api_version: api_version(group, storage_version),
        terminating: accessors::is_condition_true(crd, "Terminating"),
        deprecation: bool_field(version, "deprecated").then(|| deprecation_warning(crd, version)),
    };
    Resource {
        id: ResourceId { group: group.to_owned(), version: name.to_owned(), plural: names.plural.clone() },
        kind: names.kind,
        list_kind: names.list_kind,
        singular: names.singular,
        short_names: names.short_names,
        categories: names.categories,
        namespaced: str_at(crd, &["spec", "scope"]) == "Namespaced",
        verbs: VERBS,
        has_status: rules.has_status,
        scale: rules.scale.clone(),
        shape: rules.schema.shape(),
        columns: rules.printer_columns.columns(),
        selectable_fields: selectable_fields(version),
        storage_prefix: format!("{group}/{}", names.plural),
        storage_version: storage_version.to_owned(),
        is_custom: true,
        schema_revision: since,
        strategy: Arc::new(rules),
    }
}

fn parse_scale(scale: &Value) -> Scale {
    let path = |key: &str| str_at(scale, &[key]).trim_start_matches('.').to_owned();
    Scale {
        spec: path("specReplicasPath"),
        status: path("statusReplicasPath"),
        selector: Some(path("labelSelectorPath")).filter(|path| !path.is_empty()),
    }
}

fn selectable_fields(version: &Value) -> Vec<String> {
    let fields = version.get("selectableFields").and_then(Value::as_array);
    let paths = fields.into_iter().flatten().map(|field| str_at(field, &["jsonPath"]));
    paths.map(|path| path.trim_start_matches('.').to_owned()).collect()
}

/// Deprecation warning: the CRD's own text or the default one.
fn deprecation_warning(crd: &Value, version: &Value) -> String {
    let given = str_at(version, &["deprecationWarning"]);
    if !given.is_empty() {
        return given.to_owned();
    }
    let (group, name) = (str_at(crd, &["spec", "group"]), str_at(version, &["name"]));
    let kind = str_at(crd, &["spec", "names", "kind"]);
    let text_of = format!("{group}/{name} {kind} is deprecated");
    let better = accessors::versions(crd)
        .iter()
        .filter(|other| bool_field(other, "served") && !bool_field(other, "deprecated"))
        .map(|other| str_at(other, &["name"]))
        .filter(|other| {
            super::version_priority::version_priority(other) > super::version_priority::version_priority(name)
        })
        .max_by_key(|other| super::version_priority::version_priority(other));
    match better {
        Some(better) => format!("{text_of}; use {group}/{better} {kind}"),
        None => text_of,
    }
}
