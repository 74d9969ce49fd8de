//! What Go's JSON scanner would say about a malformed document. Only asked once a document is known to be malformed.

/// Where the scanner stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expect {
    Value,
    ValueOrEnd,
    KeyOrEnd,
    Key,
    Colon,
    AfterField,
    AfterItem,
    Nothing,
}

/// Go's complaint about the first fault; `None` if Go's grammar finds none (depth, numbers out of range).
pub fn complaint(text: &[u8]) -> Option<String> {
    let mut scanner = Scanner { text, at: 0, open: Vec::new() };
    match scanner.run() {
        Ok(()) => None,
        Err(Fault::End) => Some("unexpected end of JSON input".to_owned()),
        Err(Fault::Deep) => Some("exceeded max depth".to_owned()),
        Err(Fault::At(context)) => {
            let shown = quote(scanner.text.get(scanner.at).copied().unwrap_or_default());
            Some(format!("invalid character {shown} {context}"))
        }
    }
}

enum Fault {
    End,
    Deep,
    At(&'static str),
}

struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    open: Vec<u8>,
}

const MOST_OPEN: usize = 10_000;

impl Scanner<'_> {
    fn run(&mut self) -> Result<(), Fault> {
        let mut expect = Expect::Value;
        loop {
            while self.text.get(self.at).is_some_and(|byte| b" \t\r\n".contains(byte)) {
                self.at += 1;
            }
            let Some(byte) = self.text.get(self.at).copied() else {
                return if expect == Expect::Nothing { Ok(()) } else { Err(Fault::End) };
            };
            expect = self.step(expect, byte)?;
        }
    }

    fn step(&mut self, expect: Expect, byte: u8) -> Result<Expect, Fault> {
        match (expect, byte) {
            (Expect::ValueOrEnd | Expect::AfterItem, b']')
            | (Expect::KeyOrEnd | Expect::AfterField, b'}') => Ok(self.close()),
            (Expect::Value | Expect::ValueOrEnd, _) => self.value(byte),
            (Expect::KeyOrEnd | Expect::Key, b'"') => {
                self.string()?;
                Ok(Expect::Colon)
            }
            (Expect::KeyOrEnd | Expect::Key, _) => {
                Err(Fault::At("looking for beginning of object key string"))
            }
            (Expect::Colon, b':') | (Expect::AfterItem, b',') => Ok(self.go(Expect::Value)),
            (Expect::Colon, _) => Err(Fault::At("after object key")),
            (Expect::AfterField, b',') => Ok(self.go(Expect::Key)),
            (Expect::AfterField, _) => Err(Fault::At("after object key:value pair")),
            (Expect::AfterItem, _) => Err(Fault::At("after array element")),
            (Expect::Nothing, _) => Err(Fault::At("after top-level value")),
        }
    }

    fn go(&mut self, next: Expect) -> Expect {
        self.at += 1;
        next
    }

    fn value(&mut self, byte: u8) -> Result<Expect, Fault> {
        match byte {
            b'{' | b'[' => {
                self.open.push(byte);
                if self.open.len() > MOST_OPEN {
                    return Err(Fault::Deep);
                }
                return Ok(self.go(if byte == b'{' { Expect::KeyOrEnd } else { Expect::ValueOrEnd }));
            }
            b'"' => self.string()?,
            b't' => self.word(
                "true",
                &[
                    "in literal true (expecting 'r')",
                    "in literal true (expecting 'u')",
                    "in literal true (expecting 'e')",
                ],
            )?,
            b'f' => self.word(
                "false",
                &[
                    "in literal false (expecting 'a')",
                    "in literal false (expecting 'l')",
                    "in literal false (expecting 's')",
                    "in literal false (expecting 'e')",
                ],
            )?,
            b'n' => self.word(
                "null",
                &[
                    "in literal null (expecting 'u')",
                    "in literal null (expecting 'l')",
                    "in literal null (expecting 'l')",
                ],
            )?,
            b'-' | b'0'..=b'9' => self.number()?,
            _ => return Err(Fault::At("looking for beginning of value")),
        }
        Ok(self.after())
    }

    fn close(&mut self) -> Expect {
        self.at += 1;
        self.open.pop();
        self.after()
    }

    fn after(&self) -> Expect {
        match self.open.last() {
            None => Expect::Nothing,
            Some(b'{') => Expect::AfterField,
            Some(_) => Expect::AfterItem,
        }
    }

    fn word(&mut self, word: &str, contexts: &[&'static str]) -> Result<(), Fault> {
        self.at += 1;
        for (expected, context) in word.bytes().skip(1).zip(contexts) {
            match self.text.get(self.at) {
                None => return Err(Fault::End),
                Some(byte) if *byte == expected => self.at += 1,
                Some(_) => return Err(Fault::At(context)),
            }
        }
        Ok(())
    }

    fn string(&mut self) -> Result<(), Fault> {
        self.at += 1;
        loop {
            match self.text.get(self.at).copied() {
                None => return Err(Fault::End),
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => self.escape()?,
                Some(byte) if byte < 0x20 => return Err(Fault::At("in string literal")),
                Some(_) => self.at += 1,
            }
        }
    }

    fn escape(&mut self) -> Result<(), Fault> {
        self.at += 1;
        match self.text.get(self.at).copied() {
            None => Err(Fault::End),
            Some(b'u') => {
                self.at += 1;
                for _ in 0..4 {
                    match self.text.get(self.at) {
                        None => return Err(Fault::End),
                        Some(byte) if byte.is_ascii_hexdigit() => self.at += 1,
                        Some(_) => return Err(Fault::At("in \\u hexadecimal character escape")),
                    }
                }
                Ok(())
            }
            Some(byte) if b"\"\\/bfnrt".contains(&byte) => {
                self.at += 1;
                Ok(())
            }
            Some(_) => Err(Fault::At("in string escape code")),
        }
    }

    fn number(&mut self) -> Result<(), Fault> {
        if self.text.get(self.at) == Some(&b'-') {
            self.at += 1;
        }
        if self.text.get(self.at) == Some(&b'0') {
            self.at += 1;
        } else {
            self.digits("in numeric literal")?;
        }
        if self.text.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits("after decimal point in numeric literal")?;
        }
        if self.text.get(self.at).is_some_and(|byte| b"eE".contains(byte)) {
            self.at += 1;
            if self.text.get(self.at).is_some_and(|byte| b"+-".contains(byte)) {
                self.at += 1;
            }
            self.digits("in exponent of numeric literal")?;
        }
        Ok(())
    }

    fn digits(&mut self, context: &'static str) -> Result<(), Fault> {
        match self.text.get(self.at) {
            None => return Err(Fault::End),
            Some(byte) if byte.is_ascii_digit() => {}
            Some(_) => return Err(Fault::At(context)),
        }
        while self.text.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        Ok(())
    }
}

/// A byte as Go's scanner quotes it.
fn quote(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        b'\\' => r"'\\'".to_owned(),
        b'\n' => r"'\n'".to_owned(),
        b'\r' => r"'\r'".to_owned(),
        b'\t' => r"'\t'".to_owned(),
        0x20..=0x7e => format!("'{}'", char::from(byte)),
        0..0x20 | 0x7f => format!(r"'\x{byte:02x}'"),
        _ if byte >= 0xa1 => format!("'{}'", char::from(byte)),
        _ => format!(r"'\u{byte:04x}'"),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::complaint;

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
    fn the_first_fault_is_told(#[case] text: &str, #[case] told: &str) {
        assert_eq!(complaint(text.as_bytes()).as_deref(), Some(told));
    }

    #[test]
    fn good_json_gives_no_complaint() {
        assert_eq!(complaint(br#" {"a":[1,-0.5e+3,"\u00e9",true,null,{}]} "#), None);
    }
}
