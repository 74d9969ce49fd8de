//! CEL expressions: compiled once, evaluated within a budget.
//!
//! The evaluator is the `cel` crate with the Kubernetes libraries of `kube-cel`. Added here: type checking against the
//! schema (for the errors that the real compiler reports), macros that the evaluator lacks, `type` and `dyn`, and a
//! limit on the cost of a rule.

mod budget;
mod cost;
mod functions;
mod macros;
mod names;
mod type_check;
mod values;

use std::{
    cell::OnceCell,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use kube_cel::{
    KubeCelExt,
    cel::{Context, ExecutionError, IdedExpr, Value as Cel, parser::Parser},
};

use self::budget::TransferredBudget;
pub use self::{
    budget::with_budget,
    names::escape,
    type_check::CelType,
    values::{max_width, to_cel},
};
use super::blocking::on_large_stack;

/// Longer expressions are rejected before parsing.
const MAX_EXPRESSION_BYTES: usize = 100_000;

/// Deeper expressions are rejected; the real compiler has the same limit.
const MAX_DEPTH: usize = 250;

/// Deeper expressions need a larger stack than threads usually have.
const MAX_DEPTH_ON_SMALL_STACK: usize = 100;

/// Variables that an expression may use.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    pub this: CelType<'a>,
    /// Whether `oldSelf` is an optional value.
    pub optional_old: bool,
}

/// A compiled expression.
#[derive(Debug)]
pub struct Program {
    expression: IdedExpr,
    is_deep: bool,
    /// Whether it refers to `oldSelf`.
    pub uses_old: bool,
}

/// Required result type of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultType {
    Bool,
    Text,
}

/// Compiles an expression; needs a large stack (see [`on_large_stack`](super::aside::roomy)). Errors have the texts of the real
/// compiler, as far as they are known.
pub fn compile(source: &str, scope: &Scope<'_>, wanted: ResultType) -> Result<Program, String> {
    let prefix = if wanted == ResultType::Bool { "" } else { "messageExpression " };
    let expression = parse(source).map_err(|why| format!("{prefix}compilation failed: {why}"))?;
    let kind = type_check::check(&expression, source, scope)
        .map_err(|why| format!("{prefix}compilation failed: {why}"))?;
    match wanted {
        ResultType::Bool if !kind.may_be_bool() => {
            return Err("cel expression must evaluate to a bool".to_owned());
        }
        ResultType::Text if !kind.may_be_text() => {
            return Err("messageExpression must evaluate to a string".to_owned());
        }
        _ => {}
    }
    let uses_old = names::mentions(&expression, "oldSelf");
    let expression = budget::instrument(expression);
    let is_deep = names::depth(&expression, MAX_DEPTH_ON_SMALL_STACK) > MAX_DEPTH_ON_SMALL_STACK;
    Ok(Program { expression, is_deep, uses_old })
}

fn parse(source: &str) -> Result<IdedExpr, String> {
    if source.len() > MAX_EXPRESSION_BYTES {
        return Err(format!(
            "ERROR: <input>:-1:0: expression code point size exceeds limit: size: {}, limit {MAX_EXPRESSION_BYTES}",
            source.len()
        ));
    }
    let parsed = catch_unwind(AssertUnwindSafe(|| {
        let expression = Parser::default().parse(source).map_err(|errors| {
            let all = errors.to_string();
            let parts: Vec<&str> = all.split("\n| ").collect();
            parts.join("\n | ")
        })?;
        if names::depth(&expression, MAX_DEPTH) > MAX_DEPTH {
            return Err(format!("ERROR: <input>:-1:0: expression recursion limit exceeded: {MAX_DEPTH}"));
        }
        Ok(macros::expand_macros(expression))
    }));
    parsed
        .unwrap_or_else(|_| Err("ERROR: <input>:1:1: Syntax error: the expression cannot be read".to_owned()))
}

/// Values of the variables.
#[derive(Debug, Clone)]
pub struct Bindings {
    pub this: Cel,
    pub old: Option<Cel>,
    /// Size of the largest list or map.
    pub widest: usize,
}

/// Why an evaluation failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EvaluationError {
    /// The budget is exceeded.
    BudgetExceeded,
    /// No overload of an operator or function accepts the values.
    NoOverload(String),
    /// Any other error.
    Other(String),
}

