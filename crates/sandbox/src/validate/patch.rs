//! Validates a patch of a baseline before it is sent to the API server, and its result.

use capt_kinds::sandbox::{Patch, PatchType, conditions::reasons, names};
use serde_json::Value;

use crate::{
    rejection::Rejection,
    template::{PodTemplate, string_map},
};

fn invalid_patch(what: impl Into<String>) -> Rejection {
    Rejection::new(reasons::INVALID_PATCH, format!("customizations.patch: {}", what.into()))
}

/// Checks the shape of a parsed patch. The caller parses it from YAML or JSON.
pub fn check_patch_shape(patch: &Patch, read: Result<Value, String>) -> Result<Value, Rejection> {
    let value = read.map_err(|error| invalid_patch(format!("value is not YAML: {error}")))?;
    match (patch.type_, &value) {
        (PatchType::Strategic | PatchType::Merge, Value::Object(_)) | (PatchType::Json, Value::Array(_)) => {
            Ok(value)
        }
        (PatchType::Strategic | PatchType::Merge, _) => Err(invalid_patch("value must be an object")),
        (PatchType::Json, _) => Err(invalid_patch("value must be a list of operations")),
    }
}

/// Checks the patched baseline: identity, selector and our labels must be unchanged.
pub fn check_patched_baseline(baseline: &Value, patched: &Value) -> Result<(), Rejection> {
    for field in ["name", "namespace", "uid"] {
        if baseline["metadata"][field] != patched["metadata"][field] {
            return Err(invalid_patch(format!("it must not change metadata.{field}")));
        }
    }
    if baseline["spec"]["selector"] != patched["spec"]["selector"] {
        return Err(invalid_patch("it must not change spec.selector"));
    }
    let ours = |value: &Value| {
        let labels = string_map(&value["metadata"]["labels"])
            .into_iter()
            .chain(PodTemplate::from_workload(value).labels());
        let prefix = format!("{}/", names::GROUP);
        labels.filter(|(key, _)| key.starts_with(&prefix)).collect::<Vec<_>>()
    };
    if ours(baseline) != ours(patched) {
        return Err(invalid_patch(format!("it must not set labels of {}", names::GROUP)));
    }
    Ok(())
}
