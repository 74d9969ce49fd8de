//! Go's error text for malformed JSON. Only called for a document that is known to be malformed.

use crate::status_error::go_quote;

/// State of the scanner.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ScanState {
    Value,
    ValueOrEnd,
    KeyOrEnd,
    Key,
    Colon,
    AfterField,
    AfterItem,
    Nothing,
}

/// Go's text for the first syntax error; `None` if Go's grammar accepts the text (depth, numbers out of range).
pub fn syntax_error(text: &[u8]) -> Option<String> {
    let mut scanner = Scanner { text, position: 0, open_brackets: Vec::new() };
    match scanner.run() {
        Ok(()) => None,
        Err(ScanError::UnexpectedEnd) => Some("unexpected end of JSON input".to_owned()),
        Err(ScanError::InvalidCharacter(context)) => {
            let shown = quote(scanner.text.get(scanner.position).copied().unwrap_or_default());
            Some(format!("invalid character {shown} {context}"))
        }
    }
}

enum ScanError {
    UnexpectedEnd,
    InvalidCharacter(&'static str),
}

struct Scanner<'a> {
    text: &'a [u8],
    position: usize,
    open_brackets: Vec<u8>,
}

const MAX_NESTING: usize = 10_000;

impl Scanner<'_> {
    fn run(&mut self) -> Result<(), ScanError> {
        let mut expect = ScanState::Value;
        loop {
            while self.text.get(self.position).is_some_and(|byte| b" \t\r\n".contains(byte)) {
                self.position += 1;
            }
            let Some(byte) = self.text.get(self.position).copied() else {
                return if expect == ScanState::Nothing { Ok(()) } else { Err(ScanError::UnexpectedEnd) };
            };
            expect = self.step(expect, byte)?;
        }
    }

    fn step(&mut self, expect: ScanState, byte: u8) -> Result<ScanState, ScanError> {
        match (expect, byte) {
            (ScanState::ValueOrEnd | ScanState::AfterItem, b']')
            | (ScanState::KeyOrEnd | ScanState::AfterField, b'}') => Ok(self.close()),
            (ScanState::Value | ScanState::ValueOrEnd, _) => self.value(byte),
            (ScanState::KeyOrEnd | ScanState::Key, b'"') => {
                self.string()?;
                Ok(ScanState::Colon)
            }
            (ScanState::KeyOrEnd | ScanState::Key, _) => {
                Err(ScanError::InvalidCharacter("looking for beginning of object key string"))
            }
            (ScanState::Colon, b':') | (ScanState::AfterItem, b',') => Ok(self.advance(ScanState::Value)),
            (ScanState::Colon, _) => Err(ScanError::InvalidCharacter("after object key")),
            (ScanState::AfterField, b',') => Ok(self.advance(ScanState::Key)),
            (ScanState::AfterField, _) => Err(ScanError::InvalidCharacter("after object key:value pair")),
            (ScanState::AfterItem, _) => Err(ScanError::InvalidCharacter("after array element")),
            (ScanState::Nothing, _) => Err(ScanError::InvalidCharacter("after top-level value")),
        }
    }

    fn advance(&mut self, next: ScanState) -> ScanState {
        self.position += 1;
        next
    }

    fn value(&mut self, byte: u8) -> Result<ScanState, ScanError> {
        match byte {
            b'{' | b'[' => {
                self.open_brackets.push(byte);
                if self.open_brackets.len() > MAX_NESTING {
                    return Err(ScanError::InvalidCharacter("exceeded max depth"));
                }
                return Ok(self.advance(if byte == b'{' {
                    ScanState::KeyOrEnd
                } else {
                    ScanState::ValueOrEnd
                }));
            }
            b'"' => self.string()?,
            b't' => self.literal(
                "true",
                &[
                    "in literal true (expecting 'r')",
                    "in literal true (expecting 'u')",
                    "in literal true (expecting 'e')",
                ],
            )?,
            b'f' => self.literal(
                "false",
                &[
                    "in literal false (expecting 'a')",
                    "in literal false (expecting 'l')",
                    "in literal false (expecting 's')",
                    "in literal false (expecting 'e')",
                ],
            )?,
            b'n' => self.literal(
                "null",
                &[
                    "in literal null (expecting 'u')",
                    "in literal null (expecting 'l')",
                    "in literal null (expecting 'l')",
                ],
            )?,
            b'-' | b'0'..=b'9' => self.number()?,
            _ => return Err(ScanError::InvalidCharacter("looking for beginning of value")),
        }
        Ok(self.state_after_value())
    }

    fn close(&mut self) -> ScanState {
        self.position += 1;
        self.open_brackets.pop();
        self.state_after_value()
    }

    fn state_after_value(&self) -> ScanState {
        match self.open_brackets.last() {
            None => ScanState::Nothing,
            Some(b'{') => ScanState::AfterField,
            Some(_) => ScanState::AfterItem,
        }
    }

    fn literal(&mut self, word: &str, contexts: &[&'static str]) -> Result<(), ScanError> {
        self.position += 1;
        for (expected, context) in word.bytes().skip(1).zip(contexts) {
            match self.text.get(self.position) {
                None => return Err(ScanError::UnexpectedEnd),
                Some(byte) if *byte == expected => self.position += 1,
                Some(_) => return Err(ScanError::InvalidCharacter(context)),
            }
        }
        Ok(())
    }

    fn string(&mut self) -> Result<(), ScanError> {
        self.position += 1;
        loop {
            match self.text.get(self.position).copied() {
                None => return Err(ScanError::UnexpectedEnd),
                Some(b'"') => {
                    self.position += 1;
                    return Ok(());
                }
                Some(b'\\') => self.escape()?,
                Some(byte) if byte < 0x20 => return Err(ScanError::InvalidCharacter("in string literal")),
                Some(_) => self.position += 1,
            }
        }
    }

    fn escape(&mut self) -> Result<(), ScanError> {
        self.position += 1;
        match self.text.get(self.position).copied() {
            None => Err(ScanError::UnexpectedEnd),
            Some(b'u') => {
                self.position += 1;
                for _ in 0..4 {
                    match self.text.get(self.position) {
                        None => return Err(ScanError::UnexpectedEnd),
                        Some(byte) if byte.is_ascii_hexdigit() => self.position += 1,
                        Some(_) => {
                            return Err(ScanError::InvalidCharacter("in \\u hexadecimal character escape"));
                        }
                    }
                }
                Ok(())
            }
            Some(byte) if b"\"\\/bfnrt".contains(&byte) => {
                self.position += 1;
                Ok(())
            }
            Some(_) => Err(ScanError::InvalidCharacter("in string escape code")),
        }
    }

    fn number(&mut self) -> Result<(), ScanError> {
        if self.text.get(self.position) == Some(&b'-') {
            self.position += 1;
        }
        if self.text.get(self.position) == Some(&b'0') {
            self.position += 1;
        } else {
            self.digits("in numeric literal")?;
        }
        if self.text.get(self.position) == Some(&b'.') {
            self.position += 1;
            self.digits("after decimal point in numeric literal")?;
        }
        if self.text.get(self.position).is_some_and(|byte| b"eE".contains(byte)) {
            self.position += 1;
            if self.text.get(self.position).is_some_and(|byte| b"+-".contains(byte)) {
                self.position += 1;
            }
            self.digits("in exponent of numeric literal")?;
        }
        Ok(())
    }

    fn digits(&mut self, context: &'static str) -> Result<(), ScanError> {
        match self.text.get(self.position) {
            None => return Err(ScanError::UnexpectedEnd),
            Some(byte) if byte.is_ascii_digit() => {}
            Some(_) => return Err(ScanError::InvalidCharacter(context)),
        }
        while self.text.get(self.position).is_some_and(u8::is_ascii_digit) {
            self.position += 1;
        }
        Ok(())
    }
}

