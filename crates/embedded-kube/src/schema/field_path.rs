//! Resolves simple JSON paths in a schema: fields by dot, keys in brackets.

use super::parse::Schema;

/// The steps of a path and the schema at its end. Map keys are in brackets.
pub fn resolve_field_path<'a>(
    path: &str,
    schema: &'a Schema,
    brackets: bool,
) -> Result<(Vec<String>, &'a Schema), String> {
    let mut tokens = tokens(path).into_iter();
    let mut schema = schema;
    let mut steps = Vec::new();
    while let Some(token) = tokens.next() {
        let end = || "unexpected end of JSON path".to_owned();
        let name = match token.as_str() {
            "." => tokens.next().ok_or_else(end)?,
            "[" if !brackets => return Err("array notation is not allowed".to_owned()),
            "[" => {
                let quoted = tokens.next().ok_or_else(end)?;
                let inner = quoted.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
                let inner = inner.ok_or_else(|| format!("expected single quoted string but got {quoted}"))?;
                let name = unescape(inner)?;
                let close = tokens.next().ok_or_else(end)?;
                if close != "]" {
                    return Err(format!("expected ] but got {close}"));
                }
                name
            }
            other => return Err(format!("expected [ or . but got: {other}")),
        };
        if !schema.properties.is_empty() {
            schema = schema.properties.get(&name).ok_or("does not refer to a valid field")?;
            steps.push(name);
        } else if let Some(child) = schema.additional_schema() {
            schema = child;
            steps.push(format!("[{name}]"));
        } else {
            return Err("does not refer to a valid field".to_owned());
        }
    }
    Ok((steps, schema))
}

/// Formats steps as in errors.
pub fn format_path(steps: &[String]) -> String {
    let mut text = String::new();
    for step in steps {
        if !text.is_empty() && !step.starts_with('[') {
            text.push('.');
        }
        text.push_str(step);
    }
    text
}

fn tokens(path: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut current = String::new();
    let mut last = ' ';
    for letter in path.chars() {
        let in_quotes = current.starts_with('\'');
        if in_quotes {
            current.push(letter);
            if letter == '\'' && last != '\\' {
                tokens.push(std::mem::take(&mut current));
            }
        } else if matches!(letter, '.' | '[' | ']') {
            if !current.is_empty() {
                tokens.push(std::mem::take(&mut current));
            }
            tokens.push(letter.to_string());
        } else {
            current.push(letter);
        }
        last = letter;
    }
    if !current.is_empty() {
        tokens.push(current);
    }
    tokens
}

fn unescape(text: &str) -> Result<String, String> {
    let mut out = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            out.push(letter);
            continue;
        }
        match letters.next() {
            Some('a') => out.push('\u{7}'),
            Some('b') => out.push('\u{8}'),
            Some('f') => out.push('\u{c}'),
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('t') => out.push('\t'),
            Some('v') => out.push('\u{b}'),
            Some(same @ ('\'' | '\\')) => out.push(same),
            Some(other) => return Err(format!("invalid string literal: invalid escape char \\{other}")),
            None => out.push('\\'),
        }
    }
    Ok(out)
}
