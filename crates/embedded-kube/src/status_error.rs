//! What the server says when it refuses: a `Status` object with the code, reason and causes of the real server.
//!
//! Everything in this crate that can refuse a request returns a [`Failure`]; nothing else reaches a client.

mod field;

use serde_json::{Value, json};

pub use self::field::{FieldError, FieldErrorKind, quoted};

/// Result of everything a request can ask for.
pub type Answer<T> = Result<T, Failure>;

/// A group and a plural, as error texts name it: `deployments.apps`, `pods`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupResource {
    /// API group; empty for the core group.
    pub group: String,
    /// Plural, lower case.
    pub resource: String,
}

impl GroupResource {
    /// From its two parts.
    pub fn new(group: impl Into<String>, resource: impl Into<String>) -> Self {
        Self { group: group.into(), resource: resource.into() }
    }
}

impl std::fmt::Display for GroupResource {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.group.is_empty() {
            out.write_str(&self.resource)
        } else {
            write!(out, "{}.{}", self.resource, self.group)
        }
    }
}

/// One entry of `details.causes`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// Machine-readable type, such as `FieldValueInvalid`.
    pub reason: String,
    /// Text for people.
    pub message: String,
    /// Path of the field, such as `spec.replicas`.
    pub field: String,
}

/// `details` of a `Status`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Details {
    /// Object's name.
    pub name: String,
    /// API group.
    pub group: String,
    /// Kind, or for most reasons the plural.
    pub kind: String,
    /// The object's uid.
    pub uid: String,
    /// One entry per fault.
    pub causes: Vec<Cause>,
    /// When to come again; 0 is left out.
    pub retry_after_seconds: u32,
}

/// A refusal. Boxed inside, so that `Result`s stay small.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.message)]
pub struct Failure(Box<Body>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Body {
    code: u16,
    reason: &'static str,
    message: String,
    details: Option<Details>,
    continue_token: String,
}

impl Failure {
    /// From its parts; the named constructors below say what the real server says.
    pub fn new(
        code: u16,
        reason: &'static str,
        message: impl Into<String>,
        details: Option<Details>,
    ) -> Self {
        Self(Box::new(Body { code, reason, message: message.into(), details, continue_token: String::new() }))
    }

    /// With a token that goes on with a list, though not with the same snapshot.
    #[must_use]
    pub fn or_continue(mut self, token: String) -> Self {
        self.0.continue_token = token;
        self
    }

    /// HTTP status code.
    pub fn code(&self) -> u16 {
        self.0.code
    }

    /// Machine-readable reason, such as `NotFound`.
    pub fn reason(&self) -> &'static str {
        self.0.reason
    }

    /// Text for people.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Details, where there are any.
    pub fn details(&self) -> Option<&Details> {
        self.0.details.as_ref()
    }

    /// The `Status` object that goes over the wire.
    pub fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.0.message, "reason": self.0.reason,
        });
        if self.0.reason.is_empty() {
            remove(&mut status, "reason");
        }
        if let Some(details) = &self.0.details {
            status["details"] = details.json();
        }
        if !self.0.continue_token.is_empty() {
            status["metadata"]["continue"] = self.0.continue_token.as_str().into();
        }
        status["code"] = self.0.code.into();
        status
    }

    /// No such object.
    pub fn not_found(resource: &GroupResource, name: &str) -> Self {
        Self::about(404, "NotFound", resource, name, format!("{resource} {} not found", quoted(name)))
    }

    /// The name is taken.
    pub fn already_exists(resource: &GroupResource, name: &str) -> Self {
        Self::about(
            409,
            "AlreadyExists",
            resource,
            name,
            format!("{resource} {} already exists", quoted(name)),
        )
    }

    /// The object is not what the writer thought.
    pub fn conflict(resource: &GroupResource, name: &str, why: &str) -> Self {
        let text = format!("Operation cannot be fulfilled on {resource} {}: {why}", quoted(name));
        Self::about(409, "Conflict", resource, name, text)
    }

    /// A writer came with an old resourceVersion.
    pub fn modified(resource: &GroupResource, name: &str) -> Self {
        let why =
            "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, name, why)
    }

    /// Not allowed, by rule rather than by shape.
    pub fn forbidden(resource: &GroupResource, name: &str, why: &str) -> Self {
        let text = match (resource.resource.is_empty(), name.is_empty()) {
            (true, _) => format!("forbidden: {why}"),
            (false, true) => format!("{resource} is forbidden: {why}"),
            (false, false) => format!("{resource} {} is forbidden: {why}", quoted(name)),
        };
        Self::about(403, "Forbidden", resource, name, text)
    }

    /// The object breaks its own rules. `kind` is the Kind, as the real server has it here.
    pub fn invalid(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> Self {
        let subject = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        let details = Details {
            name: name.to_owned(),
            group: group.to_owned(),
            kind: kind.to_owned(),
            causes: errors.iter().map(FieldError::cause).collect(),
            ..Details::default()
        };
        let text = format!("{subject} {} is invalid: {}", quoted(name), field::aggregate(errors));
        Self::new(422, "Invalid", text, Some(details))
    }

    /// The request itself makes no sense.
    pub fn bad_request(why: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", why, None)
    }

    /// The verb is not for this resource.
    pub fn method_not_supported(resource: &GroupResource, action: &str) -> Self {
        let text =
            format!("{action} is not supported on resources of kind {}", quoted(&resource.to_string()));
        Self::about(405, "MethodNotAllowed", resource, "", text)
    }

    /// The history that was asked for is gone.
    pub fn expired(why: impl Into<String>) -> Self {
        Self::new(410, "Expired", why, None)
    }

    /// Nobody, or nobody we know.
    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized", None)
    }

    /// Our own fault.
    pub fn internal(why: impl std::fmt::Display) -> Self {
        let cause = Cause { reason: String::new(), message: why.to_string(), field: String::new() };
        let details = Details { causes: vec![cause], ..Details::default() };
        Self::new(500, "InternalError", format!("Internal error occurred: {why}"), Some(details))
    }

    /// A path that leads nowhere.
    pub fn no_such_path() -> Self {
        let details = Some(Details::default());
        Self::new(404, "NotFound", "the server could not find the requested resource", details)
    }

    fn about(code: u16, reason: &'static str, resource: &GroupResource, name: &str, text: String) -> Self {
        let details = Details {
            name: name.to_owned(),
            group: resource.group.clone(),
            kind: resource.resource.clone(),
            ..Details::default()
        };
        Self::new(code, reason, text, Some(details))
    }
}

impl Details {
    fn json(&self) -> Value {
        let mut details = json!({
            "name": self.name, "group": self.group, "kind": self.kind, "uid": self.uid,
            "causes": self.causes.iter().map(Cause::json).collect::<Vec<_>>(),
            "retryAfterSeconds": self.retry_after_seconds,
        });
        drop_empty(&mut details);
        details
    }
}

impl Cause {
    fn json(&self) -> Value {
        let mut cause = json!({ "reason": self.reason, "message": self.message, "field": self.field });
        drop_empty(&mut cause);
        cause
    }
}

fn remove(value: &mut Value, key: &str) {
    if let Some(map) = value.as_object_mut() {
        map.shift_remove(key);
    }
}

/// Leaves out what the real server's `omitempty` leaves out.
fn drop_empty(value: &mut Value) {
    if let Some(map) = value.as_object_mut() {
        map.retain(|_, value| match value {
            Value::String(text) => !text.is_empty(),
            Value::Array(list) => !list.is_empty(),
            Value::Number(number) => number.as_u64() != Some(0),
            _ => true,
        });
    }
}
