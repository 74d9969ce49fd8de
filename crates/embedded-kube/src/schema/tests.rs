//! Validation results, error texts, pruning and defaulting.

mod any;
mod rules;

use pretty_assertions::assert_eq;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;

#[expect(clippy::needless_pass_by_value, reason = "cases are written as values")]
fn compiled(spec: Value) -> CompiledSchema {
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    CompiledSchema::new(&schema).unwrap_or_else(|errors| panic!("{errors:?}"))
}

#[expect(clippy::needless_pass_by_value, reason = "cases are written as values")]
fn faults(spec: Value, value: Value) -> Vec<String> {
    compiled(spec).validate(&json!({"spec": value}), None).iter().map(ToString::to_string).collect()
}

const NOT_CHECKED: &str = "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";

#[rstest]
#[case::integer(json!({"type": "integer"}), json!("x"), r#"spec: Invalid value: "string": spec in body must be of type integer: "string""#)]
#[case::boolean(json!({"type": "string"}), json!(true), r#"spec: Invalid value: "boolean": spec in body must be of type string: "boolean""#)]
#[case::null(json!({"type": "object", "nullable": false}), json!(null), r#"spec: Invalid value: "null": spec in body must be of type object: "null""#)]
#[case::int_or_string(json!({"x-kubernetes-int-or-string": true}), json!(true), r#"spec: Invalid value: "boolean": spec in body must be of type integer,string: "boolean""#)]
#[case::minimum(json!({"type": "integer", "minimum": 3}), json!(2), "spec: Invalid value: 2: spec in body should be greater than or equal to 3")]
#[case::exclusive(json!({"type": "integer", "maximum": 3, "exclusiveMaximum": true}), json!(3), "spec: Invalid value: 3: spec in body should be less than 3")]
#[case::maximum(json!({"type": "number", "maximum": 1.5}), json!(2.5), "spec: Invalid value: 2.5: spec in body should be less than or equal to 1.5")]
#[case::multiple(json!({"type": "integer", "multipleOf": 5}), json!(7), "spec: Invalid value: 7: spec in body should be a multiple of 5")]
#[case::too_long(json!({"type": "string", "maxLength": 5}), json!("abcdef"), "spec: Too long: may not be more than 5 bytes")]
#[case::too_short(json!({"type": "string", "minLength": 2}), json!("a"), r#"spec: Invalid value: "a": spec in body should be at least 2 chars long"#)]
#[case::pattern(json!({"type": "string", "pattern": "^a$"}), json!("b"), r#"spec: Invalid value: "b": spec in body should match '^a$'"#)]
#[case::choice(json!({"type": "string", "enum": ["a", "b"]}), json!("x"), r#"spec: Unsupported value: "x": supported values: "a", "b""#)]
#[case::numbers(json!({"type": "integer", "enum": [1, 2]}), json!(3), r#"spec: Unsupported value: 3: supported values: "1", "2""#)]
#[case::format(json!({"type": "string", "format": "date-time"}), json!("soon"), r#"spec: Invalid value: "soon": spec in body must be of type date-time: "soon""#)]
#[case::uuid(json!({"type": "string", "format": "uuid"}), json!("x"), r#"spec: Invalid value: "x": spec in body must be of type uuid: "x""#)]
#[case::int32(json!({"type": "integer", "format": "int32"}), json!(3_000_000_000_i64), r#"<nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec"#)]
#[case::max_items(json!({"type": "array", "items": {"type": "string"}, "maxItems": 1}), json!(["a", "b"]), "spec: Too many: 2: must have at most 1 item")]
#[case::min_items(json!({"type": "array", "items": {"type": "string"}, "minItems": 2}), json!(["a"]), "spec: Invalid value: 1: spec in body should have at least 2 items")]
#[case::max_properties(json!({"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 1}), json!({"a": "", "b": ""}), "spec: Too many: 2: must have at most 1 item")]
#[case::min_properties(json!({"type": "object", "additionalProperties": {"type": "string"}, "minProperties": 1}), json!({}), "spec: Invalid value: 0: spec in body should have at least 1 properties")]
#[case::required(json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}), json!({}), "spec.a: Required value")]
#[case::item(json!({"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}}), json!([{"n": 1}, {"n": "x"}]), r#"spec[1].n: Invalid value: "string": spec[1].n in body must be of type integer: "string""#)]
#[case::map(json!({"type": "object", "additionalProperties": {"type": "integer"}}), json!({"k": "x"}), r#"spec.k: Invalid value: "string": spec.k in body must be of type integer: "string""#)]
#[case::set(json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}), json!(["a", "b", "a", "a"]), r#"spec[2]: Duplicate value: "a""#)]
#[case::keys(json!({"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}, "v": {"type": "string"}}, "required": ["name"]}, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}), json!([{"name": "x", "v": "1"}, {"name": "x", "v": "2"}]), r#"spec[1]: Duplicate value: {"name":"x"}"#)]
#[case::not(json!({"type": "string", "not": {"enum": ["a"]}}), json!("a"), r#"<nil>: Invalid value: "": "spec" must not validate the schema (not)"#)]
#[case::embedded(json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}), json!({"apiVersion": "v1"}), "spec.kind: Required value")]
fn a_wrong_value_is_refused_with_the_words_of_the_real_server(
    #[case] spec: Value,
    #[case] value: Value,
    #[case] expected: &str,
) {
    let mut found = faults(spec, value);
    found.retain(|text| text != NOT_CHECKED);
    assert_eq!(found, [expected]);
}

