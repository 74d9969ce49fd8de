//! Namespaces.

use serde_json::{Value, json};

use super::{
    columns::{age, name},
    common::{complain, fill, keep_other_part, label_name, list},
};
use crate::{
    failure::FieldError,
    object::{self, Meta, at_mut, qualified_name, text},
    registry::{Part, Rules},
};

const NAME_LABEL: &str = "kubernetes.io/metadata.name";

pub struct Namespace;

impl Rules for Namespace {
    fn default(&self, namespace: &mut Value) {
        label(namespace);
        if let Some(status) = namespace.get_mut("status") {
            fill(status, "phase", "Active");
        }
    }

    fn prepare_create(&self, namespace: &mut Value) {
        label(namespace);
        if let Some(status) = at_mut(namespace, &["status"]) {
            *status = json!({"phase": "Active"});
        }
        if let Some(place) = at_mut(namespace, &["spec", "finalizers"]) {
            match place.as_array_mut() {
                Some(list) if list.iter().any(|one| one == "kubernetes") => {}
                Some(list) => list.push("kubernetes".into()),
                None => *place = json!(["kubernetes"]),
            }
        }
    }

    fn prepare_update(&self, part: Part, namespace: &mut Value, old: &Value) {
        keep_other_part(part, namespace, old);
        label(namespace);
        if part == Part::Main
            && let Some(place) = at_mut(namespace, &["spec", "finalizers"])
        {
            *place = object::at(old, &["spec", "finalizers"]).cloned().unwrap_or_default();
        }
    }

    fn check(&self, namespace: &Value) -> Vec<FieldError> {
        let mut out = Vec::new();
        for finalizer in list(namespace, &["spec", "finalizers"]).iter().filter_map(Value::as_str) {
            let field = "spec.finalizers";
            complain(&mut out, field, finalizer, qualified_name(finalizer));
            let standard = ["kubernetes", "orphan", "foregroundDeletion"];
            if !finalizer.contains('/') && !standard.contains(&finalizer) {
                let detail = "name is neither a standard finalizer name nor is it fully qualified";
                out.push(FieldError::invalid(field, finalizer, detail));
            }
        }
        out
    }

    fn check_update(&self, part: Part, namespace: &Value, _old: &Value) -> Vec<FieldError> {
        if part != Part::Status {
            return self.check(namespace);
        }
        let phase = text(namespace, &["status", "phase"]);
        let detail = match namespace.is_terminating() {
            false if phase != "Active" => "may only be 'Active' if `deletionTimestamp` is empty",
            true if phase != "Terminating" => "may only be 'Terminating' if `deletionTimestamp` is not empty",
            _ => return Vec::new(),
        };
        vec![FieldError::invalid("status.Phase", phase, detail)]
    }

    fn check_name(&self, name: &str, prefix: bool) -> Vec<String> {
        label_name(name, prefix)
    }

    fn is_new_generation(&self, _namespace: &Value, _old: &Value) -> bool {
        false
    }

    fn cells(&self, namespace: &Value, now: jiff::Timestamp) -> Option<Vec<Value>> {
        Some(vec![name(namespace), text(namespace, &["status", "phase"]).into(), age(namespace, now)])
    }
}

/// Every namespace can be selected by its name. One without a name yet gets the label once it has one.
fn label(namespace: &mut Value) {
    let name = namespace.name().to_owned();
    if !name.is_empty()
        && let Some(place) = at_mut(namespace, &["metadata", "labels", NAME_LABEL])
    {
        *place = name.into();
    }
}
