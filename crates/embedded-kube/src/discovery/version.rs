//! `/version`: the emulated Kubernetes version.

use serde_json::{Value, json};

use super::DocumentResponse;

/// The emulated Kubernetes version.
pub const VERSION: &str = "v1.36.3";

/// Response to `/version`.
pub fn version_document() -> DocumentResponse {
    let mut page = DocumentResponse::json(&Value::Null);
    page.body = serde_json::to_vec_pretty(&version_info()).unwrap_or_default().into();
    page
}

fn version_info() -> Value {
    json!({
        "major": "1", "minor": "36", "emulationMajor": "1", "emulationMinor": "36",
        "minCompatibilityMajor": "1", "minCompatibilityMinor": "35",
        "gitVersion": VERSION, "gitCommit": "", "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "", "compiler": "rustc", "platform": platform(),
    })
}

/// Go's platform name, which clients compare with their own.
fn platform() -> String {
    let machine = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let system = if std::env::consts::OS == "macos" { "darwin" } else { std::env::consts::OS };
    format!("{system}/{machine}")
}
