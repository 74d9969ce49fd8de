//! Scans a text and substitutes its placeholders by the rules of their context.

use super::PlaceholderValues;
use crate::render::literal;

/// The substituted text, and the placeholders that could not be substituted.
pub(super) struct ScanOutput {
    pub(super) text: String,
    pub(super) unresolved: Vec<String>,
    pub(super) not_literal: Vec<String>,
}

/// Scans plain text.
pub(super) fn scan_plain(text: &str, values: &PlaceholderValues<'_>) -> (String, Vec<String>) {
    let mut out = String::with_capacity(text.len());
    let mut unresolved = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let escaped = rest[..at].ends_with('$');
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let found = placeholder(rest).filter(|_| !escaped);
        let len = match &found {
            Some(Placeholder { key, len }) if values.get(key).is_some() || is_identifier(key) => *len,
            _ => 2,
        };
        match found.map(|found| (found.key, values.get(found.key))) {
            Some((_, Some(value))) => out.push_str(value),
            Some((key, None)) if is_identifier(key) => {
                unresolved.push(key.to_owned());
                out.push_str(&rest[..len]);
            }
            _ => out.push_str(&rest[..len]),
        }
        rest = &rest[len..];
    }
    out.push_str(rest);
    (out, unresolved)
}

/// Scans the body of a `.tf` file.
pub(super) fn scan_hcl(text: &str, values: &PlaceholderValues<'_>) -> ScanOutput {
    Scanner::run(text, values, ScanMode::Code { depth: 0 })
}

/// Scans a string of a `.tf.json` file, which terraform reads as a template.
pub(super) fn scan_template(text: &str, values: &PlaceholderValues<'_>) -> ScanOutput {
    Scanner::run(text, values, ScanMode::Template)
}

struct Placeholder<'a> {
    key: &'a str,
    len: usize,
}

/// Parses `${key}` at the start of a text. The key must not contain `{`, `"` or a line break.
fn placeholder(text: &str) -> Option<Placeholder<'_>> {
    let inside = text.strip_prefix("${")?;
    let end = inside.find('}')?;
    let key = &inside[..end];
    (!key.is_empty() && !key.contains(['{', '"', '\n'])).then_some(Placeholder { key, len: end + 3 })
}

/// A bare name. Not a terraform expression: every terraform reference contains a dot.
pub(super) fn is_identifier(key: &str) -> bool {
    key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
        && !matches!(key, "true" | "false" | "null")
}

/// Context of the scanner.
enum ScanMode {
    /// Outside quotes, or inside `${ … }`.
    Code { depth: usize },
    /// Inside `"…"`.
    Quoted,
    /// Inside `<<TAG … TAG`.
    Heredoc { tag: String },
    /// The whole text is a template.
    Template,
}

struct Scanner<'a> {
    rest: &'a str,
    values: &'a PlaceholderValues<'a>,
    modes: Vec<ScanMode>,
    done: ScanOutput,
}

impl<'a> Scanner<'a> {
    fn run(text: &'a str, values: &'a PlaceholderValues<'a>, mode: ScanMode) -> ScanOutput {
        let done = ScanOutput {
            text: String::with_capacity(text.len()),
            unresolved: Vec::new(),
            not_literal: Vec::new(),
        };
        let mut scanner = Self { rest: text, values, modes: vec![mode], done };
        while !scanner.rest.is_empty() {
            match scanner.modes.last() {
                Some(ScanMode::Code { .. }) => scanner.code(),
                Some(ScanMode::Quoted) => scanner.quoted(),
                Some(ScanMode::Heredoc { .. }) => scanner.heredoc(),
                Some(ScanMode::Template) | None => scanner.in_template(unquoted_literal),
            }
        }
        scanner.done
    }

    fn copy(&mut self, bytes: usize) {
        let (head, tail) = self.rest.split_at(bytes);
        self.done.text.push_str(head);
        self.rest = tail;
    }

    fn copy_char(&mut self) {
        self.copy(self.rest.chars().next().map_or(0, char::len_utf8));
    }

    /// Copies up to and including `end`, or everything if it is missing.
    fn copy_through(&mut self, end: &str) {
        let bytes = self.rest.find(end).map_or(self.rest.len(), |at| at + end.len());
        self.copy(bytes);
    }

    fn code(&mut self) {
        let rest = self.rest;
        if rest.starts_with('#') || rest.starts_with("//") {
            self.copy_through("\n");
        } else if rest.starts_with("/*") {
            self.copy_through("*/");
        } else if rest.starts_with('"') {
            self.modes.push(ScanMode::Quoted);
            self.copy(1);
        } else if let Some((tag, bytes)) = heredoc_start(rest) {
            self.modes.push(ScanMode::Heredoc { tag });
            self.copy(bytes);
            self.end_heredoc_if_here();
        } else if rest.starts_with("${") {
            self.placeholder_in_code();
        } else {
            self.brace(rest);
            self.copy_char();
        }
    }

