//! Label selectors, as strings and as objects.

use std::{collections::BTreeSet, fmt};

use serde_json::{Map, Value};

use super::lexer::{Token, tokenize};
use crate::{
    object,
    status_error::{ApiResult, FieldError, StatusError, go_quote},
};

/// Operator of a requirement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// `=`
    Equals,
    /// `==`
    DoubleEquals,
    /// `!=`
    NotEquals,
    /// `in`
    In,
    /// `notin`
    NotIn,
    /// The key only.
    Exists,
    /// `!key`
    DoesNotExist,
    /// `>`
    Greater,
    /// `<`
    Less,
}

/// A requirement on one label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    /// The label's key.
    pub key: String,
    /// Operator.
    pub operator: Operator,
    /// Values to compare with, in order.
    pub values: Vec<String>,
}

/// All requirements must match. The empty selector matches everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
    matches_nothing: bool,
}

impl LabelSelector {
    /// Parses a query parameter.
    pub fn parse(text: &str) -> ApiResult<Self> {
        Self::parse_text(text).map_err(StatusError::bad_request)
    }

    /// Parses a string; the error is kube-apiserver's, without a prefix.
    pub fn parse_text(text: &str) -> Result<Self, String> {
        let mut requirements = Parser { tokens: tokenize(text), position: 0 }.parse_all()?;
        requirements.sort_by(|left, right| left.key.cmp(&right.key));
        Ok(Self { requirements, matches_nothing: false })
    }

    /// From a `LabelSelector` object; null matches nothing, an empty one matches everything.
    pub fn from_value(selector: Option<&Value>) -> Result<Self, String> {
        let Some(selector) = selector.filter(|selector| !selector.is_null()) else {
            return Ok(Self { requirements: Vec::new(), matches_nothing: true });
        };
        let labels = selector.get("matchLabels").and_then(Value::as_object);
        let mut requirements = Vec::new();
        for (key, value) in labels.into_iter().flatten() {
            let value = value.as_str().unwrap_or_default().to_owned();
            requirements.push(Requirement::new(key, Operator::Equals, vec![value])?);
        }
        let expressions = selector.get("matchExpressions").and_then(Value::as_array);
        for expression in expressions.into_iter().flatten() {
            requirements.push(Requirement::from_expression(expression)?);
        }
        requirements.sort_by(|left, right| left.key.cmp(&right.key));
        Ok(Self { requirements, matches_nothing: false })
    }

    /// From plain labels, as in Services.
    pub fn from_match_labels(labels: &Map<String, Value>) -> Self {
        let mut requirements: Vec<Requirement> = labels
            .iter()
            .map(|(key, value)| Requirement {
                key: key.clone(),
                operator: Operator::Equals,
                values: vec![value.as_str().unwrap_or_default().to_owned()],
            })
            .collect();
        requirements.sort_by(|left, right| left.key.cmp(&right.key));
        Self { requirements, matches_nothing: false }
    }

    /// Matches everything.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty() && !self.matches_nothing
    }

    /// Labels that every matching object has.
    pub fn required_labels(&self) -> impl Iterator<Item = (&str, &str)> {
        let equal = [Operator::Equals, Operator::DoubleEquals, Operator::In];
        let named = self.requirements.iter().filter(move |one| equal.contains(&one.operator));
        named.filter_map(|one| match one.values.as_slice() {
            [only] => Some((one.key.as_str(), only.as_str())),
            _ => None,
        })
    }

    /// Whether an object with these labels matches.
    pub fn matches(&self, labels: Option<&Map<String, Value>>) -> bool {
        !self.matches_nothing && self.requirements.iter().all(|one| one.matches(labels))
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            if index > 0 {
                out.write_str(",")?;
            }
            write!(out, "{requirement}")?;
        }
        Ok(())
    }
}

