//! JSON as the real server reads it: same verdicts, same words about what is wrong.
//!
//! `serde_json` does the parsing; only when it refuses is the text read once more to say why in the server's words.

use std::{collections::HashSet, fmt};

use serde::de::{self, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use crate::failure::quoted;

/// Deepest nesting of anything that is stored; `serde_json` reads back up to 127.
pub const MAX_DEPTH: usize = 120;

/// Parses; the error is the real server's text.
pub fn parse(bytes: &[u8]) -> Result<Value, String> {
    match serde_json::from_slice(bytes) {
        Ok(value) => Ok(value),
        Err(error) => match complaint(bytes) {
            Some(text) => Err(text),
            // Bytes that are no UTF-8 are replaced by the real server, not refused.
            None => {
                serde_json::from_str(&String::from_utf8_lossy(bytes)).map_err(|_second| error.to_string())
            }
        },
    }
}

/// Keys that are given twice, as strict field validation reports them: `duplicate field "spec.a"`.
pub fn duplicate_fields(bytes: &[u8]) -> Vec<String> {
    let mut faults = Vec::new();
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let seed = Fields { path: String::new(), faults: &mut faults, known: None };
    // A text that does not parse is refused elsewhere.
    let _whole = seed.deserialize(&mut reader);
    faults
}

/// What strict field validation says about a JSON patch itself.
pub fn json_patch_faults(bytes: &[u8]) -> Vec<String> {
    let mut faults = Vec::new();
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let known: &[&str] = &["op", "path", "from", "value"];
    let seed = Fields { path: String::new(), faults: &mut faults, known: Some(known) };
    let _whole = seed.deserialize(&mut reader);
    faults.into_iter().map(|fault| format!("json patch {fault}")).collect()
}

/// A patch as texts about strategic merges show it.
pub fn shown_patch(bytes: &[u8]) -> String {
    parse(bytes).map_or_else(|text| text, |patch| super::words::plain(&patch))
}

/// Walks a document and collects faults of its keys. `known`: the keys that items of a top-level list may have.
struct Fields<'a> {
    path: String,
    faults: &'a mut Vec<String>,
    known: Option<&'static [&'static str]>,
}

impl Fields<'_> {
    fn under(&mut self, path: String) -> Fields<'_> {
        // Only the items themselves have known keys, not what is inside them.
        let known = self.known.filter(|_| self.path.is_empty());
        Fields { path, faults: self.faults, known }
    }
}

impl<'de> DeserializeSeed<'de> for Fields<'_> {
    type Value = ();

    fn deserialize<D: de::Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Fields<'_> {
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
            if self.known.is_some_and(|known| !self.path.is_empty() && !known.contains(&key.as_str())) {
                self.faults.push(format!("unknown field {}", quoted(&path)));
            } else if !seen.insert(key) {
                self.faults.push(format!("duplicate field {}", quoted(&path)));
            }
            entries.next_value_seed(self.under(path))?;
        }
        Ok(())
    }
}

/// Where a scan stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    Value,
    ValueOrEnd,
    Key,
    KeyOrEnd,
    AfterKey,
    AfterPair,
    AfterItem,
    Top,
}

/// The first syntax error in the server's words, if there is one.
fn complaint(bytes: &[u8]) -> Option<String> {
    let mut scan = Scan { bytes, next: 0, stack: Vec::new() };
    scan.document().err()
}

struct Scan<'a> {
    bytes: &'a [u8],
    next: usize,
    /// `true` for an object, `false` for a list.
    stack: Vec<bool>,
}