/// Quotes a byte as Go's scanner does: the character of this number, whatever the text's encoding.
fn quote(byte: u8) -> String {
    let quoted = match byte {
        b'\'' => r"\'".to_owned(),
        b'"' => "\"".to_owned(),
        _ => {
            let quoted = go_quote(&char::from(byte).to_string());
            quoted.trim_matches('"').to_owned()
        }
    };
    format!("'{quoted}'")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::syntax_error;

    #[rstest]
    #[case("", "unexpected end of JSON input")]
    #[case("{", "unexpected end of JSON input")]
    #[case("hello", "invalid character 'h' looking for beginning of value")]
    #[case("{a}", "invalid character 'a' looking for beginning of object key string")]
    #[case("{\"a\" 1}", "invalid character '1' after object key")]
    #[case("{\"a\":1 2}", "invalid character '2' after object key:value pair")]
    #[case("{\"a\":1,}", "invalid character '}' looking for beginning of object key string")]
    #[case("[1,]", "invalid character ']' looking for beginning of value")]
    #[case("[1 2]", "invalid character '2' after array element")]
    #[case("{} x", "invalid character 'x' after top-level value")]
    #[case("nulx", "invalid character 'x' in literal null (expecting 'l')")]
    #[case("-x", "invalid character 'x' in numeric literal")]
    #[case("\"\n\"", r"invalid character '\n' in string literal")]
    #[case(r#""\x""#, "invalid character 'x' in string escape code")]
    #[case("{\"a\":", "unexpected end of JSON input")]
    #[case("not json", "invalid character 'o' in literal null (expecting 'u')")]
    #[case("xyz", "invalid character 'x' looking for beginning of value")]
    #[case("{a:1}", "invalid character 'a' looking for beginning of object key string")]
    #[case("{\"a\":1 \"b\":2}", "invalid character '\"' after object key:value pair")]
    #[case("01", "invalid character '1' after top-level value")]
    #[case("1.x", "invalid character 'x' after decimal point in numeric literal")]
    #[case("1ex", "invalid character 'x' in exponent of numeric literal")]
    #[case("\"\\q\"", "invalid character 'q' in string escape code")]
    #[case("\"\\u12g\"", "invalid character 'g' in \\u hexadecimal character escape")]
    #[case("\u{7}", r"invalid character '\a' looking for beginning of value")]
    #[case("'", r"invalid character '\'' looking for beginning of value")]
    #[case("[\"a\"\"", "invalid character '\"' after array element")]
    #[case("\\", r"invalid character '\\' looking for beginning of value")]
    #[case("\u{7f}", r"invalid character '\x7f' looking for beginning of value")]
    fn the_first_fault_is_told(#[case] text: &str, #[case] told: &str) {
        assert_eq!(syntax_error(text.as_bytes()).as_deref(), Some(told));
    }

    #[rstest]
    #[case(0x80, r"\u0080")]
    #[case(0xa0, r"\u00a0")]
    #[case(0xad, r"\u00ad")]
    #[case(0xe4, "\u{e4}")]
    fn a_byte_outside_of_ascii_is_shown_as_go_shows_it(#[case] byte: u8, #[case] shown: &str) {
        let expected = format!("invalid character '{shown}' looking for beginning of value");
        assert_eq!(syntax_error(&[byte]), Some(expected));
    }

    #[test]
    fn nesting_is_limited_as_in_go() {
        let deep = "{\"a\":".repeat(10_001);
        let expected = "invalid character '{' exceeded max depth";
        assert_eq!(syntax_error(deep.as_bytes()).as_deref(), Some(expected));
        assert_eq!(syntax_error(&[b'['; 10_000]).as_deref(), Some("unexpected end of JSON input"));
    }

    #[test]
    fn good_json_gives_no_complaint() {
        assert_eq!(syntax_error(br#" {"a":[1,-0.5e+3,"\u00e9",true,null,{}]} "#), None);
    }
}
