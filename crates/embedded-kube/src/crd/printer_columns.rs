//! Printer columns of custom resources.

use jiff::Timestamp;
use serde_json::Value;

use super::jsonpath::JsonPath;
use crate::{
    object::{MetaAccessor, str_at},
    registry::Column,
};

/// Columns with their paths.
#[derive(Debug)]
pub struct PrinterColumns {
    columns: Vec<(Column, Option<JsonPath>)>,
}

impl PrinterColumns {
    /// Columns of one version: the name, then those of the CRD, or the age if there are none.
    pub fn from_version(version: &Value) -> Self {
        let given = version.get("additionalPrinterColumns").and_then(Value::as_array);
        let mut columns: Vec<Column> = given.into_iter().flatten().map(parse_column).collect();
        if columns.is_empty() {
            columns.push(Column {
                name: "Age".to_owned(),
                kind: "date".to_owned(),
                format: String::new(),
                description: "Time since the object was created.".to_owned(),
                priority: 0,
                path: ".metadata.creationTimestamp".to_owned(),
            });
        }
        let columns = columns.into_iter().map(|column| {
            let path = JsonPath::parse(&column.path);
            (column, path)
        });
        Self { columns: columns.collect() }
    }

    /// Column headings.
    pub fn columns(&self) -> Vec<Column> {
        let name = Column {
            name: "Name".to_owned(),
            kind: "string".to_owned(),
            format: "name".to_owned(),
            description: "Name of the object, unique within its namespace.".to_owned(),
            priority: 0,
            path: ".metadata.name".to_owned(),
        };
        std::iter::once(name).chain(self.columns.iter().map(|(column, _)| column.clone())).collect()
    }

    /// Cells of one row.
    pub fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let mut cells = vec![Value::from(object.name())];
        for (column, path) in &self.columns {
            let value = path.as_ref().and_then(|path| path.first(object));
            cells.push(value.map(|value| cell(&column.kind, value, now)).unwrap_or_default());
        }
        cells
    }
}

fn parse_column(column: &Value) -> Column {
    let word = |key: &str| str_at(column, &[key]).to_owned();
    let path = word("jsonPath");
    let description = match str_at(column, &["description"]) {
        "" => format!("Custom resource definition column (in JSONPath format): {path}"),
        given => given.to_owned(),
    };
    let priority = column.get("priority").and_then(Value::as_i64).and_then(|it| i32::try_from(it).ok());
    Column {
        name: word("name"),
        kind: word("type"),
        format: word("format"),
        description,
        priority: priority.unwrap_or_default(),
        path,
    }
}

fn cell(kind: &str, value: &Value, now: Timestamp) -> Value {
    match kind {
        "string" => print_value(value),
        "integer" => value
            .as_i64()
            .or_else(|| value.as_f64().and_then(truncate_to_int))
            .map(Value::from)
            .unwrap_or_default(),
        "number" => value.as_f64().map(Value::from).unwrap_or_default(),
        "boolean" => value.as_bool().map(Value::from).unwrap_or_default(),
        "date" => value.as_str().map(|text| format_age(text, now)).unwrap_or_default(),
        _ => Value::Null,
    }
}

/// Formats a value as `kubectl` does: strings as they are, structures as JSON.
fn print_value(value: &Value) -> Value {
    match value {
        Value::Null => Value::Null,
        Value::String(text) => text.as_str().into(),
        Value::Number(number) if number.is_f64() => {
            crate::schema::plain_number(number.as_f64().unwrap_or_default()).into()
        }
        other => crate::schema::display_value(other).to_string().into(),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "integer columns truncate fractions")]
fn truncate_to_int(number: f64) -> Option<i64> {
    (number.abs() < 9.2e18).then_some(number as i64)
}

fn format_age(text: &str, now: Timestamp) -> Value {
    match text.parse::<Timestamp>() {
        Ok(then) => human_duration(now.duration_since(then).as_secs()).into(),
        Err(_) => "<invalid>".into(),
    }
}

/// Formats a duration in at most two units, like ages in `kubectl`.
fn human_duration(seconds: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;
    let two = |large: i64, large_unit: &str, small: i64, small_unit: &str| match small {
        0 => format!("{large}{large_unit}"),
        small => format!("{large}{large_unit}{small}{small_unit}"),
    };
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1..=0 => "0s".to_owned(),
        1..120 => format!("{seconds}s"),
        120..600 => two(seconds / MINUTE, "m", seconds % MINUTE, "s"),
        600..10_800 => format!("{}m", seconds / MINUTE),
        10_800..28_800 => two(seconds / HOUR, "h", seconds % HOUR / MINUTE, "m"),
        28_800..172_800 => format!("{}h", seconds / HOUR),
        172_800..691_200 => two(seconds / DAY, "d", seconds % DAY / HOUR, "h"),
        691_200..63_072_000 => format!("{}d", seconds / DAY),
        63_072_000..252_288_000 => two(seconds / YEAR, "y", seconds % YEAR / DAY, "d"),
        _ => format!("{}y", seconds / YEAR),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(0, "0s")]
    #[case(119, "119s")]
    #[case(120, "2m")]
    #[case(125, "2m5s")]
    #[case(7_200, "120m")]
    #[case(10_860, "3h1m")]
    #[case(100_000, "27h")]
    #[case(180_000, "2d2h")]
    #[case(1_000_000, "11d")]
    #[case(70_000_000, "2y80d")]
    #[case(-5, "<invalid>")]
    fn ages_are_short(#[case] seconds: i64, #[case] expected: &str) {
        assert_eq!(human_duration(seconds), expected);
    }

    #[test]
    fn cells_follow_the_type_of_their_column() {
        let column =
            |name: &str, kind: &str, path: &str| json!({"name": name, "type": kind, "jsonPath": path});
        let table = PrinterColumns::from_version(&json!({"additionalPrinterColumns": [
            column("A", "string", ".spec.n"), column("B", "integer", ".spec.n"), column("C", "boolean", ".spec.n"),
            column("D", "string", ".spec.map"), column("E", "date", ".spec.when"), column("F", "string", ".spec.gone"),
        ]}));
        let object = json!({"metadata": {"name": "x"}, "spec": {"n": 5, "map": {"b": 1, "a": 2}, "when": "2026-01-01T00:00:00Z"}});
        let now = "2026-01-01T00:01:00Z".parse().unwrap();
        let expected = json!(["x", "5", 5, null, "{\"a\":2,\"b\":1}", "60s", null]);
        assert_eq!(Value::Array(table.cells(&object, now)), expected);
        assert_eq!(table.columns().len(), 7);
    }

    #[test]
    fn without_columns_there_is_the_age() {
        let table = PrinterColumns::from_version(&json!({}));
        let names: Vec<String> = table.columns().into_iter().map(|column| column.name).collect();
        assert_eq!(names, ["Name", "Age"]);
    }
}
