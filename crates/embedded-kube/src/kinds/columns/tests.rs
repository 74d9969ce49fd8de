use jiff::{SignedDuration, Timestamp};
use pretty_assertions::assert_eq;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::kinds;

#[rstest]
#[case(-5, "<invalid>")]
#[case(-1, "0s")]
#[case(119, "119s")]
#[case(120, "2m")]
#[case(185, "3m5s")]
#[case(600, "10m")]
#[case(10_799, "179m")]
#[case(10_800, "3h")]
#[case(12_600, "3h30m")]
#[case(28_800, "8h")]
#[case(172_800, "2d")]
#[case(190_800, "2d5h")]
#[case(691_200, "8d")]
#[case(63_072_000, "2y")]
#[case(66_528_000, "2y40d")]
#[case(252_288_000, "8y")]
fn durations_have_two_or_three_figures(#[case] seconds: i64, #[case] expected: &str) {
    assert_eq!(human_duration(SignedDuration::from_secs(seconds)), expected);
}

#[rstest]
#[case(".spec.a", json!(["x"]))]
#[case("spec.a", json!("unrecognized identifier spec"))]
#[case(".spec.missing", json!([]))]
#[case(r".metadata.annotations.example\.com/a", json!(["v"]))]
#[case(r".metadata.annotations['example\.com/a']", json!(["v"]))]
#[case(".status.conditions[?(@.type==\"Ready\")].status", json!(["True"]))]
#[case(".status.conditions[?(@.type=='Ready')].status", json!(["True"]))]
#[case(".status.conditions[?(@.count>1)].type", json!(["Ready"]))]
#[case(".status.conditions[?(@.note)].type", json!(["Other"]))]
#[case(".status.conditions[*].type", json!(["Other", "Ready"]))]
#[case(".status.conditions[0].type", json!(["Other"]))]
#[case(".status.conditions[-1].type", json!(["Ready"]))]
#[case(".status.conditions[0:1].type", json!(["Other"]))]
#[case(".status.conditions[1,0].type", json!(["Ready", "Other"]))]
#[case(".status.conditions[7].type", json!("array index out of bounds: index 7, length 2"))]
#[case("..type", json!(["Other", "Ready"]))]
#[case(".spec.*", json!(["x", 3]))]
fn a_json_path_leads_where_the_real_one_does(#[case] path: &str, #[case] expected: Value) {
    let object = json!({
        "metadata": {"annotations": {"example.com/a": "v"}},
        "spec": {"a": "x", "n": 3},
        "status": {"conditions": [
            {"type": "Other", "status": "False", "note": "x", "count": 1},
            {"type": "Ready", "status": "True", "count": 2},
        ]},
    });
    let found = JsonPath::parse(path).and_then(|path| path.find(&object));
    assert_eq!(found.map_or_else(Value::String, Value::Array), expected);
}

#[rstest]
#[case("string", json!({"b": 1}), json!("{\"b\":1}"))]
#[case("string", json!(5), json!("5"))]
#[case("integer", json!(5.7), json!(5))]
#[case("integer", json!("5"), Value::Null)]
#[case("boolean", json!(true), json!(true))]
#[case("date", json!("2026-01-01T00:00:00Z"), json!("3m"))]
#[case("date", json!("soon"), json!("<invalid>"))]
fn a_custom_cell_has_the_type_of_its_column(#[case] kind: &str, #[case] value: Value, #[case] cell: Value) {
    let now: Timestamp = "2026-01-01T00:03:00Z".parse().unwrap();
    let column = Column { kind: kind.to_owned(), path: ".x".to_owned(), ..column(("X", "", 0, "")) };
    assert_eq!(custom_cell(&column, &json!({"x": value}), now), cell);
}

#[test]
fn every_kind_has_as_many_cells_as_columns() {
    let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    for resource in kinds::resources() {
        let cells = cells(&resource, &json!({"metadata": {"name": "x"}}), now);
        assert_eq!(cells.len(), resource.columns.len(), "{}", resource.kind);
        let at = resource.columns.iter().position(|column| column.name == "Name").unwrap();
        assert_eq!(cells.get(at), Some(&json!("x")), "{}", resource.kind);
    }
}
