//! Paths that are about the server: health, version, and the documents by which clients find their way.

use super::{Head, respond, respond::Response};
use crate::{failure::Answer, registry::Catalogue};

const CHECKS: [&str; 4] = ["ping", "log", "store", "informer-sync"];

/// Health, version and metrics.
pub fn respond(head: &Head) -> Option<Response> {
    let path = head.path.trim_end_matches('/');
    match path {
        "/healthz" | "/livez" | "/readyz" => Some(health(head, path.trim_start_matches('/'))),
        "" => None,
        _ => path.strip_prefix('/').and_then(|path| {
            let (which, check) = path.split_once('/')?;
            let known = matches!(which, "healthz" | "livez" | "readyz") && CHECKS.contains(&check);
            known.then(|| text("ok"))
        }),
    }
}

fn text(body: impl Into<bytes::Bytes>) -> Response {
    respond::with(200, "text/plain; charset=utf-8", body)
}

fn health(head: &Head, which: &str) -> Response {
    if head.query.get("verbose").is_none() {
        return text("ok");
    }
    let lines: String = CHECKS.iter().map(|check| format!("[+]{check} ok\n")).collect();
    text(format!("{lines}{which} check passed\n"))
}

/// Discovery, schemas and the version.
pub fn documents(head: &Head, catalogue: &Catalogue) -> Option<Answer<Response>> {
    let _ = (head, catalogue);
    None
}
