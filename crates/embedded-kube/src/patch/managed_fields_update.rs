//! Updates managed fields after a create, an update, or any patch but apply.

mod scale;

use std::sync::OnceLock;

use serde_json::Value;

use super::{
    WriteContext,
    apply::write_managed_fields,
    field_set::FieldSet,
    managed_fields::{ManagedFields, ManagedFieldsEntry, is_reset, write_time},
    typed::{TypeErrors, TypeRef, compare, validate_typed, zero_object},
};
use crate::{
    object::{MetaAccessorMut, get_path, str_at},
    shape::Shape,
    status_error::ApiResult,
};

/// Fields that are never owned.
pub(super) fn unmanaged_fields() -> &'static FieldSet {
    static SET: OnceLock<FieldSet> = OnceLock::new();
    SET.get_or_init(|| {
        FieldSet::from_paths(&[
            "apiVersion",
            "kind",
            "metadata",
            "metadata.name",
            "metadata.namespace",
            "metadata.creationTimestamp",
            "metadata.selfLink",
            "metadata.uid",
            "metadata.clusterName",
            "metadata.generation",
            "metadata.managedFields",
            "metadata.resourceVersion",
        ])
    })
}

/// Sets `managedFields` of `new`: the writer owns the fields that it changed since `old` (`None` on create).
///
/// A client may edit the entries, or reset them with `[]` or `[{}]`, but not through a subresource. An update adds no
/// entries to an object without any. An object that does not match its shape has no entries.
#[expect(clippy::unnecessary_wraps, reason = "same signature as the other steps of a write")]
pub fn update_managed_fields(
    old: Option<&Value>,
    new: &mut Value,
    shape: &Shape,
    writer: &WriteContext<'_>,
) -> ApiResult<()> {
    let given = new.drop_meta("managedFields");
    if let (Some(old), "scale") = (old, writer.subresource) {
        scale::update_scale_managed_fields(old, new, writer);
        return Ok(());
    }
    let mut owners = current_managed_fields(old, given.as_ref(), shape, writer);
    if owners.is_empty() && old.is_some() {
        return Ok(());
    }
    let empty;
    let before = if let Some(old) = old {
        old
    } else {
        let kind = if writer.kind.is_empty() { str_at(new, &["kind"]) } else { writer.kind };
        empty = zero_object(shape, writer.api_version, kind);
        &empty
    };
    if transfer_changes(before, new, &mut owners, shape, writer).is_ok() {
        owners.cap_update_managers();
        write_managed_fields(new, &owners);
    }
    Ok(())
}

fn current_managed_fields(
    old: Option<&Value>,
    given: Option<&Value>,
    shape: &Shape,
    writer: &WriteContext<'_>,
) -> ManagedFields {
    let of_old = || {
        ManagedFields::decode(old.and_then(|old| get_path(old, &["metadata", "managedFields"])))
            .unwrap_or_default()
    };
    if !writer.subresource.is_empty() {
        return of_old();
    }
    if is_reset(given, matches!(shape, Shape::Shared(_))) {
        return ManagedFields::default();
    }
    // A client that is unaware of managed fields must not remove them.
    ManagedFields::decode(given).ok().filter(|owners| !owners.is_empty()).unwrap_or_else(of_old)
}

/// Transfers the fields that differ between both objects to the writer.
pub(super) fn transfer_changes(
    old: &Value,
    new: &Value,
    owners: &mut ManagedFields,
    shape: &Shape,
    writer: &WriteContext<'_>,
) -> Result<(), TypeErrors> {
    let kind = TypeRef::from_shape(shape);
    let faults = validate_typed(new, kind, true);
    if !faults.is_empty() {
        return Err(faults);
    }
    owners.update_each(|set| *set = std::mem::take(set).reconcile_with_schema(kind));
    let changes = compare(old, new, kind)?.without(&FieldSet::from_paths(writer.reset_fields));
    // Forced, so there are no conflicts.
    let _passed = owners.transfer_ownership(&changes, None, true);
    let mut owner = ManagedFieldsEntry::new(writer, writer.manager, false);
    owner.fields = changes.modified;
    owner.fields.union_with(changes.added);
    owner.fields.subtract(unmanaged_fields());
    if owner.fields.is_empty() {
        return Ok(());
    }
    if let Some(former) = owners.entry_of_same_manager(&owner) {
        owner.fields.union_with(former.fields.clone());
    }
    owner.time = Some(write_time(writer));
    owners.insert(owner);
    Ok(())
}
