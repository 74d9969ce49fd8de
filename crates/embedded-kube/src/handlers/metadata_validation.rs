//! Validates `metadata`, the same for every kind.

use serde_json::{Map, Value};

use crate::{
    object::{MetaAccessor, get_path, label_value, qualified_name, str_at},
    registry::Resource,
    status_error::{FieldError, go_quote},
};

const ANNOTATIONS_LIMIT: usize = 256 * 1024;

/// Validates the metadata of a new object.
pub fn validate_new(object: &Value, resource: &Resource) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let generate = object.meta_str("generateName");
    if !generate.is_empty() {
        for why in resource.strategy.validate_name(generate, true) {
            errors.push(FieldError::invalid("metadata.generateName", generate, why));
        }
    }
    if object.name().is_empty() {
        errors.push(FieldError::required("metadata.name", "name or generateName is required"));
    } else {
        for why in resource.strategy.validate_name(object.name(), false) {
            errors.push(FieldError::invalid("metadata.name", object.name(), why));
        }
    }
    validate_common(object, resource, &mut errors);
    errors
}

/// Validates the metadata of an update. Errors are repeated as in kube-apiserver: by the generic validation, by the
/// update validation, and again by most kinds.
pub fn validate_change(object: &Value, old: &Value, resource: &Resource) -> Vec<FieldError> {
    let mut errors = Vec::new();
    validate_common(object, resource, &mut errors);
    validate_update(object, old, &mut errors);
    if errors.is_empty() {
        return errors;
    }
    if resource.id.group.is_empty() && matches!(resource.id.plural.as_str(), "configmaps" | "services") {
        validate_common(object, resource, &mut errors);
    }
    validate_update(object, old, &mut errors);
    errors
}

fn validate_update(object: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    if old.is_terminating() {
        validate_no_new_finalizers(object, old, errors);
    }
    for field in
        ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"]
    {
        let new = get_path(object, &["metadata", field]);
        if new != get_path(old, &["metadata", field]) {
            let value = new.cloned().unwrap_or_default();
            errors.push(FieldError::invalid(format!("metadata.{field}"), value, "field is immutable"));
        }
    }
    validate_parts(object, errors);
}

fn validate_namespace(object: &Value, resource: &Resource, errors: &mut Vec<FieldError>) {
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

fn validate_common(object: &Value, resource: &Resource, errors: &mut Vec<FieldError>) {
    validate_namespace(object, resource, errors);
    validate_parts(object, errors);
    validate_finalizers(object, resource, errors);
}

fn validate_parts(object: &Value, errors: &mut Vec<FieldError>) {
    validate_labels(map(object, "labels"), errors);
    validate_annotations(map(object, "annotations"), errors);
    validate_owner_references(object, errors);
}

fn map<'a>(object: &'a Value, field: &str) -> Option<&'a Map<String, Value>> {
    get_path(object, &["metadata", field]).and_then(Value::as_object)
}

fn validate_labels(labels: Option<&Map<String, Value>>, errors: &mut Vec<FieldError>) {
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

fn validate_annotations(annotations: Option<&Map<String, Value>>, errors: &mut Vec<FieldError>) {
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

fn validate_owner_references(object: &Value, errors: &mut Vec<FieldError>) {
    let field = "metadata.ownerReferences";
    let Some(owners) = get_path(object, &["metadata", "ownerReferences"]).and_then(Value::as_array) else {
        return;
    };
    let mut controller: Option<String> = None;
    for owner in owners {
        let api_version = str_at(owner, &["apiVersion"]);
        let version = api_version.rsplit('/').next().unwrap_or_default();
        if version.is_empty() || api_version.matches('/').count() > 1 {
            errors.push(FieldError::invalid(
                format!("{field}.apiVersion"),
                api_version,
                "version must not be empty",
            ));
        }
        for part in ["kind", "name", "uid"] {
            if str_at(owner, &[part]).is_empty() {
                errors.push(FieldError::invalid(format!("{field}.{part}"), "", "must not be empty"));
            }
        }
        if (api_version, str_at(owner, &["kind"])) == ("v1", "Event") {
            let why = "/v1, Kind=Event is disallowed from being an owner";
            errors.push(FieldError::invalid(field, owner.clone(), why));
        }
        if owner.get("controller").and_then(Value::as_bool) == Some(true) {
            let present = format!("{}/{}", str_at(owner, &["kind"]), str_at(owner, &["name"]));
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

fn validate_finalizers(object: &Value, resource: &Resource, errors: &mut Vec<FieldError>) {
    let field = "metadata.finalizers";
    let finalizers = object.finalizers();
    for name in &finalizers {
        for why in qualified_name(name) {
            errors.push(FieldError::invalid(field, name.as_str(), why));
        }
    }
    // Custom resources may have any qualified name; built-in kinds need a domain.
    if !resource.is_custom && resource.id.plural != "customresourcedefinitions" {
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

fn validate_no_new_finalizers(object: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let before = old.finalizers();
    let mut new: Vec<String> =
        object.finalizers().into_iter().filter(|name| !before.contains(name)).collect();
    new.sort();
    new.dedup();
    if !new.is_empty() {
        let list: Vec<String> = new.iter().map(|name| go_quote(name)).collect();
        errors.push(FieldError::forbidden(
            "metadata.finalizers",
            format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                list.join(", ")
            ),
        ));
    }
}
