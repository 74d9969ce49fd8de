//! `/version`: which Kubernetes this is like.

use serde_json::{Value, json};

use super::Page;

/// The Kubernetes whose behaviour is ours.
pub const VERSION: &str = "v1.36.3";

/// The answer to `/version`.
pub fn version() -> Page {
    let mut page = Page::json(&Value::Null);
    page.body = serde_json::to_vec_pretty(&facts()).unwrap_or_default().into();
    page
}

fn facts() -> Value {
    json!({
        "major": "1", "minor": "36", "emulationMajor": "1", "emulationMinor": "36",
        "minCompatibilityMajor": "1", "minCompatibilityMinor": "35",
        "gitVersion": VERSION, "gitCommit": "", "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "", "compiler": "rustc", "platform": platform(),
    })
}

/// In Go's words, which tools compare with their own.
fn platform() -> String {
    let machine = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let system = if std::env::consts::OS == "macos" { "darwin" } else { std::env::consts::OS };
    format!("{system}/{machine}")
}
