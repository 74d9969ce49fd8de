//! `x-kubernetes-validations`: rules of a schema, compiled, and their verdicts on an object.

use std::collections::BTreeMap;

use kube_cel::cel::Value as Cel;
use serde_json::{Value, json};

use super::{
    cel::{self, Bindings, Program, Scope, Trouble, Type, Wanted},
    correlate::{Correlated, matching_item},
    parse::{Rule, Schema},
    paths,
};
use crate::failure::{FieldError, FieldErrorKind};

/// Longer messages from expressions are not shown.
const MOST_MESSAGE: usize = 5 * 1024;

const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// Rules of one schema and of what is below it.
#[derive(Debug, Default)]
pub struct Rules {
    own: Vec<Compiled>,
    properties: BTreeMap<String, Rules>,
    items: Option<Box<Rules>>,
    additional: Option<Box<Rules>>,
}

#[derive(Debug)]
struct Compiled {
    rule: Rule,
    program: Result<Program, String>,
    message: Option<Result<Program, String>>,
    /// `fieldPath`, normalised.
    field: Option<String>,
}

impl Rules {
    /// Compiles all rules; `None` if there are none.
    pub fn compile(schema: &Schema, is_resource: bool) -> Option<Self> {
        let below = |child: &Schema| Self::compile(child, child.embedded);
        let rules = Self {
            own: schema.rules.iter().map(|rule| Compiled::new(rule, schema, is_resource)).collect(),
            properties: schema
                .properties
                .iter()
                .filter_map(|(name, child)| below(child).map(|rules| (name.clone(), rules)))
                .collect(),
            items: schema.items.as_deref().and_then(below).map(Box::new),
            additional: schema.additional_schema().and_then(below).map(Box::new),
        };
        let is_empty = rules.own.is_empty()
            && rules.properties.is_empty()
            && rules.items.is_none()
            && rules.additional.is_none();
        (!is_empty).then_some(rules)
    }

    /// Rules that do not compile, or must not ask for the past where it cannot be told.
    pub fn faults(&self, schema: &Schema, path: &str) -> Vec<FieldError> {
        let mut errors = Vec::new();
        self.collect_faults(schema, path, None, &mut errors);
        errors
    }

    fn collect_faults(
        &self,
        schema: &Schema,
        path: &str,
        forgets: Option<&str>,
        errors: &mut Vec<FieldError>,
    ) {
        if let (Some(rules), Some(child)) = (&self.additional, schema.additional_schema()) {
            rules.collect_faults(child, &format!("{path}.additionalProperties"), forgets, errors);
        }
        for (name, rules) in &self.properties {
            if let Some(child) = schema.properties.get(name) {
                rules.collect_faults(child, &format!("{path}.properties[{name}]"), forgets, errors);
            }
        }
        if let (Some(rules), Some(child)) = (&self.items, schema.items.as_deref()) {
            // Items without keys cannot be found again in the old list.
            let here = (schema.list_type.as_deref() != Some("map")).then_some(path);
            rules.collect_faults(child, &format!("{path}.items"), forgets.or(here), errors);
        }
        for (index, compiled) in self.own.iter().enumerate() {
            let place = format!("{path}.x-kubernetes-validations[{index}]");
            compiled.faults(&place, forgets, errors);
        }
    }

    /// Faults of a value at `path`; `old` is the value it was, where that can be told.
    pub fn check(&self, schema: &Schema, value: &Value, old: Option<&Value>, path: &str) -> Vec<FieldError> {
        let pair = old.map(|old| Correlated { new: value, old, schema });
        let mut judge = Judge { errors: Vec::new(), is_over: false };
        judge.value(self, schema, value, old, path, Unchanged { here: pair, above: None });
        judge.errors
    }
}

impl Compiled {
    fn new(rule: &Rule, schema: &Schema, is_resource: bool) -> Self {
        let optional_old = rule.optional_old_self == Some(true);
        let Some(this) = Type::of(schema, is_resource) else {
            let why = "failed to convert to declType for CEL validation rules".to_owned();
            return Self { rule: rule.clone(), program: Err(why), message: None, field: None };
        };
        let scope = Scope { this, optional_old };
        let message = Some(rule.message_expression.as_str()).filter(|text| !text.is_empty());
        let field = Some(rule.field_path.as_str()).filter(|path| !path.is_empty());
        Self {
            program: cel::compile(&rule.rule, &scope, Wanted::Bool),
            message: message.map(|text| cel::compile(text, &scope, Wanted::Text)),
            field: field
                .and_then(|path| paths::resolve(path, schema, true).ok())
                .map(|(steps, _)| paths::text(&steps)),
            rule: rule.clone(),
        }
    }

