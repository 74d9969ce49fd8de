//! Delete: immediately, after a grace period, or when the last finalizer is removed.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{
    RequestHandler,
    guaranteed_update::{UpdateDecision, UpdateOutcome},
    namespaces, pods, write_options,
};
use crate::{
    clock, decode,
    object::{MetaAccessor, MetaAccessorMut, get_path},
    registry::Resource,
    request::{ObjectBody, Reply, Request},
    status_error::{ApiResult, FieldError, GroupResource, StatusError},
};

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// Options of a delete.
#[derive(Debug, Clone, Default)]
pub struct DeleteOptions {
    pub dry_run: bool,
    pub grace: Option<i64>,
    pub orphan: Option<bool>,
    pub policy: Option<String>,
    pub uid: Option<String>,
    pub resource_version: Option<String>,
}

impl RequestHandler {
    pub(super) async fn delete(&self, request: &Request) -> ApiResult<Reply> {
        namespaces::check_deletable(request)?;
        let options = read_options(request)?;
        self.delete_with(request, &options).await
    }

    pub(super) async fn delete_with(&self, request: &Request, options: &DeleteOptions) -> ApiResult<Reply> {
        let resource = &request.resource;
        let now = clock::now();
        let outcome = self
            .guaranteed_update(request, options.dry_run, |_, old| decide_delete(resource, options, old, now))
            .await?;
        Ok(match outcome {
            UpdateOutcome::Present(object) => {
                let code = if options.orphan == Some(false) { 202 } else { 200 };
                Reply::Object { code, object, warnings: Vec::new() }
            }
            UpdateOutcome::Removed(last) => {
                let object = if returns_object(resource) { last } else { success_status(resource, &last) };
                Reply::Object { code: 200, object: ObjectBody::Value(object), warnings: Vec::new() }
            }
        })
    }
}

/// Decides what a delete does to an object.
pub fn decide_delete(
    resource: &Resource,
    options: &DeleteOptions,
    old: &Value,
    now: Timestamp,
) -> ApiResult<UpdateDecision> {
    check_preconditions(resource, options, old)?;
    let mut new = old.clone();
    let grace = pods::grace_period(resource, old, options.grace);
    if namespaces::is_namespace(resource) {
        return Ok(namespaces::decide_delete(old, now));
    }
    if let Some(next) = resource.strategy.begin_deletion(old, now).filter(|_| !old.is_terminating()) {
        return Ok(UpdateDecision::Write(next));
    }
    if let Some(grace) = grace {
        match start_grace_period(&mut new, old, grace, options, now) {
            GraceWait::AlreadyWaiting => return Ok(UpdateDecision::Unchanged),
            GraceWait::UntilDeadline => {
                set_finalizers(&mut new, options);
                return Ok(UpdateDecision::Write(new));
            }
            GraceWait::NotNeeded => {}
        }
    }
    set_finalizers(&mut new, options);
    if new.finalizers().is_empty() {
        // Kinds with a grace period always show `deletionGracePeriodSeconds`.
        if grace.is_some() {
            set_deletion_timestamp(&mut new, old, now);
        }
        return Ok(UpdateDecision::Remove(new));
    }
    set_deletion_timestamp(&mut new, old, now);
    Ok(if new == *old { UpdateDecision::Unchanged } else { UpdateDecision::Write(new) })
}

/// Sets the deletion time of an object that only waits for finalizers.
pub fn set_deletion_timestamp(new: &mut Value, old: &Value, now: Timestamp) {
    if !old.is_terminating() {
        if old.generation() > 0 {
            new.set_meta("generation", old.generation().wrapping_add(1));
        }
        new.set_meta("deletionTimestamp", clock::format_time(now));
    } else if deletion_time(old).is_some_and(|time| time > now) {
        new.set_meta("deletionTimestamp", clock::format_time(now));
    }
    new.set_meta("deletionGracePeriodSeconds", 0);
}

enum GraceWait {
    /// Until the deadline in the object.
    UntilDeadline,
    /// A deletion is in progress, and this one is not shorter.
    AlreadyWaiting,
    /// No wait.
    NotNeeded,
}