#[rstest]
#[case(json!({"type": "integer"}), json!(5.0))]
#[case(json!({"type": "number"}), json!(5))]
#[case(json!({"type": "string", "format": "no-such-format"}), json!("anything"))]
#[case(json!({"type": "string", "nullable": true}), json!(null))]
#[case(json!({"x-kubernetes-int-or-string": true}), json!("50%"))]
#[case(json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}), json!(8))]
#[case(json!({"type": "string", "format": "date-time"}), json!("2026-01-01T10:00:00Z"))]
#[case(json!({"type": "string", "format": "cidr"}), json!("10.0.0.0/8"))]
#[case(json!({"type": "string", "format": "ipv6"}), json!("::1"))]
#[case(json!({"type": "string", "format": "byte"}), json!("aGVsbG8="))]
#[case(json!({"type": "string", "format": "duration"}), json!("1h30m"))]
#[case(json!({"type": "string", "format": "uri"}), json!("https://example.com/a?b=c"))]
#[case(json!({"type": "string", "format": "hostname"}), json!("a.example.com"))]
#[case(json!({"type": "string", "format": "email"}), json!("a@example.com"))]
#[case(json!({"type": "string", "format": "mac"}), json!("01:23:45:67:89:ab"))]
#[case(json!({"type": "string", "format": "isbn"}), json!("978-0321751041"))]
#[case(json!({"type": "string", "format": "creditcard"}), json!("4111-1111-1111-1111"))]
fn a_right_value_is_accepted(#[case] spec: Value, #[case] value: Value) {
    assert_eq!(faults(spec, value), Vec::<String>::new());
}

#[test]
fn of_several_alternatives_the_one_that_came_closest_is_explained() {
    let spec = json!({
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
    });
    let one_of = r#"<nil>: Invalid value: "": "spec" must validate one and only one schema (oneOf)."#;
    assert_eq!(
        faults(spec.clone(), json!({"a": "x", "b": "y"})),
        [format!("{one_of} Found 2 valid alternatives")]
    );
    let found = faults(spec, json!({}));
    assert_eq!(found[..2], [format!("{one_of} Found none valid"), "spec.a: Required value".to_owned()]);
}

#[test]
fn a_fraction_is_no_integer_in_two_ways() {
    let found = faults(json!({"type": "integer"}), json!(1.5));
    assert_eq!(
        found[..2],
        [
            r#"spec: Invalid value: "number": spec in body must be of type integer: "number""#,
            r#"<nil>: Invalid value: "": Checked value must be of type integer (default format) in spec"#,
        ]
    );
}

#[test]
fn all_of_is_reported_after_what_failed_in_it() {
    let spec = json!({"type": "integer", "allOf": [{"minimum": 5}, {"maximum": 9}]});
    assert_eq!(
        faults(spec, json!(3)),
        [
            "spec: Invalid value: 3: spec in body should be greater than or equal to 5",
            r#"<nil>: Invalid value: "": "spec" must validate all the schemas (allOf)"#,
        ]
    );
}