    fn faults(&self, place: &str, forgets: Option<&str>, errors: &mut Vec<FieldError>) {
        let rule = &self.rule;
        // The names are those of the real server's inner type.
        let shown = || {
            json!({
                "Rule": rule.rule, "Message": rule.message, "MessageExpression": rule.message_expression,
                "Reason": rule.reason, "FieldPath": rule.field_path, "OptionalOldSelf": rule.optional_old_self,
            })
        };
        if let Err(why) = &self.program {
            errors.push(FieldError::invalid(format!("{place}.rule"), shown(), why));
        }
        if let Some(Err(why)) = &self.message {
            errors.push(FieldError::invalid(format!("{place}.messageExpression"), shown(), why));
        }
        let uses_old = self.program.as_ref().is_ok_and(|program| program.uses_old);
        match (uses_old, forgets, rule.optional_old_self) {
            (true, Some(path), _) => {
                let detail = format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within {path}"
                );
                errors.push(FieldError::invalid(format!("{place}.rule"), rule.rule.as_str(), detail));
            }
            (false, _, Some(optional)) => {
                let detail = "may not be set if oldSelf is not used in rule";
                errors.push(FieldError::invalid(format!("{place}.optionalOldSelf"), optional, detail));
            }
            _ => {}
        }
    }

    /// What the rule is called in errors.
    fn words(&self) -> &str {
        let message = self.rule.message.trim();
        if message.is_empty() { self.rule.rule.trim() } else { message }
    }

    /// The message of a broken rule.
    fn message(&self, bindings: &Bindings) -> Result<String, Trouble> {
        let fixed = match self.rule.message.trim() {
            "" => format!("failed rule: {}", self.words()),
            message => message.to_owned(),
        };
        let Some(Ok(program)) = &self.message else { return Ok(fixed) };
        match program.evaluate(bindings, self.rule.optional_old_self == Some(true)) {
            Ok(Cel::String(text)) => {
                let text = text.trim();
                let is_good = !text.is_empty() && text.len() <= MOST_MESSAGE && !text.contains('\n');
                Ok(if is_good { text.to_owned() } else { fixed })
            }
            Err(Trouble::TooMuch) => Err(Trouble::TooMuch),
            _ => Ok(fixed),
        }
    }
}

/// Whether a value, or the nearest one above it that can be found in the old object, has not changed.
#[derive(Clone, Copy)]
struct Unchanged<'a> {
    here: Option<Correlated<'a>>,
    above: Option<Correlated<'a>>,
}

impl<'a> Unchanged<'a> {
    fn holds(self) -> bool {
        self.here.or(self.above).is_some_and(Correlated::is_same)
    }

    fn key(self, key: &str) -> Self {
        let Some(here) = self.here else { return self };
        if self.above.is_none() && matches!(key, "apiVersion" | "kind") {
            return Self { here: None, above: None };
        }
        Self { here: here.key(key), above: Some(here) }
    }

    fn index(self, index: usize) -> Self {
        let Some(here) = self.here else { return self };
        Self { here: here.index(index), above: Some(here) }
    }
}

struct Judge {
    errors: Vec<FieldError>,
    is_over: bool,
}

impl Judge {
    fn value(
        &mut self,
        rules: &Rules,
        schema: &Schema,
        value: &Value,
        old: Option<&Value>,
        path: &str,
        unchanged: Unchanged<'_>,
    ) {
        if value.is_null() || self.is_over {
            return;
        }
        let old = old.filter(|old| !old.is_null());
        self.own(rules, schema, value, old, path, unchanged);
        match value {
            Value::Array(items) => {
                let (Some(rules), Some(child)) = (&rules.items, schema.items.as_deref()) else { return };
                for (index, item) in items.iter().enumerate() {
                    let before = old.and_then(|old| matching_item(schema, old, item));
                    self.value(
                        rules,
                        child,
                        item,
                        before,
                        &format!("{path}[{index}]"),
                        unchanged.index(index),
                    );
                }
            }
            Value::Object(map) => {
                for (key, value) in map {
                    let before = old.and_then(|old| old.get(key));
                    if let (Some(rules), Some(child)) =
                        (rules.properties.get(key), schema.properties.get(key))
                    {
                        self.value(
                            rules,
                            child,
                            value,
                            before,
                            &super::lists::below(path, key),
                            unchanged.key(key),
                        );
                    } else if let (Some(rules), Some(child)) = (&rules.additional, schema.additional_schema())
                        && !schema.properties.contains_key(key)
                    {
                        self.value(
                            rules,
                            child,
                            value,
                            before,
                            &format!("{path}[{key}]"),
                            unchanged.key(key),
                        );
                    }
                }
            }
            _ => {}
        }
    }

