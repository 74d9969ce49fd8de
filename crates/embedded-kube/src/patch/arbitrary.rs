//! Random JSON for property tests.

use proptest::prelude::*;
use serde_json::{Map, Value};

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3_i64..4).prop_map(Value::from),
        (-2_i32..3).prop_map(|halves| Value::from(f64::from(halves) + 0.5)),
        key().prop_map(Value::from),
    ]
}

/// A small alphabet, so that keys coincide.
pub fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("name"),
        Just("value"),
        Just("list"),
        Just("set"),
        Just("map"),
        Just("any"),
        Just("spec"),
        Just("metadata"),
        Just("$patch"),
        Just("delete"),
        Just("replace"),
        Just("$retainKeys"),
        Just("$setElementOrder/list"),
        Just("$deleteFromPrimitiveList/set"),
        Just("f:name"),
        Just("."),
    ]
    .prop_map(str::to_owned)
}

/// Any JSON value.
pub fn value() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(5, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((key(), inner), 0..5)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

/// Any JSON object.
pub fn object() -> impl Strategy<Value = Value> {
    prop::collection::vec((key(), value()), 0..6)
        .prop_map(|pairs| Value::Object(pairs.into_iter().collect::<Map<_, _>>()))
}
