//! Namespace-specific behaviour: they contain other objects, and are deleted in two steps.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    RequestHandler, decode_body, delete,
    guaranteed_update::{self, UpdateDecision},
    write_options::WriteOptions,
};
use crate::{
    object::{MetaAccessor, get_path, str_at},
    registry::Resource,
    request::{Reply, Request},
    status_error::{ApiResult, GroupResource, StatusCause, StatusError},
    store::RevisionGuard,
};

/// Namespaces that cannot be deleted.
const PROTECTED_NAMESPACES: &[&str] = &["default", "kube-system", "kube-public"];

pub fn is_namespace(resource: &Resource) -> bool {
    resource.id.group.is_empty() && resource.id.plural == "namespaces"
}

/// Whether a namespace still has finalizers in its spec.
pub fn has_pending_finalizers(resource: &Resource, object: &Value) -> bool {
    is_namespace(resource) && has_own_finalizers(object)
}

fn has_own_finalizers(object: &Value) -> bool {
    get_path(object, &["spec", "finalizers"]).and_then(Value::as_array).is_some_and(|list| !list.is_empty())
}

/// The first delete sets the phase to Terminating; the namespace is deleted with its last finalizer of either kind.
pub fn decide_delete(old: &Value, now: Timestamp) -> UpdateDecision {
    if old.is_terminating() {
        let done = !has_own_finalizers(old) && old.finalizers().is_empty();
        return if done { UpdateDecision::Remove(old.clone()) } else { UpdateDecision::Unchanged };
    }
    let mut new = old.clone();
    if !has_own_finalizers(old) && old.finalizers().is_empty() {
        return UpdateDecision::Remove(new);
    }
    delete::set_deletion_timestamp(&mut new, old, now);
    // Unlike other kinds, a namespace shows no grace period.
    if let Some(metadata) = new.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.shift_remove("deletionGracePeriodSeconds");
    }
    new["status"]["phase"] = "Terminating".into();
    UpdateDecision::Write(new)
}

/// Rejects deletes of protected namespaces.
pub fn check_deletable(request: &Request) -> ApiResult<()> {
    if is_namespace(&request.resource) && PROTECTED_NAMESPACES.contains(&request.name.as_str()) {
        let subject = GroupResource::new("", "namespaces");
        return Err(StatusError::forbidden(&subject, &request.name, "this namespace may not be deleted"));
    }
    Ok(())
}

impl RequestHandler {
    /// Rejects creates in a missing or terminating namespace.
    pub(super) fn admit_namespace(&self, request: &Request, name: &str) -> ApiResult<Option<RevisionGuard>> {
        if !request.resource.namespaced {
            return Ok(None);
        }
        let namespace = &request.namespace;
        let key = format!("/namespaces//{namespace}");
        let Some(entry) = self.store.get(&key) else {
            return Err(StatusError::not_found(&GroupResource::new("", "namespaces"), namespace));
        };
        let found = entry.document.value();
        if !found.is_terminating() && str_at(&found, &["status", "phase"]) != "Terminating" {
            return Ok(Some(RevisionGuard { key: key.into(), revision: entry.revision }));
        }
        let why =
            format!("unable to create new content in namespace {namespace} because it is being terminated");
        let refusal = StatusError::forbidden(&request.resource.group_resource(), name, &why);
        let mut details = refusal.details().cloned().unwrap_or_default();
        details.causes.push(StatusCause {
            reason: "NamespaceTerminating".to_owned(),
            message: format!("namespace {namespace} is being terminated"),
            field: "metadata.namespace".to_owned(),
        });
        Err(StatusError::new(403, "Forbidden", refusal.message(), Some(details)))
    }

    /// `PUT namespaces/NAME/finalize`: only `spec.finalizers` is taken from the body.
    pub(super) async fn finalize(&self, request: &Request) -> ApiResult<Reply> {
        let options = WriteOptions::read(request, "UpdateOptions", Vec::new())?;
        let intake = decode_body::decode_object(request, options.validation, &self.registry)?;
        let finalizers =
            get_path(&intake.object, &["spec", "finalizers"]).cloned().unwrap_or_else(|| json!([]));
        let version = intake.object.resource_version().to_owned();
        self.update_and_reply(request, &options, intake.warnings, |_, old| {
            if !version.is_empty() && version != old.resource_version() {
                return Err(StatusError::stale_resource_version(
                    &request.resource.group_resource(),
                    &request.name,
                ));
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
            Ok(guaranteed_update::decide_update(&request.resource, new, old))
        })
        .await
    }
}
