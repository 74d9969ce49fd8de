//! HTTP responses and their headers.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, StatusCode, header};

use super::{
    RequestHead,
    encode::Encoder,
    negotiation::{self, Format, Representation},
    response_body::ResponseBody,
    table::IncludeObject,
};
use crate::status_error::StatusError;

/// An HTTP response.
pub type Response = http::Response<ResponseBody>;

/// A buffered response.
pub fn full(code: u16, content_type: &'static str, body: impl Into<Bytes>) -> Response {
    streaming(code, content_type, ResponseBody::full(body))
}

/// A response with any body.
pub fn streaming(code: u16, content_type: &'static str, body: ResponseBody) -> Response {
    let mut response = http::Response::new(body);
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    set(&mut response, header::CONTENT_TYPE, content_type);
    set(&mut response, header::CACHE_CONTROL, "no-cache, private");
    response
}

fn set(response: &mut Response, name: HeaderName, value: &'static str) {
    response.headers_mut().insert(name, HeaderValue::from_static(value));
}

/// 404 in plain text, as Go's default handler sends it.
pub fn page_not_found() -> Response {
    let mut response = full(404, "text/plain; charset=utf-8", "404 page not found\n");
    set(&mut response, header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    response
}

/// An error response.
pub fn status_error(head: &RequestHead, failure: &StatusError) -> Response {
    // Falls back to JSON if the client accepts nothing supported.
    let wanted = negotiation::negotiate(&head.accept(), &head.query, &head.agent)
        .unwrap_or_else(|_| Representation::json());
    let wanted = Representation { projection: negotiation::Projection::Whole, ..wanted };
    let content_type = match wanted.format {
        Format::Json => "application/json",
        Format::Yaml => "application/yaml",
    };
    let encoder = Encoder { representation: wanted, include: IncludeObject::Metadata };
    let body = encoder.encode_value(&failure.status()).unwrap_or_default();
    let mut response = full(failure.code(), content_type, body);
    if let Some(seconds) = failure.details().map(|details| details.retry_after_seconds).filter(|it| *it > 0) {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    if matches!(failure.code(), 401 | 403) {
        set(&mut response, header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    }
    response
}

/// Adds each distinct warning in the format of RFC 7234.
pub fn add_warnings(response: &mut Response, warnings: &[String]) {
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

/// Response to HEAD: the headers of the GET response.
pub fn without_body(response: Response) -> Response {
    response.map(|_| ResponseBody::Full(None))
}