impl Scan<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.next).copied()
    }

    fn take(&mut self) -> Result<u8, String> {
        let byte = self.peek().ok_or_else(|| "unexpected end of JSON input".to_owned())?;
        self.next += 1;
        Ok(byte)
    }

    fn document(&mut self) -> Result<(), String> {
        let mut at = At::Value;
        loop {
            while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
                self.next += 1;
            }
            if at == At::Top && self.peek().is_none() {
                return Ok(());
            }
            at = self.step(at)?;
        }
    }

    fn step(&mut self, at: At) -> Result<At, String> {
        let byte = self.take()?;
        match (at, byte) {
            (At::ValueOrEnd | At::AfterItem, b']') | (At::KeyOrEnd | At::AfterPair, b'}') => {
                self.stack.pop();
                Ok(self.after())
            }
            (At::Value | At::ValueOrEnd, _) => self.value(byte),
            (At::Key | At::KeyOrEnd, b'"') => self.string().map(|()| At::AfterKey),
            (At::Key | At::KeyOrEnd, _) => Err(wrong(byte, "looking for beginning of object key string")),
            (At::AfterKey, b':') | (At::AfterItem, b',') => Ok(At::Value),
            (At::AfterPair, b',') => Ok(At::Key),
            (At::AfterKey, _) => Err(wrong(byte, "after object key")),
            (At::AfterPair, _) => Err(wrong(byte, "after object key:value pair")),
            (At::AfterItem, _) => Err(wrong(byte, "after array element")),
            (At::Top, _) => Err(wrong(byte, "after top-level value")),
        }
    }

    fn after(&self) -> At {
        match self.stack.last() {
            None => At::Top,
            Some(true) => At::AfterPair,
            Some(false) => At::AfterItem,
        }
    }

    fn value(&mut self, byte: u8) -> Result<At, String> {
        match byte {
            b'{' | b'[' => {
                self.stack.push(byte == b'{');
                if self.stack.len() > 10_000 {
                    return Err(wrong(byte, "exceeded max depth"));
                }
                return Ok(if byte == b'{' { At::KeyOrEnd } else { At::ValueOrEnd });
            }
            b'"' => self.string()?,
            b'-' => {
                let digit = self.take()?;
                self.number(digit, "in numeric literal")?;
            }
            b'0'..=b'9' => self.number(byte, "looking for beginning of value")?,
            b't' => self.word("true")?,
            b'f' => self.word("false")?,
            b'n' => self.word("null")?,
            other => return Err(wrong(other, "looking for beginning of value")),
        }
        Ok(self.after())
    }

    fn word(&mut self, word: &str) -> Result<(), String> {
        for letter in word.bytes().skip(1) {
            let byte = self.take()?;
            if byte != letter {
                let expected = char::from(letter);
                return Err(wrong(byte, &format!("in literal {word} (expecting '{expected}')")));
            }
        }
        Ok(())
    }

    fn digits(&mut self) {
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.next += 1;
        }
    }

    fn number(&mut self, first: u8, otherwise: &str) -> Result<(), String> {
        match first {
            b'0' => {}
            b'1'..=b'9' => self.digits(),
            other => return Err(wrong(other, otherwise)),
        }
        if self.peek() == Some(b'.') {
            self.next += 1;
            match self.take()? {
                b'0'..=b'9' => self.digits(),
                other => return Err(wrong(other, "after decimal point in numeric literal")),
            }
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.next += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.next += 1;
            }
            match self.take()? {
                b'0'..=b'9' => self.digits(),
                other => return Err(wrong(other, "in exponent of numeric literal")),
            }
        }
        Ok(())
    }

    fn string(&mut self) -> Result<(), String> {
        loop {
            match self.take()? {
                b'"' => return Ok(()),
                b'\\' => self.escape()?,
                control if control < 0x20 => return Err(wrong(control, "in string literal")),
                _ => {}
            }
        }
    }

    fn escape(&mut self) -> Result<(), String> {
        match self.take()? {
            b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => Ok(()),
            b'u' => (0..4).try_for_each(|_| match self.take()? {
                digit if digit.is_ascii_hexdigit() => Ok(()),
                other => Err(wrong(other, "in \\u hexadecimal character escape")),
            }),
            other => Err(wrong(other, "in string escape code")),
        }
    }
}

fn wrong(byte: u8, place: &str) -> String {
    let letter = match byte {
        b'\'' => r"\'".to_owned(),
        b'"' => "\"".to_owned(),
        _ => quoted(&char::from(byte).to_string()).trim_matches('"').to_owned(),
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
            json_patch_faults(patch),
            [
                r#"json patch duplicate field "[0].op""#,
                r#"json patch duplicate field "[0].value.x""#,
                r#"json patch unknown field "[0].extra""#
            ]
        );
    }
}
