//! Static documents, requested by path and served with an `ETag`.

use bytes::Bytes;
use serde_json::Value;
use sha2::{Digest as _, Sha512};

use crate::{hex::hex, status_error::StatusError};

/// A request for a document.
#[derive(Debug, Clone, Copy, Default)]
pub struct DocumentRequest<'a> {
    /// Path without the query.
    pub path: &'a str,
    /// Query without the question mark.
    pub query: &'a str,
    /// `Accept` header; empty if there is none.
    pub accept: &'a str,
    /// `If-None-Match` header; empty if there is none.
    pub if_none_match: &'a str,
    /// Host and port that the client used.
    pub host: &'a str,
}

/// A response with a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentResponse {
    /// 200, 301 or 304.
    pub code: u16,
    /// Media type.
    pub content_type: &'static str,
    /// Additional headers.
    pub headers: Vec<(&'static str, String)>,
    /// The document.
    pub body: Bytes,
}

impl DocumentResponse {
    /// Uncached JSON.
    pub fn json(value: &Value) -> Self {
        let mut text = value.to_string();
        text.push('\n');
        let headers = vec![("cache-control", "no-cache, private".to_owned())];
        Self { code: 200, content_type: "application/json", headers, body: text.into() }
    }

    /// Adds an `ETag`, so that clients can revalidate.
    pub fn with_etag(mut self, content_type: &'static str) -> Self {
        let tag = format!("\"{}\"", etag_hash(&self.body));
        self.content_type = content_type;
        self.headers =
            vec![("cache-control", "public".to_owned()), ("etag", tag), ("vary", "Accept".to_owned())];
        self
    }

    /// Replaces the body with 304 if the client has this version.
    pub fn or_not_modified(mut self, ask: &DocumentRequest<'_>) -> Self {
        let tag = self.headers.iter().find(|(name, _)| *name == "etag");
        let is_known = tag.is_some_and(|(_, tag)| ask.if_none_match.split(',').any(|one| one.trim() == tag));
        if is_known {
            self.code = 304;
            self.body = Bytes::new();
        }
        self
    }
}

/// SHA-512 in upper case, like kube-apiserver's `ETag`s.
pub fn etag_hash(bytes: &[u8]) -> String {
    hex(Sha512::digest(bytes)).to_ascii_uppercase()
}

/// 406: none of the accepted formats is supported.
pub fn not_acceptable() -> StatusError {
    let text = "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf";
    StatusError::new(406, "NotAcceptable", text, None)
}
