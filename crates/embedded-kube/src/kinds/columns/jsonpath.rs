//! The JSON paths that columns of custom resources name.
//!
//! `.a.b`, `['a']`, `[0]`, `[-1]`, `[*]`, `[1:3]`, `[0,2]`, `..a`, `.*`, `[?(@.type=="Ready")].status`, and dots in
//! keys escaped by a backslash. A missing key is no result; an index out of bounds is an error.

use std::cmp::Ordering;

use serde_json::Value;

/// Deeper paths and objects than this are refused.
const DEEPEST: usize = 64;

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Field(String),
    Wildcard,
    Recursive,
    Slice { from: Option<i64>, to: Option<i64>, step: Option<i64>, single: bool },
    Union(Vec<Vec<Step>>),
    Filter { left: Vec<Step>, operator: String, right: Vec<Step> },
    Constant(Value),
}

/// A parsed path.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonPath {
    steps: Vec<Step>,
}

impl JsonPath {
    /// From text without braces.
    pub fn parse(text: &str) -> Result<Self, String> {
        Ok(Self { steps: Parser { rest: text, depth: 0 }.steps()? })
    }

    /// Everything that the path leads to.
    pub fn find(&self, object: &Value) -> Result<Vec<Value>, String> {
        walk(&[object], &self.steps).map(|found| found.into_iter().cloned().collect())
    }

    /// The first thing that the path leads to.
    pub fn first(&self, object: &Value) -> Result<Option<Value>, String> {
        walk(&[object], &self.steps).map(|found| found.first().map(|value| (*value).clone()))
    }
}

struct Parser<'a> {
    rest: &'a str,
    depth: usize,
}

fn is_end(letter: char) -> bool {
    " \t\r\n.,[]$@{}".contains(letter)
}

impl<'a> Parser<'a> {
    fn inner(&self, text: &'a str) -> Result<Vec<Step>, String> {
        if self.depth > DEEPEST {
            return Err("path is too deep".to_owned());
        }
        Parser { rest: text, depth: self.depth + 1 }.steps()
    }

    fn steps(mut self) -> Result<Vec<Step>, String> {
        let mut steps: Vec<Step> = Vec::new();
        while let Some(first) = self.rest.chars().next() {
            if let Some(rest) = self.rest.strip_prefix("[?(") {
                self.rest = rest;
                steps.push(self.filter()?);
            } else if let Some(rest) = self.rest.strip_prefix("..") {
                if steps.last() == Some(&Step::Recursive) {
                    return Err("invalid multiple recursive descent".to_owned());
                }
                self.rest = rest;
                steps.push(Step::Recursive);
                if rest.starts_with(|next: char| next == '_' || next.is_alphanumeric()) {
                    steps.push(self.field());
                }
            } else {
                self.rest = self.rest.get(first.len_utf8()..).unwrap_or_default();
                match first {
                    ' ' | '@' | '$' => {}
                    '[' => steps.extend(self.bracket()?),
                    '"' | '\'' => steps.push(Step::Constant(self.quoted(first)?.into())),
                    '.' => steps.push(self.field()),
                    '+' | '-' | '0'..='9' => steps.push(self.number(first)?),
                    letter if letter == '_' || letter.is_alphanumeric() => steps.push(self.word(letter)?),
                    other => return Err(format!("unrecognized character in action: {other:?}")),
                }
            }
        }
        Ok(steps)
    }

    /// Text up to a letter that ends a name; a backslash takes what follows it along.
    fn name(&mut self) -> String {
        let mut name = String::new();
        let mut letters = self.rest.char_indices();
        let mut end = self.rest.len();
        while let Some((at, letter)) = letters.next() {
            if letter == '\\' {
                name.extend(letters.next().map(|(_, letter)| letter));
            } else if is_end(letter) {
                end = at;
                break;
            } else {
                name.push(letter);
            }
        }
        self.rest = self.rest.get(end..).unwrap_or_default();
        name
    }

    fn field(&mut self) -> Step {
        match self.name().as_str() {
            "*" => Step::Wildcard,
            name => Step::Field(name.to_owned()),
        }
    }

