//! Parses JSON with kube-apiserver's error texts.
//!
//! `serde_json` parses; only if it fails is the text scanned again to produce Go's error.

use std::{collections::HashSet, fmt};

use serde::de::{self, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use crate::{go_syntax_error::syntax_error, status_error::go_quote};

/// Maximum depth of stored objects; `serde_json` parses up to 127.
pub const MAX_DEPTH: usize = 120;

/// Parses; the error is kube-apiserver's text.
pub fn parse(bytes: &[u8]) -> Result<Value, String> {
    match serde_json::from_slice(bytes) {
        Ok(value) => Ok(value),
        Err(error) => match syntax_error(bytes) {
            Some(text) => Err(text),
            // kube-apiserver replaces invalid UTF-8 instead of rejecting it.
            None => {
                serde_json::from_str(&String::from_utf8_lossy(bytes)).map_err(|_second| error.to_string())
            }
        },
    }
}

/// Duplicate keys, as strict field validation reports them: `duplicate field "spec.a"`.
pub fn duplicate_fields(bytes: &[u8]) -> Vec<String> {
    let mut faults = Vec::new();
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let seed = KeyChecker { path: String::new(), errors: &mut faults, known_keys: None };
    // Unparsable text is rejected elsewhere.
    let _whole = seed.deserialize(&mut reader);
    faults
}

/// Errors of strict field validation about a JSON patch itself.
pub fn json_patch_strict_errors(bytes: &[u8]) -> Vec<String> {
    let mut faults = Vec::new();
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let known: &[&str] = &["op", "path", "from", "value"];
    let seed = KeyChecker { path: String::new(), errors: &mut faults, known_keys: Some(known) };
    let _whole = seed.deserialize(&mut reader);
    faults.into_iter().map(|fault| format!("json patch {fault}")).collect()
}

/// A patch as strategic merge errors show it.
pub fn format_patch(bytes: &[u8]) -> String {
    parse(bytes).map_or_else(|text| text, |patch| super::go_fmt::format_v(&patch))
}

/// Walks a document and collects errors about its keys. `known`: the allowed keys of items of a top-level list.
struct KeyChecker<'a> {
    path: String,
    errors: &'a mut Vec<String>,
    known_keys: Option<&'static [&'static str]>,
}

impl KeyChecker<'_> {
    fn under(&mut self, path: String) -> KeyChecker<'_> {
        // Only the items themselves have known keys, not their children.
        let known = self.known_keys.filter(|_| self.path.is_empty());
        KeyChecker { path, errors: self.errors, known_keys: known }
    }
}

impl<'de> DeserializeSeed<'de> for KeyChecker<'_> {
    type Value = ();

    fn deserialize<D: de::Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for KeyChecker<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("any JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        let mut index = 0_usize;
        loop {
            let path = format!("{}[{index}]", self.path);
            if items.next_element_seed(self.under(path))?.is_none() {
                return Ok(());
            }
            index += 1;
        }
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<(), A::Error> {
        let mut seen = HashSet::new();
        while let Some(key) = entries.next_key::<String>()? {
            let path = if self.path.is_empty() { key.clone() } else { format!("{}.{key}", self.path) };
            if self.known_keys.is_some_and(|known| !self.path.is_empty() && !known.contains(&key.as_str())) {
                self.errors.push(format!("unknown field {}", go_quote(&path)));
            } else if !seen.insert(key) {
                self.errors.push(format!("duplicate field {}", go_quote(&path)));
            }
            entries.next_value_seed(self.under(path))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_syntax_error_has_the_servers_text() {
        let text = |bytes: &[u8]| parse(bytes).unwrap_err();
        assert_eq!(text(b"not json"), "invalid character 'o' in literal null (expecting 'u')");
        assert_eq!(text("[".repeat(100_000).as_bytes()), "invalid character '[' exceeded max depth");
    }

    #[test]
    fn bytes_that_are_no_utf8_are_replaced() {
        assert_eq!(parse(b"\"a\xffb\""), Ok(Value::from("a\u{fffd}b")));
    }

    #[test]
    fn keys_given_twice_are_named_with_their_path() {
        let text = br#"{"a":1,"a":2,"b":{"c":[{"d":1,"d":2}]}}"#;
        assert_eq!(duplicate_fields(text), [r#"duplicate field "a""#, r#"duplicate field "b.c[0].d""#]);
        let patch = br#"[{"op":"add","op":"add","path":"/a","value":{"x":1,"x":2},"extra":1}]"#;
        assert_eq!(
            json_patch_strict_errors(patch),
            [
                r#"json patch duplicate field "[0].op""#,
                r#"json patch duplicate field "[0].value.x""#,
                r#"json patch unknown field "[0].extra""#
            ]
        );
    }
}
