//! Rules of the kind `CustomResourceDefinition`.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    check, formats, status,
    view::{self, storage_version, words},
};
use crate::{
    clock,
    failure::FieldError,
    object::{Meta, MetaMut, at, at_mut, dns1123_subdomain, text},
    registry::{Part, Rules},
};

/// The finalizer that keeps a CRD until its objects are gone.
pub const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// The kind `CustomResourceDefinition` itself.
pub struct Definition;

impl Rules for Definition {
    fn default(&self, object: &mut Value) {
        default_names(object);
        if at(object, &["spec", "conversion"]).is_none_or(Value::is_null)
            && let Some(place) = at_mut(object, &["spec", "conversion"])
        {
            *place = json!({ "strategy": "None" });
        }
        let service = object.pointer_mut("/spec/conversion/webhook/clientConfig/service");
        if let Some(service) = service.and_then(Value::as_object_mut) {
            service.entry("port").or_insert_with(|| 443.into());
        }
        if words(object, &["status", "storedVersions"]).is_empty() {
            store_version(object);
        }
        fill_status(object);
    }

    fn prepare_create(&self, object: &mut Value) {
        object.drop_field("status");
        store_version(object);
        fill_status(object);
    }

    fn prepare_update(&self, part: Part, object: &mut Value, old: &Value) {
        let kept = if part == Part::Status { "spec" } else { "status" };
        if let (Some(map), Some(value)) = (object.as_object_mut(), old.get(kept)) {
            map.insert(kept.to_owned(), value.clone());
        }
        if part != Part::Status {
            store_version(object);
        }
    }

    fn check(&self, object: &Value) -> Vec<FieldError> {
        check::check(object, None)
    }

    fn check_update(&self, part: Part, object: &Value, old: &Value) -> Vec<FieldError> {
        if part == Part::Status { check::check_status(object) } else { check::check(object, Some(old)) }
    }

    fn check_name(&self, name: &str, _prefix: bool) -> Vec<String> {
        dns1123_subdomain(name)
    }

    fn is_new_generation(&self, object: &Value, old: &Value) -> bool {
        object.get("spec") != old.get("spec")
    }

    fn warnings(&self, object: &Value) -> Vec<String> {
        let formats = formats::unknown(object);
        formats
            .into_iter()
            .map(|format| format!("unrecognized format {}", crate::failure::quoted(&format)))
            .collect()
    }

    fn cells(&self, object: &Value, _now: Timestamp) -> Option<Vec<Value>> {
        Some(vec![object.name().into(), object.meta("creationTimestamp").into()])
    }

    fn first_delete(&self, object: &Value, now: Timestamp) -> Option<Value> {
        let mut next = object.clone();
        next.set_meta("deletionTimestamp", clock::seconds(now));
        let mut finalizers = next.finalizers();
        if !finalizers.iter().any(|name| name == FINALIZER) {
            finalizers.push(FINALIZER.to_owned());
            next.set_meta("finalizers", finalizers);
        }
        let condition = status::Condition {
            kind: "Terminating",
            status: "True",
            reason: "InstanceDeletionPending",
            message: "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
                .to_owned(),
        };
        status::set(&mut next, &condition, now);
        Some(next)
    }
}

fn default_names(object: &mut Value) {
    let kind = text(object, &["spec", "names", "kind"]).to_owned();
    let mut fill = |key: &str, value: String| {
        if text(object, &["spec", "names", key]).is_empty()
            && !value.is_empty()
            && let Some(place) = at_mut(object, &["spec", "names", key])
        {
            *place = value.into();
        }
    };
    fill("singular", kind.to_lowercase());
    fill("listKind", if kind.is_empty() { kind } else { format!("{kind}List") });
}

/// The storage version has been stored from now on.
fn store_version(object: &mut Value) {
    let version = storage_version(object).to_owned();
    let mut stored = words(object, &["status", "storedVersions"]);
    if !version.is_empty() && !stored.contains(&version) {
        stored.push(version);
        if let Some(place) = at_mut(object, &["status", "storedVersions"]) {
            *place = stored.into();
        }
    }
}

/// Fields of the status that are always there.
fn fill_status(object: &mut Value) {
    if at(object, &["status", "acceptedNames"]).is_none_or(Value::is_null)
        && let Some(place) = at_mut(object, &["status", "acceptedNames"])
    {
        *place = view::Names::default().value();
    }
    if at(object, &["status", "storedVersions"]).is_none() {
        let _ = at_mut(object, &["status", "storedVersions"]);
    }
    if at(object, &["status", "conditions"]).is_none() {
        let _ = at_mut(object, &["status", "conditions"]);
    }
}
