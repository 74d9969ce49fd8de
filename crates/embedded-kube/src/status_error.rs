//! API errors: a `Status` object with the code, reason and causes of kube-apiserver.
//!
//! Every function of this crate that can reject a request returns a [`StatusError`]; no other error type reaches a client.

mod field;

use serde_json::{Value, json};

pub use self::field::{FieldError, FieldErrorKind, go_quote};

/// Result of a request.
pub type ApiResult<T> = Result<T, StatusError>;

/// Group and plural, formatted as in error texts: `deployments.apps`, `pods`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupResource {
    /// API group; empty for the core group.
    pub group: String,
    /// Plural, lower case.
    pub resource: String,
}

impl GroupResource {
    /// Builds it from group and plural.
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
pub struct StatusCause {
    /// Machine-readable type, such as `FieldValueInvalid`.
    pub reason: String,
    /// Human-readable message.
    pub message: String,
    /// Path of the field, such as `spec.replicas`.
    pub field: String,
}

/// `details` of a `Status`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StatusDetails {
    /// Object's name.
    pub name: String,
    /// API group.
    pub group: String,
    /// Kind, or for most reasons the plural.
    pub kind: String,
    /// The object's uid.
    pub uid: String,
    /// One entry per error.
    pub causes: Vec<StatusCause>,
    /// Value of `Retry-After`; 0 is omitted.
    pub retry_after_seconds: u32,
}

/// An API error. Boxed inside, so that `Result`s stay small.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.message)]
pub struct StatusError(Box<StatusFields>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct StatusFields {
    code: u16,
    reason: &'static str,
    message: String,
    details: Option<StatusDetails>,
    continue_token: String,
}

impl StatusError {
    /// Builds an error from its parts; the named constructors below use kube-apiserver's texts.
    pub fn new(
        code: u16,
        reason: &'static str,
        message: impl Into<String>,
        details: Option<StatusDetails>,
    ) -> Self {
        Self(Box::new(StatusFields {
            code,
            reason,
            message: message.into(),
            details,
            continue_token: String::new(),
        }))
    }

    /// Adds a token that continues the list from an inconsistent snapshot.
    #[must_use]
    pub fn with_continue_token(mut self, token: String) -> Self {
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

    /// Human-readable message.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Details, where there are any.
    pub fn details(&self) -> Option<&StatusDetails> {
        self.0.details.as_ref()
    }

    /// The `Status` object that is sent to the client.
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

    /// 404: the object does not exist.
    pub fn not_found(resource: &GroupResource, name: &str) -> Self {
        Self::for_resource(
            404,
            "NotFound",
            resource,
            name,
            format!("{resource} {} not found", go_quote(name)),
        )
    }

    /// 409: the name is in use.
    pub fn already_exists(resource: &GroupResource, name: &str) -> Self {
        Self::for_resource(
            409,
            "AlreadyExists",
            resource,
            name,
            format!("{resource} {} already exists", go_quote(name)),
        )
    }

    /// 409: the object does not match the writer's expectation.
    pub fn conflict(resource: &GroupResource, name: &str, why: &str) -> Self {
        let text = format!("Operation cannot be fulfilled on {resource} {}: {why}", go_quote(name));
        Self::for_resource(409, "Conflict", resource, name, text)
    }

    /// 409: the resourceVersion is stale.
    pub fn stale_resource_version(resource: &GroupResource, name: &str) -> Self {
        let why =
            "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, name, why)
    }

    /// 403: the operation is not allowed.
    pub fn forbidden(resource: &GroupResource, name: &str, why: &str) -> Self {
        let text = match (resource.resource.is_empty(), name.is_empty()) {
            (true, _) => format!("forbidden: {why}"),
            (false, true) => format!("{resource} is forbidden: {why}"),
            (false, false) => format!("{resource} {} is forbidden: {why}", go_quote(name)),
        };
        Self::for_resource(403, "Forbidden", resource, name, text)
    }

    /// 422: validation failed. `kind` is the Kind, as in kube-apiserver.
    pub fn invalid(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> Self {
        let subject = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        let details = StatusDetails {
            name: name.to_owned(),
            group: group.to_owned(),
            kind: kind.to_owned(),
            causes: errors.iter().map(FieldError::cause).collect(),
            ..StatusDetails::default()
        };
        let text = format!("{subject} {} is invalid: {}", go_quote(name), field::aggregate(errors));
        Self::new(422, "Invalid", text, Some(details))
    }

    /// 400: the request is malformed.
    pub fn bad_request(why: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", why, None)
    }

    /// 405: the resource does not support the verb.
    pub fn method_not_supported(resource: &GroupResource, action: &str) -> Self {
        let text =
            format!("{action} is not supported on resources of kind {}", go_quote(&resource.to_string()));
        Self::for_resource(405, "MethodNotAllowed", resource, "", text)
    }

    /// 410: the requested history has been compacted.
    pub fn expired(why: impl Into<String>) -> Self {
        Self::new(410, "Expired", why, None)
    }

    /// 401: no valid credentials.
    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized", None)
    }

    /// 500: an internal error.
    pub fn internal(why: impl std::fmt::Display) -> Self {
        let cause = StatusCause { reason: String::new(), message: why.to_string(), field: String::new() };
        let details = StatusDetails { causes: vec![cause], ..StatusDetails::default() };
        Self::new(500, "InternalError", format!("Internal error occurred: {why}"), Some(details))
    }

    /// 404 for a path that is not served.
    pub fn path_not_found() -> Self {
        let details = Some(StatusDetails::default());
        Self::new(404, "NotFound", "the server could not find the requested resource", details)
    }

    fn for_resource(
        code: u16,
        reason: &'static str,
        resource: &GroupResource,
        name: &str,
        text: String,
    ) -> Self {
        let details = StatusDetails {
            name: name.to_owned(),
            group: resource.group.clone(),
            kind: resource.resource.clone(),
            ..StatusDetails::default()
        };
        Self::new(code, reason, text, Some(details))
    }
}

impl StatusDetails {
    fn json(&self) -> Value {
        let mut details = json!({
            "name": self.name, "group": self.group, "kind": self.kind, "uid": self.uid,
            "causes": self.causes.iter().map(StatusCause::json).collect::<Vec<_>>(),
            "retryAfterSeconds": self.retry_after_seconds,
        });
        drop_empty(&mut details);
        details
    }
}

impl StatusCause {
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

/// Removes the fields that kube-apiserver's `omitempty` omits.
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
