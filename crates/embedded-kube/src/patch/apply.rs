//! Server-side apply: merges a config into a live object and updates the managed fields.

mod last_applied;
#[cfg(test)]
mod real;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

use super::{
    WriteContext,
    field_set::FieldSet,
    managed_fields::{Conflict, ManagedFields, ManagedFieldsEntry, write_time},
    managed_fields_update::{self, unmanaged_fields},
    typed::{
        TypeRef, compare, format_type_errors, merge_typed, remove_fields, to_field_set, validate_typed,
        values_equal,
    },
};
use crate::{
    object::{MetaAccessor, MetaAccessorMut, get_path, str_at},
    shape::{Node, Scalar, Shape},
    status_error::{ApiResult, StatusCause, StatusDetails, StatusError},
};

/// Why an apply failed.
enum ApplyError {
    Conflicts(Vec<Conflict>),
    Other(StatusError),
}

impl From<StatusError> for ApplyError {
    fn from(failure: StatusError) -> Self {
        Self::Other(failure)
    }
}

/// Inputs of an apply.
struct ApplyRequest<'a> {
    live: &'a Value,
    is_new: bool,
    config: &'a Value,
    shape: &'a Shape,
    writer: &'a WriteContext<'a>,
    managed_fields: &'a ManagedFields,
}

/// Applies a config; returns the object with its `managedFields`. `live` is `None` if the object does not exist yet.
pub fn apply(
    live: Option<&Value>,
    config: &Value,
    shape: &Shape,
    writer: &WriteContext<'_>,
    force: bool,
) -> ApiResult<Value> {
    let owners = ManagedFields::decode(live.and_then(|live| get_path(live, &["metadata", "managedFields"])))
        .map_err(|error| internal_error(format!("failed to decode managed fields: {error}")))?;
    let kind = if writer.kind.is_empty() { str_at(config, &["kind"]) } else { writer.kind };
    if str_at(config, &["apiVersion"]) != writer.api_version || str_at(config, &["kind"]) != kind {
        return Err(StatusError::bad_request(format!("invalid object type: {}", type_meta(config))));
    }
    let empty;
    let base = if let Some(live) = live {
        live
    } else {
        empty = super::typed::zero_object(shape, writer.api_version, kind);
        &empty
    };
    let attempt =
        ApplyRequest { live: base, is_new: live.is_none(), config, shape, writer, managed_fields: &owners };
    let (mut object, owners) = match attempt.run(force) {
        Ok(done) => done,
        Err(ApplyError::Other(failure)) => return Err(failure),
        Err(ApplyError::Conflicts(conflicts)) => attempt.retry_without_kubectl_conflicts(conflicts)?,
    };
    if writer.manager == last_applied::KUBECTL_MANAGER {
        last_applied::update_annotation(&mut object, config);
    }
    drop_unrepresentable_nulls(&mut object, shape);
    write_managed_fields(&mut object, &owners);
    Ok(object)
}

/// Drops nulls that kube-apiserver's structs cannot represent: everywhere in a built-in object, in the metadata of a
/// custom one.
fn drop_unrepresentable_nulls(object: &mut Value, shape: &Shape) {
    match shape {
        Shape::Shared(_) => drop_nulls(object, Some(shape)),
        Shape::Owned(_) => {
            if let Some(metadata) = object.get_mut("metadata") {
                drop_nulls(metadata, None);
            }
        }
    }
}

/// A map of scalars keeps nulls: there null is an empty value whose key is owned.
fn drop_nulls(value: &mut Value, shape: Option<&Shape>) {
    let keeps = |shape: &Shape| matches!(shape.node(), Node::Map(map) if matches!(map.values.node(), Node::Scalar(_)));
    match value {
        Value::Object(map) => {
            if !shape.is_some_and(keeps) {
                map.retain(|_, value| !value.is_null());
            }
            for (key, value) in map {
                drop_nulls(value, shape.and_then(|shape| shape.field(key)));
            }
        }
        Value::Array(list) => {
            let items = shape.and_then(Shape::items);
            for item in list {
                drop_nulls(item, items);
            }
        }
        _ => {}
    }
}

