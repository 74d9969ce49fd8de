//! Budget of an evaluation: CPU time and allocated memory.
//!
//! The evaluator has no hooks, so expressions are instrumented with calls: `#tick` in each loop iteration, `#made`
//! around everything that builds strings, lists and maps, and `#room` before functions whose result can be much larger
//! than their input.

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

use kube_cel::cel::{
    Context, ExecutionError, IdedExpr, Value as Cel,
    common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, LiteralValue, operators},
    extractors::Arguments,
    objects::Key,
};

use super::{
    functions::LIBRARIES,
    macros::{bind, call_expr, expr_node, ident},
};
use crate::clock::thread_cpu_time;

/// CPU time that all rules of one write may use together. Wall time would be wrong: on a busy machine a thread waits
/// longer than it works, and a rejected write is not retried.
const MAX_CPU_TIME: Duration = Duration::from_millis(900);

/// Bytes that all values built by the rules of one write may have together.
const MAX_ALLOCATED_BYTES: usize = 32 << 20;

/// Assumed overhead of a value.
const VALUE_OVERHEAD_BYTES: usize = 32;

/// Maximum number of digits that a `format` placeholder can request.
const MAX_FORMAT_DIGITS: usize = 65_536;

const TICK_FUNCTION: &str = "#tick";
const CHARGE_FUNCTION: &str = "#made";
const RESERVE_FUNCTION: &str = "#room";

/// Functions whose result can be many times larger than their input.
const GROWING_FUNCTIONS: [&str; 3] = ["replace", "join", "format"];

/// Functions that build strings and lists.
const ALLOCATING_FUNCTIONS: [&str; 17] = [
    "replace",
    "join",
    "format",
    "split",
    "findAll",
    "flatten",
    "quote",
    "encode",
    "decode",
    "reverse",
    "string",
    "bytes",
    "range",
    "sort",
    "distinct",
    "slice",
    "escapeKey",
];

#[derive(Debug, Clone, Copy)]
struct Budget {
    /// Before this, the CPU time cannot be exceeded and is not queried, which is slow.
    check_after: Instant,
    /// CPU time spent on other threads.
    spent_elsewhere: Duration,
    /// CPU clock of this thread when the budget was installed.
    thread_start: Duration,
    allocated: usize,
    is_exhausted: bool,
}

impl Budget {
    fn new() -> Self {
        let (check_after, thread_start) = (Instant::now() + MAX_CPU_TIME, thread_cpu_time());
        Self { check_after, spent_elsewhere: Duration::ZERO, thread_start, allocated: 0, is_exhausted: false }
    }

    fn spent(&self) -> Duration {
        self.spent_elsewhere + thread_cpu_time().saturating_sub(self.thread_start)
    }
}

thread_local! {
    static METER: Cell<Option<Budget>> = const { Cell::new(None) };
}

/// Evaluations in `work` share one budget, including an enclosing one.
pub fn with_budget<T>(work: impl FnOnce() -> T) -> T {
    if METER.get().is_some() {
        return work();
    }
    METER.set(Some(Budget::new()));
    let done = work();
    METER.set(None);
    done
}

/// The budget of this thread, for transfer to another thread and back.
#[derive(Debug, Clone, Copy)]
pub struct TransferredBudget(Option<Budget>);

impl TransferredBudget {
    pub fn take() -> Self {
        Self(METER.get().map(|it| Budget { spent_elsewhere: it.spent(), ..it }))
    }

    pub fn install(self) {
        METER.set(self.0.map(|it| Budget { thread_start: thread_cpu_time(), ..it }));
    }
}

/// Whether the budget is exhausted.
pub fn is_exhausted() -> bool {
    charge(0).is_err()
}

fn charge(bytes: usize) -> Result<(), ExecutionError> {
    let Some(mut meter) = METER.get() else { return Ok(()) };
    meter.allocated = meter.allocated.saturating_add(bytes);
    let is_late = || Instant::now() > meter.check_after && meter.spent() > MAX_CPU_TIME;
    meter.is_exhausted = meter.is_exhausted || meter.allocated > MAX_ALLOCATED_BYTES || is_late();
    METER.set(Some(meter));
    if meter.is_exhausted { Err(ExecutionError::function_error("", "out of budget")) } else { Ok(()) }
}

