//! Verdicts of rules on an object.

use kube_cel::cel::Value as Cel;
use serde_json::Value;

use super::{Compiled, Rules};
use crate::{
    failure::{FieldError, FieldErrorKind},
    schema::{
        cel::{self, Bindings, Program, Trouble},
        correlate::{Correlated, matching_item},
        lists::below,
        parse::Schema,
        shown,
    },
};

const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";
const OUT_OF_BUDGET_FOR_MESSAGE: &str = "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run";

/// What rules are about.
#[derive(Clone, Copy)]
pub(super) struct Subject<'a> {
    pub rules: &'a Rules,
    pub schema: &'a Schema,
    pub value: &'a Value,
    /// What it was before, where that can be told.
    pub old: Option<&'a Value>,
    pub path: &'a str,
    pub unchanged: Unchanged<'a>,
}

impl Subject<'_> {
    /// The path as errors name it; the root has no name.
    fn here(&self) -> &str {
        if self.path.is_empty() { "<nil>" } else { self.path }
    }
}

/// Whether a value, or the nearest one above it that can be found in the old object, has not changed.
#[derive(Clone, Copy)]
pub(super) struct Unchanged<'a> {
    pub here: Option<Correlated<'a>>,
    pub above: Option<Correlated<'a>>,
}

impl Unchanged<'_> {
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

/// Collects what rules say.
#[derive(Default)]
pub(super) struct Judge {
    pub errors: Vec<FieldError>,
    /// No further rule is asked.
    is_over: bool,
}

impl Judge {
    /// A value and everything below it.
    pub fn value(&mut self, subject: &Subject<'_>) {
        if subject.value.is_null() || self.is_over {
            return;
        }
        let old = subject.old.filter(|old| !old.is_null());
        let subject = Subject { old, ..*subject };
        self.own(&subject);
        match subject.value {
            Value::Array(items) => self.items(items, &subject),
            Value::Object(map) => map.iter().for_each(|(key, value)| self.entry(key, value, &subject)),
            _ => {}
        }
    }

    fn items(&mut self, items: &[Value], subject: &Subject<'_>) {
        let (Some(rules), Some(schema)) = (&subject.rules.items, subject.schema.items.as_deref()) else {
            return;
        };
        for (index, value) in items.iter().enumerate() {
            let old = subject.old.and_then(|old| matching_item(subject.schema, old, value));
            let path = format!("{}[{index}]", subject.path);
            let unchanged = subject.unchanged.index(index);
            self.value(&Subject { rules, schema, value, old, path: &path, unchanged });
        }
    }

    fn entry(&mut self, key: &str, value: &Value, subject: &Subject<'_>) {
        let old = subject.old.and_then(|old| old.get(key));
        let unchanged = subject.unchanged.key(key);
        let (rules, schema, path) = match subject.schema.properties.get(key) {
            Some(schema) => (subject.rules.properties.get(key), schema, below(subject.path, key)),
            None => {
                let Some(schema) = subject.schema.additional_schema() else { return };
                (subject.rules.additional.as_deref(), schema, format!("{}[{key}]", subject.path))
            }
        };
        if let Some(rules) = rules {
            self.value(&Subject { rules, schema, value, old, path: &path, unchanged });
        }
    }

    /// The rules of the value itself.
    fn own(&mut self, subject: &Subject<'_>) {
        let own = &subject.rules.own;
        if own.is_empty() {
            return;
        }
        let uses_old = own.iter().any(|one| one.program.as_ref().is_ok_and(|program| program.uses_old));
        let old = subject.old.filter(|_| uses_old);
        let bindings = Bindings {
            this: cel::to_cel(subject.value, Some(subject.schema)),
            old: old.map(|old| cel::to_cel(old, Some(subject.schema))),
            widest: cel::widest(subject.value).max(old.map(cel::widest).unwrap_or_default()),
        };
        for compiled in own {
            if !self.is_over {
                self.rule(compiled, subject, &bindings);
            }
        }
    }

    fn rule(&mut self, compiled: &Compiled, subject: &Subject<'_>, bindings: &Bindings) {
        let kind = subject.schema.kind.as_str();
        let program = match &compiled.program {
            Ok(program) => program,
            Err(why) => {
                let detail = format!("rule compile error: {why}");
                self.errors.push(FieldError::invalid(subject.here(), kind, detail));
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
                    OUT_OF_BUDGET_FOR_MESSAGE.to_owned()
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
        self.errors.push(FieldError::invalid(subject.here(), kind, detail));
    }

    fn broken(&mut self, compiled: &Compiled, program: &Program, subject: &Subject<'_>, message: String) {
        if !program.uses_old && subject.unchanged.holds() {
            return;
        }
        let field = match &compiled.field {
            Some(rest) if subject.path.is_empty() => rest.clone(),
            Some(rest) => format!("{}.{rest}", subject.path),
            None => subject.here().to_owned(),
        };
        let is_whole = matches!(subject.schema.kind.as_str(), "object" | "array");
        let value = (!is_whole).then(|| shown(subject.value));
        let (kind, detail) = match compiled.rule.reason.as_deref() {
            Some("FieldValueForbidden") => (FieldErrorKind::Forbidden, message),
            Some("FieldValueRequired") => (FieldErrorKind::Required, message),
            Some("FieldValueDuplicate") => (FieldErrorKind::Duplicate, String::new()),
            _ => (FieldErrorKind::Invalid, message),
        };
        self.errors.push(FieldError::new(kind, field, value, detail));
    }
}
