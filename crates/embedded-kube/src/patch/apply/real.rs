//! Replays requests that were recorded from a real server (Kubernetes 1.36.3) with its responses.
//!
//! Each step starts from the real server's object, so one difference does not hide the next.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::{
    super::{managed_fields_update::update_managed_fields, strategic_merge, test_shapes},
    *,
};

const THINGS: &str = include_str!("real/things.json");
const BUILT_IN: &str = include_str!("real/built-in.json");

/// The time of the writer's entry in the recording, or else the newest time.
fn time_of(step: &Value) -> Option<jiff::Timestamp> {
    let entries = get_path(&step["response"], &["metadata", "managedFields"])?.as_array()?;
    let operation = if step["op"] == "apply" { "Apply" } else { "Update" };
    let is_mine = |entry: &Value| {
        entry["manager"] == step["manager"]
            && entry["operation"] == operation
            && str_at(entry, &["subresource"]) == step["subresource"]
    };
    let time = |entry: &Value| entry.get("time")?.as_str()?.parse().ok();
    let mine = entries.iter().find(|entry| is_mine(entry)).and_then(time);
    mine.or_else(|| entries.iter().filter_map(time).max())
}

fn writer<'a>(step: &'a Value, old: Option<&'a Value>) -> WriteContext<'a> {
    let subresource = step["subresource"].as_str().unwrap();
    let typed = old.or_else(|| Some(&step["request"]).filter(|request| request.get("kind").is_some()));
    let typed = typed.unwrap_or_else(|| &step["response"]);
    WriteContext {
        manager: step["manager"].as_str().unwrap(),
        api_version: str_at(typed, &["apiVersion"]),
        kind: str_at(typed, &["kind"]),
        subresource,
        reset_fields: match subresource {
            "status" if typed["kind"] == "Thing" => &["spec", "metadata"],
            "status" => &["spec", "metadata.labels"],
            _ => &["status"],
        },
        replicas_path: "spec.replicas",
        now: time_of(step).unwrap_or(jiff::Timestamp::UNIX_EPOCH),
    }
}

/// Drops what other parts of the server write, and sorts the rest.
fn bare(mut object: Value) -> Value {
    for key in ["uid", "creationTimestamp", "generation", "resourceVersion", "namespace"] {
        object.drop_meta(key);
    }
    for key in ["labels", "annotations", "finalizers"] {
        let empty = [json!({}), json!([])];
        if get_path(&object, &["metadata", key]).is_some_and(|value| empty.contains(value)) {
            object.drop_meta(key);
        }
    }
    last_applied::sort_keys(&object)
}

fn entries(object: &Value) -> Value {
    last_applied::sort_keys(get_path(object, &["metadata", "managedFields"]).unwrap_or(&Value::Null))
}

/// A write that changes only times is no change.
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
            // Defaults of built-in kinds are set later; and a status write keeps only the status.
            if matches!(shape, Shape::Owned(_)) && step["subresource"] == "" {
                assert_eq!(bare(object), bare(theirs.clone()), "{}", shown(step));
            } else {
                assert_eq!(entries(&object), entries(theirs), "{}", shown(step));
            }
        }
        // Schema violations are detected later.
        (422, Ok(_)) => {}
        (_, Err(refused)) => {
            let (mut ours, mut theirs) = (refused.status(), step["response"].clone());
            for status in [&mut ours, &mut theirs] {
                // The order of managers is random in the real server.
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
    if let Some(given) = get_path(&step["request"], &["metadata", "managedFields"]) {
        object.set_meta("managedFields", given.clone());
    }
    if step["op"] == "create" && object["kind"] == "Service" {
        // Addresses are allocated later.
        for key in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            object["spec"].as_object_mut().unwrap().shift_remove(key);
        }
    }
    update_managed_fields(old, &mut object, shape, &writer(step, old)).unwrap();
    assert_eq!(entries(&object), entries(&step["response"]), "{}", shown(step));
}

/// The recorded object has defaults that the patched one does not have yet.
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

/// Replays all steps; each names the step whose response it starts from.
fn replay(recorded: &str, shape_of: impl Fn(&WriteContext<'_>) -> Shape) {
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
    replay(THINGS, |_| test_shapes::thing());
}
