//! An object as the bytes that go over the wire.
//!
//! The store keeps serialised objects, so that a list is a concatenation and a watch event a copy: nothing is parsed to
//! be read. The resourceVersion is not known before the write is ordered, so a [`Draft`] leaves a gap for it, and the
//! type is at the front, so that it can be left out (items of built-in lists carry none) or exchanged (other versions).

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde_json::{Map, Value};

use super::{Marks, depth};
use crate::failure::{Answer, Failure};

/// What stands before the resourceVersion, right after the type.
const STAMP: &[u8] = br#""metadata":{"resourceVersion":""#;

/// What is stored must be readable: `serde_json` reads 127 levels and no more.
const DEEPEST: usize = 127;

/// An object that is ready but for its resourceVersion.
#[derive(Debug, Clone)]
pub struct Draft {
    head: Vec<u8>,
    tail: Vec<u8>,
    type_end: usize,
    marks: Arc<OnceLock<Marks>>,
}

/// A stored object. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Document {
    bytes: Bytes,
    type_end: usize,
    /// Found when they are first asked for, by whichever clone.
    marks: Arc<OnceLock<Marks>>,
}

impl PartialEq for Document {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes && self.type_end == other.type_end
    }
}

impl Eq for Document {}

impl Draft {
    /// Serialises an object; `apiVersion`, `kind` and `metadata` come first, a given resourceVersion is dropped.
    pub fn of(object: &Value) -> Answer<Self> {
        let fields = object.as_object().ok_or_else(|| Failure::internal("an object is not a JSON object"))?;
        if depth(object) > DEEPEST {
            return Err(Failure::bad_request(format!("the object has more than {DEEPEST} levels")));
        }
        let mut head = Vec::with_capacity(512);
        head.push(b'{');
        for key in ["apiVersion", "kind"] {
            let value = fields.get(key).and_then(Value::as_str).unwrap_or_default();
            write_pair(&mut head, key, &Value::String(value.to_owned()))?;
            head.push(b',');
        }
        let type_end = head.len();
        head.extend_from_slice(STAMP);
        let mut tail = Vec::with_capacity(512);
        tail.push(b'"');
        let empty = Map::new();
        let metadata = fields.get("metadata").and_then(Value::as_object).unwrap_or(&empty);
        for (key, value) in metadata.iter().filter(|(key, _)| *key != "resourceVersion") {
            tail.push(b',');
            write_pair(&mut tail, key, value)?;
        }
        tail.push(b'}');
        for (key, value) in
            fields.iter().filter(|(key, _)| !matches!(key.as_str(), "apiVersion" | "kind" | "metadata"))
        {
            tail.push(b',');
            write_pair(&mut tail, key, value)?;
        }
        tail.push(b'}');
        Ok(Self { head, tail, type_end, marks: Arc::new(OnceLock::from(Marks::of(object))) })
    }

    /// Bytes without the resourceVersion.
    pub fn size(&self) -> usize {
        self.head.len() + self.tail.len()
    }

    /// Fills the gap.
    pub fn at(&self, revision: u64) -> Document {
        let number = revision.to_string();
        let mut bytes = Vec::with_capacity(self.head.len() + number.len() + self.tail.len());
        bytes.extend_from_slice(&self.head);
        bytes.extend_from_slice(number.as_bytes());
        bytes.extend_from_slice(&self.tail);
        Document { bytes: bytes.into(), type_end: self.type_end, marks: Arc::clone(&self.marks) }
    }
}

impl Document {
    /// From bytes that [`Document::bytes`] gave, as the store keeps them. `type_end` is kept beside them.
    pub fn stored(bytes: impl Into<Bytes>, type_end: usize) -> Self {
        let bytes = bytes.into();
        let type_end = type_end.min(bytes.len());
        Self { bytes, type_end, marks: Arc::default() }
    }

    /// The whole object.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Where the type ends: everything from here on is the object without `apiVersion` and `kind`.
    pub fn type_end(&self) -> usize {
        self.type_end
    }

    /// `metadata` and the rest, without the opening brace and the type.
    pub fn body(&self) -> &[u8] {
        self.bytes.get(self.type_end..).unwrap_or_default()
    }

    /// The same object with another resourceVersion, as the last state of an object that was deleted has it.
    #[must_use]
    pub fn restamped(&self, revision: u64) -> Self {
        let Some((start, end)) = self.stamp() else { return self.clone() };
        let (before, after) = (self.bytes.get(..start), self.bytes.get(end..));
        let number = revision.to_string();
        let bytes = [before.unwrap_or_default(), number.as_bytes(), after.unwrap_or_default()].concat();
        Self { bytes: bytes.into(), type_end: self.type_end, marks: Arc::clone(&self.marks) }
    }

    /// Whether this is the object that `revision` wrote, as far as its beginning and its end tell.
    pub fn is_stamped(&self, revision: u64) -> bool {
        let stamp = self.stamp().and_then(|(start, end)| self.bytes.get(start..end));
        stamp == Some(revision.to_string().as_bytes()) && self.bytes.ends_with(b"}")
    }

    /// Where the resourceVersion is, without its quotes.
    fn stamp(&self) -> Option<(usize, usize)> {
        let digits = self.body().strip_prefix(STAMP)?;
        let start = self.type_end + STAMP.len();
        let end = start + digits.iter().position(|byte| *byte == b'"')?;
        Some((start, end))
    }

    /// What the object is found by.
    pub fn marks(&self) -> &Marks {
        self.marks.get_or_init(|| Marks::read(&self.bytes))
    }

    /// The object, parsed.
    pub fn value(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or_default()
    }
}

fn write_pair(out: &mut Vec<u8>, key: &str, value: &Value) -> Answer<()> {
    serde_json::to_writer(&mut *out, key).map_err(Failure::internal)?;
    out.push(b':');
    serde_json::to_writer(&mut *out, value).map_err(Failure::internal)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_written_can_be_read_and_what_cannot_is_refused() {
        let nested = |levels: usize| (1..levels).fold(json!({}), |inner, _| json!({ "a": inner }));
        let document = Draft::of(&nested(DEEPEST)).unwrap().at(1);
        assert!(document.value().is_object());
        assert!(Draft::of(&nested(DEEPEST + 1)).is_err());
    }

    #[test]
    fn a_draft_takes_its_revision_and_puts_the_type_first() {
        let object = json!({"spec": {"a": 1}, "kind": "Thing", "metadata": {"name": "x", "resourceVersion": "7"}, "apiVersion": "v1"});
        let document = Draft::of(&object).unwrap().at(42);
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
        let draft = Draft::of(&object).unwrap();
        let document = draft.at(9);
        assert_eq!(document.restamped(1000), draft.at(1000));
        assert!(document.is_stamped(9) && !document.is_stamped(90));
        let other = Document::stored(&b"{}"[..], 7);
        assert_eq!(other.restamped(3), other);
        assert!(!other.is_stamped(3));
    }
}
