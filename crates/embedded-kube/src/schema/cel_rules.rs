//! `x-kubernetes-validations`: rules of a schema, compiled, and what is wrong with them.

mod judge;

use std::collections::BTreeMap;

use kube_cel::cel::Value as Cel;
use serde_json::{Value, json};

use self::judge::{Judge, Subject, Unchanged};
use super::{
    aside::{aside, roomy},
    cel::{self, Bindings, Program, Scope, Trouble, Type, Wanted, metered},
    correlate::Correlated,
    parse::{Rule, Schema},
    paths,
};
use crate::failure::FieldError;

/// Longer messages from expressions are not shown.
const MOST_MESSAGE: usize = 5 * 1024;

/// Rules of one schema and of what is below it.
#[derive(Debug, Default)]
pub struct Rules {
    own: Vec<Compiled>,
    properties: BTreeMap<String, Self>,
    items: Option<Box<Self>>,
    additional: Option<Box<Self>>,
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
        if !has_rules(schema) {
            return None;
        }
        roomy(|| Self::compile_here(schema, is_resource)).unwrap_or_else(|| Some(Self::unreadable(schema)))
    }

    /// One stack for all of a schema: to make one takes longer than to compile a rule.
    fn compile_here(schema: &Schema, is_resource: bool) -> Option<Self> {
        let below = |child: &Schema| Self::compile_here(child, child.embedded);
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

    /// For when there is no stack to compile on: refuses everything, rather than let anything through.
    fn unreadable(schema: &Schema) -> Self {
        let why = || "compilation failed: ERROR: <input>:1:1: the expression cannot be read".to_owned();
        let rule = Rule { text: "true".to_owned(), ..schema.rules.first().cloned().unwrap_or_default() };
        let own = vec![Compiled { rule, program: Err(why()), message: None, field: None }];
        Self { own, ..Self::default() }
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
        let unchanged = Unchanged { here: pair, above: None };
        let mut judge = Judge::default();
        let subject = Subject { rules: self, schema, value, old, path, unchanged };
        aside(|| metered(|| judge.value(&subject)));
        judge.errors
    }
}

fn has_rules(schema: &Schema) -> bool {
    let below = schema.properties.values().chain(schema.items.as_deref()).chain(schema.additional_schema());
    !schema.rules.is_empty() || below.into_iter().any(has_rules)
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
            program: cel::compile(&rule.text, &scope, Wanted::Bool),
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

    /// What the rule is called in errors.
    fn words(&self) -> &str {
        let message = self.rule.message.trim();
        if message.is_empty() { self.rule.text.trim() } else { message }
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
