//! Property tests for arbitrary schemas and values: no panics, and pruning and defaulting are idempotent.

use proptest::{collection, prelude::*};
use serde_json::{Value, json};

use super::*;

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-5_i64..5).prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-d]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            collection::vec(("[a-d]", inner), 0..4)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

/// A default with a null that is not nullable is rejected with its CRD, and would not be idempotent.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().filter(|it| !it.is_null()).map(without_nulls).collect(),
        Value::Object(map) => map
            .into_iter()
            .filter(|(_, it)| !it.is_null())
            .map(|(key, it)| (key, without_nulls(it)))
            .collect(),
        other => other,
    }
}

fn schema() -> impl Strategy<Value = Value> {
    let extras = || {
        collection::vec(
            prop_oneof![
                Just(json!({"nullable": true})),
                Just(json!({"minimum": 1, "exclusiveMinimum": true})),
                Just(json!({"multipleOf": 0.1})),
                Just(json!({"multipleOf": 0})),
                Just(json!({"maximum": 1e300})),
                Just(json!({"maxLength": 1, "pattern": "^a"})),
                Just(json!({"pattern": "("})),
                Just(json!({"format": "duration"})),
                Just(json!({"format": "int32"})),
                Just(json!({"enum": ["a", 1, null]})),
                Just(json!({"maxItems": 1, "minProperties": 2})),
                Just(json!({"required": ["a"]})),
                Just(json!({"x-kubernetes-preserve-unknown-fields": true})),
                Just(json!({"x-kubernetes-embedded-resource": true})),
                Just(json!({"x-kubernetes-int-or-string": true})),
                Just(json!({"x-kubernetes-list-type": "set"})),
                Just(json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a", "b"]})),
                Just(json!({"not": {"minimum": 3}, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]})),
                value().prop_map(|default| json!({"default": without_nulls(default)})),
            ],
            0..3,
        )
    };
    let kind = prop_oneof![
        Just("object"),
        Just("array"),
        Just("string"),
        Just("integer"),
        Just("number"),
        Just("boolean"),
        Just("")
    ];
    let node = (kind, extras()).prop_map(|(kind, extras)| {
        let mut schema = json!({"type": kind});
        for extra in extras {
            schema.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        }
        schema
    });
    node.clone().prop_recursive(3, 24, 4, move |inner| {
        (node.clone(), collection::vec(("[a-d]", inner.clone()), 0..4), inner).prop_map(
            |(mut schema, fields, child)| {
                match schema["type"].as_str() {
                    Some("array") => schema["items"] = child,
                    Some("object") if fields.is_empty() => schema["additionalProperties"] = child,
                    _ => schema["properties"] = Value::Object(fields.into_iter().collect()),
                }
                schema
            },
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn any_value_can_be_held_against_any_schema(schema in schema(), new in value(), old in value()) {
        let _ = CompiledSchema::schema_errors(&Schema::parse(&schema), "p");
        let compiled = CompiledSchema::new_unchecked(Schema::parse(&json!({"type": "object", "properties": {"spec": schema}})));
        let (mut new, old) = (json!({"spec": new}), json!({"spec": old}));
        let _ = compiled.validate(&new, None);
        let _ = compiled.validate(&new, Some(&old));
        compiled.prune(&mut new);
        prop_assert_eq!(compiled.unknown_fields(&new), Vec::<String>::new());
        let pruned = new.clone();
        compiled.prune(&mut new);
        prop_assert_eq!(&new, &pruned);
        compiled.set_defaults(&mut new);
        let defaulted = new.clone();
        compiled.set_defaults(&mut new);
        prop_assert_eq!(&new, &defaulted);
    }
}
