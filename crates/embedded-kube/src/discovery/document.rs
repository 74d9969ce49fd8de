//! A document that is the same for everybody: asked for by path, answered with a tag so that it need not be sent twice.

use bytes::Bytes;
use serde_json::Value;
use sha2::{Digest as _, Sha512};

use crate::{failure::Failure, hex::hex};

/// What is asked.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ask<'a> {
    /// Path without the query.
    pub path: &'a str,
    /// Query without the question mark.
    pub query: &'a str,
    /// `Accept` header; empty if there is none.
    pub accept: &'a str,
    /// `If-None-Match` header; empty if there is none.
    pub known: &'a str,
    /// Host and port that the client used.
    pub host: &'a str,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// 200, 301 or 304.
    pub code: u16,
    /// Media type.
    pub content_type: &'static str,
    /// Headers beside the media type.
    pub headers: Vec<(&'static str, String)>,
    /// The document.
    pub body: Bytes,
}

impl Page {
    /// JSON that nobody keeps.
    pub fn json(value: &Value) -> Self {
        let mut text = value.to_string();
        text.push('\n');
        let headers = vec![("cache-control", "no-cache, private".to_owned())];
        Self { code: 200, content_type: "application/json", headers, body: text.into() }
    }

    /// With a tag, so that a client can keep it and ask whether it is still the same.
    pub fn tagged(mut self, content_type: &'static str) -> Self {
        let tag = format!("\"{}\"", hash(&self.body));
        self.content_type = content_type;
        self.headers =
            vec![("cache-control", "public".to_owned()), ("etag", tag), ("vary", "Accept".to_owned())];
        self
    }

    /// Nothing but the headers if the client has this very page.
    pub fn unless_known(mut self, ask: &Ask<'_>) -> Self {
        let tag = self.headers.iter().find(|(name, _)| *name == "etag");
        let is_known = tag.is_some_and(|(_, tag)| ask.known.split(',').any(|one| one.trim() == tag));
        if is_known {
            self.code = 304;
            self.body = Bytes::new();
        }
        self
    }
}

/// The real server's kind of tag: SHA-512 in upper case.
pub fn hash(bytes: &[u8]) -> String {
    hex(&Sha512::digest(bytes)).to_ascii_uppercase()
}

/// No form that we have is asked for.
pub fn not_acceptable() -> Failure {
    let text = "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf";
    Failure::new(406, "NotAcceptable", text, None)
}
