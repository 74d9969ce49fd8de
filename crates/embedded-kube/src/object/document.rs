//! Serialized objects.
//!
//! The store keeps objects serialized, so a list is a concatenation and a watch event a copy: reads do not parse. The
//! resourceVersion is unknown before the write is ordered, so a [`Draft`] leaves a gap for it. The type comes first, so
//! that it can be omitted (items of built-in lists have none) or replaced (other versions).

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde_json::{Map, Value};

use super::{IndexedMeta, depth};
use crate::status_error::{ApiResult, StatusError};

/// The bytes before the resourceVersion, right after the type.
const RESOURCE_VERSION_PREFIX: &[u8] = br#""metadata":{"resourceVersion":""#;

/// Stored objects must be readable: `serde_json` parses at most 127 levels.
const MAX_DEPTH: usize = 127;

/// A serialized object without a resourceVersion.
#[derive(Debug, Clone)]
pub struct Draft {
    head: Vec<u8>,
    tail: Vec<u8>,
    type_end: usize,
    indexed_meta: Arc<OnceLock<IndexedMeta>>,
}

/// A stored object. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Document {
    bytes: Bytes,
    type_end: usize,
    /// Parsed on first use and shared by all clones.
    indexed_meta: Arc<OnceLock<IndexedMeta>>,
}

impl PartialEq for Document {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes && self.type_end == other.type_end
    }
}

impl Eq for Document {}

impl Draft {
    /// Serializes an object; `apiVersion`, `kind` and `metadata` come first, an existing resourceVersion is dropped.
    pub fn from_value(object: &Value) -> ApiResult<Self> {
        let fields =
            object.as_object().ok_or_else(|| StatusError::internal("an object is not a JSON object"))?;
        if depth(object) > MAX_DEPTH {
            return Err(StatusError::bad_request(format!("the object has more than {MAX_DEPTH} levels")));
        }
        let mut head = Vec::with_capacity(512);
        head.push(b'{');
        for key in ["apiVersion", "kind"] {
            let value = fields.get(key).and_then(Value::as_str).unwrap_or_default();
            write_field(&mut head, key, &Value::String(value.to_owned()))?;
            head.push(b',');
        }
        let type_end = head.len();
        head.extend_from_slice(RESOURCE_VERSION_PREFIX);
        let mut tail = Vec::with_capacity(512);
        tail.push(b'"');
        let empty = Map::new();
        let metadata = fields.get("metadata").and_then(Value::as_object).unwrap_or(&empty);
        for (key, value) in metadata.iter().filter(|(key, _)| *key != "resourceVersion") {
            tail.push(b',');
            write_field(&mut tail, key, value)?;
        }
        tail.push(b'}');
        for (key, value) in
            fields.iter().filter(|(key, _)| !matches!(key.as_str(), "apiVersion" | "kind" | "metadata"))
        {
            tail.push(b',');
            write_field(&mut tail, key, value)?;
        }
        tail.push(b'}');
        Ok(Self {
            head,
            tail,
            type_end,
            indexed_meta: Arc::new(OnceLock::from(IndexedMeta::from_value(object))),
        })
    }

    /// Bytes without the resourceVersion.
    pub fn size(&self) -> usize {
        self.head.len() + self.tail.len()
    }

    /// Inserts the resourceVersion.
    pub fn with_revision(&self, revision: u64) -> Document {
        let number = revision.to_string();
        let mut bytes = Vec::with_capacity(self.head.len() + number.len() + self.tail.len());
        bytes.extend_from_slice(&self.head);
        bytes.extend_from_slice(number.as_bytes());
        bytes.extend_from_slice(&self.tail);
        Document {
            bytes: bytes.into(),
            type_end: self.type_end,
            indexed_meta: Arc::clone(&self.indexed_meta),
        }
    }
}

impl Document {
    /// From bytes that [`Document::bytes`] returned, as stored. `type_end` is stored with them.
    pub fn from_stored(bytes: impl Into<Bytes>, type_end: usize) -> Self {
        let bytes = bytes.into();
        let type_end = type_end.min(bytes.len());
        Self { bytes, type_end, indexed_meta: Arc::default() }
    }

