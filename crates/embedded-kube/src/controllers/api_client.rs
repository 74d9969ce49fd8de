//! How controllers write: requests to the API, each in the name of the controller's own account.
//!
//! The only module here that talks to the API. Every call has a deadline.

use std::time::Duration;

use http::{Method, Request};
use kube::{Client, core::Status};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use crate::registry::Resource;

const DEADLINE: Duration = Duration::from_secs(30);
/// The part before the slash is the field manager of whatever the controllers write.
const AGENT: &str = "kube-controller-manager/v1.36.3 (linux/amd64) kubernetes/embedded";
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':');

/// Why something could not be done now.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// The API said no.
    #[error("{}", .0.message)]
    Refused(Box<Status>),
    /// There was no answer.
    #[error("the API did not answer: {0}")]
    NoAnswer(String),
    /// A reference to something that is not served, now at least.
    #[error("no resource is served for {kind} in {api_version}")]
    UnknownKind {
        /// As the reference has it.
        api_version: String,
        /// As the reference has it.
        kind: String,
    },
    /// Several things went wrong.
    #[error("{0}")]
    Several(String),
}

impl Trouble {
    fn is(&self, code: u16, reason: &str) -> bool {
        matches!(self, Self::Refused(status) if status.code == code && (reason.is_empty() || status.reason == reason))
    }

    /// There is no such object.
    pub fn is_not_found(&self) -> bool {
        self.is(404, "")
    }

    /// Somebody else was faster.
    pub fn is_conflict(&self) -> bool {
        self.is(409, "Conflict")
    }

    /// The name is taken.
    pub fn is_already_exists(&self) -> bool {
        self.is(409, "AlreadyExists")
    }

    /// The object breaks a rule.
    pub fn is_invalid(&self) -> bool {
        self.is(422, "")
    }

    /// The verb is not for this resource.
    pub fn is_not_supported(&self) -> bool {
        self.is(405, "")
    }

    /// Nothing is created in this namespace any more.
    pub fn is_namespace_terminating(&self) -> bool {
        let Self::Refused(status) = self else { return false };
        let causes = status.details.iter().flat_map(|details| &details.causes);
        causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating")
    }
}

/// What became of the dependents of a deleted object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// Deleted first.
    Foreground,
    /// Deleted after.
    Background,
    /// Kept.
    Orphan,
}

impl Propagation {
    /// As the API names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Foreground => "Foreground",
            Self::Background => "Background",
            Self::Orphan => "Orphan",
        }
    }
}

/// Kind of a patch, by its media type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchKind {
    /// RFC 7386.
    Merge,
    /// With lists merged by key; not for custom resources.
    Strategic,
    /// Server-side apply.
    Apply,
}

/// The API as one account sees it.
#[derive(Clone)]
pub struct Api {
    client: Client,
    user: String,
}

impl Api {
    /// For an account of the namespace `kube-system`.
    pub fn of(client: &Client, account: &str) -> Self {
        Self { client: client.clone(), user: format!("system:serviceaccount:kube-system:{account}") }
    }

    /// One object.
    pub async fn get(&self, path: &str) -> Result<Value, Trouble> {
        self.call(Method::GET, path, "", None).await
    }

    /// A new object, in a collection.
    pub async fn create(&self, path: &str, object: &Value) -> Result<Value, Trouble> {
        self.call(Method::POST, path, "application/json", Some(object)).await
    }

    /// A whole object anew.
    pub async fn update(&self, path: &str, object: &Value) -> Result<Value, Trouble> {
        self.call(Method::PUT, path, "application/json", Some(object)).await
    }

    /// Parts of an object.
    pub async fn patch(&self, path: &str, kind: PatchKind, change: &Value) -> Result<Value, Trouble> {
        let media = match kind {
            PatchKind::Merge => "application/merge-patch+json",
            PatchKind::Strategic => "application/strategic-merge-patch+json",
            PatchKind::Apply => "application/apply-patch+yaml",
        };
        self.call(Method::PATCH, path, media, Some(change)).await
    }

    /// One object, or a collection, gone. `options` is a `DeleteOptions`.
    pub async fn delete(&self, path: &str, options: &Value) -> Result<(), Trouble> {
        self.call(Method::DELETE, path, "application/json", Some(options)).await.map(drop)
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        media: &str,
        body: Option<&Value>,
    ) -> Result<Value, Trouble> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(http::header::ACCEPT, "application/json")
            .header(http::header::USER_AGENT, AGENT)
            .header("Impersonate-User", &self.user)
            .header("Impersonate-Group", "system:masters");
        if !media.is_empty() {
            request = request.header(http::header::CONTENT_TYPE, media);
        }
        let body = body.map(Value::to_string).unwrap_or_default().into_bytes();
        let request = request.body(body).map_err(|error| Trouble::NoAnswer(error.to_string()))?;
        match tokio::time::timeout(DEADLINE, self.client.request::<Value>(request)).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(kube::Error::Api(status))) => Err(Trouble::Refused(status)),
            Ok(Err(error)) => Err(Trouble::NoAnswer(error.to_string())),
            Err(_) => Err(Trouble::NoAnswer("deadline exceeded".to_owned())),
        }
    }
}

/// Path of a collection; an empty namespace is left out.
pub fn collection(api_version: &str, namespace: &str, plural: &str) -> String {
    let root = if api_version.contains('/') { "/apis" } else { "/api" };
    if namespace.is_empty() {
        format!("{root}/{api_version}/{plural}")
    } else {
        format!("{root}/{api_version}/namespaces/{}/{plural}", segment(namespace))
    }
}

/// Path of an object.
pub fn object(api_version: &str, namespace: &str, plural: &str, name: &str) -> String {
    format!("{}/{}", collection(api_version, namespace, plural), segment(name))
}

/// Path of an object of a resource; the namespace is left out where the resource has none.
pub fn object_of(resource: &Resource, namespace: &str, name: &str) -> String {
    let namespace = if resource.namespaced { namespace } else { "" };
    object(&resource.api_version(), namespace, &resource.id.plural, name)
}

fn segment(name: &str) -> String {
    utf8_percent_encode(name, SEGMENT).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_the_api_and_odd_names_are_escaped() {
        assert_eq!(object("v1", "a", "pods", "x"), "/api/v1/namespaces/a/pods/x");
        assert_eq!(object("apps/v1", "a", "replicasets", "x"), "/apis/apps/v1/namespaces/a/replicasets/x");
        assert_eq!(
            object("rbac.authorization.k8s.io/v1", "", "clusterroles", "system:a b"),
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:a%20b"
        );
    }
}
