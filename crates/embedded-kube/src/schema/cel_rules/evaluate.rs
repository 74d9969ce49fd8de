//! Evaluates CEL rules for an object.

use kube_cel::cel::Value as Cel;
use serde_json::Value;

use super::{CelRules, CompiledRule};
use crate::{
    schema::{
        cel::{self, Bindings, EvaluationError, Program},
        correlate::{CorrelatedValue, matching_item},
        display_value,
        list_validation::child_path,
        parse::Schema,
    },
    status_error::{FieldError, FieldErrorKind},
};

const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";
const OUT_OF_BUDGET_FOR_MESSAGE: &str = "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run";

/// The value that rules are evaluated for.
#[derive(Clone, Copy)]
pub(super) struct RuleSubject<'a> {
    pub rules: &'a CelRules,
    pub schema: &'a Schema,
    pub value: &'a Value,
    /// The correlated old value.
    pub old: Option<&'a Value>,
    pub path: &'a str,
    pub unchanged: ChangeCorrelation<'a>,
}

impl RuleSubject<'_> {
    /// The path in errors; the root has no name.
    fn error_path(&self) -> &str {
        if self.path.is_empty() { "<nil>" } else { self.path }
    }
}

/// Correlation of a value and of its nearest correlatable parent, to detect unchanged values.
#[derive(Clone, Copy)]
pub(super) struct ChangeCorrelation<'a> {
    pub here: Option<CorrelatedValue<'a>>,
    pub above: Option<CorrelatedValue<'a>>,
}

impl ChangeCorrelation<'_> {
    fn is_unchanged(self) -> bool {
        self.here.or(self.above).is_some_and(CorrelatedValue::is_unchanged)
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

/// Evaluates rules and collects errors.
#[derive(Default)]
pub(super) struct RuleEvaluator {
    pub errors: Vec<FieldError>,
    /// No further rules are evaluated.
    is_budget_exhausted: bool,
}

impl RuleEvaluator {
    /// Evaluates a value and its children.
    pub fn evaluate_value(&mut self, subject: &RuleSubject<'_>) {
        if subject.value.is_null() || self.is_budget_exhausted {
            return;
        }
        let old = subject.old.filter(|old| !old.is_null());
        let subject = RuleSubject { old, ..*subject };
        self.evaluate_own_rules(&subject);
        match subject.value {
            Value::Array(items) => self.evaluate_items(items, &subject),
            Value::Object(map) => {
                map.iter().for_each(|(key, value)| self.evaluate_entry(key, value, &subject));
            }
            _ => {}
        }
    }

    fn evaluate_items(&mut self, items: &[Value], subject: &RuleSubject<'_>) {
        let (Some(rules), Some(schema)) = (&subject.rules.items, subject.schema.items.as_deref()) else {
            return;
        };
        for (index, value) in items.iter().enumerate() {
            let old = subject.old.and_then(|old| matching_item(subject.schema, old, value));
            let path = format!("{}[{index}]", subject.path);
            let unchanged = subject.unchanged.index(index);
            self.evaluate_value(&RuleSubject { rules, schema, value, old, path: &path, unchanged });
        }
    }

    fn evaluate_entry(&mut self, key: &str, value: &Value, subject: &RuleSubject<'_>) {
        let old = subject.old.and_then(|old| old.get(key));
        let unchanged = subject.unchanged.key(key);
        let (rules, schema, path) = match subject.schema.properties.get(key) {
            Some(schema) => (subject.rules.properties.get(key), schema, child_path(subject.path, key)),
            None => {
                let Some(schema) = subject.schema.additional_schema() else { return };
                (subject.rules.additional.as_deref(), schema, format!("{}[{key}]", subject.path))
            }
        };
        if let Some(rules) = rules {
            self.evaluate_value(&RuleSubject { rules, schema, value, old, path: &path, unchanged });
        }
    }

    /// Evaluates the rules of the value itself.
    fn evaluate_own_rules(&mut self, subject: &RuleSubject<'_>) {
        let own = &subject.rules.own;
        if own.is_empty() {
            return;
        }
        let uses_old = own.iter().any(|one| one.program.as_ref().is_ok_and(|program| program.uses_old));
        let old = subject.old.filter(|_| uses_old);
        let bindings = Bindings {
            this: cel::to_cel(subject.value, Some(subject.schema)),
            old: old.map(|old| cel::to_cel(old, Some(subject.schema))),
            widest: cel::max_width(subject.value).max(old.map(cel::max_width).unwrap_or_default()),
        };
        for compiled in own {
            if !self.is_budget_exhausted {
                self.evaluate_rule(compiled, subject, &bindings);
            }
        }
    }

    fn evaluate_rule(&mut self, compiled: &CompiledRule, subject: &RuleSubject<'_>, bindings: &Bindings) {
        let kind = subject.schema.kind.as_str();
        let program = match &compiled.program {
            Ok(program) => program,
            Err(why) => {
                let detail = format!("rule compile error: {why}");
                self.errors.push(FieldError::invalid(subject.error_path(), kind, detail));
                return;
            }
        };
        let optional = compiled.rule.optional_old_self == Some(true);
        if program.uses_old && bindings.old.is_none() && !optional {
            return;
        }
        let words = compiled.display_name();
        let detail = match program.evaluate(bindings, optional) {
            Ok(Cel::Bool(true)) => return,
            Ok(_) => match compiled.failure_message(bindings) {
                Ok(message) => return self.report_violation(compiled, program, subject, message),
                Err(_) => {
                    self.is_budget_exhausted = true;
                    OUT_OF_BUDGET_FOR_MESSAGE.to_owned()
                }
            },
            Err(EvaluationError::BudgetExceeded) => {
                self.is_budget_exhausted = true;
                OUT_OF_BUDGET.to_owned()
            }
            Err(EvaluationError::NoOverload(why)) => format!(
                "'{why}': call arguments did not match a supported operator, function or macro signature for rule: {words}"
            ),
            Err(EvaluationError::Other(why)) => format!("{why} evaluating rule: {words}"),
        };
        self.errors.push(FieldError::invalid(subject.error_path(), kind, detail));
    }

    fn report_violation(
        &mut self,
        compiled: &CompiledRule,
        program: &Program,
        subject: &RuleSubject<'_>,
        message: String,
    ) {
        if !program.uses_old && subject.unchanged.is_unchanged() {
            return;
        }
        let field = match &compiled.field {
            Some(rest) if subject.path.is_empty() => rest.clone(),
            Some(rest) => format!("{}.{rest}", subject.path),
            None => subject.error_path().to_owned(),
        };
        let is_whole = matches!(subject.schema.kind.as_str(), "object" | "array");
        let value = (!is_whole).then(|| display_value(subject.value));
        let (kind, detail) = match compiled.rule.reason.as_deref() {
            Some("FieldValueForbidden") => (FieldErrorKind::Forbidden, message),
            Some("FieldValueRequired") => (FieldErrorKind::Required, message),
            Some("FieldValueDuplicate") => (FieldErrorKind::Duplicate, String::new()),
            _ => (FieldErrorKind::Invalid, message),
        };
        self.errors.push(FieldError::new(kind, field, value, detail));
    }
}
