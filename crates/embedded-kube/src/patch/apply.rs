//! Server-side apply: a config on top of a live object, and who owns what afterwards.

mod last_applied;
#[cfg(test)]
mod real;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

use super::{
    Writer,
    fields::Set,
    owners::{Conflict, Owner, Owners, stamp},
    track::{self, never_owned},
    typed::{Type, check, compare, gather, merge, remove, same, shown_faults},
};
use crate::{
    failure::{Answer, Cause, Details, Failure},
    object::{Meta, MetaMut, at, text},
    shape::{Node, Scalar, Shape},
};

/// Why an attempt did not succeed.
enum Refusal {
    Conflicts(Vec<Conflict>),
    Other(Failure),
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self::Other(failure)
    }
}

/// Everything that is given.
struct Attempt<'a> {
    live: &'a Value,
    is_new: bool,
    config: &'a Value,
    shape: &'a Shape,
    writer: &'a Writer<'a>,
    owners: &'a Owners,
}

/// The object after an apply, with its `managedFields`. `live` is `None` where there is no such object yet.
pub fn apply(
    live: Option<&Value>,
    config: &Value,
    shape: &Shape,
    writer: &Writer<'_>,
    force: bool,
) -> Answer<Value> {
    let owners = Owners::decode(live.and_then(|live| at(live, &["metadata", "managedFields"])))
        .map_err(|error| plain_error(format!("failed to decode managed fields: {error}")))?;
    let kind = if writer.kind.is_empty() { text(config, &["kind"]) } else { writer.kind };
    if text(config, &["apiVersion"]) != writer.api_version || text(config, &["kind"]) != kind {
        return Err(Failure::bad_request(format!("invalid object type: {}", type_of(config))));
    }
    let empty;
    let base = if let Some(live) = live {
        live
    } else {
        empty = super::typed::zero(shape, writer.api_version, kind);
        &empty
    };
    let attempt = Attempt { live: base, is_new: live.is_none(), config, shape, writer, owners: &owners };
    let (mut object, owners) = match attempt.run(force) {
        Ok(done) => done,
        Err(Refusal::Other(failure)) => return Err(failure),
        Err(Refusal::Conflicts(conflicts)) => attempt.again(conflicts)?,
    };
    if writer.manager == last_applied::MANAGER {
        last_applied::refresh(&mut object, config);
    }
    tidy(&mut object, shape);
    write_owners(&mut object, &owners);
    Ok(object)
}

/// Drops nulls that the real server's structs cannot hold: all of a built-in object, and of a custom one's metadata.
fn tidy(object: &mut Value, shape: &Shape) {
    match shape {
        Shape::Shared(_) => drop_nulls(object, Some(shape)),
        Shape::Own(_) => {
            if let Some(metadata) = object.get_mut("metadata") {
                drop_nulls(metadata, None);
            }
        }
    }
}

/// A map of scalars keeps them: there a null is an empty value, and somebody owns its key.
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

/// Puts `managedFields` in, or takes them out where nobody owns anything.
pub(super) fn write_owners(object: &mut Value, owners: &Owners) {
    match owners.encode() {
        Some(entries) => object.set_meta("managedFields", entries),
        None => {
            object.drop_meta("managedFields");
        }
    }
}

/// An error of the real server that has no status of its own.
fn plain_error(text: String) -> Failure {
    Failure::new(500, "", text, None)
}

fn type_of(object: &Value) -> String {
    let (group, version) = match text(object, &["apiVersion"]) {
        version if !version.contains('/') => ("", version),
        both => both.split_once('/').unwrap_or_default(),
    };
    format!("{group}/{version}, Kind={}", text(object, &["kind"]))
}

fn named(object: &Value) -> String {
    format!("{}/{}; {}", object.namespace(), object.name(), type_of(object))
}

/// Somewhere an object stands where a number or a text should.
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

fn conflict_failure(conflicts: &[Conflict]) -> Failure {
    let causes = conflicts.iter().map(|conflict| Cause {
        reason: "FieldManagerConflict".to_owned(),
        message: format!("conflict with {}", conflict.with),
        field: conflict.field.clone(),
    });
    let details = Details { causes: causes.collect(), ..Details::default() };
    Failure::new(409, "Conflict", conflict_text(conflicts), Some(details))
}

fn conflict_text(conflicts: &[Conflict]) -> String {
    if let [only] = conflicts {
        return format!("Apply failed with 1 conflict: conflict with {}: {}", only.with, only.field);
    }
    let mut lines = Vec::new();
    let mut last = None;
    // They come sorted by who they are with.
    for conflict in conflicts {
        if last != Some(&conflict.id) {
            lines.push(format!("conflicts with {}:", conflict.with));
            last = Some(&conflict.id);
        }
        lines.push(format!("- {}", conflict.field));
    }
    format!("Apply failed with {} conflicts: {}", conflicts.len(), lines.join("\n"))
}

