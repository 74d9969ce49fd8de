//! Errors of API calls and their retry class.

use std::{fmt, path::PathBuf, time::Duration};

use capt_kinds::api::names::ALLOW_WRITE_ANNOTATION;
use kube::core::Status;
use thiserror::Error;

use crate::error::ErrorClass;

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// An API operation, displayed as `patch Secret shop/cart`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiOperation {
    /// The verb; also a metric label, so one of a small set.
    pub verb: &'static str,
    /// Kind, namespace and name.
    pub target: String,
}

impl fmt::Display for ApiOperation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}", self.verb, self.target)
    }
}

/// Why an API operation failed.
#[derive(Debug, Error, strum::IntoStaticStr)]
#[non_exhaustive]
pub enum K8sError {
    /// The object or its namespace does not exist.
    #[error("cannot {operation}: not found")]
    NotFound {
        /// The operation.
        operation: ApiOperation,
    },
    /// The API server does not serve the kind.
    #[error(
        "cannot {operation}: the API server does not serve this kind; install its CRD (`capt crds | kubectl apply -f -`, or \
        Cluster API)"
    )]
    NoKind {
        /// The operation.
        operation: ApiOperation,
    },
    /// A concurrent change, or an existing object.
    #[error("cannot {operation}: it was changed concurrently")]
    Conflict {
        /// The operation.
        operation: ApiOperation,
        /// The server's response.
        #[source]
        source: Box<Status>,
    },
    /// Objects cannot be created in a terminating namespace.
    #[error("cannot {operation}: its namespace is being deleted")]
    Terminating {
        /// The operation.
        operation: ApiOperation,
        /// The server's response.
        #[source]
        source: Box<Status>,
    },
    /// Permission denied.
    #[error("not permitted to {operation}: missing RBAC permission, exceeded quota, or admission policy")]
    Forbidden {
        /// The operation.
        operation: ApiOperation,
        /// The server's response.
        #[source]
        source: Box<Status>,
    },
    /// The object violates its schema or a validation rule.
    #[error("cannot {operation}: the API server rejected it as invalid")]
    Invalid {
        /// The operation.
        operation: ApiOperation,
        /// The server's response.
        #[source]
        source: Box<Status>,
    },
    /// A server error, or overload.
    #[error("cannot {operation}: the API server returned a server error")]
    Trouble {
        /// The operation.
        operation: ApiOperation,
        /// The server's response.
        #[source]
        source: Box<Status>,
    },
    /// No response before the deadline. The operation may have been executed.
    #[error("no response to {operation} within {} s", after.as_secs_f32())]
    TimedOut {
        /// The operation.
        operation: ApiOperation,
        /// The deadline.
        after: Duration,
    },
    /// The server cannot be reached.
    #[error("cannot {operation}: the API server cannot be reached")]
    Unreachable {
        /// The operation.
        operation: ApiOperation,
        /// The cause.
        #[source]
        source: Box<kube::Error>,
    },
    /// The response does not decode.
    #[error(
        "cannot decode the response to {operation}; the installed CRDs may be of another version of capt"
    )]
    Unreadable {
        /// The operation.
        operation: ApiOperation,
        /// The cause.
        #[source]
        source: Cause,
    },
    /// The request cannot be built.
    #[error("cannot {operation}: invalid request; this is a bug in capt")]
    Unsendable {
        /// The operation.
        operation: ApiOperation,
        /// The cause.
        #[source]
        source: Cause,
    },
    /// The Secret has another owner.
    #[error("{what} is owned by {owner}; choose another Secret name, or delete it")]
    Foreign {
        /// The Secret.
        what: String,
        /// Its owner.
        owner: String,
    },
    /// The Secret has no owner, and was not made by its writer.
    #[error(
        "{what} was not made by {writer}; choose another Secret name, delete it, or allow the write with the annotation \
         {ALLOW_WRITE_ANNOTATION}: {writer} on the Secret"
    )]
    Unclaimed {
        /// The Secret.
        what: String,
        /// Name of the object that wants to write it.
        writer: String,
    },
    /// The Secret is owned by a deleted object of the same name.
    #[error("{what} is still owned by a previous {owner}; garbage collection removes it")]
    Stale {
        /// The Secret.
        what: String,
        /// Its previous owner.
        owner: String,
    },
    /// An unusable kubeconfig.
    #[error("cannot use the kubeconfig {}; check --kubeconfig and --context", path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: Cause,
    },
    /// An unusable kubeconfig in a Secret.
    #[error("cannot use the kubeconfig in a Secret")]
    Untrusted {
        /// The cause.
        #[source]
        source: Cause,
    },
    /// No client configuration.
    #[error("found no Kubernetes configuration; pass --kubeconfig, set KUBECONFIG, or run inside a cluster")]
    NoCluster {
        /// The cause.
        #[source]
        source: Cause,
    },
}

impl K8sError {
    /// The retry class.
    pub fn class(&self) -> ErrorClass {
        match self {
            // The object came from a cache that has not observed the deletion yet.
            Self::NotFound { .. } | Self::Conflict { .. } => ErrorClass::Conflict,
            Self::Invalid { .. } | Self::Foreign { .. } | Self::Unclaimed { .. } => ErrorClass::Invalid,
            Self::NoKind { .. }
            | Self::Trouble { .. }
            | Self::TimedOut { .. }
            | Self::Unreachable { .. }
            | Self::Stale { .. } => ErrorClass::Transient,
            // No action needed: the namespace, and with it the object, goes away.
            Self::Terminating { .. } => ErrorClass::Waiting,
            Self::Forbidden { .. }
            | Self::Unreadable { .. }
            | Self::Unsendable { .. }
            | Self::Kubeconfig { .. }
            | Self::Untrusted { .. }
            | Self::NoCluster { .. } => ErrorClass::Terminal,
        }
    }

