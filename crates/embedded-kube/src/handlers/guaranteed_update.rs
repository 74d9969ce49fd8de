//! Optimistic update loop behind update, patch, scale and delete, like kube-apiserver's `GuaranteedUpdate`.
//!
//! A change is computed from the current object and written with its revision as precondition; on a conflict it is
//! computed again. If the request has a resourceVersion, the computation itself reports the conflict, so only
//! unconditional writes retry.

use serde_json::Value;

use super::{
    RequestHandler, create, decode_body, metadata_validation, object_converter, storage_key,
    write_options::WriteOptions,
};
use crate::{
    object::{MetaAccessor, MetaAccessorMut, get_path},
    patch,
    registry::{ObjectPart, Resource},
    request::{ObjectBody, Reply, Request, Verb},
    status_error::{ApiResult, FieldError, StatusError},
    store::{Entry, Precondition, WriteError},
};

/// Maximum number of attempts on conflicts.
const MAX_ATTEMPTS: usize = 100;

/// What a write does to an object.
pub enum UpdateDecision {
    /// Writes this object.
    Write(Value),
    /// Deletes the object; the client gets this state.
    Remove(Value),
    /// Nothing changed.
    Unchanged,
}

/// Result of an update.
pub enum UpdateOutcome {
    /// The object exists, changed or not.
    Present(ObjectBody),
    /// The object was deleted.
    Removed(Value),
}

/// How the managed fields of the new object are determined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ManagedFieldsMode {
    /// From the difference to the old object.
    ByDifference,
    /// Already set by an apply.
    Applied,
}

impl RequestHandler {
    /// Calls `decide` until the write succeeds.
    pub(super) async fn guaranteed_update(
        &self,
        request: &Request,
        dry_run: bool,
        mut decide: impl FnMut(&Entry, &Value) -> ApiResult<UpdateDecision> + Send,
    ) -> ApiResult<UpdateOutcome> {
        let resource = &request.resource;
        let key = storage_key(resource, &request.namespace, &request.name);
        let viewer = object_converter(resource);
        for _ in 0..MAX_ATTEMPTS {
            let entry = self.current_entry(request)?;
            let old = viewer.value(&entry);
            let (draft, removed) = match decide(&entry, &old)? {
                UpdateDecision::Unchanged => return Ok(UpdateOutcome::Present(viewer.convert_entry(&entry))),
                UpdateDecision::Write(new) if dry_run => {
                    return Ok(UpdateOutcome::Present(ObjectBody::Value(new)));
                }
                UpdateDecision::Remove(last) if dry_run => return Ok(UpdateOutcome::Removed(last)),
                UpdateDecision::Write(new) => (Some(create::build_draft(resource, &new)?), Value::Null),
                UpdateDecision::Remove(last) => (None, last),
            };
            let is_delete = draft.is_none();
            match self.store.write(&key, Precondition::Revision(entry.revision), draft).await {
                Ok(_) if is_delete => return Ok(UpdateOutcome::Removed(removed)),
                Ok(written) => {
                    return Ok(UpdateOutcome::Present(
                        viewer.convert_document(&written.document, written.revision),
                    ));
                }
                Err(WriteError::Conflict(_) | WriteError::GuardChanged) => {}
                Err(WriteError::Io(error)) => return Err(StatusError::internal(error)),
            }
        }
        Err(StatusError::stale_resource_version(&resource.group_resource(), &request.name))
    }

    /// As [`RequestHandler::change`], for requests that return the object.
    pub(super) async fn update_and_reply(
        &self,
        request: &Request,
        options: &WriteOptions,
        warnings: Vec<String>,
        decide: impl FnMut(&Entry, &Value) -> ApiResult<UpdateDecision> + Send,
    ) -> ApiResult<Reply> {
        let object = match self.guaranteed_update(request, options.dry_run, decide).await? {
            UpdateOutcome::Present(body) => body,
            UpdateOutcome::Removed(last) => ObjectBody::Value(last),
        };
        Ok(Reply::Object { code: 200, object, warnings })
    }
}

/// Prepares an update: restores everything that clients cannot change and validates the rest.
pub fn prepare_update(
    request: &Request,
    options: &WriteOptions,
    part: ObjectPart,
    (old, mut new): (&Value, Value),
    tracking: ManagedFieldsMode,
) -> ApiResult<UpdateDecision> {
    let resource = &request.resource;
    check_uid(request, old, &new)?;
    check_resource_version(request, old, &mut new)?;
    resource.strategy.set_defaults(&mut new);
    decode_body::prune_and_normalise(&mut new, resource);
    restore_other_part(resource, part, &mut new, old);
    copy_field(&mut new, old, "generation");
    if new.uid().is_empty() {
        copy_field(&mut new, old, "uid");
    }
    if tracking == ManagedFieldsMode::ByDifference {
        patch::update_managed_fields(
            Some(old),
            &mut new,
            &resource.shape,
            &create::write_context(request, options),
        )?;
    }
    resource.strategy.prepare_update(part, &mut new, old);
    copy_field(&mut new, old, "creationTimestamp");
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
        if old.is_terminating() {
            copy_field(&mut new, old, field);
        }
    }
    if part != ObjectPart::Status && resource.strategy.bumps_generation(&new, old) {
        new.set_meta("generation", old.generation().wrapping_add(1));
    }
    let mut errors = metadata_validation::validate_change(&new, old, resource);
    errors.extend(resource.strategy.validate_update(part, &new, old));
    if !errors.is_empty() {
        return Err(StatusError::invalid(resource.error_group(), &resource.kind, new.name(), &errors));
    }
    decode_body::prune_and_normalise(&mut new, resource);
    Ok(decide_update(resource, new, old))
}