    fn brace(&mut self, rest: &str) {
        let nested = self.modes.len() > 1;
        if let Some(ScanMode::Code { depth }) = self.modes.last_mut() {
            match rest.as_bytes()[0] {
                b'{' => *depth += 1,
                b'}' if *depth > 0 => *depth -= 1,
                b'}' if nested => {
                    self.modes.pop();
                }
                _ => {}
            }
        }
    }

    fn placeholder_in_code(&mut self) {
        let known = placeholder(self.rest).map(|found| (found.key, found.len, self.values.get(found.key)));
        match known {
            Some((key, len, Some(value))) => {
                if !is_identifier(value) && !literal::is_literal(value) {
                    self.done.not_literal.push(key.to_owned());
                }
                self.done.text.push_str(value);
                self.rest = &self.rest[len..];
            }
            Some((key, len, None)) if is_identifier(key) => {
                self.done.unresolved.push(key.to_owned());
                self.copy(len);
            }
            // Invalid HCL, which terraform reports. The brace still has to be counted.
            _ => self.copy(1),
        }
    }

    fn quoted(&mut self) {
        if self.rest.starts_with('\\') {
            self.copy(1);
            self.copy_char();
        } else if self.rest.starts_with('"') {
            self.modes.pop();
            self.copy(1);
        } else {
            self.in_template(quoted_literal);
        }
    }

    fn heredoc(&mut self) {
        let newline = self.rest.starts_with('\n');
        self.in_template(unquoted_literal);
        if newline {
            self.end_heredoc_if_here();
        }
    }

    fn end_heredoc_if_here(&mut self) {
        let Some(ScanMode::Heredoc { tag }) = self.modes.last() else { return };
        let line = self.rest.split('\n').next().unwrap_or_default();
        if line.trim() == tag {
            let bytes = line.len();
            self.modes.pop();
            self.copy(bytes);
        }
    }

    fn in_template(&mut self, as_literal: fn(&str) -> String) {
        if self.rest.starts_with("$${") || self.rest.starts_with("%%{") {
            return self.copy(3);
        }
        if self.rest.starts_with("${") {
            let known =
                placeholder(self.rest).and_then(|found| Some((found.len, self.values.get(found.key)?)));
            if let Some((len, value)) = known {
                self.rest = &self.rest[len..];
                // An empty value would join the surrounding characters into the start of a template.
                let touching = self.done.text.ends_with(['$', '%']) && self.rest.starts_with('{');
                let literal =
                    if value.is_empty() && touching { "${\"\"}".to_owned() } else { as_literal(value) };
                self.done.text.push_str(&literal);
                return;
            }
        }
        if self.rest.starts_with("${") || self.rest.starts_with("%{") {
            self.modes.push(ScanMode::Code { depth: 0 });
            return self.copy(2);
        }
        self.copy_char();
    }
}

/// Parses `<<TAG` or `<<-TAG` up to the end of its line.
fn heredoc_start(text: &str) -> Option<(String, usize)> {
    let line_end = text.find('\n')?;
    let after = text[..line_end].strip_prefix("<<")?;
    let tag = after.strip_prefix('-').unwrap_or(after).trim_end_matches('\r');
    is_identifier(tag).then(|| (tag.to_owned(), line_end + 1))
}

/// Escapes a value for a quoted string: everything that could end the string or start a template. `$`, `%` and `{` are also
/// escaped where an adjacent character could complete a template sequence.
fn quoted_literal(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars().peekable();
    let mut first = true;
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '$' | '%' if matches!(chars.peek(), Some('{') | None) => escape(c, &mut out),
            '{' if first => escape(c, &mut out),
            c if c.is_control() => escape(c, &mut out),
            c => out.push(c),
        }
        first = false;
    }
    out
}

/// Unicode escape; four digits suffice for `$`, `%`, `{` and control characters.
fn escape(c: char, out: &mut String) {
    out.push_str("\\u");
    out.extend([12, 8, 4, 0].map(|shift| char::from_digit((u32::from(c) >> shift) & 0xf, 16).unwrap_or('0')));
}

/// Renders a value in a template without quotes: unchanged if harmless, otherwise as an interpolated string, because a heredoc
/// has no escapes and a line of the value could end it.
fn unquoted_literal(value: &str) -> String {
    if value.contains(['$', '%', '{']) || value.chars().any(char::is_control) {
        format!("${{\"{}\"}}", quoted_literal(value))
    } else {
        value.to_owned()
    }
}