/// The first delete starts the grace period; later ones can only shorten it.
fn start_grace_period(
    new: &mut Value,
    old: &Value,
    grace: i64,
    options: &DeleteOptions,
    now: Timestamp,
) -> GraceWait {
    let later =
        |from: Timestamp, seconds: i64| from.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(from);
    if !old.is_terminating() {
        if grace == 0 {
            return GraceWait::NotNeeded;
        }
        new.set_meta("deletionTimestamp", clock::format_time(later(now, grace)));
        new.set_meta("deletionGracePeriodSeconds", grace);
        if old.generation() > 0 {
            new.set_meta("generation", old.generation().wrapping_add(1));
        }
        return GraceWait::UntilDeadline;
    }
    let present = get_path(old, &["metadata", "deletionGracePeriodSeconds"])
        .and_then(Value::as_i64)
        .unwrap_or_default();
    if present == 0 {
        return GraceWait::NotNeeded;
    }
    let Some(mut wanted) = options.grace.filter(|wanted| *wanted < present) else {
        return GraceWait::AlreadyWaiting;
    };
    if wanted == 0 {
        return GraceWait::NotNeeded;
    }
    let mut until = later(deletion_time(old).unwrap_or(now), wanted - present);
    if until < now {
        until = now;
        wanted = 1;
    }
    new.set_meta("deletionTimestamp", clock::format_time(until));
    new.set_meta("deletionGracePeriodSeconds", wanted);
    GraceWait::UntilDeadline
}

fn deletion_time(object: &Value) -> Option<Timestamp> {
    object.meta_str("deletionTimestamp").parse().ok()
}

fn set_finalizers(object: &mut Value, options: &DeleteOptions) {
    let present = object.finalizers();
    let has = |wanted: &str| present.iter().any(|name| name == wanted);
    let (orphan, foreground) = match (options.orphan, options.policy.as_deref()) {
        (Some(orphan), _) => (orphan, false),
        (None, Some("Orphan")) => (true, false),
        (None, Some("Foreground")) => (false, true),
        (None, Some(_)) => (false, false),
        (None, None) => (has(ORPHAN), has(FOREGROUND) && !has(ORPHAN)),
    };
    let mut next: Vec<String> =
        present.iter().filter(|name| *name != ORPHAN && *name != FOREGROUND).cloned().collect();
    if orphan {
        next.push(ORPHAN.to_owned());
    }
    if foreground {
        next.push(FOREGROUND.to_owned());
    }
    let same = next.len() == present.len() && next.iter().all(|name| present.contains(name));
    if same {
        return;
    }
    if next.is_empty() {
        object.drop_meta("finalizers");
    } else {
        object.set_meta("finalizers", next);
    }
}

fn check_preconditions(resource: &Resource, options: &DeleteOptions, old: &Value) -> ApiResult<()> {
    // kube-apiserver uses the kind here instead of the plural.
    let subject = GroupResource::new(&resource.id.group, &resource.kind);
    if let Some(uid) = options.uid.as_deref().filter(|uid| *uid != old.uid()) {
        let why = format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted and then recreated",
            old.uid()
        );
        return Err(StatusError::conflict(&subject, old.name(), &why));
    }
    if let Some(version) =
        options.resource_version.as_deref().filter(|version| *version != old.resource_version())
    {
        let why = format!(
            "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({}). The object might have been modified",
            old.resource_version()
        );
        return Err(StatusError::conflict(&subject, old.name(), &why));
    }
    Ok(())
}

/// Reads the options from the body, or else from the query.
pub fn read_options(request: &Request) -> ApiResult<DeleteOptions> {
    let query = &request.options;
    let mut options = DeleteOptions {
        dry_run: !query.dry_run.is_empty(),
        grace: query.grace_period_seconds,
        orphan: query.orphan_dependents,
        policy: Some(query.propagation_policy.clone()).filter(|policy| !policy.is_empty()),
        uid: None,
        resource_version: None,
    };
    let mut errors = write_options::check_dry_run(query);
    if !request.body.is_empty() {
        let body = decode_options_body(request)?;
        (options, errors) = options_from_body(&body);
    }
    validate_options(options, errors)
}

