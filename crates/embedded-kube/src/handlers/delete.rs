//! One object gone: at once, after its grace period, or when the last finalizer leaves.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{
    Server,
    change::{Next, Outcome},
    namespaces, options, pods,
};
use crate::{
    clock, decode,
    failure::{Answer, Failure, FieldError, GroupResource},
    object::{Meta, MetaMut, at},
    registry::Resource,
    request::{Body, Reply, Request},
};

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// What a delete shall do.
#[derive(Debug, Clone, Default)]
pub struct DeleteOptions {
    pub dry_run: bool,
    pub grace: Option<i64>,
    pub orphan: Option<bool>,
    pub policy: Option<String>,
    pub uid: Option<String>,
    pub resource_version: Option<String>,
}

impl Server {
    pub(super) async fn delete(&self, request: &Request) -> Answer<Reply> {
        namespaces::check_mortal(request)?;
        let options = read(request)?;
        self.delete_with(request, &options).await
    }

    pub(super) async fn delete_with(&self, request: &Request, options: &DeleteOptions) -> Answer<Reply> {
        let resource = &request.resource;
        let now = clock::now();
        let outcome =
            self.change(request, options.dry_run, |_, old| decide(resource, options, old, now)).await?;
        Ok(match outcome {
            Outcome::Kept(object) => {
                let code = if options.orphan == Some(false) { 202 } else { 200 };
                Reply::Object { code, object, warnings: Vec::new() }
            }
            Outcome::Removed(last) => {
                let object = if returns_object(resource) { last } else { success(resource, &last) };
                Reply::Object { code: 200, object: Body::Value(object), warnings: Vec::new() }
            }
        })
    }
}

/// What becomes of an object that shall be deleted.
pub fn decide(resource: &Resource, options: &DeleteOptions, old: &Value, now: Timestamp) -> Answer<Next> {
    check_preconditions(resource, options, old)?;
    let mut new = old.clone();
    let grace = pods::grace_period(resource, old, options.grace);
    if namespaces::is_namespace(resource) {
        return Ok(namespaces::decide_delete(old, now));
    }
    if let Some(next) = resource.rules.first_delete(old, now).filter(|_| !old.is_terminating()) {
        return Ok(Next::Put(next));
    }
    if let Some(grace) = grace {
        match wait(&mut new, old, grace, options, now) {
            Waiting::Longer => return Ok(Next::Same),
            Waiting::Until => {
                set_finalizers(&mut new, options);
                return Ok(Next::Put(new));
            }
            Waiting::No => {}
        }
    }
    set_finalizers(&mut new, options);
    if new.finalizers().is_empty() {
        // Kinds with a grace period show the end of it even where there is none.
        if grace.is_some() {
            mark(&mut new, old, now);
        }
        return Ok(Next::Remove(new));
    }
    mark(&mut new, old, now);
    Ok(if new == *old { Next::Same } else { Next::Put(new) })
}

/// Sets the time of a deletion that waits for finalizers alone.
pub fn mark(new: &mut Value, old: &Value, now: Timestamp) {
    if !old.is_terminating() {
        if old.generation() > 0 {
            new.set_meta("generation", old.generation().wrapping_add(1));
        }
        new.set_meta("deletionTimestamp", clock::seconds(now));
    } else if deletion_time(old).is_some_and(|time| time > now) {
        new.set_meta("deletionTimestamp", clock::seconds(now));
    }
    new.set_meta("deletionGracePeriodSeconds", 0);
}

enum Waiting {
    /// Until the time that is now in the object.
    Until,
    /// A deletion is already under way, and this one is not quicker.
    Longer,
    /// Not at all.
    No,
}

/// The first delete starts the grace period, later ones can only shorten it.
fn wait(new: &mut Value, old: &Value, grace: i64, options: &DeleteOptions, now: Timestamp) -> Waiting {
    let later =
        |from: Timestamp, seconds: i64| from.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(from);
    if !old.is_terminating() {
        if grace == 0 {
            return Waiting::No;
        }
        new.set_meta("deletionTimestamp", clock::seconds(later(now, grace)));
        new.set_meta("deletionGracePeriodSeconds", grace);
        if old.generation() > 0 {
            new.set_meta("generation", old.generation().wrapping_add(1));
        }
        return Waiting::Until;
    }
    let present =
        at(old, &["metadata", "deletionGracePeriodSeconds"]).and_then(Value::as_i64).unwrap_or_default();
    if present == 0 {
        return Waiting::No;
    }
    let Some(mut wanted) = options.grace.filter(|wanted| *wanted < present) else { return Waiting::Longer };
    if wanted == 0 {
        return Waiting::No;
    }
    let mut until = later(deletion_time(old).unwrap_or(now), wanted - present);
    if until < now {
        until = now;
        wanted = 1;
    }
    new.set_meta("deletionTimestamp", clock::seconds(until));
    new.set_meta("deletionGracePeriodSeconds", wanted);
    Waiting::Until
}