impl Attempt<'_> {
    /// Conflicts with what kubectl itself applied on the client's side are none.
    fn again(&self, conflicts: Vec<Conflict>) -> Answer<(Value, Owners)> {
        let allowed = if self.writer.manager == last_applied::MANAGER {
            last_applied::agreed(self.live, self.shape, self.writer)
        } else {
            None
        };
        let Some(allowed) = allowed else { return Err(conflict_failure(&conflicts)) };
        let left: Vec<Conflict> =
            conflicts.into_iter().filter(|conflict| conflict.set.common(&allowed).is_empty()).collect();
        if !left.is_empty() {
            return Err(conflict_failure(&left));
        }
        self.run(true).map_err(|refusal| match refusal {
            Refusal::Other(failure) => failure,
            Refusal::Conflicts(conflicts) => conflict_failure(&conflicts),
        })
    }

    fn run(&self, force: bool) -> Result<(Value, Owners), Refusal> {
        let kind = Type::of(self.shape);
        let mut owners = self.known_owners()?;
        self.check(kind)?;
        owners.change(|set| *set = std::mem::take(set).reconciled(kind));
        let merged = merge(self.live, self.config, kind)
            .map_err(|faults| plain_error(format!("failed to merge config: {}", shown_faults(&faults))))?;
        let reset = Set::of_paths(self.writer.reset);
        let mut owner = Owner::new(self.writer, self.writer.manager, true);
        let last = owners.like(&owner).cloned();
        owner.set = gather(self.config, kind);
        owner.set.subtract_whole(&reset);
        owner.time = last.as_ref().and_then(|last| last.time.clone());
        owners.put(owner.clone());
        let object = match last {
            Some(last) if !last.set.is_empty() => pruned(&merged, &last.set, &owners, kind),
            _ => merged,
        };
        let changes = compare(self.live, &object, kind)
            .map_err(|faults| plain_error(format!("failed to compare objects: {}", shown_faults(&faults))))?
            .without(&reset);
        owners.yield_to(&changes, Some(&owner), force).map_err(Refusal::Conflicts)?;
        self.convert(&object)?;
        owner.set.subtract(never_owned());
        if !same(self.live, &object) {
            owner.time = Some(stamp(self.writer));
        }
        owners.put(owner);
        owners.change(|_| {});
        Ok((object, owners))
    }

    /// Owners so far. Whatever nobody owns is owned by whoever wrote it before the first apply.
    fn known_owners(&self) -> Answer<Owners> {
        if !self.owners.is_empty() || self.is_new {
            return Ok(self.owners.clone());
        }
        let empty = super::typed::zero(self.shape, self.writer.api_version, text(self.live, &["kind"]));
        let mut live = self.live.clone();
        live.drop_meta("managedFields");
        let mut owners = Owners::default();
        let writer = Writer { manager: "before-first-apply", ..*self.writer };
        track::update(&empty, &live, &mut owners, self.shape, &writer).map_err(|faults| {
            let text = shown_faults(&faults);
            plain_error(format!("failed to create manager for existing fields: {text}"))
        })?;
        Ok(owners)
    }

    fn check(&self, kind: Type<'_>) -> Answer<()> {
        if at(self.config, &["metadata", "managedFields"]).is_some_and(Value::is_array) {
            return Err(Failure::bad_request("metadata.managedFields must be nil"));
        }
        let faults = check(self.config, kind, false);
        if !faults.is_empty() {
            let (object, text) = (named(self.config), shown_faults(&faults));
            return Err(plain_error(format!("failed to create typed patch object ({object}): {text}")));
        }
        let faults = check(self.live, kind, true);
        if !faults.is_empty() {
            let (object, text) = (named(self.live), shown_faults(&faults));
            return Err(plain_error(format!("failed to create typed live object ({object}): {text}")));
        }
        Ok(())
    }

    /// Whether the real server could turn the object into a struct.
    fn convert(&self, object: &Value) -> Answer<()> {
        match self.shape {
            Shape::Shared(_) if has_mistyped_number(object, self.shape) => {}
            _ => return Ok(()),
        }
        let (name, kind) = (named(object), type_of(object));
        let what = "unable to convert unstructured object to";
        Err(plain_error(format!(
            "failed to convert new object ({name}) to proper version: {what} {kind}: json: cannot unmarshal object into Go value of type int32"
        )))
    }
}

/// Without what this manager applied last time but not this time, unless somebody else owns it.
fn pruned(merged: &Value, last: &Set, owners: &Owners, kind: Type<'_>) -> Value {
    let full = |set: &Set| set.with_named_fields(Some(kind));
    let last = full(last);
    let all = full(&gather(merged, kind));
    // Taking everything away, putting back what is owned, then what was not ours to take.
    let without = remove(merged, &last, kind);
    let mut gone = all.clone();
    gone.subtract(&full(&gather(&without, kind)));
    for owner in owners.iter() {
        gone.subtract(&full(&owner.set));
    }
    let without = remove(merged, &gone, kind);
    let mut dangling = all;
    dangling.subtract(&full(&gather(&without, kind)));
    match remove(merged, &dangling.common(&last), kind) {
        Value::Null => Value::Object(Map::new()),
        object => object,
    }
}
