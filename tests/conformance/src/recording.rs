//! The answers of the real server, kept in files; and the differences that are accepted.

use std::{collections::BTreeMap, fs, path::PathBuf};

use anyhow::{Context as _, Result};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{Transcript, config};

/// Where the recording of a case is.
fn path(id: &str) -> PathBuf {
    config::crate_dir().join("recorded").join(format!("{id}.json"))
}

/// The recording of a case, if there is one. One that was made with another kubectl does not count where the case
/// calls kubectl: its words change from version to version.
pub(crate) fn read(id: &str, kubectl: Option<&str>) -> Result<Option<Transcript>> {
    let Ok(text) = fs::read_to_string(path(id)) else { return Ok(None) };
    let mut recording: Value =
        serde_json::from_str(&text).with_context(|| format!("read the recording of {id}"))?;
    let recorded_with = recording["kubectl"].as_str();
    if recorded_with.is_some() && recorded_with != kubectl {
        return Ok(None);
    }
    match recording["seen"].take() {
        Value::Object(seen) => Ok(Some(seen)),
        _ => Ok(None),
    }
}

/// Writes the recording of a case.
pub(crate) fn write(id: &str, seen: &Transcript, kubectl: Option<&str>) -> Result<()> {
    let path = path(id);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let mut recording = json!({});
    if seen.keys().any(|name| name.starts_with("kubectl ")) {
        recording["kubectl"] = json!(kubectl);
    }
    recording["seen"] = Value::Object(seen.clone());
    let mut text = serde_json::to_string_pretty(&recording)?;
    text.push('\n');
    fs::write(&path, text).with_context(|| format!("write {}", path.display()))
}

#[derive(Deserialize)]
struct AcceptedDifference {
    case: String,
    reason: String,
}

/// The accepted differences: why, by the case.
pub(crate) fn accepted_differences() -> Result<BTreeMap<String, String>> {
    let text = fs::read_to_string(config::crate_dir().join("accepted.json")).context("read accepted.json")?;
    let accepted: Vec<AcceptedDifference> = serde_json::from_str(&text).context("read accepted.json")?;
    Ok(accepted.into_iter().map(|AcceptedDifference { case, reason }| (case, reason)).collect())
}