/// Writes `managedFields`, or removes them if there are none.
pub(super) fn write_managed_fields(object: &mut Value, owners: &ManagedFields) {
    match owners.encode() {
        Some(entries) => object.set_meta("managedFields", entries),
        None => {
            object.drop_meta("managedFields");
        }
    }
}

/// A kube-apiserver error without a status of its own.
fn internal_error(text: String) -> StatusError {
    StatusError::new(500, "", text, None)
}

fn type_meta(object: &Value) -> String {
    let (group, version) = match str_at(object, &["apiVersion"]) {
        version if !version.contains('/') => ("", version),
        both => both.split_once('/').unwrap_or_default(),
    };
    format!("{group}/{version}, Kind={}", str_at(object, &["kind"]))
}

fn object_description(object: &Value) -> String {
    format!("{}/{}; {}", object.namespace(), object.name(), type_meta(object))
}

/// Whether an object occurs in place of a number or string.
fn has_mistyped_number(value: &Value, shape: &Shape) -> bool {
    match (value, shape.node()) {
        (Value::Object(_), Node::Scalar(Scalar::IntOrString)) => true,
        (Value::Object(map), _) => map
            .iter()
            .any(|(key, value)| shape.field(key).is_some_and(|shape| has_mistyped_number(value, shape))),
        (Value::Array(list), _) => {
            shape.items().is_some_and(|items| list.iter().any(|item| has_mistyped_number(item, items)))
        }
        _ => false,
    }
}

fn conflict_error(conflicts: &[Conflict]) -> StatusError {
    let causes = conflicts.iter().map(|conflict| StatusCause {
        reason: "FieldManagerConflict".to_owned(),
        message: format!("conflict with {}", conflict.manager),
        field: conflict.field.clone(),
    });
    let details = StatusDetails { causes: causes.collect(), ..StatusDetails::default() };
    StatusError::new(409, "Conflict", conflict_text(conflicts), Some(details))
}

fn conflict_text(conflicts: &[Conflict]) -> String {
    if let [only] = conflicts {
        return format!("Apply failed with 1 conflict: conflict with {}: {}", only.manager, only.field);
    }
    let mut lines = Vec::new();
    let mut last = None;
    // Conflicts are sorted by manager.
    for conflict in conflicts {
        if last != Some(&conflict.id) {
            lines.push(format!("conflicts with {}:", conflict.manager));
            last = Some(&conflict.id);
        }
        lines.push(format!("- {}", conflict.field));
    }
    format!("Apply failed with {} conflicts: {}", conflicts.len(), lines.join("\n"))
}

