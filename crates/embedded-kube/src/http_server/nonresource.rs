//! Paths that are about the server: health, version, and the documents by which clients find their way.

use std::{collections::BTreeSet, sync::Arc};

use http::{HeaderValue, header};
use serde_json::json;

use super::{Head, Inner, respond, respond::Response};
use crate::{
    discovery::{self, Ask, Page},
    failure::Answer,
    registry::Catalogue,
};

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
    let lines: String = CHECKS.iter().flat_map(|check| ["[+]", check, " ok\n"]).collect();
    text(format!("{lines}{which} check passed\n"))
}

/// Discovery, schemas and the version.
pub fn documents(front: &Inner, head: &Head, catalogue: &Arc<Catalogue>) -> Option<Answer<Response>> {
    let accept = head.accept();
    let host = head.header(header::HOST);
    let ask = Ask {
        path: &head.path,
        query: &head.raw_query,
        accept: &accept,
        known: head.header(header::IF_NONE_MATCH),
        host,
    };
    let page = match head.path.as_str() {
        "/version" | "/version/" => Some(Ok(discovery::version())),
        "/" => Some(Ok(index(catalogue))),
        path if path.starts_with("/openapi/") => front.openapi.respond(catalogue, &ask),
        _ => front.discovery.respond(catalogue, &ask),
    };
    page.map(|page| page.map(response))
}

fn response(page: Page) -> Response {
    let mut response = respond::with(page.code, page.content_type, page.body);
    for (name, value) in page.headers {
        if let Ok(value) = HeaderValue::from_str(&value) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

/// Paths that can be asked for.
fn index(catalogue: &Catalogue) -> Page {
    let mut paths: BTreeSet<String> =
        ["/api", "/apis", "/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"]
            .map(str::to_owned)
            .into();
    for id in catalogue.keys() {
        if id.group.is_empty() {
            paths.insert(format!("/api/{}", id.version));
        } else {
            paths.insert(format!("/apis/{}", id.group));
            paths.insert(format!("/apis/{}/{}", id.group, id.version));
        }
    }
    Page::json(&json!({ "paths": paths }))
}
