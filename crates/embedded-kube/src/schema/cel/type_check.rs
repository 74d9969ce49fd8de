//! Type-checks an expression against its schema: unknown names and fields, operands of the wrong type.
//!
//! Unknown types are accepted; the evaluator checks them.

use kube_cel::cel::{
    IdedExpr,
    common::ast::{CallExpr, ComprehensionExpr, Expr, LiteralValue, SelectExpr, operators},
};

use super::{
    Scope, escape,
    functions::{BOOLS, INTS, LIBRARIES, OTHERS, TEXTS},
    names, values,
};
use crate::schema::parse::Schema;

/// A CEL type, as far as it is checked.
#[derive(Debug, Clone, Copy)]
pub enum CelType<'a> {
    Dyn,
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Time,
    Span,
    Null,
    List,
    Map,
    Optional,
    ListOf(&'a Schema),
    MapOf(&'a Schema),
    /// An object with declared fields; at the root of a resource also with its type and metadata names.
    Object(&'a Schema, bool),
    /// `metadata` of a resource.
    Meta,
}

impl<'a> CelType<'a> {
    /// The type that a schema describes; `None` if rules cannot access it.
    pub fn from_schema(schema: &'a Schema, is_resource: bool) -> Option<Self> {
        if schema.int_or_string {
            return Some(Self::Dyn);
        }
        Some(match schema.kind.as_str() {
            "array" => {
                let items = schema.items.as_deref()?;
                Self::from_schema(items, items.embedded)?;
                Self::ListOf(items)
            }
            "object" => match schema.additional_schema() {
                Some(values) => {
                    Self::from_schema(values, values.embedded)?;
                    Self::MapOf(values)
                }
                None => Self::Object(schema, is_resource),
            },
            "string" => match schema.format.as_str() {
                "byte" => Self::Bytes,
                "duration" => Self::Span,
                "date" | "date-time" => Self::Time,
                _ => Self::Text,
            },
            "boolean" => Self::Bool,
            "number" => Self::Double,
            "integer" => Self::Int,
            _ => return None,
        })
    }

    pub fn may_be_bool(self) -> bool {
        matches!(self, Self::Bool | Self::Dyn)
    }

    pub fn may_be_text(self) -> bool {
        matches!(self, Self::Text | Self::Dyn)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Dyn => "dyn",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::Text => "string",
            Self::Bytes => "bytes",
            Self::Time => "google.protobuf.Timestamp",
            Self::Span => "google.protobuf.Duration",
            Self::Null => "null",
            Self::List => "list(dyn)",
            Self::Map => "map(dyn, dyn)",
            Self::Optional => "optional_type(dyn)",
            Self::ListOf(items) => match Self::from_schema(items, false) {
                Some(Self::Text) => "list(string)",
                Some(Self::Int) => "list(int)",
                Some(Self::Bool) => "list(bool)",
                Some(Self::Double) => "list(double)",
                _ => "list(object)",
            },
            Self::MapOf(values) => match Self::from_schema(values, false) {
                Some(Self::Text) => "map(string, string)",
                Some(Self::Int) => "map(string, int)",
                _ => "map(string, object)",
            },
            Self::Object(..) | Self::Meta => "object",
        }
    }

    /// Whether comparing both types is an error.
    fn is_incompatible_with(self, other: Self) -> bool {
        let open = |it: Self| matches!(it, Self::Dyn | Self::Null | Self::Optional);
        !open(self) && !open(other) && self.family() != other.family()
    }

    fn family(self) -> u8 {
        match self {
            Self::Dyn | Self::Null | Self::Optional => 0,
            Self::Bool => 1,
            Self::Int => 2,
            Self::Uint => 3,
            Self::Double => 4,
            Self::Text => 5,
            Self::Bytes => 6,
            Self::Time => 7,
            Self::Span => 8,
            Self::List | Self::ListOf(_) => 9,
            Self::Map | Self::MapOf(_) => 10,
            Self::Object(..) | Self::Meta => 11,
        }
    }

    fn element(self) -> Self {
        match self {
            Self::ListOf(schema) | Self::MapOf(schema) => {
                Self::from_schema(schema, schema.embedded).unwrap_or(Self::Dyn)
            }
            _ => Self::Dyn,
        }
    }
}

/// The type of an expression, or an error.
pub fn check<'a>(expression: &IdedExpr, source: &str, scope: &Scope<'a>) -> Result<CelType<'a>, String> {
    let old = if scope.optional_old { CelType::Optional } else { scope.this };
    let mut checker =
        TypeChecker { source, variables: vec![("self".to_owned(), scope.this), ("oldSelf".to_owned(), old)] };
    checker.expression(expression)
}

