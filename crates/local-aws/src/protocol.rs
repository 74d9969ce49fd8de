//! HTTP bodies, and error responses in the format of each AWS protocol.

use http_body_util::{BodyExt, Full, combinators::BoxBody};
use hyper::{HeaderMap, Response, StatusCode, body::Bytes, header};
use serde_json::{Value, json};
use uuid::Uuid;

pub(crate) type Body = BoxBody<Bytes, hyper::Error>;

pub(crate) fn full_body(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed()
}

/// A response of the admin API.
pub(crate) fn json_response(status: StatusCode, value: &Value) -> Response<Body> {
    build_response(status.as_u16(), "application/json", value.to_string())
}

fn build_response(status: u16, content_type: &'static str, text: String) -> Response<Body> {
    let mut response = Response::new(full_body(text));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(content_type));
    if let Ok(id) = header::HeaderValue::from_str(&Uuid::new_v4().to_string()) {
        response.headers_mut().insert("x-amzn-requestid", id);
    }
    response
}

/// The AWS protocol, which determines the error format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    RestJson,
    Json,
    Query,
    Ec2,
}

impl Protocol {
    pub(crate) fn detect(service: &str, headers: &HeaderMap) -> Self {
        let form = headers
            .get(header::CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .is_some_and(|value| value.starts_with("application/x-www-form-urlencoded"));
        match service {
            "ec2" => Self::Ec2,
            _ if headers.contains_key("x-amz-target") => Self::Json,
            _ if form => Self::Query,
            _ => Self::RestJson,
        }
    }

    /// The throttling error of this protocol.
    pub(crate) fn throttling_error(self) -> AwsError {
        let (code, status) = match self {
            Self::RestJson => ("ThrottlingException", 429),
            Self::Json => ("ThrottlingException", 400),
            Self::Query => ("Throttling", 400),
            Self::Ec2 => ("RequestLimitExceeded", 503),
        };
        AwsError { code: code.to_owned(), message: "Rate exceeded".to_owned(), status, retry_after: Some(1) }
    }

    pub(crate) fn render(self, failure: &AwsError) -> Response<Body> {
        let AwsError { code, message, status, retry_after } = failure;
        let (safe_code, safe_message) = (escape_xml(code), escape_xml(message));
        let id = Uuid::new_v4();
        let mut response = match self {
            Self::RestJson => {
                let mut response =
                    build_response(*status, "application/json", json!({ "message": message }).to_string());
                if let Ok(value) = header::HeaderValue::from_str(code) {
                    response.headers_mut().insert("x-amzn-errortype", value);
                }
                response
            }
            Self::Json => {
                let body = json!({ "__type": code, "message": message }).to_string();
                build_response(*status, "application/x-amz-json-1.1", body)
            }
            Self::Query => {
                let sort = if *status >= 500 { "Receiver" } else { "Sender" };
                let body = format!(
                    "<ErrorResponse><Error><Type>{sort}</Type><Code>{safe_code}</Code><Message>{safe_message}</Message></Error><RequestId>{id}</RequestId></ErrorResponse>"
                );
                build_response(*status, "text/xml", body)
            }
            Self::Ec2 => {
                let body = format!(
                    "<Response><Errors><Error><Code>{safe_code}</Code><Message>{safe_message}</Message></Error></Errors><RequestID>{id}</RequestID></Response>"
                );
                build_response(*status, "text/xml", body)
            }
        };
        if let Some(wait) = retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from(*wait));
        }
        response
    }
}

/// An error produced by the front end, not by a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AwsError {
    pub(crate) code: String,
    pub(crate) message: String,
    pub(crate) status: u16,
    pub(crate) retry_after: Option<u32>,
}

fn escape_xml(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// A response of EKS.
pub(crate) fn eks_response(result: &Result<Value, crate::eks::error::ApiError>) -> Response<Body> {
    match result {
        Ok(value) => build_response(200, "application/json", value.to_string()),
        Err(error) => {
            let mut response = build_response(error.status, "application/json", error.to_json().to_string());
            response.headers_mut().insert("x-amzn-errortype", header::HeaderValue::from_static(error.code));
            response
        }
    }
}
