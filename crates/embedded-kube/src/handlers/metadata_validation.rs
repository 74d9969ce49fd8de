//! Checks of `metadata`, the same for every kind.

use serde_json::{Map, Value};

use crate::{
    failure::{FieldError, quoted},
    object::{Meta, at, label_value, qualified_name, text},
    registry::Resource,
};

const ANNOTATIONS_LIMIT: usize = 256 * 1024;

/// Faults of a new object's metadata.
pub fn check_new(object: &Value, resource: &Resource) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let generate = object.meta("generateName");
    if !generate.is_empty() {
        for why in resource.rules.check_name(generate, true) {
            errors.push(FieldError::invalid("metadata.generateName", generate, why));
        }
    }
    if object.name().is_empty() {
        errors.push(FieldError::required("metadata.name", "name or generateName is required"));
    } else {
        for why in resource.rules.check_name(object.name(), false) {
            errors.push(FieldError::invalid("metadata.name", object.name(), why));
        }
    }
    check_common(object, resource, &mut errors);
    errors
}

/// Faults of a changed object's metadata, each as often as the real server finds it: once as those of any object, once as
/// those of any update, and again by the checks of most kinds.
pub fn check_change(object: &Value, old: &Value, resource: &Resource) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check_common(object, resource, &mut errors);
    check_update(object, old, &mut errors);
    if errors.is_empty() {
        return errors;
    }
    if resource.id.group.is_empty() && matches!(resource.id.plural.as_str(), "configmaps" | "services") {
        check_common(object, resource, &mut errors);
    }
    check_update(object, old, &mut errors);
    errors
}

fn check_update(object: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    if old.is_terminating() {
        check_no_new_finalizers(object, old, errors);
    }
    for field in
        ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"]
    {
        let new = at(object, &["metadata", field]);
        if new != at(old, &["metadata", field]) {
            let value = new.cloned().unwrap_or_default();
            errors.push(FieldError::invalid(format!("metadata.{field}"), value, "field is immutable"));
        }
    }
    check_parts(object, errors);
}

fn check_namespace(object: &Value, resource: &Resource, errors: &mut Vec<FieldError>) {
    let namespace = object.namespace();
    if !resource.namespaced {
        if !namespace.is_empty() {
            errors.push(FieldError::forbidden("metadata.namespace", "not allowed on this type"));
        }
    } else if namespace.is_empty() {
        errors.push(FieldError::required("metadata.namespace", ""));
    } else {
        for why in crate::object::dns1123_label(namespace) {
            errors.push(FieldError::invalid("metadata.namespace", namespace, why));
        }
    }
}

fn check_common(object: &Value, resource: &Resource, errors: &mut Vec<FieldError>) {
    check_namespace(object, resource, errors);
    check_parts(object, errors);
    check_finalizers(object, resource, errors);
}

fn check_parts(object: &Value, errors: &mut Vec<FieldError>) {
    check_labels(map(object, "labels"), errors);
    check_annotations(map(object, "annotations"), errors);
    check_owners(object, errors);
}

fn map<'a>(object: &'a Value, field: &str) -> Option<&'a Map<String, Value>> {
    at(object, &["metadata", field]).and_then(Value::as_object)
}

fn check_labels(labels: Option<&Map<String, Value>>, errors: &mut Vec<FieldError>) {
    for (key, value) in labels.into_iter().flatten() {
        for why in qualified_name(key) {
            errors.push(FieldError::invalid("metadata.labels", key.as_str(), why));
        }
        let value = value.as_str().unwrap_or_default();
        for why in label_value(value) {
            errors.push(FieldError::invalid("metadata.labels", value, why));
        }
    }
}

fn check_annotations(annotations: Option<&Map<String, Value>>, errors: &mut Vec<FieldError>) {
    let mut size = 0;
    for (key, value) in annotations.into_iter().flatten() {
        for why in qualified_name(&key.to_lowercase()) {
            errors.push(FieldError::invalid("metadata.annotations", key.as_str(), why));
        }
        size += key.len() + value.as_str().unwrap_or_default().len();
    }
    if size > ANNOTATIONS_LIMIT {
        errors.push(FieldError::too_long("metadata.annotations", ANNOTATIONS_LIMIT));
    }
}

fn check_owners(object: &Value, errors: &mut Vec<FieldError>) {
    let field = "metadata.ownerReferences";
    let Some(owners) = at(object, &["metadata", "ownerReferences"]).and_then(Value::as_array) else { return };
    let mut controller: Option<String> = None;
    for owner in owners {
        let api_version = text(owner, &["apiVersion"]);
        let version = api_version.rsplit('/').next().unwrap_or_default();
        if version.is_empty() || api_version.matches('/').count() > 1 {
            errors.push(FieldError::invalid(
                format!("{field}.apiVersion"),
                api_version,
                "version must not be empty",
            ));
        }
        for part in ["kind", "name", "uid"] {
            if text(owner, &[part]).is_empty() {
                errors.push(FieldError::invalid(format!("{field}.{part}"), "", "must not be empty"));
            }
        }
        if (api_version, text(owner, &["kind"])) == ("v1", "Event") {
            let why = "/v1, Kind=Event is disallowed from being an owner";
            errors.push(FieldError::invalid(field, owner.clone(), why));
        }
        if owner.get("controller").and_then(Value::as_bool) == Some(true) {
            let present = format!("{}/{}", text(owner, &["kind"]), text(owner, &["name"]));
            match &controller {
                Some(first) => errors.push(FieldError::invalid(
                    field,
                    Value::Array(owners.clone()),
                    format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {present}"
                    ),
                )),
                None => controller = Some(present),
            }
        }
    }
}

fn check_finalizers(object: &Value, resource: &Resource, errors: &mut Vec<FieldError>) {
    let field = "metadata.finalizers";
    let finalizers = object.finalizers();
    for name in &finalizers {
        for why in qualified_name(name) {
            errors.push(FieldError::invalid(field, name.as_str(), why));
        }
    }
    // Custom resources may have any qualified name, built-in kinds want to know whose it is.
    if !resource.custom && resource.id.plural != "customresourcedefinitions" {
        let known = |name: &str| matches!(name, "kubernetes" | "orphan" | "foregroundDeletion");
        for (place, name) in
            finalizers.iter().enumerate().filter(|(_, name)| !name.contains('/') && !known(name))
        {
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(FieldError::invalid(format!("{field}[{place}]"), name.as_str(), why));
        }
    }
    let has = |wanted: &str| finalizers.iter().any(|name| name == wanted);
    if has("orphan") && has("foregroundDeletion") {
        let given: Vec<Value> = finalizers.iter().cloned().map(Value::String).collect();
        let why = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(FieldError::invalid(field, Value::Array(given), why));
    }
}

fn check_no_new_finalizers(object: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let before = old.finalizers();
    let mut new: Vec<String> =
        object.finalizers().into_iter().filter(|name| !before.contains(name)).collect();
    new.sort();
    new.dedup();
    if !new.is_empty() {
        let list: Vec<String> = new.iter().map(|name| quoted(name)).collect();
        errors.push(FieldError::forbidden(
            "metadata.finalizers",
            format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                list.join(", ")
            ),
        ));
    }
}
