//! API client of the controllers: each request impersonates the controller's own service account.
//!
//! The only module of `controllers` that calls the API. Every call has a timeout.

use std::time::Duration;

use http::{Method, Request};
use kube::{Client, core::Status};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use crate::registry::Resource;

const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// The part before the slash becomes the field manager of the controllers.
const USER_AGENT: &str = "kube-controller-manager/v1.36.3 (linux/amd64) kubernetes/embedded";
const PATH_SEGMENT_ESCAPES: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':');

/// Why a controller could not complete an operation.
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    /// The API returned an error.
    #[error("{}", .0.message)]
    Status(Box<Status>),
    /// The API did not respond.
    #[error("no response from the API server: {0}")]
    NoResponse(String),
    /// A reference to a kind that is not served at the moment.
    #[error("no resource is served for {kind} in {api_version}")]
    UnknownKind {
        /// As in the reference.
        api_version: String,
        /// As in the reference.
        kind: String,
    },
    /// Several errors.
    #[error("{0}")]
    Aggregate(String),
}

impl ControllerError {
    fn is_status(&self, code: u16, reason: &str) -> bool {
        matches!(self, Self::Status(status) if status.code == code && (reason.is_empty() || status.reason == reason))
    }

    /// 404: the object does not exist.
    pub fn is_not_found(&self) -> bool {
        self.is_status(404, "")
    }

    /// 409: another writer changed the object.
    pub fn is_conflict(&self) -> bool {
        self.is_status(409, "Conflict")
    }

    /// 409: the name is in use.
    pub fn is_already_exists(&self) -> bool {
        self.is_status(409, "AlreadyExists")
    }

    /// 422: validation failed.
    pub fn is_invalid(&self) -> bool {
        self.is_status(422, "")
    }

    /// 405: the resource does not support the verb.
    pub fn is_not_supported(&self) -> bool {
        self.is_status(405, "")
    }

    /// 403: the namespace is terminating.
    pub fn is_namespace_terminating(&self) -> bool {
        let Self::Status(status) = self else { return false };
        let causes = status.details.iter().flat_map(|details| &details.causes);
        causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating")
    }
}

/// Propagation policy of a delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// Dependents are deleted first.
    Foreground,
    /// Dependents are deleted afterwards.
    Background,
    /// Dependents are kept.
    Orphan,
}

impl Propagation {
    /// Name in the API.
    pub fn name(self) -> &'static str {
        match self {
            Self::Foreground => "Foreground",
            Self::Background => "Background",
            Self::Orphan => "Orphan",
        }
    }
}

/// Patch type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchKind {
    /// JSON merge patch (RFC 7386).
    Merge,
    /// Strategic merge patch; not for custom resources.
    Strategic,
    /// Server-side apply.
    Apply,
}

/// API client of one service account.
#[derive(Clone)]
pub struct ApiClient {
    client: Client,
    user: String,
}

impl ApiClient {
    /// A client for a service account in `kube-system`.
    pub fn for_account(client: &Client, account: &str) -> Self {
        Self { client: client.clone(), user: format!("system:serviceaccount:kube-system:{account}") }
    }

    /// Reads an object.
    pub async fn get(&self, path: &str) -> Result<Value, ControllerError> {
        self.call(Method::GET, path, "", None).await
    }

    /// Creates an object in a collection.
    pub async fn create(&self, path: &str, object: &Value) -> Result<Value, ControllerError> {
        self.call(Method::POST, path, "application/json", Some(object)).await
    }

    /// Replaces an object.
    pub async fn update(&self, path: &str, object: &Value) -> Result<Value, ControllerError> {
        self.call(Method::PUT, path, "application/json", Some(object)).await
    }

    /// Patches an object.
    pub async fn patch(&self, path: &str, kind: PatchKind, change: &Value) -> Result<Value, ControllerError> {
        let media = match kind {
            PatchKind::Merge => "application/merge-patch+json",
            PatchKind::Strategic => "application/strategic-merge-patch+json",
            PatchKind::Apply => "application/apply-patch+yaml",
        };
        self.call(Method::PATCH, path, media, Some(change)).await
    }

    /// Deletes an object or a collection. `options` is a `DeleteOptions`.
    pub async fn delete(&self, path: &str, options: &Value) -> Result<(), ControllerError> {
        self.call(Method::DELETE, path, "application/json", Some(options)).await.map(drop)
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        media: &str,
        body: Option<&Value>,
    ) -> Result<Value, ControllerError> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(http::header::ACCEPT, "application/json")
            .header(http::header::USER_AGENT, USER_AGENT)
            .header("Impersonate-User", &self.user)
            .header("Impersonate-Group", "system:masters");
        if !media.is_empty() {
            request = request.header(http::header::CONTENT_TYPE, media);
        }
        let body = body.map(Value::to_string).unwrap_or_default().into_bytes();
        let request = request.body(body).map_err(|error| ControllerError::NoResponse(error.to_string()))?;
        match tokio::time::timeout(CALL_TIMEOUT, self.client.request::<Value>(request)).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(kube::Error::Api(status))) => Err(ControllerError::Status(status)),
            Ok(Err(error)) => Err(ControllerError::NoResponse(error.to_string())),
            Err(_) => Err(ControllerError::NoResponse("deadline exceeded".to_owned())),
        }
    }
}

/// Path of a collection; an empty namespace is omitted.
pub fn collection_path(api_version: &str, namespace: &str, plural: &str) -> String {
    let root = if api_version.contains('/') { "/apis" } else { "/api" };
    if namespace.is_empty() {
        format!("{root}/{api_version}/{plural}")
    } else {
        format!("{root}/{api_version}/namespaces/{}/{plural}", escape_segment(namespace))
    }
}

/// Path of an object.
pub fn object_path(api_version: &str, namespace: &str, plural: &str, name: &str) -> String {
    format!("{}/{}", collection_path(api_version, namespace, plural), escape_segment(name))
}

/// Path of an object of a resource; the namespace is omitted for cluster-scoped resources.
pub fn resource_object_path(resource: &Resource, namespace: &str, name: &str) -> String {
    let namespace = if resource.namespaced { namespace } else { "" };
    object_path(&resource.api_version(), namespace, &resource.id.plural, name)
}

fn escape_segment(name: &str) -> String {
    utf8_percent_encode(name, PATH_SEGMENT_ESCAPES).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_the_api_and_odd_names_are_escaped() {
        assert_eq!(object_path("v1", "a", "pods", "x"), "/api/v1/namespaces/a/pods/x");
        assert_eq!(
            object_path("apps/v1", "a", "replicasets", "x"),
            "/apis/apps/v1/namespaces/a/replicasets/x"
        );
        assert_eq!(
            object_path("rbac.authorization.k8s.io/v1", "", "clusterroles", "system:a b"),
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:a%20b"
        );
    }
}