    /// The whole object.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// End of the type: the rest is the object without `apiVersion` and `kind`.
    pub fn type_end(&self) -> usize {
        self.type_end
    }

    /// `metadata` and the rest, without the opening brace and the type.
    pub fn body(&self) -> &[u8] {
        self.bytes.get(self.type_end..).unwrap_or_default()
    }

    /// The same object with another resourceVersion, for the last state of a deleted object.
    #[must_use]
    pub fn with_revision(&self, revision: u64) -> Self {
        let Some((start, end)) = self.resource_version_span() else { return self.clone() };
        let (before, after) = (self.bytes.get(..start), self.bytes.get(end..));
        let number = revision.to_string();
        let bytes = [before.unwrap_or_default(), number.as_bytes(), after.unwrap_or_default()].concat();
        Self { bytes: bytes.into(), type_end: self.type_end, indexed_meta: Arc::clone(&self.indexed_meta) }
    }

    /// Whether `revision` wrote this object, judging by its resourceVersion.
    pub fn has_revision(&self, revision: u64) -> bool {
        let stamp = self.resource_version_span().and_then(|(start, end)| self.bytes.get(start..end));
        stamp == Some(revision.to_string().as_bytes()) && self.bytes.ends_with(b"}")
    }

    /// Range of the resourceVersion, without quotes.
    fn resource_version_span(&self) -> Option<(usize, usize)> {
        let digits = self.body().strip_prefix(RESOURCE_VERSION_PREFIX)?;
        let start = self.type_end + RESOURCE_VERSION_PREFIX.len();
        let end = start + digits.iter().position(|byte| *byte == b'"')?;
        Some((start, end))
    }

    /// Metadata that objects are selected by.
    pub fn indexed_meta(&self) -> &IndexedMeta {
        self.indexed_meta.get_or_init(|| IndexedMeta::from_bytes(&self.bytes))
    }

    /// Parses the object.
    pub fn value(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or_default()
    }
}

fn write_field(out: &mut Vec<u8>, key: &str, value: &Value) -> ApiResult<()> {
    serde_json::to_writer(&mut *out, key).map_err(StatusError::internal)?;
    out.push(b':');
    serde_json::to_writer(&mut *out, value).map_err(StatusError::internal)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_written_can_be_read_and_what_cannot_is_refused() {
        let nested = |levels: usize| (1..levels).fold(json!({}), |inner, _| json!({ "a": inner }));
        let document = Draft::from_value(&nested(MAX_DEPTH)).unwrap().with_revision(1);
        assert!(document.value().is_object());
        assert!(Draft::from_value(&nested(MAX_DEPTH + 1)).is_err());
    }

    #[test]
    fn a_draft_takes_its_revision_and_puts_the_type_first() {
        let object = json!({"spec": {"a": 1}, "kind": "Thing", "metadata": {"name": "x", "resourceVersion": "7"}, "apiVersion": "v1"});
        let document = Draft::from_value(&object).unwrap().with_revision(42);
        let text = std::str::from_utf8(document.bytes()).unwrap();
        assert_eq!(
            text,
            r#"{"apiVersion":"v1","kind":"Thing","metadata":{"resourceVersion":"42","name":"x"},"spec":{"a":1}}"#
        );
        assert!(document.body().starts_with(br#""metadata""#));
    }

    #[test]
    fn a_document_takes_another_revision_and_nothing_else_changes() {
        let object = json!({"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "x"}, "data": {"resourceVersion": "42"}});
        let draft = Draft::from_value(&object).unwrap();
        let document = draft.with_revision(9);
        assert_eq!(document.with_revision(1000), draft.with_revision(1000));
        assert!(document.has_revision(9) && !document.has_revision(90));
        let other = Document::from_stored(&b"{}"[..], 7);
        assert_eq!(other.with_revision(3), other);
        assert!(!other.has_revision(3));
    }
}
