//! Strategy of the kind `CustomResourceDefinition`.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    accessors::{self, storage_version, string_list},
    status, unknown_formats, validation,
};
use crate::{
    clock,
    object::{MetaAccessor, MetaAccessorMut, dns1123_subdomain, get_path, get_path_mut, str_at},
    registry::{ObjectPart, ResourceStrategy},
    status_error::FieldError,
};

/// Finalizer that keeps a CRD until its objects are deleted.
pub const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Strategy of the kind `CustomResourceDefinition`.
pub struct CrdStrategy;

impl ResourceStrategy for CrdStrategy {
    fn set_defaults(&self, object: &mut Value) {
        default_names(object);
        if get_path(object, &["spec", "conversion"]).is_none_or(Value::is_null)
            && let Some(place) = get_path_mut(object, &["spec", "conversion"])
        {
            *place = json!({ "strategy": "None" });
        }
        let service = object.pointer_mut("/spec/conversion/webhook/clientConfig/service");
        if let Some(service) = service.and_then(Value::as_object_mut) {
            service.entry("port").or_insert_with(|| 443.into());
        }
        if string_list(object, &["status", "storedVersions"]).is_empty() {
            record_stored_version(object);
        }
        default_status(object);
    }

    fn prepare_create(&self, object: &mut Value) {
        object.drop_field("status");
        record_stored_version(object);
        default_status(object);
    }

    fn prepare_update(&self, part: ObjectPart, object: &mut Value, old: &Value) {
        let kept = if part == ObjectPart::Status { "spec" } else { "status" };
        if let (Some(map), Some(value)) = (object.as_object_mut(), old.get(kept)) {
            map.insert(kept.to_owned(), value.clone());
        }
        if part != ObjectPart::Status {
            record_stored_version(object);
        }
    }

    fn validate(&self, object: &Value) -> Vec<FieldError> {
        validation::validate_crd(object, None)
    }

    fn validate_update(&self, part: ObjectPart, object: &Value, old: &Value) -> Vec<FieldError> {
        if part == ObjectPart::Status {
            validation::validate_crd_status(object)
        } else {
            validation::validate_crd(object, Some(old))
        }
    }

    fn validate_name(&self, name: &str, _prefix: bool) -> Vec<String> {
        dns1123_subdomain(name)
    }

    fn bumps_generation(&self, object: &Value, old: &Value) -> bool {
        object.get("spec") != old.get("spec")
    }

    fn warnings(&self, object: &Value) -> Vec<String> {
        let formats = unknown_formats::unknown_formats(object);
        formats
            .into_iter()
            .map(|format| format!("unrecognized format {}", crate::status_error::go_quote(&format)))
            .collect()
    }

    fn cells(&self, object: &Value, _now: Timestamp) -> Option<Vec<Value>> {
        Some(vec![object.name().into(), object.meta_str("creationTimestamp").into()])
    }

    fn begin_deletion(&self, object: &Value, now: Timestamp) -> Option<Value> {
        let mut next = object.clone();
        next.set_meta("deletionTimestamp", clock::format_time(now));
        let mut finalizers = next.finalizers();
        if !finalizers.iter().any(|name| name == FINALIZER) {
            finalizers.push(FINALIZER.to_owned());
            next.set_meta("finalizers", finalizers);
        }
        let condition = status::CrdCondition {
            kind: "Terminating",
            status: "True",
            reason: "InstanceDeletionPending",
            message: "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
                .to_owned(),
        };
        status::set_condition(&mut next, &condition, now);
        Some(next)
    }
}

fn default_names(object: &mut Value) {
    let kind = str_at(object, &["spec", "names", "kind"]).to_owned();
    let mut fill = |key: &str, value: String| {
        if str_at(object, &["spec", "names", key]).is_empty()
            && !value.is_empty()
            && let Some(place) = get_path_mut(object, &["spec", "names", key])
        {
            *place = value.into();
        }
    };
    fill("singular", kind.to_lowercase());
    fill("listKind", if kind.is_empty() { kind } else { format!("{kind}List") });
}

/// Adds the storage version to `status.storedVersions`.
fn record_stored_version(object: &mut Value) {
    let version = storage_version(object).to_owned();
    let mut stored = string_list(object, &["status", "storedVersions"]);
    if !version.is_empty() && !stored.contains(&version) {
        stored.push(version);
        if let Some(place) = get_path_mut(object, &["status", "storedVersions"]) {
            *place = stored.into();
        }
    }
}

/// Sets the status fields that are always present.
fn default_status(object: &mut Value) {
    if get_path(object, &["status", "acceptedNames"]).is_none_or(Value::is_null)
        && let Some(place) = get_path_mut(object, &["status", "acceptedNames"])
    {
        *place = accessors::CrdNames::default().to_value();
    }
    if get_path(object, &["status", "storedVersions"]).is_none() {
        let _ = get_path_mut(object, &["status", "storedVersions"]);
    }
    if get_path(object, &["status", "conditions"]).is_none() {
        let _ = get_path_mut(object, &["status", "conditions"]);
    }
}