    fn own(
        &mut self,
        rules: &Rules,
        schema: &Schema,
        value: &Value,
        old: Option<&Value>,
        path: &str,
        unchanged: Unchanged<'_>,
    ) {
        if rules.own.is_empty() {
            return;
        }
        let uses_old = rules.own.iter().any(|one| one.program.as_ref().is_ok_and(|program| program.uses_old));
        let before = old.filter(|_| uses_old);
        let bindings = Bindings {
            this: cel::to_cel(value, Some(schema)),
            old: before.map(|old| cel::to_cel(old, Some(schema))),
            widest: cel::widest(value).max(before.map(cel::widest).unwrap_or_default()),
        };
        let here = if path.is_empty() { "<nil>" } else { path };
        for compiled in &rules.own {
            if self.is_over {
                return;
            }
            let subject = Subject { schema, value, here, path, unchanged };
            self.rule(compiled, &subject, &bindings);
        }
    }

    fn rule(&mut self, compiled: &Compiled, subject: &Subject<'_>, bindings: &Bindings) {
        let kind = subject.schema.kind.as_str();
        let program = match &compiled.program {
            Ok(program) => program,
            Err(why) => {
                let detail = format!("rule compile error: {why}");
                self.errors.push(FieldError::invalid(subject.here, kind, detail));
                return;
            }
        };
        let optional = compiled.rule.optional_old_self == Some(true);
        if program.uses_old && bindings.old.is_none() && !optional {
            return;
        }
        let words = compiled.words();
        let detail = match program.evaluate(bindings, optional) {
            Ok(Cel::Bool(true)) => return,
            Ok(_) => match compiled.message(bindings) {
                Ok(message) => return self.broken(compiled, program, subject, message),
                Err(_) => {
                    self.is_over = true;
                    "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run".to_owned()
                }
            },
            Err(Trouble::TooMuch) => {
                self.is_over = true;
                OUT_OF_BUDGET.to_owned()
            }
            Err(Trouble::NoOverload(why)) => format!(
                "'{why}': call arguments did not match a supported operator, function or macro signature for rule: {words}"
            ),
            Err(Trouble::Other(why)) => format!("{why} evaluating rule: {words}"),
        };
        self.errors.push(FieldError::invalid(subject.here, kind, detail));
    }

    fn broken(&mut self, compiled: &Compiled, program: &Program, subject: &Subject<'_>, message: String) {
        if !program.uses_old && subject.unchanged.holds() {
            return;
        }
        let field = match &compiled.field {
            Some(rest) if subject.path.is_empty() => rest.clone(),
            Some(rest) => format!("{}.{rest}", subject.path),
            None => subject.here.to_owned(),
        };
        let is_whole = matches!(subject.schema.kind.as_str(), "object" | "array");
        let value = (!is_whole).then(|| super::shown(subject.value));
        let (kind, detail) = match compiled.rule.reason.as_deref() {
            Some("FieldValueForbidden") => (FieldErrorKind::Forbidden, message),
            Some("FieldValueRequired") => (FieldErrorKind::Required, message),
            Some("FieldValueDuplicate") => (FieldErrorKind::Duplicate, String::new()),
            _ => (FieldErrorKind::Invalid, message),
        };
        self.errors.push(FieldError::new(kind, field, value, detail));
    }
}

/// What a rule is about.
struct Subject<'a> {
    schema: &'a Schema,
    value: &'a Value,
    /// As errors name it; the root has no name.
    here: &'a str,
    path: &'a str,
    unchanged: Unchanged<'a>,
}
