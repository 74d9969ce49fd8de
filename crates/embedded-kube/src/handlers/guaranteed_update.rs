//! Read, decide, write: the loop behind update, patch, scale and delete.
//!
//! A change is decided on the object as it is, and written only if it still is; otherwise it is decided again. A writer
//! that names a resourceVersion is told about the conflict by the decision itself, so only those who do not care retry.

use serde_json::Value;

use super::{Server, create, intake, key, meta, options::WriteOptions, viewer};
use crate::{
    failure::{Answer, Failure, FieldError},
    object::{Meta, MetaMut, at},
    patch,
    registry::{Part, Resource},
    request::{Body, Reply, Request, Verb},
    store::{Entry, Expect, WriteError},
};

/// How often a change is decided anew when others are quicker.
const ATTEMPTS: usize = 100;

/// What a write shall do with an object.
pub enum Next {
    /// Write this.
    Put(Value),
    /// Remove it; the client sees this.
    Remove(Value),
    /// Nothing has changed.
    Same,
}

/// What became of it.
pub enum Outcome {
    /// It is there, changed or not.
    Kept(Body),
    /// It is gone.
    Removed(Value),
}

/// Who manages the fields of a changed object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tracking {
    /// To be found out from the difference.
    ByDifference,
    /// Already written by an apply.
    Applied,
}

impl Server {
    /// Decides with `decide` until the write succeeds.
    pub(super) async fn change(
        &self,
        request: &Request,
        dry_run: bool,
        mut decide: impl FnMut(&Entry, &Value) -> Answer<Next> + Send,
    ) -> Answer<Outcome> {
        let resource = &request.resource;
        let key = key(resource, &request.namespace, &request.name);
        let viewer = viewer(resource);
        for _ in 0..ATTEMPTS {
            let entry = self.live(request)?;
            let old = viewer.value(&entry);
            let (draft, removed) = match decide(&entry, &old)? {
                Next::Same => return Ok(Outcome::Kept(viewer.show(&entry))),
                Next::Put(new) if dry_run => return Ok(Outcome::Kept(Body::Value(new))),
                Next::Remove(last) if dry_run => return Ok(Outcome::Removed(last)),
                Next::Put(new) => (Some(create::draft(resource, &new)?), Value::Null),
                Next::Remove(last) => (None, last),
            };
            let is_delete = draft.is_none();
            match self.store.write(&key, Expect::At(entry.revision), draft).await {
                Ok(_) if is_delete => return Ok(Outcome::Removed(removed)),
                Ok(written) => {
                    return Ok(Outcome::Kept(viewer.show_document(&written.document, written.revision)));
                }
                Err(WriteError::Conflict(_) | WriteError::Unguarded) => {}
                Err(WriteError::Io(error)) => return Err(Failure::internal(error)),
            }
        }
        Err(Failure::modified(&resource.group_resource(), &request.name))
    }

    /// As [`Server::change`], for requests that answer with the object.
    pub(super) async fn change_and_show(
        &self,
        request: &Request,
        options: &WriteOptions,
        warnings: Vec<String>,
        decide: impl FnMut(&Entry, &Value) -> Answer<Next> + Send,
    ) -> Answer<Reply> {
        let object = match self.change(request, options.dry_run, decide).await? {
            Outcome::Kept(body) => body,
            Outcome::Removed(last) => Body::Value(last),
        };
        Ok(Reply::Object { code: 200, object, warnings })
    }
}