/// Registers the functions that instrumented expressions call.
pub fn register(context: &mut Context<'_>) {
    type Outcome = Result<Cel, ExecutionError>;
    context.add_function(TICK_FUNCTION, |goes_on: Cel| -> Outcome { charge(0).map(|()| goes_on) });
    context.add_function(CHARGE_FUNCTION, |value: Cel| -> Outcome {
        charge(estimated_size(&value)).map(|()| value)
    });
    context.add_function(RESERVE_FUNCTION, |Arguments(given): Arguments| -> Outcome {
        let made = METER.get().map_or(0, |meter| meter.allocated);
        let needed = estimated_result_size(&given);
        // The result must not be built at all: exhausts the budget.
        charge(if made.saturating_add(needed) > MAX_ALLOCATED_BYTES { MAX_ALLOCATED_BYTES + 1 } else { 0 })
            .map(|()| Cel::Bool(true))
    });
}

/// Approximate size of a value in bytes.
fn estimated_size(value: &Cel) -> usize {
    match value {
        Cel::String(text) => text.len(),
        Cel::Bytes(bytes) => bytes.len(),
        Cel::List(items) => items.iter().map(|item| VALUE_OVERHEAD_BYTES + estimated_size(item)).sum(),
        Cel::Map(map) => {
            let key = |key: &Key| if let Key::String(text) = key { text.len() } else { 0 };
            map.map
                .iter()
                .map(|(name, value)| 2 * VALUE_OVERHEAD_BYTES + key(name) + estimated_size(value))
                .sum()
        }
        _ => 0,
    }
}

/// Upper bound of the result size of a growing function.
fn estimated_result_size(given: &[Cel]) -> usize {
    let Some((Cel::String(name), given)) = given.split_first() else { return 0 };
    match (name.as_str(), given) {
        ("replace", [Cel::String(text), Cel::String(old), Cel::String(new), ..]) => {
            let times = if old.is_empty() { text.len() + 1 } else { text.matches(old.as_str()).count() };
            text.len().saturating_add(times.saturating_mul(new.len()))
        }
        ("join", [Cel::List(items), Cel::String(between)]) => items
            .iter()
            .map(|item| estimated_size(item).saturating_add(between.len()))
            .fold(0, usize::saturating_add),
        ("format", [Cel::String(text), values]) => {
            let digits = if text.contains("%.") { MAX_FORMAT_DIGITS } else { VALUE_OVERHEAD_BYTES };
            let each = estimated_size(values).saturating_add(digits);
            text.len().saturating_add(text.matches('%').count().saturating_mul(each))
        }
        _ => 0,
    }
}

/// Instruments an expression.
pub fn instrument(mut expression: IdedExpr) -> IdedExpr {
    expression.expr = match expression.expr {
        Expr::Call(call) => instrument_call(call),
        Expr::Comprehension(it) => instrument_loop(*it),
        Expr::List(mut list) => {
            list.elements =
                list.elements.into_iter().map(|element| charge_result(instrument(element))).collect();
            Expr::List(list)
        }
        Expr::Map(mut map) => {
            for entry in &mut map.entries {
                if let EntryExpr::MapEntry(pair) = &mut entry.expr {
                    pair.key = charge_result(instrument(std::mem::take(&mut pair.key)));
                    pair.value = charge_result(instrument(std::mem::take(&mut pair.value)));
                }
            }
            Expr::Map(map)
        }
        Expr::Select(mut select) => {
            select.operand = Box::new(instrument(*select.operand));
            Expr::Select(select)
        }
        other => other,
    };
    expression
}

fn instrument_loop(it: ComprehensionExpr) -> Expr {
    // `cel.bind` is a loop over an empty list.
    let is_bind = matches!(&it.iter_range.expr, Expr::List(list) if list.elements.is_empty());
    let condition = instrument(it.loop_cond);
    Expr::Comprehension(Box::new(ComprehensionExpr {
        iter_range: instrument(it.iter_range),
        accu_init: instrument(it.accu_init),
        loop_cond: if is_bind {
            condition
        } else {
            expr_node(call_expr(TICK_FUNCTION, None, vec![condition]))
        },
        loop_step: instrument_step(it.loop_step, &it.accu_var),
        result: instrument(it.result),
        iter_var: it.iter_var,
        iter_var2: it.iter_var2,
        accu_var: it.accu_var,
    }))
}

