//! Who owns what after a create, an update, or any patch but apply.

mod scale;

use std::sync::OnceLock;

use serde_json::Value;

use super::{
    Writer,
    apply::write_owners,
    fields::Set,
    owners::{Owner, Owners, is_reset, stamp},
    typed::{Faults, Type, check, compare, zero},
};
use crate::{
    failure::Answer,
    object::{MetaMut, at, text},
    shape::Shape,
};

/// Fields that are nobody's.
pub(super) fn never_owned() -> &'static Set {
    static SET: OnceLock<Set> = OnceLock::new();
    SET.get_or_init(|| {
        Set::of_paths(&[
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

/// Puts `managedFields` into `new`: what the writer changed since `old` (`None` on create) is now the writer's.
///
/// A client may edit the entries itself, or ask to forget them with `[]` or `[{}]`; through a subresource it may not.
/// An object without owners gets none by an update. Where the object does not fit its shape, it has no owners.
#[expect(clippy::unnecessary_wraps, reason = "a step of a write like any other, and those can fail")]
pub fn track(old: Option<&Value>, new: &mut Value, shape: &Shape, writer: &Writer<'_>) -> Answer<()> {
    let given = new.drop_meta("managedFields");
    if let (Some(old), "scale") = (old, writer.subresource) {
        scale::track(old, new, writer);
        return Ok(());
    }
    let mut owners = known_owners(old, given.as_ref(), shape, writer);
    if owners.is_empty() && old.is_some() {
        return Ok(());
    }
    let empty;
    let before = if let Some(old) = old {
        old
    } else {
        let kind = if writer.kind.is_empty() { text(new, &["kind"]) } else { writer.kind };
        empty = zero(shape, writer.api_version, kind);
        &empty
    };
    if update(before, new, &mut owners, shape, writer).is_ok() {
        owners.cap();
        write_owners(new, &owners);
    }
    Ok(())
}

fn known_owners(old: Option<&Value>, given: Option<&Value>, shape: &Shape, writer: &Writer<'_>) -> Owners {
    let of_old =
        || Owners::decode(old.and_then(|old| at(old, &["metadata", "managedFields"]))).unwrap_or_default();
    if !writer.subresource.is_empty() {
        return of_old();
    }
    if is_reset(given, matches!(shape, Shape::Shared(_))) {
        return Owners::default();
    }
    // A client that does not know about owners must not lose them.
    Owners::decode(given).ok().filter(|owners| !owners.is_empty()).unwrap_or_else(of_old)
}

/// Passes what changed between both objects to the writer.
pub(super) fn update(
    old: &Value,
    new: &Value,
    owners: &mut Owners,
    shape: &Shape,
    writer: &Writer<'_>,
) -> Result<(), Faults> {
    let kind = Type::of(shape);
    let faults = check(new, kind, true);
    if !faults.is_empty() {
        return Err(faults);
    }
    owners.change(|set| *set = std::mem::take(set).reconciled(kind));
    let changes = compare(old, new, kind)?.without(&Set::of_paths(writer.reset));
    // Without conflicts to report this cannot fail.
    let _passed = owners.yield_to(&changes, None, true);
    let mut owner = Owner::new(writer, writer.manager, false);
    owner.set = changes.modified;
    owner.set.add(changes.added);
    owner.set.subtract(never_owned());
    if owner.set.is_empty() {
        return Ok(());
    }
    if let Some(former) = owners.like(&owner) {
        owner.set.add(former.set.clone());
    }
    owner.time = Some(stamp(writer));
    owners.put(owner);
    Ok(())
}
