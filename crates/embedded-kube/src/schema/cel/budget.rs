//! What an evaluation may take: time of the processor, and memory for what it makes.
//!
//! The evaluator has no hooks, so expressions get calls of two functions of ours: `#tick` in each round of a loop, and
//! `#made` around what makes strings, lists and maps. `#room` goes before functions that can make much of little.

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
    rewrite::{bind, call_of, ident, wrap},
};
use crate::clock::worked;

/// All rules of one write together take no longer than this of the processor. On a busy machine a thread waits for longer than
/// it works, and that is no fault of the rules: a write that is refused is not tried again.
const MOST_TIME: Duration = Duration::from_millis(900);

/// All values that the rules of one write make have no more bytes than this together.
const MOST_MADE: usize = 32 << 20;

/// A value takes this much besides its letters.
const OVERHEAD: usize = 32;

/// The most digits that one placeholder of `format` can ask for.
const MOST_DIGITS: usize = 65_536;

const TICK: &str = "#tick";
const MADE: &str = "#made";
const ROOM: &str = "#room";

/// Functions whose result can be many times as long as what they are given.
const GROWING: [&str; 3] = ["replace", "join", "format"];

/// Functions that make strings and lists.
const MAKERS: [&str; 17] = [
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
struct Meter {
    /// Before this there is no need to ask for the time of the processor, which takes longer.
    until: Instant,
    /// On other threads.
    spent: Duration,
    /// When it came to this thread, by the thread's own clock.
    since: Duration,
    made: usize,
    is_over: bool,
}

impl Meter {
    fn new() -> Self {
        let (until, since) = (Instant::now() + MOST_TIME, worked());
        Self { until, spent: Duration::ZERO, since, made: 0, is_over: false }
    }

    fn spent(&self) -> Duration {
        self.spent + worked().saturating_sub(self.since)
    }
}

thread_local! {
    static METER: Cell<Option<Meter>> = const { Cell::new(None) };
}

/// Evaluations in `work` share one allowance, also with what is around it.
pub fn metered<T>(work: impl FnOnce() -> T) -> T {
    if METER.get().is_some() {
        return work();
    }
    METER.set(Some(Meter::new()));
    let done = work();
    METER.set(None);
    done
}

/// The allowance of this thread, to be taken to another one and back.
#[derive(Debug, Clone, Copy)]
pub struct Allowance(Option<Meter>);

impl Allowance {
    pub fn here() -> Self {
        Self(METER.get().map(|it| Meter { spent: it.spent(), ..it }))
    }

    pub fn take_on(self) {
        METER.set(self.0.map(|it| Meter { since: worked(), ..it }));
    }
}

/// Whether the allowance is used up.
pub fn is_over() -> bool {
    charge(0).is_err()
}

fn charge(bytes: usize) -> Result<(), ExecutionError> {
    let Some(mut meter) = METER.get() else { return Ok(()) };
    meter.made = meter.made.saturating_add(bytes);
    let is_late = || Instant::now() > meter.until && meter.spent() > MOST_TIME;
    meter.is_over = meter.is_over || meter.made > MOST_MADE || is_late();
    METER.set(Some(meter));
    if meter.is_over { Err(ExecutionError::function_error("", "out of budget")) } else { Ok(()) }
}

/// Adds the functions that expressions call.
pub fn register(context: &mut Context<'_>) {
    type Outcome = Result<Cel, ExecutionError>;
    context.add_function(TICK, |goes_on: Cel| -> Outcome { charge(0).map(|()| goes_on) });
    context.add_function(MADE, |value: Cel| -> Outcome { charge(weight(&value)).map(|()| value) });
    context.add_function(ROOM, |Arguments(given): Arguments| -> Outcome {
        let made = METER.get().map_or(0, |meter| meter.made);
        let needed = growth(&given);
        // What is not made must not be made: the whole allowance goes.
        charge(if made.saturating_add(needed) > MOST_MADE { MOST_MADE + 1 } else { 0 })
            .map(|()| Cel::Bool(true))
    });
}

/// Bytes of a value, about.
fn weight(value: &Cel) -> usize {
    match value {
        Cel::String(text) => text.len(),
        Cel::Bytes(bytes) => bytes.len(),
        Cel::List(items) => items.iter().map(|item| OVERHEAD + weight(item)).sum(),
        Cel::Map(map) => {
            let key = |key: &Key| if let Key::String(text) = key { text.len() } else { 0 };
            map.map.iter().map(|(name, value)| 2 * OVERHEAD + key(name) + weight(value)).sum()
        }
        _ => 0,
    }
}

/// At most so many bytes come out of a growing function.
fn growth(given: &[Cel]) -> usize {
    let Some((Cel::String(name), given)) = given.split_first() else { return 0 };
    match (name.as_str(), given) {
        ("replace", [Cel::String(text), Cel::String(old), Cel::String(new), ..]) => {
            let times = if old.is_empty() { text.len() + 1 } else { text.matches(old.as_str()).count() };
            text.len().saturating_add(times.saturating_mul(new.len()))
        }
        ("join", [Cel::List(items), Cel::String(between)]) => {
            items.iter().map(|item| weight(item).saturating_add(between.len())).fold(0, usize::saturating_add)
        }
        ("format", [Cel::String(text), values]) => {
            let digits = if text.contains("%.") { MOST_DIGITS } else { OVERHEAD };
            let each = weight(values).saturating_add(digits);
            text.len().saturating_add(text.matches('%').count().saturating_mul(each))
        }
        _ => 0,
    }
}

/// Adds the calls.
pub fn instrument(mut expression: IdedExpr) -> IdedExpr {
    expression.expr = match expression.expr {
        Expr::Call(call) => called(call),
        Expr::Comprehension(it) => looped(*it),
        Expr::List(mut list) => {
            list.elements = list.elements.into_iter().map(|element| made(instrument(element))).collect();
            Expr::List(list)
        }
        Expr::Map(mut map) => {
            for entry in &mut map.entries {
                if let EntryExpr::MapEntry(pair) = &mut entry.expr {
                    pair.key = made(instrument(std::mem::take(&mut pair.key)));
                    pair.value = made(instrument(std::mem::take(&mut pair.value)));
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

fn looped(it: ComprehensionExpr) -> Expr {
    // A bound name is a loop over nothing.
    let is_bind = matches!(&it.iter_range.expr, Expr::List(list) if list.elements.is_empty());
    let condition = instrument(it.loop_cond);
    Expr::Comprehension(Box::new(ComprehensionExpr {
        iter_range: instrument(it.iter_range),
        accu_init: instrument(it.accu_init),
        loop_cond: if is_bind { condition } else { wrap(call_of(TICK, None, vec![condition])) },
        loop_step: step(it.loop_step, &it.accu_var),
        result: instrument(it.result),
        iter_var: it.iter_var,
        iter_var2: it.iter_var2,
        accu_var: it.accu_var,
    }))
}

/// What is collected is counted piece by piece: to count the whole in each round would take the square of its time.
fn step(mut expression: IdedExpr, collected: &str) -> IdedExpr {
    match expression.expr {
        Expr::Call(mut call)
            if call.func_name == operators::ADD && is_ident(call.args.first(), collected) =>
        {
            call.args = call.args.into_iter().map(instrument).collect();
            expression.expr = Expr::Call(call);
            expression
        }
        Expr::Call(mut call) if call.func_name == operators::CONDITIONAL => {
            call.args = call.args.into_iter().map(|arg| step(arg, collected)).collect();
            expression.expr = Expr::Call(call);
            expression
        }
        other => instrument(IdedExpr { id: expression.id, expr: other }),
    }
}

fn is_ident(expression: Option<&IdedExpr>, name: &str) -> bool {
    // Names that only macros give: nobody else can double them.
    name.starts_with(['@', '#'])
        && matches!(expression, Some(IdedExpr { expr: Expr::Ident(it), .. }) if it == name)
}

fn called(call: CallExpr) -> Expr {
    let CallExpr { func_name, target, args } = call;
    let target = target.map(|target| Box::new(instrument(*target)));
    let args: Vec<IdedExpr> = args.into_iter().map(instrument).collect();
    let is_library = target.as_deref().is_some_and(
        |target| matches!(&target.expr, Expr::Ident(name) if LIBRARIES.contains(&name.as_str())),
    );
    let name = func_name.as_str();
    let is_maker = name == operators::ADD || MAKERS.contains(&name);
    match target {
        Some(target) if GROWING.contains(&name) && !is_library => guarded(name, *target, args),
        target if is_maker => made(wrap(Expr::Call(CallExpr { func_name, target, args }))).expr,
        target => Expr::Call(CallExpr { func_name, target, args }),
    }
}

/// Binds what a function is given, asks whether there is room for what it makes, and only then calls it.
fn guarded(func_name: &str, target: IdedExpr, args: Vec<IdedExpr>) -> Expr {
    let given: Vec<IdedExpr> = std::iter::once(target).chain(args).collect();
    let names: Vec<String> = (0..given.len()).map(|index| format!("#given{index}")).collect();
    let mut idents = names.iter().map(|name| ident(name));
    let asked = std::iter::once(wrap(Expr::Literal(LiteralValue::String(func_name.into()))));
    let asked = wrap(call_of(ROOM, None, asked.chain(names.iter().map(|name| ident(name))).collect()));
    let call = made(wrap(call_of(func_name, idents.next(), idents.collect())));
    let never = wrap(Expr::Literal(LiteralValue::Boolean(false.into())));
    let guarded = wrap(call_of(operators::CONDITIONAL, None, vec![asked, call, never]));
    names.into_iter().zip(given).rev().fold(guarded, |body, (name, value)| wrap(bind(name, value, body))).expr
}

fn made(expression: IdedExpr) -> IdedExpr {
    if matches!(expression.expr, Expr::Literal(_)) {
        return expression;
    }
    wrap(call_of(MADE, None, vec![expression]))
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// Works until so much of the allowance is gone.
    fn work(time: Duration) {
        while METER.get().is_some_and(|it| it.spent() < time) {}
    }

    #[test]
    fn who_waits_for_the_processor_is_not_out_of_time() {
        metered(|| {
            thread::sleep(MOST_TIME + Duration::from_millis(100));
            assert!(!is_over());
        });
    }

    #[test]
    fn who_works_for_too_long_is_out_of_time() {
        metered(|| {
            work(MOST_TIME / 2);
            assert!(!is_over());
            work(MOST_TIME + Duration::from_millis(50));
            // The clock of the thread is not the one on the wall, which may be behind it by a little.
            thread::sleep(Duration::from_millis(10));
            assert!(is_over());
        });
        assert!(!is_over(), "the next one has an allowance of its own");
    }

    #[test]
    fn work_on_another_thread_counts() {
        let rest = metered(|| {
            work(MOST_TIME * 2 / 3);
            let allowance = Allowance::here();
            let other = thread::spawn(move || {
                allowance.take_on();
                assert!(!is_over());
                work(MOST_TIME * 4 / 3);
                Allowance::here()
            });
            let rest = other.join().unwrap();
            rest.take_on();
            assert!(is_over());
            rest
        });
        assert!(rest.0.is_some_and(|it| it.spent >= MOST_TIME * 4 / 3));
    }
}