#[test]
fn unknown_fields_are_dropped_and_told() {
    let schema = compiled(json!({
        "type": "object",
        "properties": {
            "known": {"type": "string"},
            "kept": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"inner": {"type": "object", "properties": {}}}},
            "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
            "resource": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": {"type": "object"}}},
        },
    }));
    let mut object = json!({
        "apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "x"}, "extra": 1,
        "spec": {
            "known": "a", "unknown": {"deep": 1},
            "kept": {"anything": {"at": "all"}, "inner": {"gone": 1}},
            "list": [{"a": "1"}, {"a": "2", "b": 3}],
            "resource": {"apiVersion": "v1", "kind": "X", "metadata": {"name": "y"}, "spec": {}, "data": 1},
        },
    });
    let unknown = ["extra", "spec.kept.inner.gone", "spec.list[1].b", "spec.resource.data", "spec.unknown"];
    assert_eq!(schema.unknown_fields(&object), unknown);
    schema.prune(&mut object);
    let expected = json!({
        "apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "x"},
        "spec": {
            "known": "a",
            "kept": {"anything": {"at": "all"}, "inner": {}},
            "list": [{"a": "1"}, {"a": "2"}],
            "resource": {"apiVersion": "v1", "kind": "X", "metadata": {"name": "y"}, "spec": {}},
        },
    });
    assert_eq!(object, expected);
    assert_eq!(schema.unknown_fields(&object), Vec::<String>::new());
}

#[test]
fn defaults_reach_into_lists_and_maps_and_replace_nulls() {
    let schema = compiled(json!({
        "type": "object",
        "properties": {
            "replicas": {"type": "integer", "default": 1},
            "nothing": {"type": "string"},
            "maybe": {"type": "string", "nullable": true, "default": "x"},
            "list": {"type": "array", "items": {"type": "object", "properties": {"port": {"type": "integer", "default": 80}}}},
            "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"on": {"type": "boolean", "default": true}}}},
            "nest": {"type": "object", "default": {}, "properties": {"deep": {"type": "string", "default": "d"}}},
        },
    }));
    let mut object = json!({"spec": {"replicas": null, "nothing": null, "maybe": null, "list": [{}, {"port": 1}], "map": {"k": {}}}});
    schema.set_defaults(&mut object);
    let expected = json!({"spec": {
        "replicas": 1, "maybe": null, "list": [{"port": 80}, {"port": 1}], "map": {"k": {"on": true}}, "nest": {"deep": "d"},
    }});
    assert_eq!(object, expected);
}

#[test]
fn what_was_wrong_before_and_has_not_changed_is_let_through() {
    let schema = compiled(json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 2},
            "other": {"type": "string"},
            "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {
                "type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "n": {"type": "integer", "minimum": 5}},
            }},
            "plain": {"type": "array", "items": {"type": "integer", "minimum": 5}},
        },
    }));
    let old = json!({"spec": {"name": "abc", "list": [{"k": "a", "n": 1}], "plain": [1]}});
    let same = json!({"spec": {"name": "abc", "other": "new", "list": [{"k": "b", "n": 9}, {"k": "a", "n": 1}], "plain": [1]}});
    assert_eq!(schema.validate(&same, Some(&old)), []);
    let changed = json!({"spec": {"name": "abcd", "list": [{"k": "a", "n": 2}], "plain": [1, 9]}});
    let fields: Vec<String> =
        schema.validate_values(&changed, Some(&old)).into_iter().map(|error| error.field).collect();
    assert_eq!(fields, ["spec.list[0].n", "spec.name", "spec.plain[0]"]);
}

#[rstest]
#[case(json!({"properties": {}}), "openAPIV3Schema.type: Required value: must not be empty at the root")]
#[case(json!({"type": "object", "properties": {"a": {}}}), "openAPIV3Schema.properties[a].type: Required value: must not be empty for specified object fields")]
#[case(json!({"type": "object", "properties": {"a": {"type": "array"}}}), "openAPIV3Schema.properties[a].items: Required value: must be specified")]
#[case(json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}), "openAPIV3Schema.properties[a].pattern: Invalid value: \"(\": must be a valid regular expression, but isn't: error parsing regexp: missing closing ): `(`")]
#[case(json!({"type": "object", "anyOf": [{"properties": {"b": {"minimum": 1}}}]}), "openAPIV3Schema.properties[b]: Required value: because it is defined in openAPIV3Schema.anyOf[0].properties[b]")]
#[case(json!({"type": "object", "properties": {"a": {"type": "string", "allOf": [{"type": "string"}]}}}), "openAPIV3Schema.properties[a].allOf[0].type: Forbidden: must be empty to be structural")]
#[case(json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}}), "openAPIV3Schema.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified")]
#[case(json!({"type": "object", "additionalProperties": true}), "openAPIV3Schema.additionalProperties: Forbidden: must not be used at the root")]
fn a_schema_that_is_not_structural_is_refused(#[case] schema: Value, #[case] expected: &str) {
    let errors = CompiledSchema::new(&schema).unwrap_err();
    assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
}