struct TypeChecker<'s, 'a> {
    source: &'s str,
    variables: Vec<(String, CelType<'a>)>,
}

impl<'a> TypeChecker<'_, 'a> {
    fn expression(&mut self, expression: &IdedExpr) -> Result<CelType<'a>, String> {
        Ok(match &expression.expr {
            Expr::Unspecified => CelType::Dyn,
            Expr::Literal(literal) => match literal {
                LiteralValue::Boolean(_) => CelType::Bool,
                LiteralValue::Bytes(_) => CelType::Bytes,
                LiteralValue::Double(_) => CelType::Double,
                LiteralValue::Int(_) => CelType::Int,
                LiteralValue::Null => CelType::Null,
                LiteralValue::String(_) => CelType::Text,
                LiteralValue::UInt(_) => CelType::Uint,
            },
            Expr::Ident(name) => self.ident(name)?,
            Expr::Select(select) => self.select(select)?,
            Expr::Call(call) => self.call(call)?,
            Expr::Comprehension(it) => self.comprehension(it)?,
            Expr::List(_) => {
                self.parts(expression)?;
                CelType::List
            }
            Expr::Map(_) | Expr::Struct(_) => {
                self.parts(expression)?;
                CelType::Map
            }
        })
    }

    fn parts(&mut self, expression: &IdedExpr) -> Result<(), String> {
        names::subexpressions(expression).into_iter().try_for_each(|part| self.expression(part).map(drop))
    }

    fn ident(&self, name: &str) -> Result<CelType<'a>, String> {
        if let Some((_, kind)) = self.variables.iter().rev().find(|(known, _)| known == name) {
            return Ok(*kind);
        }
        let is_type = values::TYPE_NAMES.contains(&name) || name == "type" || name == "google";
        if is_type || name.starts_with(['#', '@']) {
            return Ok(CelType::Dyn);
        }
        Err(self.error(self.word(name), &format!("undeclared reference to '{name}' (in container '')")))
    }

    fn select(&mut self, select: &SelectExpr) -> Result<CelType<'a>, String> {
        let operand = self.expression(&select.operand)?;
        let field = select.field.as_str();
        let found = match operand {
            CelType::Dyn | CelType::Map => Some(CelType::Dyn),
            CelType::Optional => Some(CelType::Optional),
            CelType::MapOf(_) => Some(operand.element()),
            CelType::Object(schema, is_resource) => field_of(schema, is_resource, field),
            CelType::Meta => matches!(field, "name" | "generateName").then_some(CelType::Text),
            other => {
                let text = format!("type '{}' does not support field selection", other.name());
                return Err(self.error(self.dot(field), &text));
            }
        };
        let found =
            found.ok_or_else(|| self.error(self.dot(field), &format!("undefined field '{field}'")))?;
        Ok(if select.test { CelType::Bool } else { found })
    }

    fn call(&mut self, call: &CallExpr) -> Result<CelType<'a>, String> {
        let mut kinds = Vec::with_capacity(call.args.len());
        let library = call.target.as_ref().and_then(|target| match &target.expr {
            Expr::Ident(name) if LIBRARIES.contains(&name.as_str()) => Some(name.as_str()),
            _ => None,
        });
        let is_library = library.is_some_and(|name| !self.variables.iter().any(|(known, _)| known == name));
        if let Some(target) = call.target.as_ref().filter(|_| !is_library) {
            self.expression(target)?;
        }
        for arg in &call.args {
            kinds.push(self.expression(arg)?);
        }
        if let Some(kind) = self.operator(&call.func_name, &kinds)? {
            return Ok(kind);
        }
        let name = call.func_name.as_str();
        match name {
            _ if is_library && library == Some("optional") => Ok(CelType::Optional),
            _ if is_library && library == Some("math") => Ok(CelType::Dyn),
            _ if BOOLS.contains(&name) => Ok(CelType::Bool),
            _ if INTS.contains(&name) => Ok(CelType::Int),
            _ if TEXTS.contains(&name) => {
                Ok(if name == "format" && is_library { CelType::Dyn } else { CelType::Text })
            }
            _ if OTHERS.contains(&name) || name.starts_with('#') => Ok(CelType::Dyn),
            _ => {
                let text = format!("undeclared reference to '{name}' (in container '')");
                Err(self.error(self.paren(name), &text))
            }
        }
    }

    /// Result type of an operator; `None` if it is not an operator.
    fn operator(&self, name: &str, kinds: &[CelType<'a>]) -> Result<Option<CelType<'a>>, String> {
        let sign = name.trim_matches('_');
        let refuse = || {
            let given: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
            let text = format!("found no matching overload for '{name}' applied to '({})'", given.join(", "));
            self.error(self.source.find(sign), &text)
        };
        Ok(Some(match (name, kinds) {
            (operators::EQUALS | operators::NOT_EQUALS, [left, right]) => {
                if left.is_incompatible_with(*right) {
                    return Err(refuse());
                }
                CelType::Bool
            }
            (
                operators::LESS | operators::LESS_EQUALS | operators::GREATER | operators::GREATER_EQUALS,
                [left, right],
            ) => {
                let number = |it: &CelType<'_>| matches!(it, CelType::Int | CelType::Uint | CelType::Double);
                if left.is_incompatible_with(*right) && !(number(left) && number(right)) {
                    return Err(refuse());
                }
                CelType::Bool
            }
            (operators::LOGICAL_AND | operators::LOGICAL_OR, [left, right]) => {
                if !left.may_be_bool() || !right.may_be_bool() {
                    return Err(refuse());
                }
                CelType::Bool
            }
            (operators::LOGICAL_NOT, [only]) => {
                if !only.may_be_bool() {
                    return Err(refuse());
                }
                CelType::Bool
            }
            (operators::IN | operators::NOT_STRICTLY_FALSE, _) => CelType::Bool,
            (operators::CONDITIONAL, [condition, yes, no]) => {
                if !condition.may_be_bool() || yes.is_incompatible_with(*no) {
                    return Err(refuse());
                }
                if matches!(yes, CelType::Dyn | CelType::Null) { *no } else { *yes }
            }
            (operators::ADD | operators::SUBSTRACT, [left, right]) => match (left, right) {
                (CelType::Time | CelType::Span, _) | (_, CelType::Time | CelType::Span) => CelType::Dyn,
                (CelType::Bool, _) | (_, CelType::Bool) => return Err(refuse()),
                (left, right) if left.is_incompatible_with(*right) => return Err(refuse()),
                (left, _) => *left,
            },
            (operators::MULTIPLY | operators::DIVIDE | operators::MODULO, [left, right]) => {
                if left.is_incompatible_with(*right) || matches!(left, CelType::Text | CelType::Bool) {
                    return Err(refuse());
                }
                *left
            }
            (operators::NEGATE, [only]) => *only,
            (operators::INDEX, [target, _]) => target.element(),
            (operators::OPT_INDEX | operators::OPT_SELECT, _) => CelType::Optional,
            _ => return Ok(None),
        }))
    }

    fn comprehension(&mut self, it: &ComprehensionExpr) -> Result<CelType<'a>, String> {
        let range = self.expression(&it.iter_range)?;
        let start = self.expression(&it.accu_init)?;
        let known = self.variables.len();
        let each = match range {
            CelType::ListOf(_) => range.element(),
            CelType::MapOf(_) => CelType::Text,
            CelType::Object(..) | CelType::Bool | CelType::Int | CelType::Text | CelType::Double => {
                let text = format!(
                    "expression of type '{}' cannot be range of a comprehension (must be list, map, or dynamic)",
                    range.name()
                );
                return Err(self.error(Some(0), &text));
            }
            _ => CelType::Dyn,
        };
        self.variables.push((it.iter_var.clone(), each));
        if let Some(second) = &it.iter_var2 {
            self.variables.push((second.clone(), range.element()));
        }
        self.variables.push((it.accu_var.clone(), start));
        self.expression(&it.loop_cond)?;
        self.expression(&it.loop_step)?;
        let result = self.expression(&it.result);
        self.variables.truncate(known);
        result
    }

    /// Position of a word.
    fn word(&self, word: &str) -> Option<usize> {
        let is_part =
            |letter: Option<char>| letter.is_some_and(|it| it.is_alphanumeric() || it == '_' || it == '.');
        self.source.match_indices(word).map(|(at, _)| at).find(|at| {
            let before = self.source.get(..*at).and_then(|text| text.chars().next_back());
            let after = self.source.get(at + word.len()..).and_then(|text| text.chars().next());
            !is_part(before) && !after.is_some_and(|it| it.is_alphanumeric() || it == '_')
        })
    }

    /// Position of the dot before a field.
    fn dot(&self, field: &str) -> Option<usize> {
        self.source.match_indices(&format!(".{field}")).map(|(at, _)| at).find(|at| {
            let after = self.source.get(at + field.len() + 1..).and_then(|text| text.chars().next());
            !after.is_some_and(|it| it.is_alphanumeric() || it == '_')
        })
    }

    /// Position of the parenthesis after a function name.
    fn paren(&self, name: &str) -> Option<usize> {
        self.source.find(&format!("{name}(")).map(|at| at + name.len())
    }

    /// An error with its position, formatted as by the real compiler.
    fn error(&self, at: Option<usize>, text: &str) -> String {
        let at = at.unwrap_or_default();
        let before = self.source.get(..at).unwrap_or_default();
        let line = before.matches('\n').count();
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count();
        let snippet = self.source.lines().nth(line).unwrap_or_default();
        let dots = ".".repeat(column);
        format!("ERROR: <input>:{}:{}: {text}\n | {snippet}\n | {dots}^", line + 1, column + 1)
    }
}

fn field_of<'a>(schema: &'a Schema, is_resource: bool, field: &str) -> Option<CelType<'a>> {
    if is_resource {
        match field {
            "apiVersion" | "kind" => return Some(CelType::Text),
            "metadata" => return Some(CelType::Meta),
            _ => {}
        }
    }
    let direct =
        schema.properties.get_key_value(field).filter(|(name, _)| escape(name).as_deref() == Some(field));
    let found =
        direct.or_else(|| schema.properties.iter().find(|(name, _)| escape(name).as_deref() == Some(field)));
    let (_, child) = found?;
    CelType::from_schema(child, child.embedded)
}
