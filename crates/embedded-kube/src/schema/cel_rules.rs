//! `x-kubernetes-validations`: compiled CEL rules of a schema.

mod evaluate;

use std::collections::BTreeMap;

use kube_cel::cel::Value as Cel;
use serde_json::{Value, json};

use self::evaluate::{ChangeCorrelation, RuleEvaluator, RuleSubject};
use super::{
    blocking::{on_large_stack, run_blocking},
    cel::{self, Bindings, CelType, EvaluationError, Program, ResultType, Scope, with_budget},
    correlate::CorrelatedValue,
    field_path,
    parse::{Schema, ValidationRule},
};
use crate::status_error::FieldError;

/// Longer messages from expressions are not shown.
const MAX_MESSAGE_BYTES: usize = 5 * 1024;

/// Rules of a schema and of its children.
#[derive(Debug, Default)]
pub struct CelRules {
    own: Vec<CompiledRule>,
    properties: BTreeMap<String, Self>,
    items: Option<Box<Self>>,
    additional: Option<Box<Self>>,
}

#[derive(Debug)]
struct CompiledRule {
    rule: ValidationRule,
    program: Result<Program, String>,
    message: Option<Result<Program, String>>,
    /// `fieldPath`, normalised.
    field: Option<String>,
}

impl CelRules {
    /// Compiles all rules; `None` if there are none.
    pub fn compile(schema: &Schema, is_resource: bool) -> Option<Self> {
        if !has_rules(schema) {
            return None;
        }
        on_large_stack(|| Self::compile_here(schema, is_resource))
            .unwrap_or_else(|| Some(Self::reject_all(schema)))
    }

    /// One large stack for the whole schema: starting one takes longer than compiling a rule.
    fn compile_here(schema: &Schema, is_resource: bool) -> Option<Self> {
        let below = |child: &Schema| Self::compile_here(child, child.embedded);
        let rules = Self {
            own: schema.rules.iter().map(|rule| CompiledRule::new(rule, schema, is_resource)).collect(),
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

    /// Used if no large stack is available: rejects every object rather than skipping validation.
    fn reject_all(schema: &Schema) -> Self {
        let why = || "compilation failed: ERROR: <input>:1:1: the expression cannot be read".to_owned();
        let rule =
            ValidationRule { text: "true".to_owned(), ..schema.rules.first().cloned().unwrap_or_default() };
        let own = vec![CompiledRule { rule, program: Err(why()), message: None, field: None }];
        Self { own, ..Self::default() }
    }

    /// Rules that do not compile, or use `oldSelf` where values cannot be correlated.
    pub fn compile_errors(&self, schema: &Schema, path: &str) -> Vec<FieldError> {
        let mut errors = Vec::new();
        self.collect_compile_errors(schema, path, None, &mut errors);
        errors
    }

    fn collect_compile_errors(
        &self,
        schema: &Schema,
        path: &str,
        forgets: Option<&str>,
        errors: &mut Vec<FieldError>,
    ) {
        if let (Some(rules), Some(child)) = (&self.additional, schema.additional_schema()) {
            rules.collect_compile_errors(child, &format!("{path}.additionalProperties"), forgets, errors);
        }
        for (name, rules) in &self.properties {
            if let Some(child) = schema.properties.get(name) {
                rules.collect_compile_errors(child, &format!("{path}.properties[{name}]"), forgets, errors);
            }
        }
        if let (Some(rules), Some(child)) = (&self.items, schema.items.as_deref()) {
            // Items without keys cannot be correlated with the old list.
            let here = (schema.list_type.as_deref() != Some("map")).then_some(path);
            rules.collect_compile_errors(child, &format!("{path}.items"), forgets.or(here), errors);
        }
        for (index, compiled) in self.own.iter().enumerate() {
            let place = format!("{path}.x-kubernetes-validations[{index}]");
            compiled.compile_errors(&place, forgets, errors);
        }
    }

    /// Evaluates the rules for a value at `path`; `old` is the correlated old value.
    pub fn validate(
        &self,
        schema: &Schema,
        value: &Value,
        old: Option<&Value>,
        path: &str,
    ) -> Vec<FieldError> {
        let pair = old.map(|old| CorrelatedValue { new: value, old, schema });
        let unchanged = ChangeCorrelation { here: pair, above: None };
        let mut judge = RuleEvaluator::default();
        let subject = RuleSubject { rules: self, schema, value, old, path, unchanged };
        run_blocking(|| with_budget(|| judge.evaluate_value(&subject)));
        judge.errors
    }
}

fn has_rules(schema: &Schema) -> bool {
    let below = schema.properties.values().chain(schema.items.as_deref()).chain(schema.additional_schema());
    !schema.rules.is_empty() || below.into_iter().any(has_rules)
}

impl CompiledRule {
    fn new(rule: &ValidationRule, schema: &Schema, is_resource: bool) -> Self {
        let optional_old = rule.optional_old_self == Some(true);
        let Some(this) = CelType::from_schema(schema, is_resource) else {
            let why = "failed to convert to declType for CEL validation rules".to_owned();
            return Self { rule: rule.clone(), program: Err(why), message: None, field: None };
        };
        let scope = Scope { this, optional_old };
        let message = Some(rule.message_expression.as_str()).filter(|text| !text.is_empty());
        let field = Some(rule.field_path.as_str()).filter(|path| !path.is_empty());
        Self {
            program: cel::compile(&rule.text, &scope, ResultType::Bool),
            message: message.map(|text| cel::compile(text, &scope, ResultType::Text)),
            field: field
                .and_then(|path| field_path::resolve_field_path(path, schema, true).ok())
                .map(|(steps, _)| field_path::format_path(&steps)),
            rule: rule.clone(),
        }
    }

    fn compile_errors(&self, place: &str, forgets: Option<&str>, errors: &mut Vec<FieldError>) {
        let rule = &self.rule;
        // Field names of kube-apiserver's internal type.
        let shown = || {
            json!({
                "Rule": rule.text, "Message": rule.message, "MessageExpression": rule.message_expression,
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
                errors.push(FieldError::invalid(format!("{place}.rule"), rule.text.as_str(), detail));
            }
            (false, _, Some(optional)) => {
                let detail = "may not be set if oldSelf is not used in rule";
                errors.push(FieldError::invalid(format!("{place}.optionalOldSelf"), optional, detail));
            }
            _ => {}
        }
    }

    /// Name of the rule in errors.
    fn display_name(&self) -> &str {
        let message = self.rule.message.trim();
        if message.is_empty() { self.rule.text.trim() } else { message }
    }

    /// Message of a violated rule.
    fn failure_message(&self, bindings: &Bindings) -> Result<String, EvaluationError> {
        let fixed = match self.rule.message.trim() {
            "" => format!("failed rule: {}", self.display_name()),
            message => message.to_owned(),
        };
        let Some(Ok(program)) = &self.message else { return Ok(fixed) };
        match program.evaluate(bindings, self.rule.optional_old_self == Some(true)) {
            Ok(Cel::String(text)) => {
                let text = text.trim();
                let is_good = !text.is_empty() && text.len() <= MAX_MESSAGE_BYTES && !text.contains('\n');
                Ok(if is_good { text.to_owned() } else { fixed })
            }
            Err(EvaluationError::BudgetExceeded) => Err(EvaluationError::BudgetExceeded),
            _ => Ok(fixed),
        }
    }
}
