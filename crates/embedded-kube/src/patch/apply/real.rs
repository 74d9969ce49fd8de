//! Requests to a real server (Kubernetes 1.36.3) and what it answered, replayed.
//!
//! Each step starts from the object as the real server had it, so one difference does not hide the next.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::{
    super::{shapes, strategic_merge, track},
    *,
};

const THINGS: &str = include_str!("real/things.json");
const BUILT_IN: &str = include_str!("real/built-in.json");

/// The time that the real server gave to the writer's entry, or else the newest that it gave.
fn time_of(step: &Value) -> Option<jiff::Timestamp> {
    let entries = at(&step["response"], &["metadata", "managedFields"])?.as_array()?;
    let operation = if step["op"] == "apply" { "Apply" } else { "Update" };
    let is_mine = |entry: &Value| {
        entry["manager"] == step["manager"]
            && entry["operation"] == operation
            && text(entry, &["subresource"]) == step["subresource"]
    };
    let time = |entry: &Value| entry.get("time")?.as_str()?.parse().ok();
    let mine = entries.iter().find(|entry| is_mine(entry)).and_then(time);
    mine.or_else(|| entries.iter().filter_map(time).max())
}

fn writer<'a>(step: &'a Value, old: Option<&'a Value>) -> Writer<'a> {
    let subresource = step["subresource"].as_str().unwrap();
    let typed = old.or_else(|| Some(&step["request"]).filter(|request| request.get("kind").is_some()));
    let typed = typed.unwrap_or_else(|| &step["response"]);
    Writer {
        manager: step["manager"].as_str().unwrap(),
        api_version: text(typed, &["apiVersion"]),
        kind: text(typed, &["kind"]),
        subresource,
        reset: match subresource {
            "status" if typed["kind"] == "Thing" => &["spec", "metadata"],
            "status" => &["spec", "metadata.labels"],
            _ => &["status"],
        },
        replicas: "spec.replicas",
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

fn entries(object: &Value) -> Value {
    last_applied::sorted(at(object, &["metadata", "managedFields"]).unwrap_or(&Value::Null))
}

/// A write that changes nothing but times is none.
fn timeless(object: &Value) -> Value {
    let mut object = object.clone();
    let entries = object.pointer_mut("/metadata/managedFields").and_then(Value::as_array_mut);
    for entry in entries.into_iter().flatten() {
        entry.drop_field("time");
    }
    object
}

fn shown(step: &Value) -> String {
    format!("{} by {} {}: {}", step["op"], step["manager"], step["subresource"], step["request"])
}

fn check_apply(step: &Value, old: Option<&Value>, shape: &Shape) {
    let ours = apply(old, &step["request"], shape, &writer(step, old), step["force"] == true);
    match (step["code"].as_u64().unwrap(), ours) {
        (200 | 201, Ok(mut object)) => {
            if let Some(old) = old.filter(|old| bare(timeless(old)) == bare(timeless(&object))) {
                object = old.clone();
            }
            let theirs = &step["response"];
            // Defaults of built-in kinds come later; and of a status only that part is kept.
            if matches!(shape, Shape::Own(_)) && step["subresource"] == "" {
                assert_eq!(bare(object), bare(theirs.clone()), "{}", shown(step));
            } else {
                assert_eq!(entries(&object), entries(theirs), "{}", shown(step));
            }
        }
        // What does not fit the schema is found later.
        (422, Ok(_)) => {}
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
    if step["op"] == "create" && object["kind"] == "Service" {
        // Addresses are given out after this.
        for key in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            object["spec"].as_object_mut().unwrap().shift_remove(key);
        }
    }
    track(old, &mut object, shape, &writer(step, old)).unwrap();
    assert_eq!(entries(&object), entries(&step["response"]), "{}", shown(step));
}

/// The real object has defaults that the patched one does not have yet.
fn is_within(ours: &Value, theirs: &Value) -> bool {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => ours.iter().all(|(key, ours)| {
            matches!(key.as_str(), "managedFields" | "sessionAffinityConfig")
                || matches!(ours, Value::Null)
                || ours.as_object().is_some_and(Map::is_empty)
                || ours.as_array().is_some_and(Vec::is_empty)
                || matches!(ours, Value::Bool(false))
                || ours.as_i64() == Some(0)
                || theirs.get(key).is_some_and(|theirs| is_within(ours, theirs))
        }),
        (Value::Array(ours), Value::Array(theirs)) => {
            ours.len() == theirs.len()
                && ours.iter().zip(theirs).all(|(ours, theirs)| is_within(ours, theirs))
        }
        _ => ours == theirs,
    }
}

fn check_strategic(step: &Value, old: &Value, shape: &Shape) {
    let ours = strategic_merge(old, step["request"].to_string().as_bytes(), shape);
    match (step["code"].as_u64().unwrap(), ours) {
        (200, Ok(ours)) => {
            assert!(is_within(&ours, &step["response"]), "{}\n{ours}\n{}", shown(step), step["response"]);
        }
        (422, _) => {}
        (_, ours) => assert_eq!(ours.unwrap_err().status(), step["response"], "{}", shown(step)),
    }
}

/// Plays all steps; each names the step whose answer it starts from.
fn replay(recorded: &str, shape_of: impl Fn(&Writer<'_>) -> Shape) {
    let steps: Vec<Value> = serde_json::from_str(recorded).unwrap();
    assert!(steps.len() > 50, "{}", steps.len());
    for step in &steps {
        let old = step["from"].as_u64().map(|from| &steps[usize::try_from(from).unwrap()]["response"]);
        let shape = shape_of(&writer(step, old));
        if let ("strategic", Some(old)) = (step["op"].as_str().unwrap(), old) {
            check_strategic(step, old, &shape);
        }
        match (step["op"].as_str().unwrap(), step["code"].as_u64().unwrap()) {
            ("apply", _) => check_apply(step, old, &shape),
            (_, 200 | 201) => check_track(step, old, &shape),
            _ => {}
        }
    }
}

#[test]
fn built_in_objects_change_hands_as_on_the_real_server() {
    replay(BUILT_IN, |writer| {
        let (group, version) = writer.api_version.split_once('/').unwrap_or(("", writer.api_version));
        crate::types::shape_of(group, version, writer.kind).unwrap()
    });
}

#[test]
fn custom_resources_change_hands_as_on_the_real_server() {
    replay(THINGS, |_| shapes::thing());
}
