//! The subset of kubectl's `JSONPath` that printer columns use: fields, items, wildcards, filters, recursive descent.

use serde_json::Value;

/// A parsed path.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonPath(Vec<Step>);

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Field(String),
    Fields(Vec<String>),
    Index(i64),
    Slice(Option<i64>, Option<i64>),
    All,
    Descend,
    Filter(Vec<Self>, Option<(Comparison, Operand)>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Debug, Clone, PartialEq)]
enum Operand {
    Literal(Value),
    Path(Vec<Step>),
}

impl JsonPath {
    /// Parses a path that starts with a dot. `None` if it is invalid.
    pub fn parse(text: &str) -> Option<Self> {
        let mut reader = PathParser { rest: text.trim() };
        let steps = reader.steps(true)?;
        reader.rest.is_empty().then_some(Self(steps))
    }

    /// The first matching value.
    pub fn first<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        follow_steps(&self.0, vec![value]).into_iter().next()
    }
}

struct PathParser<'a> {
    rest: &'a str,
}

impl PathParser<'_> {
    fn steps(&mut self, outer: bool) -> Option<Vec<Step>> {
        let mut steps = Vec::new();
        loop {
            if self.strip_prefix("..") {
                steps.push(Step::Descend);
                if !self.rest.starts_with('[') {
                    steps.push(self.field()?);
                }
            } else if self.strip_prefix(".") {
                if self.rest.is_empty() || self.rest.starts_with('[') {
                    continue;
                }
                steps.push(self.field()?);
            } else if self.strip_prefix("[") {
                steps.push(self.bracket()?);
            } else if !outer || self.rest.is_empty() {
                return Some(steps);
            } else {
                return None;
            }
            if steps.len() > 64 {
                return None;
            }
        }
    }

    fn strip_prefix(&mut self, prefix: &str) -> bool {
        let rest = self.rest.strip_prefix(prefix);
        rest.is_some_and(|rest| {
            self.rest = rest;
            true
        })
    }

    fn field(&mut self) -> Option<Step> {
        if self.strip_prefix("*") {
            return Some(Step::All);
        }
        let (mut name, mut length, mut escaped) = (String::new(), 0, false);
        for letter in self.rest.chars() {
            if !escaped && letter == '\\' {
                escaped = true;
            } else if escaped || !(letter.is_whitespace() || ".[]()=!<>,{}".contains(letter)) {
                name.push(letter);
                escaped = false;
            } else {
                break;
            }
            length += letter.len_utf8();
        }
        self.rest = self.rest.get(length..)?;
        (!name.is_empty()).then_some(Step::Field(name))
    }

    /// Parses from after the opening bracket through the closing one.
    fn bracket(&mut self) -> Option<Step> {
        if self.strip_prefix("?(") {
            return self.filter();
        }
        let quoted = self.rest.trim_start().starts_with(['\'', '"']);
        if quoted {
            let mut names = Vec::new();
            loop {
                self.rest = self.rest.trim_start();
                names.push(self.quoted()?);
                self.rest = self.rest.trim_start();
                if !self.strip_prefix(",") {
                    break;
                }
            }
            return self.strip_prefix("]").then_some(Step::Fields(names));
        }
        let (inner, rest) = self.rest.split_once(']')?;
        self.rest = rest;
        let inner = inner.trim();
        if inner == "*" {
            return Some(Step::All);
        }
        let number = |text: &str| match text.trim() {
            "" => Some(None),
            text => text.parse().ok().map(Some),
        };
        match inner.split(':').collect::<Vec<_>>().as_slice() {
            [one] => one.trim().parse().ok().map(Step::Index),
            [from, to] => Some(Step::Slice(number(from)?, number(to)?)),
            _ => None,
        }
    }

    fn quoted(&mut self) -> Option<String> {
        let quote = self.rest.chars().next().filter(|it| *it == '\'' || *it == '"')?;
        let (name, rest) = self.rest.get(1..)?.split_once(quote)?;
        self.rest = rest;
        Some(name.replace("\\.", "."))
    }

    fn filter(&mut self) -> Option<Step> {
        self.rest = self.rest.trim_start();
        if !self.strip_prefix("@") {
            return None;
        }
        let left = self.steps(false)?;
        self.rest = self.rest.trim_start();
        let operators = [
            ("==", Comparison::Equal),
            ("!=", Comparison::NotEqual),
            ("<=", Comparison::LessOrEqual),
            (">=", Comparison::GreaterOrEqual),
            ("<", Comparison::Less),
            (">", Comparison::Greater),
        ];
        let found = operators.into_iter().find(|(sign, _)| self.strip_prefix(sign));
        let test = match found {
            None => None,
            Some((_, comparison)) => {
                self.rest = self.rest.trim_start();
                Some((comparison, self.operand()?))
            }
        };
        self.rest = self.rest.trim_start();
        self.strip_prefix(")]").then_some(Step::Filter(left, test))
    }

    fn operand(&mut self) -> Option<Operand> {
        if self.strip_prefix("@") {
            return self.steps(false).map(Operand::Path);
        }
        if self.rest.starts_with(['\'', '"']) {
            return self.quoted().map(|text| Operand::Literal(Value::String(text)));
        }
        let end = self.rest.find([')', ' ']).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        serde_json::from_str(word).ok().map(Operand::Literal)
    }
}