impl Requirement {
    fn new(key: &str, operator: Operator, values: Vec<String>) -> Result<Self, String> {
        let mut wrong = Vec::new();
        if let Some(error) = key_error("key", key) {
            wrong.push(error);
        }
        wrong.extend(count_error(operator, &values));
        if matches!(operator, Operator::Greater | Operator::Less) {
            for (index, value) in values.iter().enumerate().filter(|(_, value)| value.parse::<i64>().is_err())
            {
                let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
                wrong.push(FieldError::invalid(format!("values[{index}]"), value.as_str(), detail));
            }
        }
        for (index, value) in values.iter().enumerate() {
            let complaints = object::label_value(value);
            if !complaints.is_empty() {
                let field = format!("values[{index}][{key}]");
                wrong.push(FieldError::invalid(field, value.as_str(), complaints.join("; ")));
            }
        }
        let texts: Vec<String> = wrong.iter().map(ToString::to_string).collect();
        match texts.as_slice() {
            [] => Ok(Self { key: key.to_owned(), operator, values }),
            [one] => Err(one.clone()),
            many => Err(format!("[{}]", many.join(", "))),
        }
    }

    /// From an entry of `matchExpressions`.
    fn from_expression(expression: &Value) -> Result<Self, String> {
        let operator = match object::str_at(expression, &["operator"]) {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            other => return Err(format!("{} is not a valid label selector operator", go_quote(other))),
        };
        let values = expression.get("values").and_then(Value::as_array);
        let values = values.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
        Self::new(object::str_at(expression, &["key"]), operator, values)
    }

    /// Whether these labels satisfy the requirement.
    pub fn matches(&self, labels: Option<&Map<String, Value>>) -> bool {
        let value = labels.and_then(|labels| labels.get(&self.key)).map(|value| value.as_str().unwrap_or(""));
        let is_named = |value: &str| self.values.iter().any(|one| one == value);
        let compare = |value: &str| {
            let wanted = self.values.first().and_then(|wanted| wanted.parse::<i64>().ok())?;
            Some(value.parse::<i64>().ok()?.cmp(&wanted))
        };
        match (self.operator, value) {
            (Operator::Exists, value) => value.is_some(),
            (Operator::DoesNotExist, value) => value.is_none(),
            (Operator::NotIn | Operator::NotEquals, None) => true,
            (_, None) => false,
            (Operator::In | Operator::Equals | Operator::DoubleEquals, Some(value)) => is_named(value),
            (Operator::NotIn | Operator::NotEquals, Some(value)) => !is_named(value),
            (Operator::Greater, Some(value)) => compare(value).is_some_and(std::cmp::Ordering::is_gt),
            (Operator::Less, Some(value)) => compare(value).is_some_and(std::cmp::Ordering::is_lt),
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut values = self.values.clone();
        values.sort();
        let values = values.join(",");
        let key = &self.key;
        match self.operator {
            Operator::Exists => write!(out, "{key}"),
            Operator::DoesNotExist => write!(out, "!{key}"),
            Operator::Equals => write!(out, "{key}={values}"),
            Operator::DoubleEquals => write!(out, "{key}=={values}"),
            Operator::NotEquals => write!(out, "{key}!={values}"),
            Operator::In => write!(out, "{key} in ({values})"),
            Operator::NotIn => write!(out, "{key} notin ({values})"),
            Operator::Greater => write!(out, "{key}>{values}"),
            Operator::Less => write!(out, "{key}<{values}"),
        }
    }
}

fn key_error(field: &str, key: &str) -> Option<FieldError> {
    let complaints = object::label_key(key);
    (!complaints.is_empty()).then(|| FieldError::invalid(field, key, complaints.join("; ")))
}

fn count_error(operator: Operator, values: &[String]) -> Option<FieldError> {
    let detail = match (operator, values.len()) {
        (Operator::In | Operator::NotIn, 0) => "for 'in', 'notin' operators, values set can't be empty",
        (Operator::Equals | Operator::DoubleEquals | Operator::NotEquals, count) if count != 1 => {
            "exact-match compatibility requires one single value"
        }
        (Operator::Exists | Operator::DoesNotExist, count) if count != 0 => {
            "values set must be empty for exists and does not exist"
        }
        (Operator::Greater | Operator::Less, count) if count != 1 => {
            "for 'Gt', 'Lt' operators, exactly one value is required"
        }
        _ => return None,
    };
    Some(FieldError::invalid("values", values.to_vec(), detail))
}

struct Parser {
    tokens: Vec<Token>,
    position: usize,
}

impl Parser {
    fn peek(&self) -> Token {
        self.tokens.get(self.position).cloned().unwrap_or(Token::End)
    }

    fn peek_value(&self) -> Token {
        self.peek().into_value()
    }

