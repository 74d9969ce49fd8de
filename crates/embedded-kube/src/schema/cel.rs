//! Expressions in CEL: compiled once, evaluated under a bound.
//!
//! The evaluator is the `cel` crate with the Kubernetes libraries of `kube-cel`. Added here: a check of types against
//! the schema (as far as it finds what the real compiler refuses), macros that the evaluator lacks, `type` and `dyn`,
//! and a bound on the work that a rule may make.

mod bound;
mod functions;
mod meter;
mod names;
mod rewrite;
mod typing;
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

use self::meter::Allowance;
pub use self::{
    meter::metered,
    names::escape,
    typing::Type,
    values::{to_cel, widest},
};
use super::aside::roomy;

/// Longer expressions are refused unread.
const MOST_LETTERS: usize = 100_000;

/// Deeper expressions are refused; the real compiler has the same bound.
const MOST_DEPTH: usize = 250;

/// Deeper expressions, as they are evaluated, need more stack than threads usually have.
const SHALLOW: usize = 100;

/// What an expression may refer to.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    pub this: Type<'a>,
    /// `oldSelf` is an optional value.
    pub optional_old: bool,
}

/// A compiled expression.
#[derive(Debug)]
pub struct Program {
    expression: IdedExpr,
    is_deep: bool,
    /// Refers to `oldSelf`.
    pub uses_old: bool,
}

/// What an expression must come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    Bool,
    Text,
}

/// Compiles an expression; needs a large stack (see [`roomy`](super::aside::roomy)). An error has the words of the real compiler, as far as they are known.
pub fn compile(source: &str, scope: &Scope<'_>, wanted: Wanted) -> Result<Program, String> {
    let prefix = if wanted == Wanted::Bool { "" } else { "messageExpression " };
    let expression = parse(source).map_err(|why| format!("{prefix}compilation failed: {why}"))?;
    let kind = typing::check(&expression, source, scope)
        .map_err(|why| format!("{prefix}compilation failed: {why}"))?;
    match wanted {
        Wanted::Bool if !kind.may_be_bool() => {
            return Err("cel expression must evaluate to a bool".to_owned());
        }
        Wanted::Text if !kind.may_be_text() => {
            return Err("messageExpression must evaluate to a string".to_owned());
        }
        _ => {}
    }
    let uses_old = names::mentions(&expression, "oldSelf");
    let expression = meter::instrument(expression);
    let is_deep = names::depth(&expression, SHALLOW) > SHALLOW;
    Ok(Program { expression, is_deep, uses_old })
}

fn parse(source: &str) -> Result<IdedExpr, String> {
    if source.len() > MOST_LETTERS {
        return Err(format!(
            "ERROR: <input>:-1:0: expression code point size exceeds limit: size: {}, limit {MOST_LETTERS}",
            source.len()
        ));
    }
    let parsed = catch_unwind(AssertUnwindSafe(|| {
        let expression = Parser::default().parse(source).map_err(|errors| {
            let all = errors.to_string();
            let parts: Vec<&str> = all.split("\n| ").collect();
            parts.join("\n | ")
        })?;
        if names::depth(&expression, MOST_DEPTH) > MOST_DEPTH {
            return Err(format!("ERROR: <input>:-1:0: expression recursion limit exceeded: {MOST_DEPTH}"));
        }
        Ok(rewrite::macros(expression))
    }));
    parsed
        .unwrap_or_else(|_| Err("ERROR: <input>:1:1: Syntax error: the expression cannot be read".to_owned()))
}

/// Values that an expression works on.
#[derive(Debug, Clone)]
pub struct Bindings {
    pub this: Cel,
    pub old: Option<Cel>,
    /// The largest list or map in either.
    pub widest: usize,
}

/// Why there is no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// It would take too long.
    TooMuch,
    /// An operator or function does not take such values.
    NoOverload(String),
    /// Anything else.
    Other(String),
}

impl Program {
    /// Evaluates, within what [`metered`] allows. `optional` binds `oldSelf` as an optional value.
    pub fn evaluate(&self, bindings: &Bindings, optional: bool) -> Result<Cel, Trouble> {
        if meter::is_over() || bound::work(&self.expression, bindings.widest) > bound::MOST_WORK {
            return Err(Trouble::TooMuch);
        }
        let result = if self.is_deep {
            self.resolve_deep(bindings, optional)
        } else {
            self.resolve(bindings, optional)
        };
        // Also where an operator has swallowed the error.
        if meter::is_over() { Err(Trouble::TooMuch) } else { result.map_err(trouble) }
    }

    fn resolve_deep(&self, bindings: &Bindings, optional: bool) -> Result<Cel, ExecutionError> {
        let allowance = Allowance::here();
        let result = roomy(|| {
            allowance.take_on();
            (self.resolve(bindings, optional), Allowance::here())
        });
        let Some((result, rest)) = result else {
            return Err(ExecutionError::function_error("", "internal error"));
        };
        rest.take_on();
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

/// Functions take long to register and are the same for all, so each thread does it once.
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
    // The real one is bounded by its cost; a range of a billion would be the end of us.
    context.add_function("lists.range", |count: i64| -> Outcome {
        match count {
            0..=10_000 => Ok(Cel::List(Arc::new((0..count).map(Cel::Int).collect()))),
            _ => Err(ExecutionError::function_error("lists.range", "range is too large")),
        }
    });
    meter::register(&mut context);
    rewrite::register(&mut context);
    for name in values::TYPE_NAMES {
        context.add_variable_from_value(name, Cel::String(Arc::new(format!("type {name}"))));
    }
    context
}

/// In the words of the real evaluator.
fn trouble(error: ExecutionError) -> Trouble {
    match error {
        ExecutionError::NoSuchKey(key) => Trouble::Other(format!("no such key: {key}")),
        ExecutionError::IndexOutOfBounds(index) => {
            Trouble::Other(format!("index out of bounds: {}", values::plain(&index)))
        }
        ExecutionError::DivisionByZero(_) => Trouble::Other("division by zero".to_owned()),
        ExecutionError::RemainderByZero(_) => Trouble::Other("modulus by zero".to_owned()),
        ExecutionError::Overflow(..) => Trouble::Other("integer overflow".to_owned()),
        ExecutionError::UndeclaredReference(name) => Trouble::Other(format!("no such attribute(s): {name}")),
        ExecutionError::FunctionError { message, .. } => Trouble::Other(message),
        ExecutionError::NoSuchOverload
        | ExecutionError::UnsupportedBinaryOperator(..)
        | ExecutionError::UnsupportedUnaryOperator(..)
        | ExecutionError::ValuesNotComparable(..)
        | ExecutionError::UnsupportedTargetType { .. }
        | ExecutionError::NotSupportedAsMethod { .. }
        | ExecutionError::UnexpectedType { .. } => Trouble::NoOverload("no such overload".to_owned()),
        other => Trouble::Other(other.to_string()),
    }
}
