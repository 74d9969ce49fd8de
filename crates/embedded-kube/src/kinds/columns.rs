//! Columns and cells of tables.

use crate::registry::Column;

const NAME: (&str, &str, &str) = ("Name", "string", "Name of the object, unique within its namespace.");
const AGE: (&str, &str, &str) = ("Age", "string", "Time since the object was created.");

/// Columns of a built-in kind.
pub fn built_in(kind: &str) -> Vec<Column> {
    let _ = kind;
    [NAME, AGE].into_iter().map(|(name, kind, text)| column(name, kind, 0, text)).collect()
}

fn column(name: &str, kind: &str, priority: i32, description: &str) -> Column {
    Column {
        name: name.to_owned(),
        kind: kind.to_owned(),
        format: if name == "Name" { "name" } else { "" }.to_owned(),
        description: description.to_owned(),
        priority,
        path: String::new(),
    }
}
