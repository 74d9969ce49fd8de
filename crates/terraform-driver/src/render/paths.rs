//! Relative paths inside the workspace.

use super::RenderError;

/// Validates and normalises a relative file path.
pub(super) fn normalize_relative(path: &str) -> Result<String, RenderError> {
    let bad = || RenderError::BadPath { path: path.to_owned() };
    if path.starts_with('/') || path.contains(['\\', '\0']) {
        return Err(bad());
    }
    let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    if parts.is_empty() || parts.contains(&"..") {
        return Err(bad());
    }
    Ok(parts.join("/"))
}

/// Normalises the entrypoint of a remote source. Upstream removes `../` from the text once; repeated removal cannot leave a
/// new one.
pub(super) fn normalize_entrypoint(text: &str) -> Result<String, RenderError> {
    let mut text = text.to_owned();
    while text.contains("../") {
        text = text.replace("../", "");
    }
    let trimmed = text.trim_matches('/');
    if trimmed.is_empty() || trimmed == "." { Ok(String::new()) } else { normalize_relative(trimmed) }
}

pub(super) fn join(directory: &str, name: &str) -> String {
    if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") }
}