    fn word(&mut self, first: char) -> Result<Step, String> {
        let word = format!("{first}{}", self.name());
        match word.as_str() {
            "true" => Ok(Step::Constant(true.into())),
            "false" => Ok(Step::Constant(false.into())),
            _ => Err(format!("unrecognized identifier {word}")),
        }
    }

    fn number(&mut self, first: char) -> Result<Step, String> {
        let end = self.rest.find(|letter: char| letter != '.' && !letter.is_ascii_digit());
        let (digits, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        let text = format!("{first}{digits}");
        let number = text.parse::<i64>().map(Value::from);
        let number = number.or_else(|_| text.parse::<f64>().map(Value::from));
        number.map(Step::Constant).map_err(|_| format!("cannot parse number {text}"))
    }

    fn quoted(&mut self, quote: char) -> Result<String, String> {
        let mut out = String::new();
        let mut letters = self.rest.char_indices();
        while let Some((at, letter)) = letters.next() {
            match letter {
                '\\' => out.extend(letters.next().map(|(_, letter)| letter)),
                '\n' => break,
                _ if letter == quote => {
                    self.rest = self.rest.get(at + letter.len_utf8()..).unwrap_or_default();
                    return Ok(out);
                }
                _ => out.push(letter),
            }
        }
        Err("unterminated quoted string".to_owned())
    }

    fn bracket(&mut self) -> Result<Vec<Step>, String> {
        let (text, rest) = self.rest.split_once(']').ok_or("unterminated array")?;
        self.rest = rest;
        self.subscript(text)
    }

    fn subscript(&self, text: &'a str) -> Result<Vec<Step>, String> {
        if text == "*" {
            return Ok(vec![Step::Slice { from: None, to: None, step: None, single: false }]);
        }
        if text.contains(',') {
            let parts = text.split(',').map(|part| self.subscript(part.trim()));
            return Ok(vec![Step::Union(parts.collect::<Result<_, _>>()?)]);
        }
        if let Some(key) = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')) {
            // Inside the quotes dots still divide, as the real parser has it.
            let mut steps = Vec::new();
            let mut inner = Parser { rest: key, depth: self.depth + 1 };
            loop {
                steps.push(inner.field());
                match inner.rest.strip_prefix('.') {
                    Some(rest) => inner.rest = rest,
                    None => break,
                }
            }
            return Ok(steps);
        }
        let number = |text: Option<&str>| match text {
            None | Some("") => Ok(None),
            Some(text) => text.parse::<i64>().map(Some).map_err(|_| format!("invalid array index {text}")),
        };
        let mut parts = text.split(':');
        let (from, to, step) = (number(parts.next())?, number(parts.next())?, number(parts.next())?);
        if parts.next().is_some() || text.is_empty() {
            return Err(format!("invalid array index {text}"));
        }
        Ok(vec![Step::Slice { from, to, step, single: !text.contains(':') }])
    }

    fn filter(&mut self) -> Result<Step, String> {
        let mut quote = None;
        let mut end = None;
        for (at, letter) in self.rest.char_indices() {
            match (letter, quote) {
                ('"' | '\'', None) => quote = Some(letter),
                (letter, Some(open)) if letter == open => quote = None,
                (')', None) => {
                    end = Some(at);
                    break;
                }
                _ => {}
            }
        }
        let (text, rest) = self.rest.split_at(end.ok_or("unterminated filter")?);
        self.rest = rest.strip_prefix(")]").ok_or("unclosed array expect ]")?;
        let is_operator = |letter: char| "!<>=".contains(letter);
        let Some(start) = text.find(is_operator) else {
            return Ok(Step::Filter {
                left: self.inner(text)?,
                operator: "exists".to_owned(),
                right: Vec::new(),
            });
        };
        let (left, rest) = text.split_at(start);
        let length = rest.find(|letter| !is_operator(letter)).unwrap_or(rest.len());
        let (operator, right) = rest.split_at(length);
        Ok(Step::Filter { left: self.inner(left)?, operator: operator.to_owned(), right: self.inner(right)? })
    }
}

fn walk<'a>(from: &[&'a Value], steps: &'a [Step]) -> Result<Vec<&'a Value>, String> {
    let mut current = from.to_vec();
    for step in steps {
        current = take(&current, step)?;
    }
    Ok(current)
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Object(map) => map.values().collect(),
        Value::Array(list) => list.iter().collect(),
        _ => Vec::new(),
    }
}

