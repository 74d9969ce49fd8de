//! Non-resource paths: health, version, discovery and schemas.

use std::{collections::BTreeSet, sync::Arc};

use http::{HeaderValue, header};
use serde_json::json;

use super::{Inner, RequestHead, response, response::Response};
use crate::{
    discovery::{self, DocumentRequest, DocumentResponse},
    registry::Catalogue,
    status_error::ApiResult,
};

const CHECKS: [&str; 4] = ["ping", "log", "store", "informer-sync"];

/// Health, version and metrics.
pub fn respond(head: &RequestHead) -> Option<Response> {
    let path = head.path.trim_end_matches('/');
    match path {
        "/healthz" | "/livez" | "/readyz" => Some(health(head, path.trim_start_matches('/'))),
        "" => None,
        _ => path.strip_prefix('/').and_then(|path| {
            let (which, check) = path.split_once('/')?;
            let known = matches!(which, "healthz" | "livez" | "readyz") && CHECKS.contains(&check);
            known.then(|| plain_text("ok"))
        }),
    }
}

fn plain_text(body: impl Into<bytes::Bytes>) -> Response {
    response::full(200, "text/plain; charset=utf-8", body)
}

fn health(head: &RequestHead, which: &str) -> Response {
    if head.query.get("verbose").is_none() {
        return plain_text("ok");
    }
    let lines: String = CHECKS.iter().flat_map(|check| ["[+]", check, " ok\n"]).collect();
    plain_text(format!("{lines}{which} check passed\n"))
}

/// Discovery, `OpenAPI` and the version.
pub fn respond_document(
    front: &Inner,
    head: &RequestHead,
    catalogue: &Arc<Catalogue>,
) -> Option<ApiResult<Response>> {
    let accept = head.accept();
    let host = head.header(header::HOST);
    let ask = DocumentRequest {
        path: &head.path,
        query: &head.raw_query,
        accept: &accept,
        if_none_match: head.header(header::IF_NONE_MATCH),
        host,
    };
    let page = match head.path.as_str() {
        "/version" | "/version/" => Some(Ok(discovery::version_document())),
        "/" => Some(Ok(path_index(catalogue))),
        path if path.starts_with("/openapi/") => front.openapi.respond(catalogue, &ask),
        _ => front.discovery.respond(catalogue, &ask),
    };
    page.map(|page| page.map(response))
}

fn response(page: DocumentResponse) -> Response {
    let mut response = response::full(page.code, page.content_type, page.body);
    for (name, value) in page.headers {
        if let Ok(value) = HeaderValue::from_str(&value) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

/// Index of the served paths.
fn path_index(catalogue: &Catalogue) -> DocumentResponse {
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
    DocumentResponse::json(&json!({ "paths": paths }))
}
