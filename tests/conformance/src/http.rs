//! Raw requests and what came back: the cases look at bytes, not at a client's idea of them.

use anyhow::{Context as _, Result};
use http::{Method, Request, header};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::{Value, json};

/// The four kinds of patches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchType {
    /// RFC 6902
    Json,
    /// RFC 7386
    Merge,
    /// Kubernetes' own
    Strategic,
    /// Server-side apply
    Apply,
}

impl PatchType {
    fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json-patch+json",
            Self::Merge => "application/merge-patch+json",
            Self::Strategic => "application/strategic-merge-patch+json",
            Self::Apply => "application/apply-patch+yaml",
        }
    }
}

/// A request; `{ns}` and `{id}` in its path and body stand for those of the case.
#[derive(Debug, Clone)]
pub struct Req {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Req {
    /// A request without a body.
    pub fn new(method: &str, path: impl Into<String>) -> Self {
        Self {
            method: Method::from_bytes(method.as_bytes()).unwrap_or(Method::GET),
            path: path.into(),
            headers: Vec::new(),
            body: Vec::new(),
        }
    }

    /// GET
    pub fn get(path: impl Into<String>) -> Self {
        Self::new("GET", path)
    }

    /// POST of JSON
    #[expect(clippy::needless_pass_by_value, reason = "cases hand over literals")]
    pub fn post(path: impl Into<String>, body: Value) -> Self {
        Self::new("POST", path).json(&body)
    }

    /// PUT of JSON
    #[expect(clippy::needless_pass_by_value, reason = "cases hand over literals")]
    pub fn put(path: impl Into<String>, body: Value) -> Self {
        Self::new("PUT", path).json(&body)
    }

    /// PATCH
    #[expect(clippy::needless_pass_by_value, reason = "cases hand over literals")]
    pub fn patch(kind: PatchType, path: impl Into<String>, body: Value) -> Self {
        Self::new("PATCH", path).body(kind.content_type(), body.to_string())
    }

    /// DELETE without options
    pub fn delete(path: impl Into<String>) -> Self {
        Self::new("DELETE", path)
    }

    /// DELETE with options
    #[expect(clippy::needless_pass_by_value, reason = "cases hand over literals")]
    pub fn delete_with(path: impl Into<String>, options: Value) -> Self {
        Self::new("DELETE", path).json(&options)
    }

    /// A body of any kind.
    #[must_use]
    pub fn body(mut self, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self.header("content-type", content_type)
    }

    /// One more header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    fn json(self, body: &Value) -> Self {
        self.body("application/json", body.to_string())
    }

    /// Fills the placeholders and makes it a request of the client. Every request names its agent: it is the default
    /// field manager.
    pub(crate) fn build(self, fill: impl Fn(&str) -> String) -> Result<Request<Body>> {
        let mut request = Request::builder().method(self.method).uri(fill(&self.path));
        if !self.headers.iter().any(|(name, _)| name == "user-agent") {
            request = request.header(header::USER_AGENT, "conformance/1.0");
        }
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let body = match String::from_utf8(self.body) {
            Ok(text) => fill(&text).into_bytes(),
            Err(bytes) => bytes.into_bytes(),
        };
        request.body(Body::from(body)).with_context(|| format!("make a request of {}", self.path))
    }
}

/// An answer.
#[derive(Debug, Clone)]
pub struct ApiResponse {
    /// The status code.
    pub code: u16,
    /// The media type without parameters, except for those that name a form of answer.
    pub content_type: String,
    /// The warnings, in order.
    pub warnings: Vec<String>,
    /// The body: JSON if it is, text otherwise.
    pub body: Value,
}

impl ApiResponse {
    pub(crate) async fn read(response: http::Response<Body>) -> Result<Self> {
        let (head, body) = response.into_parts();
        let header = |value: &header::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let bytes = body.collect().await.context("read the answer's body")?.to_bytes();
        Ok(Self {
            code: head.status.as_u16(),
            content_type: head.headers.get(header::CONTENT_TYPE).map(header).unwrap_or_default(),
            warnings: head.headers.get_all(header::WARNING).iter().map(header).collect(),
            body: serde_json::from_slice(&bytes)
                .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned())),
        })
    }

    /// A part of the body; null where there is none.
    pub fn value_at(&self, pointer: &str) -> Value {
        self.body.pointer(pointer).cloned().unwrap_or(Value::Null)
    }

    /// A text of the body; empty where there is none.
    pub fn str_at(&self, pointer: &str) -> String {
        self.body.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
    }

    /// The resource version of the object or list.
    pub fn resource_version(&self) -> String {
        self.str_at("/metadata/resourceVersion")
    }

    /// The uid of the object.
    pub fn uid(&self) -> String {
        self.str_at("/metadata/uid")
    }

    /// The names of the items, in order.
    pub fn item_names(&self) -> Value {
        let items = self.body["items"].as_array().map(Vec::as_slice).unwrap_or_default();
        items.iter().map(|item| item["metadata"]["name"].clone()).collect()
    }

    /// Whether it is a success.
    pub fn is_ok(&self) -> bool {
        (200..300).contains(&self.code)
    }

    /// As an observation. The media type is left out where it is JSON without more.
    pub fn to_transcript(&self) -> Value {
        let mut seen = json!({ "code": self.code });
        if self.content_type != "application/json" {
            seen["contentType"] = json!(self.content_type);
        }
        if !self.warnings.is_empty() {
            seen["warnings"] = json!(self.warnings);
        }
        seen["body"] = self.body.clone();
        seen
    }
}
