//! Patches of a baseline: what may be sent to the API server, and what may come back.

use serde_json::Value;

use crate::{
    api::{Patch, PatchType, conditions::reasons, names},
    refusal::Refusal,
    template::{Template, texts},
};

fn refuse(what: impl Into<String>) -> Refusal {
    Refusal::new(reasons::INVALID_PATCH, format!("customizations.patch: {}", what.into()))
}

/// Checks the shape of a patch that was read from its text (YAML or JSON; the caller has the reader).
pub fn read_patch(patch: &Patch, read: Result<Value, String>) -> Result<Value, Refusal> {
    let value = read.map_err(|error| refuse(format!("value is not YAML: {error}")))?;
    match (patch.type_, &value) {
        (PatchType::Strategic | PatchType::Merge, Value::Object(_)) | (PatchType::Json, Value::Array(_)) => {
            Ok(value)
        }
        (PatchType::Strategic | PatchType::Merge, _) => Err(refuse("value must be an object")),
        (PatchType::Json, _) => Err(refuse("value must be a list of operations")),
    }
}

/// Checks what a patch made of a baseline: it must be the same workload still.
pub fn check_patched(baseline: &Value, patched: &Value) -> Result<(), Refusal> {
    for field in ["name", "namespace", "uid"] {
        if baseline["metadata"][field] != patched["metadata"][field] {
            return Err(refuse(format!("it must not change metadata.{field}")));
        }
    }
    if baseline["spec"]["selector"] != patched["spec"]["selector"] {
        return Err(refuse("it must not change spec.selector"));
    }
    let ours = |value: &Value| {
        let labels = texts(&value["metadata"]["labels"]).into_iter().chain(Template::of(value).labels());
        let prefix = format!("{}/", names::GROUP);
        labels.filter(|(key, _)| key.starts_with(&prefix)).collect::<Vec<_>>()
    };
    if ours(baseline) != ours(patched) {
        return Err(refuse(format!("it must not set labels of {}", names::GROUP)));
    }
    Ok(())
}
