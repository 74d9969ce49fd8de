//! Parses JSON with kube-apiserver's error texts.
//!
//! `serde_json` parses; only if it fails is the text scanned again to produce Go's error.

use std::{collections::HashSet, fmt};

use serde::de::{self, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use crate::status_error::go_quote;

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

/// State of a scan.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SyntaxState {
    Value,
    ValueOrEnd,
    Key,
    KeyOrEnd,
    AfterKey,
    AfterPair,
    AfterItem,
    Top,
}

/// The first syntax error with kube-apiserver's text.
fn syntax_error(bytes: &[u8]) -> Option<String> {
    let mut scan = SyntaxScanner { bytes, position: 0, stack: Vec::new() };
    scan.document().err()
}

struct SyntaxScanner<'a> {
    bytes: &'a [u8],
    position: usize,
    /// `true` for an object, `false` for a list.
    stack: Vec<bool>,
}

impl SyntaxScanner<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.position).copied()
    }

    fn next_byte(&mut self) -> Result<u8, String> {
        let byte = self.peek().ok_or_else(|| "unexpected end of JSON input".to_owned())?;
        self.position += 1;
        Ok(byte)
    }

    fn document(&mut self) -> Result<(), String> {
        let mut at = SyntaxState::Value;
        loop {
            while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
                self.position += 1;
            }
            if at == SyntaxState::Top && self.peek().is_none() {
                return Ok(());
            }
            at = self.step(at)?;
        }
    }

    fn step(&mut self, at: SyntaxState) -> Result<SyntaxState, String> {
        let byte = self.next_byte()?;
        match (at, byte) {
            (SyntaxState::ValueOrEnd | SyntaxState::AfterItem, b']')
            | (SyntaxState::KeyOrEnd | SyntaxState::AfterPair, b'}') => {
                self.stack.pop();
                Ok(self.state_after_value())
            }
            (SyntaxState::Value | SyntaxState::ValueOrEnd, _) => self.value(byte),
            (SyntaxState::Key | SyntaxState::KeyOrEnd, b'"') => self.string().map(|()| SyntaxState::AfterKey),
            (SyntaxState::Key | SyntaxState::KeyOrEnd, _) => {
                Err(invalid_character(byte, "looking for beginning of object key string"))
            }
            (SyntaxState::AfterKey, b':') | (SyntaxState::AfterItem, b',') => Ok(SyntaxState::Value),
            (SyntaxState::AfterPair, b',') => Ok(SyntaxState::Key),
            (SyntaxState::AfterKey, _) => Err(invalid_character(byte, "after object key")),
            (SyntaxState::AfterPair, _) => Err(invalid_character(byte, "after object key:value pair")),
            (SyntaxState::AfterItem, _) => Err(invalid_character(byte, "after array element")),
            (SyntaxState::Top, _) => Err(invalid_character(byte, "after top-level value")),
        }
    }

    fn state_after_value(&self) -> SyntaxState {
        match self.stack.last() {
            None => SyntaxState::Top,
            Some(true) => SyntaxState::AfterPair,
            Some(false) => SyntaxState::AfterItem,
        }
    }

    fn value(&mut self, byte: u8) -> Result<SyntaxState, String> {
        match byte {
            b'{' | b'[' => {
                self.stack.push(byte == b'{');
                if self.stack.len() > 10_000 {
                    return Err(invalid_character(byte, "exceeded max depth"));
                }
                return Ok(if byte == b'{' { SyntaxState::KeyOrEnd } else { SyntaxState::ValueOrEnd });
            }
            b'"' => self.string()?,
            b'-' => {
                let digit = self.next_byte()?;
                self.number(digit, "in numeric literal")?;
            }
            b'0'..=b'9' => self.number(byte, "looking for beginning of value")?,
            b't' => self.literal("true")?,
            b'f' => self.literal("false")?,
            b'n' => self.literal("null")?,
            other => return Err(invalid_character(other, "looking for beginning of value")),
        }
        Ok(self.state_after_value())
    }

    fn literal(&mut self, word: &str) -> Result<(), String> {
        for letter in word.bytes().skip(1) {
            let byte = self.next_byte()?;
            if byte != letter {
                let expected = char::from(letter);
                return Err(invalid_character(byte, &format!("in literal {word} (expecting '{expected}')")));
            }
        }
        Ok(())
    }

    fn digits(&mut self) {
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.position += 1;
        }
    }

    fn number(&mut self, first: u8, otherwise: &str) -> Result<(), String> {
        match first {
            b'0' => {}
            b'1'..=b'9' => self.digits(),
            other => return Err(invalid_character(other, otherwise)),
        }
        if self.peek() == Some(b'.') {
            self.position += 1;
            match self.next_byte()? {
                b'0'..=b'9' => self.digits(),
                other => return Err(invalid_character(other, "after decimal point in numeric literal")),
            }
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.position += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.position += 1;
            }
            match self.next_byte()? {
                b'0'..=b'9' => self.digits(),
                other => return Err(invalid_character(other, "in exponent of numeric literal")),
            }
        }
        Ok(())
    }

    fn string(&mut self) -> Result<(), String> {
        loop {
            match self.next_byte()? {
                b'"' => return Ok(()),
                b'\\' => self.escape()?,
                control if control < 0x20 => return Err(invalid_character(control, "in string literal")),
                _ => {}
            }
        }
    }

    fn escape(&mut self) -> Result<(), String> {
        match self.next_byte()? {
            b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => Ok(()),
            b'u' => (0..4).try_for_each(|_| match self.next_byte()? {
                digit if digit.is_ascii_hexdigit() => Ok(()),
                other => Err(invalid_character(other, "in \\u hexadecimal character escape")),
            }),
            other => Err(invalid_character(other, "in string escape code")),
        }
    }
}

fn invalid_character(byte: u8, place: &str) -> String {
    let letter = match byte {
        b'\'' => r"\'".to_owned(),
        b'"' => "\"".to_owned(),
        _ => go_quote(&char::from(byte).to_string()).trim_matches('"').to_owned(),
    };
    format!("invalid character '{letter}' {place}")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("", "unexpected end of JSON input")]
    #[case("{", "unexpected end of JSON input")]
    #[case("{\"a\":", "unexpected end of JSON input")]
    #[case("not json", "invalid character 'o' in literal null (expecting 'u')")]
    #[case("xyz", "invalid character 'x' looking for beginning of value")]
    #[case("{a:1}", "invalid character 'a' looking for beginning of object key string")]
    #[case("{\"a\" 1}", "invalid character '1' after object key")]
    #[case("{\"a\":1 \"b\":2}", "invalid character '\"' after object key:value pair")]
    #[case("[1 2]", "invalid character '2' after array element")]
    #[case("{} x", "invalid character 'x' after top-level value")]
    #[case("[1,]", "invalid character ']' looking for beginning of value")]
    #[case("{\"a\":1,}", "invalid character '}' looking for beginning of object key string")]
    #[case("01", "invalid character '1' after top-level value")]
    #[case("-x", "invalid character 'x' in numeric literal")]
    #[case("1.x", "invalid character 'x' after decimal point in numeric literal")]
    #[case("1ex", "invalid character 'x' in exponent of numeric literal")]
    #[case("\"\n\"", "invalid character '\\n' in string literal")]
    #[case("\"\\q\"", "invalid character 'q' in string escape code")]
    #[case("\"\\u12g\"", "invalid character 'g' in \\u hexadecimal character escape")]
    fn what_is_wrong_is_said_in_the_servers_words(#[case] text: &str, #[case] words: &str) {
        assert_eq!(parse(text.as_bytes()), Err(words.to_owned()));
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
