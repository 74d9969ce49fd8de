//! Static cost estimate of an expression.

use kube_cel::cel::{
    IdedExpr,
    common::ast::{EntryExpr, Expr},
};

/// Evaluations that could take more steps are rejected.
pub const MAX_COST: u64 = 10_000_000;

/// Minimum assumed size of lists that an expression builds itself.
const MIN_WIDTH: usize = 16;

/// Upper bound of the steps of an evaluation, if no list or map has more than `widest` entries.
pub fn estimate_cost(expression: &IdedExpr, widest: usize) -> u64 {
    estimate_steps(expression, u64::try_from(widest.max(MIN_WIDTH)).unwrap_or(u64::MAX))
}

fn estimate_steps(expression: &IdedExpr, width: u64) -> u64 {
    let sum = |parts: &[&IdedExpr]| {
        parts.iter().fold(1_u64, |total, part| total.saturating_add(estimate_steps(part, width)))
    };
    match &expression.expr {
        Expr::Call(call) => {
            let parts: Vec<&IdedExpr> = call.target.iter().map(AsRef::as_ref).chain(&call.args).collect();
            sum(&parts)
        }
        Expr::Comprehension(loop_of) => {
            let each = sum(&[&loop_of.loop_cond, &loop_of.loop_step]);
            let times = match &loop_of.iter_range.expr {
                Expr::List(list) => u64::try_from(list.elements.len()).unwrap_or(u64::MAX),
                _ => width,
            };
            sum(&[&loop_of.iter_range, &loop_of.accu_init, &loop_of.result])
                .saturating_add(each.saturating_mul(times))
        }
        Expr::List(list) => sum(&list.elements.iter().collect::<Vec<_>>()),
        Expr::Map(map) => {
            let mut total = 1_u64;
            for entry in &map.entries {
                let part = match &entry.expr {
                    EntryExpr::MapEntry(entry) => sum(&[&entry.key, &entry.value]),
                    EntryExpr::StructField(field) => sum(&[&field.value]),
                };
                total = total.saturating_add(part);
            }
            total
        }
        Expr::Select(select) => sum(&[&select.operand]),
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) | Expr::Struct(_) => 1,
    }
}
