//! Requests to a real server (Kubernetes 1.36.3) and what it answered, replayed.
//!
//! Each step starts from the object as the real server had it, so one difference does not hide the next.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::{
    super::{keep_times, shapes, track},
    *,
};

const THINGS: &str = include_str!("real/things.json");

/// The time that the real server gave to the writer's entry, or else the newest that it gave.
fn time_of(step: &Value) -> Option<jiff::Timestamp> {
    let entries = at(&step["response"], &["metadata", "managedFields"])?.as_array()?;
    let operation = if step["op"] == "apply" { "Apply" } else { "Update" };
    let is_mine = |entry: &Value| {
        entry["manager"] == step["manager"]
            && entry["operation"] == operation
            && entry.get("subresource").unwrap_or(&json!("")) == &step["subresource"]
    };
    let time = |entry: &Value| entry.get("time")?.as_str()?.parse().ok();
    let mine = entries.iter().find(|entry| is_mine(entry)).and_then(time);
    mine.or_else(|| entries.iter().filter_map(time).max())
}

fn writer(step: &Value) -> Writer<'_> {
    let subresource = step["subresource"].as_str().unwrap();
    Writer {
        manager: step["manager"].as_str().unwrap(),
        api_version: "example.com/v1",
        kind: "Thing",
        subresource,
        reset: if subresource == "status" { &["spec", "metadata"] } else { &["status"] },
        now: time_of(step).unwrap_or(jiff::Timestamp::UNIX_EPOCH),
    }
}

/// Without what other parts of the server write, and in one order.
fn bare(mut object: Value) -> Value {
    for key in ["uid", "creationTimestamp", "generation", "resourceVersion", "namespace"] {
        object.drop_meta(key);
    }
    for key in ["labels", "annotations", "finalizers"] {
        let empty = [json!({}), json!([])];
        if at(&object, &["metadata", key]).is_some_and(|value| empty.contains(value)) {
            object.drop_meta(key);
        }
    }
    last_applied::sorted(&object)
}

fn shown(step: &Value) -> String {
    format!("{} by {} {}: {}", step["op"], step["manager"], step["subresource"], step["request"])
}

fn check_apply(step: &Value, old: Option<&Value>, shape: &Shape) {
    let ours = apply(old, &step["request"], shape, &writer(step), step["force"] == true);
    match (step["code"].as_u64().unwrap(), ours) {
        (200 | 201, Ok(mut object)) => {
            if let Some(old) = old {
                keep_times(old, &mut object);
            }
            assert_eq!(bare(object), bare(step["response"].clone()), "{}", shown(step));
        }
        // What does not fit the schema is found later.
        (422, Ok(object)) => assert!(object.to_string().contains("null"), "{step}"),
        (_, Err(refused)) => {
            let (mut ours, mut theirs) = (refused.status(), step["response"].clone());
            for status in [&mut ours, &mut theirs] {
                // Who comes first among several managers is chance there.
                if let Some(causes) = status.pointer_mut("/details/causes").and_then(Value::as_array_mut) {
                    causes.sort_by_key(ToString::to_string);
                }
            }
            assert_eq!(ours, theirs, "{}", shown(step));
        }
        (code, Ok(object)) => panic!("{code} expected, but it succeeds: {object}\n{}", shown(step)),
    }
}

fn check_track(step: &Value, old: Option<&Value>, shape: &Shape) {
    let mut object = step["response"].clone();
    object.drop_meta("managedFields");
    if let Some(given) = at(&step["request"], &["metadata", "managedFields"]) {
        object.set_meta("managedFields", given.clone());
    }
    track(old, &mut object, shape, &writer(step)).unwrap();
    assert_eq!(bare(object), bare(step["response"].clone()), "{}", shown(step));
}

/// Plays all steps; each names the step whose answer it starts from.
fn replay(text: &str, shape: &Shape) {
    let steps: Vec<Value> = serde_json::from_str(text).unwrap();
    assert!(steps.len() > 50);
    for step in &steps {
        let old = step["from"].as_u64().map(|from| &steps[usize::try_from(from).unwrap()]["response"]);
        match step["op"].as_str().unwrap() {
            "apply" => check_apply(step, old, shape),
            _ => check_track(step, old, shape),
        }
    }
}

#[test]
fn custom_resources_change_hands_as_on_the_real_server() {
    replay(THINGS, &shapes::thing());
}