impl ApplyRequest<'_> {
    /// Conflicts with kubectl's client-side apply are ignored.
    fn retry_without_kubectl_conflicts(&self, conflicts: Vec<Conflict>) -> ApiResult<(Value, ManagedFields)> {
        let allowed = if self.writer.manager == last_applied::KUBECTL_MANAGER {
            last_applied::unchanged_since_applied(self.live, self.shape, self.writer)
        } else {
            None
        };
        let Some(allowed) = allowed else { return Err(conflict_error(&conflicts)) };
        let left: Vec<Conflict> = conflicts
            .into_iter()
            .filter(|conflict| conflict.fields.intersection(&allowed).is_empty())
            .collect();
        if !left.is_empty() {
            return Err(conflict_error(&left));
        }
        self.run(true).map_err(|refusal| match refusal {
            ApplyError::Other(failure) => failure,
            ApplyError::Conflicts(conflicts) => conflict_error(&conflicts),
        })
    }

    fn run(&self, force: bool) -> Result<(Value, ManagedFields), ApplyError> {
        let kind = TypeRef::from_shape(self.shape);
        let mut owners = self.current_managed_fields()?;
        self.validate(kind)?;
        owners.update_each(|set| *set = std::mem::take(set).reconcile_with_schema(kind));
        let merged = merge_typed(self.live, self.config, kind).map_err(|faults| {
            internal_error(format!("failed to merge config: {}", format_type_errors(&faults)))
        })?;
        let reset = FieldSet::from_paths(self.writer.reset_fields);
        let mut owner = ManagedFieldsEntry::new(self.writer, self.writer.manager, true);
        let last = owners.entry_of_same_manager(&owner).cloned();
        owner.fields = to_field_set(self.config, kind);
        owner.fields.subtract_recursive(&reset);
        owner.time = last.as_ref().and_then(|last| last.time.clone());
        owners.insert(owner.clone());
        let object = match last {
            Some(last) if !last.fields.is_empty() => prune_unapplied(&merged, &last.fields, &owners, kind),
            _ => merged,
        };
        let changes = compare(self.live, &object, kind)
            .map_err(|faults| {
                internal_error(format!("failed to compare objects: {}", format_type_errors(&faults)))
            })?
            .without(&reset);
        owners.transfer_ownership(&changes, Some(&owner), force).map_err(ApplyError::Conflicts)?;
        self.check_convertible(&object)?;
        owner.fields.subtract(unmanaged_fields());
        if !values_equal(self.live, &object) {
            owner.time = Some(write_time(self.writer));
        }
        owners.insert(owner);
        owners.update_each(|_| {});
        Ok((object, owners))
    }

    /// The current managed fields. Before the first apply, unowned fields belong to a pseudo manager for earlier
    /// writes.
    fn current_managed_fields(&self) -> ApiResult<ManagedFields> {
        if !self.managed_fields.is_empty() || self.is_new {
            return Ok(self.managed_fields.clone());
        }
        let empty =
            super::typed::zero_object(self.shape, self.writer.api_version, str_at(self.live, &["kind"]));
        let mut live = self.live.clone();
        live.drop_meta("managedFields");
        let mut owners = ManagedFields::default();
        let writer = WriteContext { manager: "before-first-apply", ..*self.writer };
        managed_fields_update::transfer_changes(&empty, &live, &mut owners, self.shape, &writer).map_err(
            |faults| {
                let text = format_type_errors(&faults);
                internal_error(format!("failed to create manager for existing fields: {text}"))
            },
        )?;
        Ok(owners)
    }

    fn validate(&self, kind: TypeRef<'_>) -> ApiResult<()> {
        if get_path(self.config, &["metadata", "managedFields"]).is_some_and(Value::is_array) {
            return Err(StatusError::bad_request("metadata.managedFields must be nil"));
        }
        let faults = validate_typed(self.config, kind, false);
        if !faults.is_empty() {
            let (object, text) = (object_description(self.config), format_type_errors(&faults));
            return Err(internal_error(format!("failed to create typed patch object ({object}): {text}")));
        }
        let faults = validate_typed(self.live, kind, true);
        if !faults.is_empty() {
            let (object, text) = (object_description(self.live), format_type_errors(&faults));
            return Err(internal_error(format!("failed to create typed live object ({object}): {text}")));
        }
        Ok(())
    }

    /// Checks that kube-apiserver could convert the object to its struct.
    fn check_convertible(&self, object: &Value) -> ApiResult<()> {
        match self.shape {
            Shape::Shared(_) if has_mistyped_number(object, self.shape) => {}
            _ => return Ok(()),
        }
        let (name, kind) = (object_description(object), type_meta(object));
        let what = "unable to convert unstructured object to";
        Err(internal_error(format!(
            "failed to convert new object ({name}) to proper version: {what} {kind}: json: cannot unmarshal object into Go value of type int32"
        )))
    }
}

/// Removes the fields that this manager applied before but no longer applies, unless another manager owns them.
fn prune_unapplied(merged: &Value, last: &FieldSet, owners: &ManagedFields, kind: TypeRef<'_>) -> Value {
    let full = |set: &FieldSet| set.with_named_fields(Some(kind));
    let last = full(last);
    let all = full(&to_field_set(merged, kind));
    // Removes everything, then restores owned fields, then those that this manager did not own.
    let without = remove_fields(merged, &last, kind);
    let mut gone = all.clone();
    gone.subtract(&full(&to_field_set(&without, kind)));
    for owner in owners.iter() {
        gone.subtract(&full(&owner.fields));
    }
    let without = remove_fields(merged, &gone, kind);
    let mut dangling = all;
    dangling.subtract(&full(&to_field_set(&without, kind)));
    match remove_fields(merged, &dangling.intersection(&last), kind) {
        Value::Null => Value::Object(Map::new()),
        object => object,
    }
}
