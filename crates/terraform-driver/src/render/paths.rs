//! Relative paths that stay inside of the workspace.

use super::RenderError;

/// Checks a path of a file and brings it to its plain form.
pub(super) fn relative(path: &str) -> Result<String, RenderError> {
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

/// The directory inside of a remote source. Upstream takes `../` out of the text, once; taken out again and again it
/// cannot come back.
pub(super) fn entrypoint(text: &str) -> Result<String, RenderError> {
    let mut text = text.to_owned();
    while text.contains("../") {
        text = text.replace("../", "");
    }
    let trimmed = text.trim_matches('/');
    if trimmed.is_empty() || trimmed == "." { Ok(String::new()) } else { relative(trimmed) }
}

pub(super) fn join(directory: &str, name: &str) -> String {
    if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") }
}
