//! Macros that the parser does not know: `cel.bind`, `optMap`, `optFlatMap`.

use kube_cel::cel::{
    IdedExpr,
    common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, ListExpr, LiteralValue, operators},
};

/// Writes such macros out, innermost first.
pub fn macros(mut expression: IdedExpr) -> IdedExpr {
    expression.expr = match expression.expr {
        Expr::Call(call) => called(call),
        Expr::Comprehension(it) => Expr::Comprehension(Box::new(ComprehensionExpr {
            iter_range: macros(it.iter_range),
            accu_init: macros(it.accu_init),
            loop_cond: macros(it.loop_cond),
            loop_step: macros(it.loop_step),
            result: macros(it.result),
            iter_var: it.iter_var,
            iter_var2: it.iter_var2,
            accu_var: it.accu_var,
        })),
        Expr::List(mut list) => {
            list.elements = list.elements.into_iter().map(macros).collect();
            Expr::List(list)
        }
        Expr::Map(mut map) => {
            for entry in &mut map.entries {
                if let EntryExpr::MapEntry(pair) = &mut entry.expr {
                    pair.key = macros(std::mem::take(&mut pair.key));
                    pair.value = macros(std::mem::take(&mut pair.value));
                }
            }
            Expr::Map(map)
        }
        Expr::Select(mut select) => {
            select.operand = Box::new(macros(*select.operand));
            Expr::Select(select)
        }
        other => other,
    };
    expression
}

fn called(call: CallExpr) -> Expr {
    let CallExpr { func_name, target, args } = call;
    let target = target.map(|target| macros(*target));
    let args: Vec<IdedExpr> = args.into_iter().map(macros).collect();
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
            let some = wrap(call_of("of", Some(ident("optional")), vec![bound(&target, name, body)]));
            optional(target, some)
        }
        ("optFlatMap", Some(target), Some(name), [_, body]) => {
            let some = bound(&target, name, body);
            optional(target, some)
        }
        (_, target, _, _) => Expr::Call(CallExpr { func_name, target: target.map(Box::new), args }),
    }
}

/// `body` with `name` standing for the optional's value.
fn bound(target: &IdedExpr, name: String, body: &IdedExpr) -> IdedExpr {
    let value = wrap(call_of("value", Some(target.clone()), Vec::new()));
    wrap(bind(name, value, body.clone()))
}

/// A loop over nothing whose accumulator is the variable.
fn bind(name: String, value: IdedExpr, body: IdedExpr) -> Expr {
    Expr::Comprehension(Box::new(ComprehensionExpr {
        iter_range: wrap(Expr::List(ListExpr::default())),
        iter_var: "#unused".to_owned(),
        iter_var2: None,
        accu_init: value,
        loop_cond: wrap(Expr::Literal(LiteralValue::Boolean(false.into()))),
        loop_step: ident(&name),
        accu_var: name,
        result: body,
    }))
}

fn optional(target: IdedExpr, some: IdedExpr) -> Expr {
    let none = wrap(call_of("none", Some(ident("optional")), Vec::new()));
    let has = wrap(call_of("hasValue", Some(target), Vec::new()));
    call_of(operators::CONDITIONAL, None, vec![has, some, none])
}

fn call_of(name: &str, target: Option<IdedExpr>, args: Vec<IdedExpr>) -> Expr {
    Expr::Call(CallExpr { func_name: name.to_owned(), target: target.map(Box::new), args })
}

fn ident(name: &str) -> IdedExpr {
    wrap(Expr::Ident(name.to_owned()))
}

fn wrap(expr: Expr) -> IdedExpr {
    IdedExpr { id: 0, expr }
}