impl Program {
    /// Evaluates within the budget of [`with_budget`]. `optional` binds `oldSelf` as an optional value.
    pub fn evaluate(&self, bindings: &Bindings, optional: bool) -> Result<Cel, EvaluationError> {
        if budget::is_exhausted() || cost::estimate_cost(&self.expression, bindings.widest) > cost::MAX_COST {
            return Err(EvaluationError::BudgetExceeded);
        }
        let result = if self.is_deep {
            self.resolve_deep(bindings, optional)
        } else {
            self.resolve(bindings, optional)
        };
        // Also if an operator has swallowed the error.
        if budget::is_exhausted() {
            Err(EvaluationError::BudgetExceeded)
        } else {
            result.map_err(evaluation_error)
        }
    }

    fn resolve_deep(&self, bindings: &Bindings, optional: bool) -> Result<Cel, ExecutionError> {
        let allowance = TransferredBudget::take();
        let result = on_large_stack(|| {
            allowance.install();
            (self.resolve(bindings, optional), TransferredBudget::take())
        });
        let Some((result, rest)) = result else {
            return Err(ExecutionError::function_error("", "internal error"));
        };
        rest.install();
        result
    }

    fn resolve(&self, bindings: &Bindings, optional: bool) -> Result<Cel, ExecutionError> {
        let result = catch_unwind(AssertUnwindSafe(|| {
            with_library(|library| {
                let mut context = library.new_inner_scope();
                context.add_variable_from_value("self", bindings.this.clone());
                if optional {
                    context.add_variable_from_value("oldSelf", values::optional(bindings.old.clone()));
                } else if let Some(old) = &bindings.old {
                    context.add_variable_from_value("oldSelf", old.clone());
                }
                context.resolve(&self.expression)
            })
        }));
        result.unwrap_or_else(|_| Err(ExecutionError::function_error("", "internal error")))
    }
}

/// Registering the functions is slow and always the same, so each thread does it once.
fn with_library<T>(work: impl FnOnce(&Context<'static>) -> T) -> T {
    thread_local! {
        static LIBRARY: OnceCell<Context<'static>> = const { OnceCell::new() };
    }
    LIBRARY.with(|cell| work(cell.get_or_init(library)))
}

fn library() -> Context<'static> {
    type Outcome = Result<Cel, ExecutionError>;
    let mut context = Context::default().with_all();
    context.add_function("type", |value: Cel| -> Outcome {
        Ok(Cel::String(Arc::new(values::type_name(&value).to_owned())))
    });
    context.add_function("dyn", |value: Cel| -> Outcome { Ok(value) });
    // The real compiler limits the cost; here a range of a billion would exhaust memory.
    context.add_function("lists.range", |count: i64| -> Outcome {
        match count {
            0..=10_000 => Ok(Cel::List(Arc::new((0..count).map(Cel::Int).collect()))),
            _ => Err(ExecutionError::function_error("lists.range", "range is too large")),
        }
    });
    budget::register(&mut context);
    macros::register(&mut context);
    for name in values::TYPE_NAMES {
        context.add_variable_from_value(name, Cel::String(Arc::new(format!("type {name}"))));
    }
    context
}

/// Converts an error, with the texts of the real evaluator.
fn evaluation_error(error: ExecutionError) -> EvaluationError {
    match error {
        ExecutionError::NoSuchKey(key) => EvaluationError::Other(format!("no such key: {key}")),
        ExecutionError::IndexOutOfBounds(index) => {
            EvaluationError::Other(format!("index out of bounds: {}", values::format_scalar(&index)))
        }
        ExecutionError::DivisionByZero(_) => EvaluationError::Other("division by zero".to_owned()),
        ExecutionError::RemainderByZero(_) => EvaluationError::Other("modulus by zero".to_owned()),
        ExecutionError::Overflow(..) => EvaluationError::Other("integer overflow".to_owned()),
        ExecutionError::UndeclaredReference(name) => {
            EvaluationError::Other(format!("no such attribute(s): {name}"))
        }
        ExecutionError::FunctionError { message, .. } => EvaluationError::Other(message),
        ExecutionError::NoSuchOverload
        | ExecutionError::UnsupportedBinaryOperator(..)
        | ExecutionError::UnsupportedUnaryOperator(..)
        | ExecutionError::ValuesNotComparable(..)
        | ExecutionError::UnsupportedTargetType { .. }
        | ExecutionError::NotSupportedAsMethod { .. }
        | ExecutionError::UnexpectedType { .. } => EvaluationError::NoOverload("no such overload".to_owned()),
        other => EvaluationError::Other(other.to_string()),
    }
}