/// From an object as a client wants it to one that can be written: everything the client must not decide is put right,
/// the rest is checked.
pub fn advance(
    request: &Request,
    options: &WriteOptions,
    part: Part,
    (old, mut new): (&Value, Value),
    tracking: Tracking,
) -> Answer<Next> {
    let resource = &request.resource;
    check_uid(request, old, &new)?;
    check_version(request, old, &mut new)?;
    resource.rules.default(&mut new);
    intake::clean(&mut new, resource);
    restore(resource, part, &mut new, old);
    carry(&mut new, old, "generation");
    if new.uid().is_empty() {
        carry(&mut new, old, "uid");
    }
    if tracking == Tracking::ByDifference {
        patch::track(Some(old), &mut new, &resource.shape, &create::writer(request, options))?;
    }
    resource.rules.prepare_update(part, &mut new, old);
    carry(&mut new, old, "creationTimestamp");
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
        if old.is_terminating() {
            carry(&mut new, old, field);
        }
    }
    if part != Part::Status && resource.rules.is_new_generation(&new, old) {
        new.set_meta("generation", old.generation().wrapping_add(1));
    }
    let mut errors = meta::check_change(&new, old, resource);
    errors.extend(resource.rules.check_update(part, &new, old));
    if !errors.is_empty() {
        return Err(Failure::invalid(resource.error_group(), &resource.kind, new.name(), &errors));
    }
    intake::clean(&mut new, resource);
    Ok(settle(resource, new, old))
}

/// Nothing to do, the last finalizer gone, or a change.
pub fn settle(resource: &Resource, mut new: Value, old: &Value) -> Next {
    if is_same(&mut new, old) {
        return Next::Same;
    }
    let waits =
        at(old, &["metadata", "deletionGracePeriodSeconds"]).and_then(Value::as_i64).unwrap_or_default() > 0;
    let held = !new.finalizers().is_empty() || super::namespaces::is_held(resource, &new);
    if old.is_terminating() && !waits && !held { Next::Remove(new) } else { Next::Put(new) }
}

/// Whether only the times of managed fields differ, which is no change at all.
fn is_same(new: &mut Value, old: &Value) -> bool {
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

/// Whoever replaces a whole object and names its uid means that very object.
fn check_uid(request: &Request, old: &Value, new: &Value) -> Answer<()> {
    let (resource, uid) = (&request.resource, new.uid());
    if request.verb != Verb::Update || uid.is_empty() || uid == old.uid() {
        return Ok(());
    }
    let group = if resource.custom { format!("{}/", resource.id.group) } else { String::new() };
    let namespace = if resource.namespaced { format!("{}/", request.namespace) } else { String::new() };
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: /registry/{group}{}/{namespace}{}, ResourceVersion: 0, \
         AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
        resource.id.plural,
        request.name,
        old.uid()
    );
    Err(Failure::conflict(&resource.group_resource(), &request.name, &why))
}

fn check_version(request: &Request, old: &Value, new: &mut Value) -> Answer<()> {
    let resource = &request.resource;
    let given = new.resource_version();
    if given.is_empty() || given == "0" {
        if !allows_unconditional(resource) {
            let error = FieldError::invalid("metadata.resourceVersion", 0, "must be specified for an update");
            return Err(Failure::invalid(&resource.id.group, &resource.id.plural, &request.name, &[error]));
        }
        carry(new, old, "resourceVersion");
        return Ok(());
    }
    if given.parse::<u64>().is_err() {
        let why = format!("strconv.ParseUint: parsing {}: invalid syntax", crate::failure::quoted(given));
        return Err(Failure::new(500, "", why, None));
    }
    if given != old.resource_version() {
        return Err(Failure::modified(&resource.group_resource(), &request.name));
    }
    Ok(())
}

/// Custom resources, CRDs and leases want to know which version is replaced.
fn allows_unconditional(resource: &Resource) -> bool {
    !resource.custom && !matches!(resource.id.plural.as_str(), "leases" | "customresourcedefinitions")
}

/// Each endpoint writes its own part; the other part stays as it is.
fn restore(resource: &Resource, part: Part, new: &mut Value, old: &Value) {
    match part {
        Part::Status => {
            let status = new.drop_field("status");
            let metadata = new.drop_field("metadata").unwrap_or_default();
            *new = old.clone();
            if resource.custom {
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
        Part::Main | Part::Scale => {
            if resource.status {
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

fn carry(new: &mut Value, old: &Value, field: &str) {
    match at(old, &["metadata", field]) {
        Some(value) => new.set_meta(field, value.clone()),
        None => {
            new.drop_meta(field);
        }
    }
}