    /// The variant name, for metrics, reasons and events.
    pub fn category(&self) -> &'static str {
        self.into()
    }

    /// Whether the namespace is being deleted.
    pub fn is_terminating(&self) -> bool {
        matches!(self, Self::Terminating { .. })
    }

    /// Whether the object does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }

    /// Whether it is a conflict.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Conflict { .. })
    }

    /// The server's Retry-After.
    pub fn retry_after(&self) -> Option<Duration> {
        let Self::Trouble { source, .. } = self else { return None };
        let seconds = source.details.as_ref()?.retry_after_seconds;
        (seconds > 0).then(|| Duration::from_secs(seconds.into()))
    }

    /// Whether the server rejected the request because of overload, without executing it.
    pub(super) fn is_busy(&self) -> bool {
        matches!(self, Self::Trouble { source, .. } if matches!(source.code, 429 | 503))
    }

    pub(super) fn from_kube(operation: ApiOperation, error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::from_status(operation, status),
            kube::Error::SerdeError(source) => Self::Unreadable { operation, source: source.into() },
            kube::Error::FromUtf8(source) => Self::Unreadable { operation, source: source.into() },
            kube::Error::BuildRequest(source) => Self::Unsendable { operation, source: source.into() },
            other => Self::Unreachable { operation, source: Box::new(other) },
        }
    }

    fn from_status(operation: ApiOperation, source: Box<Status>) -> Self {
        match source.code {
            404 if names_object(&source) => Self::NotFound { operation },
            404 => Self::NoKind { operation },
            409 => Self::Conflict { operation, source },
            422 if is_failed_test(&source) => Self::Conflict { operation, source },
            403 if has_cause(&source, "NamespaceTerminating") => Self::Terminating { operation, source },
            401 | 403 => Self::Forbidden { operation, source },
            // 408: reading the request timed out; 410: the list's continue token expired.
            408 | 410 | 429 | 500.. => Self::Trouble { operation, source },
            _ => Self::Invalid { operation, source },
        }
    }
}

fn names_object(status: &Status) -> bool {
    status.details.as_ref().is_some_and(|details| !details.name.is_empty())
}

fn has_cause(status: &Status, reason: &str) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes.into_iter().any(|cause| cause.reason == reason)
}

/// A failed `test` of a JSON patch is a bare 422; a validation error names the object.
fn is_failed_test(status: &Status) -> bool {
    status.details.as_ref().is_none_or(|details| details.causes.is_empty() && details.name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(code: u16, details: &serde_json::Value) -> kube::Error {
        let text = serde_json::json!({"code": code, "message": "said", "reason": "Why", "details": details});
        kube::Error::Api(Box::new(serde_json::from_value(text).unwrap()))
    }

    fn error(code: u16, details: &serde_json::Value) -> K8sError {
        let operation = ApiOperation { verb: "patch", target: "Secret shop/cart".to_owned() };
        K8sError::from_kube(operation, status(code, details))
    }

    #[test]
    fn every_code_has_its_class_and_category() {
        let bare = serde_json::json!({});
        let named = serde_json::json!({"name": "cart"});
        let going = serde_json::json!({"causes": [{"reason": "NamespaceTerminating"}]});
        let ruled = serde_json::json!({"name": "cart", "causes": [{"reason": "FieldValueInvalid"}]});
        let table = [
            (404, &named, ErrorClass::Conflict, "NotFound"),
            (404, &bare, ErrorClass::Transient, "NoKind"),
            (409, &named, ErrorClass::Conflict, "Conflict"),
            (422, &bare, ErrorClass::Conflict, "Conflict"),
            (422, &ruled, ErrorClass::Invalid, "Invalid"),
            (400, &bare, ErrorClass::Invalid, "Invalid"),
            (413, &bare, ErrorClass::Invalid, "Invalid"),
            (403, &going, ErrorClass::Waiting, "Terminating"),
            (403, &named, ErrorClass::Terminal, "Forbidden"),
            (401, &bare, ErrorClass::Terminal, "Forbidden"),
            (429, &bare, ErrorClass::Transient, "Trouble"),
            (500, &bare, ErrorClass::Transient, "Trouble"),
            (504, &bare, ErrorClass::Transient, "Trouble"),
        ];
        for (code, details, class, category) in table {
            let error = error(code, details);
            assert_eq!((error.class(), error.category()), (class, category), "{code} {details}");
        }
    }

    #[test]
    fn a_message_says_what_we_were_doing_and_leaves_the_cause_to_the_source() {
        let error = error(409, &serde_json::json!({"name": "cart"}));
        assert_eq!(error.to_string(), "cannot patch Secret shop/cart: it was changed concurrently");
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        assert_eq!(cause.as_deref(), Some("said: Why"));
    }

    #[test]
    fn the_time_to_stay_away_is_the_servers() {
        let error = error(429, &serde_json::json!({"retryAfterSeconds": 7}));
        assert_eq!(error.retry_after(), Some(Duration::from_secs(7)));
        assert!(error.is_busy());
    }
}
