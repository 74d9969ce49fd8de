//! Migration from client-side to server-side apply: kubectl's last-applied annotation.

use serde_json::{Map, Value};

use super::super::{
    WriteContext,
    field_set::FieldSet,
    typed::{TypeRef, compare, to_field_set, validate_typed},
};
use crate::{
    object::{get_path_mut, str_at},
    shape::Shape,
};

/// The only field manager that is migrated.
pub const KUBECTL_MANAGER: &str = "kubectl";
const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Maximum size of all annotations in bytes.
const MAX_ANNOTATIONS_BYTES: usize = 256 * 1024;

fn last_applied_annotation(object: &Value) -> Option<&str> {
    Some(str_at(object, &["metadata", "annotations", ANNOTATION])).filter(|text| !text.is_empty())
}

/// Fields of the annotation whose live values are unchanged.
pub fn unchanged_since_applied(live: &Value, shape: &Shape, writer: &WriteContext<'_>) -> Option<FieldSet> {
    let kind = TypeRef::from_shape(shape);
    let applied: Value = serde_json::from_str(last_applied_annotation(live)?).ok()?;
    if str_at(&applied, &["apiVersion"]) != writer.api_version
        || !validate_typed(live, kind, false).is_empty()
        || !validate_typed(&applied, kind, false).is_empty()
    {
        return None;
    }
    let mut set = to_field_set(&applied, kind);
    let changes = compare(&applied, live, kind).ok()?;
    for changed in [&changes.modified, &changes.added, &changes.removed] {
        set.subtract(changed);
    }
    Some(set)
}

/// Updates an existing annotation to the config.
pub fn update_annotation(object: &mut Value, config: &Value) {
    if last_applied_annotation(object).is_none() {
        return;
    }
    let mut config = config.clone();
    if let Some(annotations) = config.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.shift_remove(ANNOTATION);
    }
    let written = format!("{}\n", sort_keys(&config));
    let Some(Value::Object(annotations)) = get_path_mut(object, &["metadata", "annotations"]) else { return };
    annotations.insert(ANNOTATION.to_owned(), written.into());
    let size: usize =
        annotations.iter().map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    if size > MAX_ANNOTATIONS_BYTES {
        annotations.shift_remove(ANNOTATION);
    }
}

/// Sorts the keys of all objects, as kube-apiserver's JSON does.
pub fn sort_keys(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut pairs: Vec<(&String, &Value)> = map.iter().collect();
            pairs.sort_by_key(|(key, _)| *key);
            Value::Object(
                pairs.into_iter().map(|(key, value)| (key.clone(), sort_keys(value))).collect::<Map<_, _>>(),
            )
        }
        Value::Array(list) => Value::Array(list.iter().map(sort_keys).collect()),
        scalar => scalar.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::object::get_path;

    #[test]
    fn the_annotation_is_kept_up_to_date_only_where_there_is_one() {
        let config =
            json!({"kind": "A", "b": {"y": 1, "x": 2}, "metadata": {"annotations": {(ANNOTATION): "old"}}});
        let mut without = json!({"metadata": {}});
        update_annotation(&mut without, &config);
        assert_eq!(without, json!({"metadata": {}}));
        let mut with = json!({"metadata": {"annotations": {(ANNOTATION): "old"}}});
        update_annotation(&mut with, &config);
        let expected = "{\"b\":{\"x\":2,\"y\":1},\"kind\":\"A\",\"metadata\":{\"annotations\":{}}}\n";
        assert_eq!(get_path(&with, &["metadata", "annotations", ANNOTATION]).unwrap(), expected);
    }
}