fn follow_steps<'a>(steps: &[Step], mut values: Vec<&'a Value>) -> Vec<&'a Value> {
    for step in steps {
        values = values.into_iter().flat_map(|value| apply_step(step, value)).collect();
    }
    values
}

fn apply_step<'a>(step: &Step, value: &'a Value) -> Vec<&'a Value> {
    match step {
        Step::Field(name) => value.get(name).into_iter().collect(),
        Step::Fields(names) => names.iter().filter_map(|name| value.get(name)).collect(),
        Step::Index(index) => item(value, *index).into_iter().collect(),
        Step::Slice(from, to) => {
            let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
            let end = to.map_or(items.len(), |to| slice_bound(items.len(), to)).min(items.len());
            let start = from.map_or(0, |from| slice_bound(items.len(), from)).min(end);
            items.get(start..end).unwrap_or_default().iter().collect()
        }
        Step::All => children(value),
        Step::Descend => {
            let mut found = vec![value];
            found.extend(children(value).into_iter().flat_map(|child| apply_step(&Step::Descend, child)));
            found
        }
        Step::Filter(left, test) => {
            children(value).into_iter().filter(|item| filter_matches(item, left, test.as_ref())).collect()
        }
    }
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(items) => items.iter().collect(),
        Value::Object(map) => map.values().collect(),
        _ => Vec::new(),
    }
}

fn slice_bound(length: usize, index: i64) -> usize {
    let distance = usize::try_from(index.unsigned_abs()).unwrap_or(usize::MAX);
    if index < 0 { length.saturating_sub(distance) } else { distance }
}

fn item(value: &Value, index: i64) -> Option<&Value> {
    let items = value.as_array()?;
    let beyond = index < 0 && index.unsigned_abs() > items.len() as u64;
    items.get(slice_bound(items.len(), index)).filter(|_| !beyond)
}

fn filter_matches(item: &Value, left: &[Step], test: Option<&(Comparison, Operand)>) -> bool {
    let found = follow_steps(left, vec![item]);
    let Some((comparison, operand)) = test else { return !found.is_empty() };
    let right = match operand {
        Operand::Literal(literal) => vec![literal],
        Operand::Path(steps) => follow_steps(steps, vec![item]),
    };
    let (Some(left), Some(right)) = (found.first(), right.first()) else { return false };
    let order = match (left, right) {
        (Value::Number(left), Value::Number(right)) => left.as_f64().partial_cmp(&right.as_f64()),
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        (Value::Bool(left), Value::Bool(right)) => Some(left.cmp(right)),
        _ => None,
    };
    order.is_some_and(|order| match comparison {
        Comparison::Equal => order.is_eq(),
        Comparison::NotEqual => order.is_ne(),
        Comparison::Less => order.is_lt(),
        Comparison::LessOrEqual => order.is_le(),
        Comparison::Greater => order.is_gt(),
        Comparison::GreaterOrEqual => order.is_ge(),
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(".spec.replicas", json!(3))]
    #[case(".spec.list[1].a", json!("two"))]
    #[case(".spec.list[-1].a", json!("two"))]
    #[case(".spec.list[*].a", json!("one"))]
    #[case(".spec.list[1:].a", json!("two"))]
    #[case(r#".status.conditions[?(@.type=="Ready")].status"#, json!("True"))]
    #[case(".status.conditions[?(@.type == 'Ready')].status", json!("True"))]
    #[case(".status.conditions[?(@.age>5)].type", json!("Ready"))]
    #[case(r".metadata.labels.example\.com/x", json!("y"))]
    #[case(".metadata.labels['example.com/x']", json!("y"))]
    #[case("..deep", json!("found"))]
    #[case(".spec.missing", json!(null))]
    #[case(".spec.list[7].a", json!(null))]
    fn a_path_finds_its_first_value(#[case] path: &str, #[case] expected: Value) {
        let object = json!({
            "metadata": {"labels": {"example.com/x": "y"}},
            "spec": {"replicas": 3, "list": [{"a": "one"}, {"a": "two"}], "in": {"deep": "found"}},
            "status": {"conditions": [{"type": "A", "status": "False", "age": 1}, {"type": "Ready", "status": "True", "age": 9}]},
        });
        let path = JsonPath::parse(path).unwrap();
        assert_eq!(path.first(&object).cloned().unwrap_or_default(), expected);
    }

    #[rstest]
    #[case("spec")]
    #[case(".spec[")]
    #[case(".spec[?(@.a==]")]
    #[case(".a b")]
    fn what_is_no_path_is_refused(#[case] path: &str) {
        assert_eq!(JsonPath::parse(path), None);
    }
}
