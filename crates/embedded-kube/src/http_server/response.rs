//! Finished responses and their headers.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, StatusCode, header};

use super::{
    Head,
    accept::{self, Format, Wanted},
    encode::Encoder,
    payload::Payload,
    table::Include,
};
use crate::failure::Failure;

/// A response, ready to go.
pub type Response = http::Response<Payload>;

/// With a body of this type.
pub fn with(code: u16, content_type: &'static str, body: impl Into<Bytes>) -> Response {
    streaming(code, content_type, Payload::full(body))
}

/// With whatever body.
pub fn streaming(code: u16, content_type: &'static str, body: Payload) -> Response {
    let mut response = http::Response::new(body);
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    set(&mut response, header::CONTENT_TYPE, content_type);
    set(&mut response, header::CACHE_CONTROL, "no-cache, private");
    response
}

fn set(response: &mut Response, name: HeaderName, value: &'static str) {
    response.headers_mut().insert(name, HeaderValue::from_static(value));
}

/// A path that leads nowhere, as Go's own handler says it.
pub fn page_not_found() -> Response {
    let mut response = with(404, "text/plain; charset=utf-8", "404 page not found\n");
    set(&mut response, header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    response
}

/// A refusal.
pub fn failure(head: &Head, failure: &Failure) -> Response {
    // Whatever the client accepts: a refusal is readable as JSON at least.
    let wanted =
        accept::negotiate(&head.accept(), &head.query, &head.agent).unwrap_or_else(|_| Wanted::json());
    let wanted = Wanted { view: accept::View::Whole, ..wanted };
    let content_type = match wanted.format {
        Format::Json => "application/json",
        Format::Yaml => "application/yaml",
    };
    let encoder = Encoder { wanted, include: Include::Metadata };
    let body = encoder.write(&failure.status()).unwrap_or_default();
    let mut response = with(failure.code(), content_type, body);
    if let Some(seconds) = failure.details().map(|details| details.retry_after_seconds).filter(|it| *it > 0) {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    if matches!(failure.code(), 401 | 403) {
        set(&mut response, header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    }
    response
}

/// Each warning once, in the form of RFC 7234 that clients of Kubernetes know.
pub fn warn(response: &mut Response, warnings: &[String]) {
    let mut seen: Vec<&str> = Vec::new();
    for warning in warnings {
        if warning.is_empty() || seen.contains(&warning.as_str()) {
            continue;
        }
        seen.push(warning);
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"").replace(['\n', '\r'], " ");
        if let Ok(value) = HeaderValue::from_bytes(format!("299 - \"{quoted}\"").as_bytes()) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
}

/// The answer to a HEAD: what a GET would have said of itself.
pub fn without_body(response: Response) -> Response {
    response.map(|_| Payload::Full(None))
}
