//! Moving from client-side to server-side apply: kubectl's annotation with the config it applied last.

use serde_json::{Map, Value};

use super::super::{
    Writer,
    fields::Set,
    typed::{Type, check, compare, gather},
};
use crate::{
    object::{at_mut, text},
    shape::Shape,
};

/// The manager for which all this is done.
pub const MANAGER: &str = "kubectl";
const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Bytes that all annotations together may have.
const MOST_ANNOTATIONS: usize = 256 * 1024;

fn annotation(object: &Value) -> Option<&str> {
    Some(text(object, &["metadata", "annotations", ANNOTATION])).filter(|text| !text.is_empty())
}

/// Fields that the annotation names and that are still as it says.
pub fn agreed(live: &Value, shape: &Shape, writer: &Writer<'_>) -> Option<Set> {
    let kind = Type::of(shape);
    let applied: Value = serde_json::from_str(annotation(live)?).ok()?;
    if text(&applied, &["apiVersion"]) != writer.api_version
        || !check(live, kind, false).is_empty()
        || !check(&applied, kind, false).is_empty()
    {
        return None;
    }
    let mut set = gather(&applied, kind);
    let changes = compare(&applied, live, kind).ok()?;
    for changed in [&changes.modified, &changes.added, &changes.removed] {
        set.subtract(changed);
    }
    Some(set)
}

/// Brings the annotation, where there is one, up to date with the config.
pub fn refresh(object: &mut Value, config: &Value) {
    if annotation(object).is_none() {
        return;
    }
    let mut config = config.clone();
    if let Some(annotations) = config.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.shift_remove(ANNOTATION);
    }
    let written = format!("{}\n", sorted(&config));
    let Some(Value::Object(annotations)) = at_mut(object, &["metadata", "annotations"]) else { return };
    annotations.insert(ANNOTATION.to_owned(), written.into());
    let size: usize =
        annotations.iter().map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    if size > MOST_ANNOTATIONS {
        annotations.shift_remove(ANNOTATION);
    }
}

/// With the keys of all objects in order, as the real server writes JSON.
pub fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut pairs: Vec<(&String, &Value)> = map.iter().collect();
            pairs.sort_by_key(|(key, _)| *key);
            Value::Object(
                pairs.into_iter().map(|(key, value)| (key.clone(), sorted(value))).collect::<Map<_, _>>(),
            )
        }
        Value::Array(list) => Value::Array(list.iter().map(sorted).collect()),
        scalar => scalar.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::object::at;

    #[test]
    fn the_annotation_is_kept_up_to_date_only_where_there_is_one() {
        let config =
            json!({"kind": "A", "b": {"y": 1, "x": 2}, "metadata": {"annotations": {(ANNOTATION): "old"}}});
        let mut without = json!({"metadata": {}});
        refresh(&mut without, &config);
        assert_eq!(without, json!({"metadata": {}}));
        let mut with = json!({"metadata": {"annotations": {(ANNOTATION): "old"}}});
        refresh(&mut with, &config);
        let expected = "{\"b\":{\"x\":2,\"y\":1},\"kind\":\"A\",\"metadata\":{\"annotations\":{}}}\n";
        assert_eq!(at(&with, &["metadata", "annotations", ANNOTATION]).unwrap(), expected);
    }
}