/// Charges collected items one by one: charging the whole list in each iteration would be quadratic.
fn instrument_step(mut expression: IdedExpr, collected: &str) -> IdedExpr {
    match expression.expr {
        Expr::Call(mut call)
            if call.func_name == operators::ADD && is_ident(call.args.first(), collected) =>
        {
            call.args = call.args.into_iter().map(instrument).collect();
            expression.expr = Expr::Call(call);
            expression
        }
        Expr::Call(mut call) if call.func_name == operators::CONDITIONAL => {
            call.args = call.args.into_iter().map(|arg| instrument_step(arg, collected)).collect();
            expression.expr = Expr::Call(call);
            expression
        }
        other => instrument(IdedExpr { id: expression.id, expr: other }),
    }
}

fn is_ident(expression: Option<&IdedExpr>, name: &str) -> bool {
    // Names that only macros produce, so rules cannot duplicate them.
    name.starts_with(['@', '#'])
        && matches!(expression, Some(IdedExpr { expr: Expr::Ident(it), .. }) if it == name)
}

fn instrument_call(call: CallExpr) -> Expr {
    let CallExpr { func_name, target, args } = call;
    let target = target.map(|target| Box::new(instrument(*target)));
    let args: Vec<IdedExpr> = args.into_iter().map(instrument).collect();
    let is_library = target.as_deref().is_some_and(
        |target| matches!(&target.expr, Expr::Ident(name) if LIBRARIES.contains(&name.as_str())),
    );
    let name = func_name.as_str();
    let is_maker = name == operators::ADD || ALLOCATING_FUNCTIONS.contains(&name);
    match target {
        Some(target) if GROWING_FUNCTIONS.contains(&name) && !is_library => {
            reserve_before_call(name, *target, args)
        }
        target if is_maker => charge_result(expr_node(Expr::Call(CallExpr { func_name, target, args }))).expr,
        target => Expr::Call(CallExpr { func_name, target, args }),
    }
}

/// Binds the arguments, reserves memory for the result, and only then calls the function.
fn reserve_before_call(func_name: &str, target: IdedExpr, args: Vec<IdedExpr>) -> Expr {
    let given: Vec<IdedExpr> = std::iter::once(target).chain(args).collect();
    let names: Vec<String> = (0..given.len()).map(|index| format!("#given{index}")).collect();
    let mut idents = names.iter().map(|name| ident(name));
    let asked = std::iter::once(expr_node(Expr::Literal(LiteralValue::String(func_name.into()))));
    let asked = expr_node(call_expr(
        RESERVE_FUNCTION,
        None,
        asked.chain(names.iter().map(|name| ident(name))).collect(),
    ));
    let call = charge_result(expr_node(call_expr(func_name, idents.next(), idents.collect())));
    let never = expr_node(Expr::Literal(LiteralValue::Boolean(false.into())));
    let guarded = expr_node(call_expr(operators::CONDITIONAL, None, vec![asked, call, never]));
    names
        .into_iter()
        .zip(given)
        .rev()
        .fold(guarded, |body, (name, value)| expr_node(bind(name, value, body)))
        .expr
}

fn charge_result(expression: IdedExpr) -> IdedExpr {
    if matches!(expression.expr, Expr::Literal(_)) {
        return expression;
    }
    expr_node(call_expr(CHARGE_FUNCTION, None, vec![expression]))
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// Works until this much of the budget is used.
    fn work(time: Duration) {
        while METER.get().is_some_and(|it| it.spent() < time) {}
    }

    #[test]
    fn who_waits_for_the_processor_is_not_out_of_time() {
        with_budget(|| {
            thread::sleep(MAX_CPU_TIME + Duration::from_millis(100));
            assert!(!is_exhausted());
        });
    }

    #[test]
    fn who_works_for_too_long_is_out_of_time() {
        with_budget(|| {
            work(MAX_CPU_TIME / 2);
            assert!(!is_exhausted());
            work(MAX_CPU_TIME + Duration::from_millis(50));
            // The thread clock is not the wall clock, which may lag slightly.
            thread::sleep(Duration::from_millis(10));
            assert!(is_exhausted());
        });
        assert!(!is_exhausted(), "the next one has an allowance of its own");
    }

    #[test]
    fn work_on_another_thread_counts() {
        let rest = with_budget(|| {
            work(MAX_CPU_TIME * 2 / 3);
            let allowance = TransferredBudget::take();
            let other = thread::spawn(move || {
                allowance.install();
                assert!(!is_exhausted());
                work(MAX_CPU_TIME * 4 / 3);
                TransferredBudget::take()
            });
            let rest = other.join().unwrap();
            rest.install();
            assert!(is_exhausted());
            rest
        });
        assert!(rest.0.is_some_and(|it| it.spent_elsewhere >= MAX_CPU_TIME * 4 / 3));
    }
}
