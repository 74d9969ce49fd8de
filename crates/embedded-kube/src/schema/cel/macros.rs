//! Macros that the parser does not support: `cel.bind`, `optMap`, `optFlatMap`.

use std::sync::Arc;

use kube_cel::cel::{
    Context, ExecutionError, IdedExpr, Value as Cel,
    common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, ListExpr, LiteralValue, operators},
    objects::OptionalValue,
};

/// Expands these macros, innermost first.
pub fn expand_macros(mut expression: IdedExpr) -> IdedExpr {
    expression.expr = match expression.expr {
        Expr::Call(call) => expand_call(call),
        Expr::Comprehension(it) => Expr::Comprehension(Box::new(ComprehensionExpr {
            iter_range: expand_macros(it.iter_range),
            accu_init: expand_macros(it.accu_init),
            loop_cond: expand_macros(it.loop_cond),
            loop_step: expand_macros(it.loop_step),
            result: expand_macros(it.result),
            iter_var: it.iter_var,
            iter_var2: it.iter_var2,
            accu_var: it.accu_var,
        })),
        Expr::List(mut list) => {
            list.elements = list.elements.into_iter().map(expand_macros).collect();
            Expr::List(list)
        }
        Expr::Map(mut map) => {
            for entry in &mut map.entries {
                if let EntryExpr::MapEntry(pair) = &mut entry.expr {
                    pair.key = expand_macros(std::mem::take(&mut pair.key));
                    pair.value = expand_macros(std::mem::take(&mut pair.value));
                }
            }
            Expr::Map(map)
        }
        Expr::Select(mut select) => {
            select.operand = Box::new(expand_macros(*select.operand));
            Expr::Select(select)
        }
        other => other,
    };
    expression
}

fn expand_call(call: CallExpr) -> Expr {
    let CallExpr { func_name, target, args } = call;
    let target = target.map(|target| expand_macros(*target));
    let args: Vec<IdedExpr> = args.into_iter().map(expand_macros).collect();
    let variable = args.first().and_then(|first| match &first.expr {
        Expr::Ident(name) => Some(name.clone()),
        _ => None,
    });
    match (func_name.as_str(), target, variable, args.as_slice()) {
        ("bind", Some(IdedExpr { expr: Expr::Ident(library), .. }), Some(name), [_, value, body])
            if library == "cel" =>
        {
            bind(name, value.clone(), body.clone())
        }
        ("optMap", Some(target), Some(name), [_, body]) => {
            let some = expr_node(call_expr("of", Some(ident("optional")), vec![bind_optional(name, body)]));
            optional(target, some)
        }
        ("optFlatMap", Some(target), Some(name), [_, body]) => optional(target, bind_optional(name, body)),
        (_, target, _, _) => Expr::Call(CallExpr { func_name, target: target.map(Box::new), args }),
    }
}

/// Name of the bound optional; rules cannot use it.
const OPTIONAL: &str = "#optional";
const LISTED: &str = "#listed";
const IS_SOME: &str = "#is_some";

/// `body` with `name` bound to the optional's value.
fn bind_optional(name: String, body: &IdedExpr) -> IdedExpr {
    let first = expr_node(Expr::Literal(LiteralValue::Int(0.into())));
    let value = expr_node(call_expr(operators::INDEX, None, vec![ident(OPTIONAL), first]));
    expr_node(bind(name, value, body.clone()))
}

/// A loop over an empty list whose accumulator is the variable.
pub fn bind(name: String, value: IdedExpr, body: IdedExpr) -> Expr {
    Expr::Comprehension(Box::new(ComprehensionExpr {
        iter_range: expr_node(Expr::List(ListExpr::default())),
        iter_var: "#unused".to_owned(),
        iter_var2: None,
        accu_init: value,
        loop_cond: expr_node(Expr::Literal(LiteralValue::Boolean(false.into()))),
        loop_step: ident(&name),
        accu_var: name,
        result: body,
    }))
}

/// The target is bound instead of copied: in a chain each copy would be copied again. It is bound as a list, because
/// the evaluator unwraps a variable that is an optional value.
fn optional(target: IdedExpr, some: IdedExpr) -> Expr {
    let none = expr_node(call_expr("none", Some(ident("optional")), Vec::new()));
    let has = expr_node(call_expr(IS_SOME, None, vec![ident(OPTIONAL)]));
    let either = expr_node(call_expr(operators::CONDITIONAL, None, vec![has, some, none]));
    bind(OPTIONAL.to_owned(), expr_node(call_expr(LISTED, None, vec![target])), either)
}

/// Registers the functions that expanded macros call.
pub fn register(context: &mut Context<'_>) {
    type Outcome = Result<Cel, ExecutionError>;
    context.add_function(LISTED, |value: Cel| -> Outcome {
        let given = <&OptionalValue>::try_from(&value)?;
        Ok(Cel::List(Arc::new(given.value().cloned().into_iter().collect())))
    });
    context.add_function(IS_SOME, |list: Arc<Vec<Cel>>| -> Outcome { Ok(Cel::Bool(!list.is_empty())) });
}

pub fn call_expr(name: &str, target: Option<IdedExpr>, args: Vec<IdedExpr>) -> Expr {
    Expr::Call(CallExpr { func_name: name.to_owned(), target: target.map(Box::new), args })
}

pub fn ident(name: &str) -> IdedExpr {
    expr_node(Expr::Ident(name.to_owned()))
}

pub fn expr_node(expr: Expr) -> IdedExpr {
    IdedExpr { id: 0, expr }
}

#[cfg(test)]
mod tests {
    use kube_cel::cel::parser::Parser;
    use rstest::rstest;

    use super::*;
    use crate::schema::cel::names::subexpressions;

    fn count(expression: &IdedExpr) -> usize {
        1 + subexpressions(expression).into_iter().map(count).sum::<usize>()
    }

    #[rstest]
    #[case(".optMap(x, x)")]
    #[case(".optFlatMap(x, optional.of(x))")]
    fn a_chain_grows_by_its_links(#[case] link: &str) {
        let size = |links| {
            count(&expand_macros(Parser::default().parse(&format!("a{}", link.repeat(links))).unwrap()))
        };
        assert_eq!(size(10) - size(9), size(2) - size(1));
    }
}
