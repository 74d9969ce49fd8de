//! What is special about namespaces: they hold other objects, and they end in two steps.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    Server,
    change::{self, Next},
    delete, intake,
    options::WriteOptions,
};
use crate::{
    failure::{Answer, Cause, Failure, GroupResource},
    object::{Meta, at, text},
    registry::Resource,
    request::{Reply, Request},
    store::Guard,
};

/// Namespaces that cannot be deleted.
const IMMORTAL: &[&str] = &["default", "kube-system", "kube-public"];

pub fn is_namespace(resource: &Resource) -> bool {
    resource.id.group.is_empty() && resource.id.plural == "namespaces"
}

/// Whether a namespace still has to be emptied.
pub fn is_held(resource: &Resource, object: &Value) -> bool {
    is_namespace(resource) && has_own_finalizers(object)
}

fn has_own_finalizers(object: &Value) -> bool {
    at(object, &["spec", "finalizers"]).and_then(Value::as_array).is_some_and(|list| !list.is_empty())
}

/// The first delete makes it Terminating, the last finalizer of either kind lets it go.
pub fn decide_delete(old: &Value, now: Timestamp) -> Next {
    if old.is_terminating() {
        let done = !has_own_finalizers(old) && old.finalizers().is_empty();
        return if done { Next::Remove(old.clone()) } else { Next::Same };
    }
    let mut new = old.clone();
    if !has_own_finalizers(old) && old.finalizers().is_empty() {
        return Next::Remove(new);
    }
    delete::mark(&mut new, old, now);
    // Unlike other kinds, a namespace shows no grace period.
    if let Some(metadata) = new.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.shift_remove("deletionGracePeriodSeconds");
    }
    new["status"]["phase"] = "Terminating".into();
    Next::Put(new)
}

/// Refuses deletes of the namespaces everything relies on.
pub fn check_mortal(request: &Request) -> Answer<()> {
    if is_namespace(&request.resource) && IMMORTAL.contains(&request.name.as_str()) {
        let subject = GroupResource::new("", "namespaces");
        return Err(Failure::forbidden(&subject, &request.name, "this namespace may not be deleted"));
    }
    Ok(())
}

impl Server {
    /// Nothing new in a namespace that is not there, or will soon not be.
    pub(super) fn admit_namespace(&self, request: &Request, name: &str) -> Answer<Option<Guard>> {
        if !request.resource.namespaced {
            return Ok(None);
        }
        let namespace = &request.namespace;
        let key = format!("/namespaces//{namespace}");
        let Some(entry) = self.store.get(&key) else {
            return Err(Failure::not_found(&GroupResource::new("", "namespaces"), namespace));
        };
        let found = entry.document.value();
        if !found.is_terminating() && text(&found, &["status", "phase"]) != "Terminating" {
            return Ok(Some(Guard { key: key.into(), revision: entry.revision }));
        }
        let why =
            format!("unable to create new content in namespace {namespace} because it is being terminated");
        let refusal = Failure::forbidden(&request.resource.group_resource(), name, &why);
        let mut details = refusal.details().cloned().unwrap_or_default();
        details.causes.push(Cause {
            reason: "NamespaceTerminating".to_owned(),
            message: format!("namespace {namespace} is being terminated"),
            field: "metadata.namespace".to_owned(),
        });
        Err(Failure::new(403, "Forbidden", refusal.message(), Some(details)))
    }

    /// `PUT namespaces/NAME/finalize`: only the namespace's own finalizers are taken from the body.
    pub(super) async fn finalize(&self, request: &Request) -> Answer<Reply> {
        let options = WriteOptions::read(request, "UpdateOptions", Vec::new())?;
        let intake = intake::read(request, options.validation, &self.registry)?;
        let finalizers = at(&intake.object, &["spec", "finalizers"]).cloned().unwrap_or_else(|| json!([]));
        let version = intake.object.resource_version().to_owned();
        self.change_and_show(request, &options, intake.warnings, |_, old| {
            if !version.is_empty() && version != old.resource_version() {
                return Err(Failure::modified(&request.resource.group_resource(), &request.name));
            }
            let mut new = old.clone();
            let empty = finalizers.as_array().is_none_or(Vec::is_empty);
            if empty {
                if let Some(spec) = new.get_mut("spec").and_then(Value::as_object_mut) {
                    spec.shift_remove("finalizers");
                }
            } else {
                new["spec"]["finalizers"] = finalizers.clone();
            }
            Ok(change::settle(&request.resource, new, old))
        })
        .await
    }
}