    fn advance(&mut self) -> Token {
        let token = self.peek();
        self.position += 1;
        token
    }

    fn advance_value(&mut self) -> Token {
        self.advance().into_value()
    }

    fn parse_all(mut self) -> Result<Vec<Requirement>, String> {
        let mut requirements = Vec::new();
        loop {
            match self.peek_value() {
                Token::Word(_) | Token::Not => {
                    let wrap = |why| format!("unable to parse requirement: {why}");
                    requirements.push(self.requirement().map_err(wrap)?);
                }
                Token::End => return Ok(requirements),
                other => {
                    let found = other.literal();
                    return Err(format!("found '{found}', expected: !, identifier, or 'end of string'"));
                }
            }
            match self.advance_value() {
                Token::End => return Ok(requirements),
                Token::Comma => {
                    let next = self.peek_value();
                    if !matches!(next, Token::Word(_) | Token::Not) {
                        let found = next.literal();
                        return Err(format!("found '{found}', expected: identifier after ','"));
                    }
                }
                other => {
                    return Err(format!("found '{}', expected: ',' or 'end of string'", other.literal()));
                }
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let (key, absent) = self.key()?;
        if absent {
            return Requirement::new(&key, Operator::DoesNotExist, Vec::new());
        }
        if matches!(self.peek_value(), Token::End | Token::Comma) {
            return Requirement::new(&key, Operator::Exists, Vec::new());
        }
        let operator = match self.advance() {
            Token::In => Operator::In,
            Token::Equals => Operator::Equals,
            Token::DoubleEquals => Operator::DoubleEquals,
            Token::Greater => Operator::Greater,
            Token::Less => Operator::Less,
            Token::NotIn => Operator::NotIn,
            Token::NotEquals => Operator::NotEquals,
            other => {
                return Err(format!("found '{}', expected: in, notin, =, ==, !=, gt, lt", other.literal()));
            }
        };
        let values = match operator {
            Operator::In | Operator::NotIn => self.set()?,
            _ => self.exact()?,
        };
        Requirement::new(&key, operator, values.into_iter().collect())
    }

    fn key(&mut self) -> Result<(String, bool), String> {
        let mut token = self.advance_value();
        let absent = token == Token::Not;
        if absent {
            token = self.advance_value();
        }
        let Token::Word(key) = token else {
            return Err(format!("found '{}', expected: identifier", token.literal()));
        };
        match key_error("<nil>", &key) {
            Some(error) => Err(error.to_string()),
            None => Ok((key, absent)),
        }
    }

    fn set(&mut self) -> Result<BTreeSet<String>, String> {
        let open = self.advance_value();
        if open != Token::Open {
            return Err(format!("found '{}' expected: '('", open.literal()));
        }
        let values = match self.peek_value() {
            Token::Word(_) | Token::Comma => self.members()?,
            Token::Close => BTreeSet::from([String::new()]),
            other => return Err(format!("found '{}', expected: ',', ')' or identifier", other.literal())),
        };
        // The closing parenthesis, which `members` has seen.
        self.advance();
        Ok(values)
    }

    fn members(&mut self) -> Result<BTreeSet<String>, String> {
        let mut values = BTreeSet::new();
        loop {
            match self.advance_value() {
                Token::Word(word) => {
                    values.insert(word);
                    match self.peek_value() {
                        Token::Comma => {}
                        Token::Close => return Ok(values),
                        other => return Err(format!("found '{}', expected: ',' or ')'", other.literal())),
                    }
                }
                Token::Comma => {
                    if values.is_empty() {
                        values.insert(String::new());
                    }
                    match self.peek_value() {
                        Token::Close => {
                            values.insert(String::new());
                            return Ok(values);
                        }
                        Token::Comma => {
                            values.insert(String::new());
                        }
                        _ => {}
                    }
                }
                other => return Err(format!("found '{}', expected: ',', or identifier", other.literal())),
            }
        }
    }

    fn exact(&mut self) -> Result<BTreeSet<String>, String> {
        if matches!(self.peek_value(), Token::End | Token::Comma) {
            return Ok(BTreeSet::from([String::new()]));
        }
        match self.advance_value() {
            Token::Word(word) => Ok(BTreeSet::from([word])),
            other => Err(format!("found '{}', expected: identifier", other.literal())),
        }
    }
}
