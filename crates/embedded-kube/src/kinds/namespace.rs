//! Namespaces.

use serde_json::{Value, json};

use super::{
    columns::{age_cell, name_cell},
    common::{list_at, push_invalid, restore_other_part, set_default, validate_label_name},
};
use crate::{
    object::{self, MetaAccessor, get_path_mut, qualified_name, str_at},
    registry::{ObjectPart, ResourceStrategy},
    status_error::FieldError,
};

const NAME_LABEL: &str = "kubernetes.io/metadata.name";

pub struct NamespaceStrategy;

impl ResourceStrategy for NamespaceStrategy {
    fn set_defaults(&self, namespace: &mut Value) {
        set_name_label(namespace);
        if let Some(status) = namespace.get_mut("status") {
            set_default(status, "phase", "Active");
        }
    }

    fn prepare_create(&self, namespace: &mut Value) {
        set_name_label(namespace);
        if let Some(status) = get_path_mut(namespace, &["status"]) {
            *status = json!({"phase": "Active"});
        }
        if let Some(place) = get_path_mut(namespace, &["spec", "finalizers"]) {
            match place.as_array_mut() {
                Some(list) if list.iter().any(|one| one == "kubernetes") => {}
                Some(list) => list.push("kubernetes".into()),
                None => *place = json!(["kubernetes"]),
            }
        }
    }

    fn prepare_update(&self, part: ObjectPart, namespace: &mut Value, old: &Value) {
        restore_other_part(part, namespace, old);
        set_name_label(namespace);
        if part == ObjectPart::Object
            && let Some(place) = get_path_mut(namespace, &["spec", "finalizers"])
        {
            *place = object::get_path(old, &["spec", "finalizers"]).cloned().unwrap_or_default();
        }
    }

    fn validate(&self, namespace: &Value) -> Vec<FieldError> {
        let mut out = Vec::new();
        for finalizer in list_at(namespace, &["spec", "finalizers"]).iter().filter_map(Value::as_str) {
            let field = "spec.finalizers";
            push_invalid(&mut out, field, finalizer, qualified_name(finalizer));
            let standard = ["kubernetes", "orphan", "foregroundDeletion"];
            if !finalizer.contains('/') && !standard.contains(&finalizer) {
                let detail = "name is neither a standard finalizer name nor is it fully qualified";
                out.push(FieldError::invalid(field, finalizer, detail));
            }
        }
        out
    }

    fn validate_update(&self, part: ObjectPart, namespace: &Value, _old: &Value) -> Vec<FieldError> {
        if part != ObjectPart::Status {
            return self.validate(namespace);
        }
        let phase = str_at(namespace, &["status", "phase"]);
        let detail = match namespace.is_terminating() {
            false if phase != "Active" => "may only be 'Active' if `deletionTimestamp` is empty",
            true if phase != "Terminating" => "may only be 'Terminating' if `deletionTimestamp` is not empty",
            _ => return Vec::new(),
        };
        vec![FieldError::invalid("status.Phase", phase, detail)]
    }

    fn validate_name(&self, name: &str, prefix: bool) -> Vec<String> {
        validate_label_name(name, prefix)
    }

    fn bumps_generation(&self, _namespace: &Value, _old: &Value) -> bool {
        false
    }

    fn cells(&self, namespace: &Value, now: jiff::Timestamp) -> Option<Vec<Value>> {
        Some(vec![
            name_cell(namespace),
            str_at(namespace, &["status", "phase"]).into(),
            age_cell(namespace, now),
        ])
    }
}

/// Sets the name label. A namespace without a name gets it once the name is generated.
fn set_name_label(namespace: &mut Value) {
    let name = namespace.name().to_owned();
    if !name.is_empty()
        && let Some(place) = get_path_mut(namespace, &["metadata", "labels", NAME_LABEL])
    {
        *place = name.into();
    }
}
