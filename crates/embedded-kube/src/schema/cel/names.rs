//! Identifiers in expressions: escaping of property names, and references to variables.

use kube_cel::cel::{
    IdedExpr,
    common::ast::{EntryExpr, Expr},
};

/// Reserved words of CEL.
const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Escapes a property name; `None` if it cannot be escaped.
pub fn escape(name: &str) -> Option<String> {
    let first = name.chars().next()?;
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-./".contains(letter);
    if first.is_ascii_digit() || !name.chars().all(is_plain) {
        return None;
    }
    if RESERVED.contains(&name) {
        return Some(format!("__{name}__"));
    }
    let escaped = name.replace("__", "__underscores__");
    Some(escaped.replace('.', "__dot__").replace('-', "__dash__").replace('/', "__slash__"))
}

/// Direct subexpressions.
pub fn subexpressions(expression: &IdedExpr) -> Vec<&IdedExpr> {
    match &expression.expr {
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => Vec::new(),
        Expr::Call(call) => call.target.iter().map(AsRef::as_ref).chain(&call.args).collect(),
        Expr::Comprehension(it) => {
            vec![&it.iter_range, &it.accu_init, &it.loop_cond, &it.loop_step, &it.result]
        }
        Expr::List(list) => list.elements.iter().collect(),
        Expr::Map(map) => map.entries.iter().flat_map(|entry| entry_parts(&entry.expr)).collect(),
        Expr::Select(select) => vec![&select.operand],
        Expr::Struct(it) => it.entries.iter().flat_map(|entry| entry_parts(&entry.expr)).collect(),
    }
}

fn entry_parts(entry: &EntryExpr) -> Vec<&IdedExpr> {
    match entry {
        EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
        EntryExpr::StructField(field) => vec![&field.value],
    }
}

/// Whether an expression refers to a variable.
pub fn mentions(expression: &IdedExpr, name: &str) -> bool {
    matches!(&expression.expr, Expr::Ident(ident) if ident == name)
        || subexpressions(expression).into_iter().any(|part| mentions(part, name))
}

/// Depth of an expression, counted up to just beyond `limit`.
pub fn depth(expression: &IdedExpr, limit: usize) -> usize {
    if limit == 0 {
        return 1;
    }
    1 + subexpressions(expression).into_iter().map(|part| depth(part, limit - 1)).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("plain", Some("plain"))]
    #[case("namespace", Some("__namespace__"))]
    #[case("x-prop", Some("x__dash__prop"))]
    #[case("a.b/c", Some("a__dot__b__slash__c"))]
    #[case("redact__d", Some("redact__underscores__d"))]
    #[case("1a", None)]
    #[case("ä", None)]
    #[case("", None)]
    fn property_names_are_escaped(#[case] name: &str, #[case] expected: Option<&str>) {
        assert_eq!(escape(name).as_deref(), expected);
    }
}