/// Parses options from an object: the body of a delete or a part of an eviction; with the errors of its dryRun.
pub fn options_from_body(body: &Value) -> (DeleteOptions, Vec<FieldError>) {
    let word = |path: &[&str]| get_path(body, path).and_then(Value::as_str).map(str::to_owned);
    let dry_run = get_path(body, &["dryRun"]).and_then(Value::as_array).cloned().unwrap_or_default();
    let mut errors = Vec::new();
    if dry_run.iter().any(|value| value.as_str() != Some("All")) {
        errors.push(FieldError::not_supported("dryRun", Value::Array(dry_run.clone()), &["All"]));
    }
    let options = DeleteOptions {
        dry_run: !dry_run.is_empty(),
        grace: get_path(body, &["gracePeriodSeconds"]).and_then(Value::as_i64),
        orphan: get_path(body, &["orphanDependents"]).and_then(Value::as_bool),
        policy: word(&["propagationPolicy"]),
        uid: word(&["preconditions", "uid"]),
        resource_version: word(&["preconditions", "resourceVersion"]),
    };
    (options, errors)
}

/// Validates the options; a negative grace period means one second.
pub fn validate_options(mut options: DeleteOptions, errors: Vec<FieldError>) -> ApiResult<DeleteOptions> {
    check_options(&options, errors)?;
    options.grace = options.grace.map(|seconds| if seconds < 0 { 1 } else { seconds });
    Ok(options)
}

/// The options in the body, or why it cannot be decoded.
fn decode_options_body(request: &Request) -> ApiResult<Value> {
    let (body, _) = match request.content_type.as_str() {
        "" | "application/json" => {
            decode::decode_json(&request.body).map_err(|why| undecodable_options(&why))?
        }
        other => decode::decode(other, &request.body, "DeleteOptions")?,
    };
    if !body.is_object() {
        let kind = if body.is_array() { "array" } else { "value" };
        return Err(undecodable_options(&format!(
            "json: cannot unmarshal {kind} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
        )));
    }
    let kind = crate::object::str_at(&body, &["kind"]);
    if !kind.is_empty() && kind != "DeleteOptions" {
        let version = crate::object::str_at(&body, &["apiVersion"]);
        return Err(StatusError::bad_request(format!(
            "no kind \"{kind}\" is registered for version \"{version}\" in scheme \"pkg/runtime/scheme.go:111\""
        )));
    }
    Ok(body)
}

fn undecodable_options(why: &str) -> StatusError {
    StatusError::bad_request(format!("couldn't get version/kind; json parse error: {why}"))
}

fn check_options(options: &DeleteOptions, dry_run: Vec<FieldError>) -> ApiResult<()> {
    let mut errors = Vec::new();
    if let Some(policy) = &options.policy {
        if options.orphan.is_some() {
            let why = "orphanDependents and deletionPropagation cannot be both set";
            errors.push(FieldError::invalid("propagationPolicy", policy.as_str(), why));
        }
        let known = ["Foreground", "Background", "Orphan"];
        if !known.contains(&policy.as_str()) {
            let shown = ["Foreground", "Background", "Orphan", "nil"];
            errors.push(FieldError::not_supported("propagationPolicy", policy.as_str(), &shown));
        }
    }
    errors.extend(dry_run);
    write_options::reject_invalid("DeleteOptions", &errors)
}

/// Most kinds return a `Status`, these the deleted object.
fn returns_object(resource: &Resource) -> bool {
    resource.id.group.is_empty()
        && matches!(resource.id.plural.as_str(), "serviceaccounts" | "namespaces" | "pods" | "services")
}

fn success_status(resource: &Resource, last: &Value) -> Value {
    let mut details = json!({ "name": last.name() });
    if !resource.id.group.is_empty() {
        details["group"] = resource.id.group.clone().into();
    }
    details["kind"] = resource.id.plural.clone().into();
    details["uid"] = last.uid().into();
    json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details })
}