fn deletion_time(object: &Value) -> Option<Timestamp> {
    object.meta("deletionTimestamp").parse().ok()
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

fn check_preconditions(resource: &Resource, options: &DeleteOptions, old: &Value) -> Answer<()> {
    // The real server names the kind here where others name the plural.
    let subject = GroupResource::new(&resource.id.group, &resource.kind);
    if let Some(uid) = options.uid.as_deref().filter(|uid| *uid != old.uid()) {
        let why = format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted and then recreated",
            old.uid()
        );
        return Err(Failure::conflict(&subject, old.name(), &why));
    }
    if let Some(version) =
        options.resource_version.as_deref().filter(|version| *version != old.resource_version())
    {
        let why = format!(
            "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({}). The object might have been modified",
            old.resource_version()
        );
        return Err(Failure::conflict(&subject, old.name(), &why));
    }
    Ok(())
}

/// From the body if there is one, else from the query.
pub fn read(request: &Request) -> Answer<DeleteOptions> {
    let query = &request.options;
    let mut options = DeleteOptions {
        dry_run: !query.dry_run.is_empty(),
        grace: query.grace_period_seconds,
        orphan: query.orphan_dependents,
        policy: Some(query.propagation_policy.clone()).filter(|policy| !policy.is_empty()),
        uid: None,
        resource_version: None,
    };
    let mut errors = options::check_dry_run(query);
    if !request.body.is_empty() {
        let body = body_of(request)?;
        (options, errors) = of_body(&body);
    }
    finish(options, errors)
}

/// Options as an object, as the body of a delete or a part of an eviction; with what is wrong about its dryRun.
pub fn of_body(body: &Value) -> (DeleteOptions, Vec<FieldError>) {
    let word = |path: &[&str]| at(body, path).and_then(Value::as_str).map(str::to_owned);
    let dry_run = at(body, &["dryRun"]).and_then(Value::as_array).cloned().unwrap_or_default();
    let mut errors = Vec::new();
    if dry_run.iter().any(|value| value.as_str() != Some("All")) {
        errors.push(FieldError::not_supported("dryRun", Value::Array(dry_run.clone()), &["All"]));
    }
    let options = DeleteOptions {
        dry_run: !dry_run.is_empty(),
        grace: at(body, &["gracePeriodSeconds"]).and_then(Value::as_i64),
        orphan: at(body, &["orphanDependents"]).and_then(Value::as_bool),
        policy: word(&["propagationPolicy"]),
        uid: word(&["preconditions", "uid"]),
        resource_version: word(&["preconditions", "resourceVersion"]),
    };
    (options, errors)
}

/// Checks them; less than nothing of a grace period means "as soon as it can be".
pub fn finish(mut options: DeleteOptions, errors: Vec<FieldError>) -> Answer<DeleteOptions> {
    check(&options, errors)?;
    options.grace = options.grace.map(|seconds| if seconds < 0 { 1 } else { seconds });
    Ok(options)
}

/// The options that are the body, or why it is none.
fn body_of(request: &Request) -> Answer<Value> {
    let (body, _) = match request.content_type.as_str() {
        "" | "application/json" => decode::json(&request.body).map_err(|why| unversioned(&why))?,
        other => decode::decode(other, &request.body, "DeleteOptions")?,
    };
    if !body.is_object() {
        let kind = if body.is_array() { "array" } else { "value" };
        return Err(unversioned(&format!(
            "json: cannot unmarshal {kind} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
        )));
    }
    let kind = crate::object::text(&body, &["kind"]);
    if !kind.is_empty() && kind != "DeleteOptions" {
        let version = crate::object::text(&body, &["apiVersion"]);
        return Err(Failure::bad_request(format!(
            "no kind \"{kind}\" is registered for version \"{version}\" in scheme \"pkg/runtime/scheme.go:111\""
        )));
    }
    Ok(body)
}

fn unversioned(why: &str) -> Failure {
    Failure::bad_request(format!("couldn't get version/kind; json parse error: {why}"))
}

fn check(options: &DeleteOptions, dry_run: Vec<FieldError>) -> Answer<()> {
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
    options::refuse("DeleteOptions", &errors)
}

/// Most kinds answer with a `Status`, these with the object that is gone.
fn returns_object(resource: &Resource) -> bool {
    resource.id.group.is_empty()
        && matches!(resource.id.plural.as_str(), "serviceaccounts" | "namespaces" | "pods" | "services")
}

fn success(resource: &Resource, last: &Value) -> Value {
    let mut details = json!({ "name": last.name() });
    if !resource.id.group.is_empty() {
        details["group"] = resource.id.group.clone().into();
    }
    details["kind"] = resource.id.plural.clone().into();
    details["uid"] = last.uid().into();
    json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details })
}