/// Decides between no change, a delete after the last finalizer, and a write.
pub fn decide_update(resource: &Resource, mut new: Value, old: &Value) -> UpdateDecision {
    if is_unchanged(&mut new, old) {
        return UpdateDecision::Unchanged;
    }
    let waits = get_path(old, &["metadata", "deletionGracePeriodSeconds"])
        .and_then(Value::as_i64)
        .unwrap_or_default()
        > 0;
    let held = !new.finalizers().is_empty() || super::namespaces::has_pending_finalizers(resource, &new);
    if old.is_terminating() && !waits && !held {
        UpdateDecision::Remove(new)
    } else {
        UpdateDecision::Write(new)
    }
}

/// Whether only the times of managed fields differ, which is no change.
fn is_unchanged(new: &mut Value, old: &Value) -> bool {
    if new == old {
        return true;
    }
    let times = |object: &Value| -> Value {
        let mut plain = object.clone();
        if let Some(entries) = plain.pointer_mut("/metadata/managedFields").and_then(Value::as_array_mut) {
            for entry in entries.iter_mut().filter_map(Value::as_object_mut) {
                entry.shift_remove("time");
            }
        }
        plain
    };
    times(new) == times(old)
}

/// A replaced object with a uid must match that uid.
fn check_uid(request: &Request, old: &Value, new: &Value) -> ApiResult<()> {
    let (resource, uid) = (&request.resource, new.uid());
    if request.verb != Verb::Update || uid.is_empty() || uid == old.uid() {
        return Ok(());
    }
    let group = if resource.is_custom { format!("{}/", resource.id.group) } else { String::new() };
    let namespace = if resource.namespaced { format!("{}/", request.namespace) } else { String::new() };
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: /registry/{group}{}/{namespace}{}, ResourceVersion: 0, \
         AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
        resource.id.plural,
        request.name,
        old.uid()
    );
    Err(StatusError::conflict(&resource.group_resource(), &request.name, &why))
}

fn check_resource_version(request: &Request, old: &Value, new: &mut Value) -> ApiResult<()> {
    let resource = &request.resource;
    let given = new.resource_version();
    if given.is_empty() || given == "0" {
        if !allows_unconditional_update(resource) {
            let error = FieldError::invalid("metadata.resourceVersion", 0, "must be specified for an update");
            return Err(StatusError::invalid(
                &resource.id.group,
                &resource.id.plural,
                &request.name,
                &[error],
            ));
        }
        copy_field(new, old, "resourceVersion");
        return Ok(());
    }
    if given.parse::<u64>().is_err() {
        let why =
            format!("strconv.ParseUint: parsing {}: invalid syntax", crate::status_error::go_quote(given));
        return Err(StatusError::new(500, "", why, None));
    }
    if given != old.resource_version() {
        return Err(StatusError::stale_resource_version(&resource.group_resource(), &request.name));
    }
    Ok(())
}

/// Custom resources, CRDs and leases require a resourceVersion.
fn allows_unconditional_update(resource: &Resource) -> bool {
    !resource.is_custom && !matches!(resource.id.plural.as_str(), "leases" | "customresourcedefinitions")
}

/// Each endpoint writes its own part and preserves the other.
fn restore_other_part(resource: &Resource, part: ObjectPart, new: &mut Value, old: &Value) {
    match part {
        ObjectPart::Status => {
            let status = new.drop_field("status");
            let metadata = new.drop_field("metadata").unwrap_or_default();
            *new = old.clone();
            if resource.is_custom {
                if let Some(managed) = metadata.get("managedFields") {
                    new.set_meta("managedFields", managed.clone());
                }
            } else {
                new["metadata"] = metadata;
            }
            match status {
                Some(status) => new["status"] = status,
                None => {
                    new.drop_field("status");
                }
            }
        }
        ObjectPart::Object | ObjectPart::Scale => {
            if resource.has_status {
                match old.get("status") {
                    Some(status) => new["status"] = status.clone(),
                    None => {
                        new.drop_field("status");
                    }
                }
            }
        }
    }
}

fn copy_field(new: &mut Value, old: &Value, field: &str) {
    match get_path(old, &["metadata", field]) {
        Some(value) => new.set_meta(field, value.clone()),
        None => {
            new.drop_meta(field);
        }
    }
}