fn take<'a>(current: &[&'a Value], step: &'a Step) -> Result<Vec<&'a Value>, String> {
    let present = || current.iter().copied().filter(|value| !value.is_null());
    match step {
        Step::Field(name) => Ok(present().filter_map(|value| value.as_object()?.get(name)).collect()),
        Step::Wildcard => Ok(present().flat_map(children).collect()),
        Step::Recursive => {
            let mut out = Vec::new();
            present().for_each(|value| descend(value, &mut out, 0));
            Ok(out)
        }
        Step::Constant(value) => Ok(current.iter().map(|_| value).collect()),
        Step::Union(parts) => {
            let mut out = Vec::new();
            for part in parts {
                out.extend(walk(current, part)?);
            }
            Ok(out)
        }
        Step::Slice { .. } => {
            let mut out = Vec::new();
            for value in present() {
                let list = value.as_array().ok_or("not array or slice")?;
                out.extend(slice(list, step)?);
            }
            Ok(out)
        }
        Step::Filter { left, operator, right } => {
            let mut out = Vec::new();
            for value in current {
                let list = value.as_array().ok_or("not array or slice and cannot be filtered")?;
                for item in list {
                    if passes(item, left, operator, right)? {
                        out.push(item);
                    }
                }
            }
            Ok(out)
        }
    }
}

fn descend<'a>(value: &'a Value, out: &mut Vec<&'a Value>, depth: usize) {
    let inner = children(value);
    if inner.is_empty() || depth > DEEPEST {
        return;
    }
    out.push(value);
    for child in inner {
        descend(child, out, depth + 1);
    }
}

fn slice<'a>(list: &'a [Value], step: &Step) -> Result<Vec<&'a Value>, String> {
    let Step::Slice { from, to, step, single } = step else { return Ok(Vec::new()) };
    let length = i64::try_from(list.len()).unwrap_or(i64::MAX);
    let wrap = |index: i64| if index < 0 { index + length } else { index };
    let start = wrap(from.unwrap_or(0));
    let end = if *single { start + 1 } else { to.map_or(length, wrap) };
    if start == end {
        return Ok(Vec::new());
    }
    if !(0..length).contains(&start) || !(0..=length).contains(&end) {
        return Err(format!("array index out of bounds: index {start}, length {length}"));
    }
    if start > end {
        return Err(format!("starting index {start} is greater than ending index {end}"));
    }
    let step = usize::try_from(step.unwrap_or(1)).ok().filter(|step| *step > 0).ok_or("step must be > 0")?;
    let (start, end) = (usize::try_from(start).unwrap_or(0), usize::try_from(end).unwrap_or(0));
    Ok(list.get(start..end).unwrap_or_default().iter().step_by(step).collect())
}

fn passes(item: &Value, left: &[Step], operator: &str, right: &[Step]) -> Result<bool, String> {
    let lefts = walk(&[item], left)?;
    if operator == "exists" {
        return Ok(!lefts.is_empty());
    }
    let rights = walk(&[item], right)?;
    let (left, right) = match (lefts.as_slice(), rights.as_slice()) {
        ([], _) | (_, []) => return Ok(false),
        ([left], [right]) => (*left, *right),
        _ => return Err("can only compare one element at a time".to_owned()),
    };
    let order = match (left, right) {
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        (Value::Bool(left), Value::Bool(right)) => Some(left.cmp(right)),
        (Value::Number(left), Value::Number(right)) => left.as_f64().partial_cmp(&right.as_f64()),
        _ => return Err("incompatible types for comparison".to_owned()),
    };
    match operator {
        "==" => Ok(order == Some(Ordering::Equal)),
        "!=" => Ok(order != Some(Ordering::Equal)),
        "<" => Ok(order == Some(Ordering::Less)),
        ">" => Ok(order == Some(Ordering::Greater)),
        "<=" => Ok(order.is_some_and(Ordering::is_le)),
        ">=" => Ok(order.is_some_and(Ordering::is_ge)),
        other => Err(format!("unrecognized filter operator {other}")),
    }
}
