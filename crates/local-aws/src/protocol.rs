//! Bodies, and errors in the dialect of each AWS protocol.

use http_body_util::{BodyExt, Full, combinators::BoxBody};
use hyper::{HeaderMap, Response, StatusCode, body::Bytes, header};
use serde_json::{Value, json};
use uuid::Uuid;

pub(crate) type Body = BoxBody<Bytes, hyper::Error>;

pub(crate) fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed()
}

/// An answer of the admin path.
pub(crate) fn json_response(status: StatusCode, value: &Value) -> Response<Body> {
    respond(status.as_u16(), "application/json", value.to_string())
}

fn respond(status: u16, content_type: &'static str, text: String) -> Response<Body> {
    let mut response = Response::new(full(text));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(content_type));
    if let Ok(id) = header::HeaderValue::from_str(&Uuid::new_v4().to_string()) {
        response.headers_mut().insert("x-amzn-requestid", id);
    }
    response
}

/// How a service writes its errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    RestJson,
    Json,
    Query,
    Ec2,
}

impl Protocol {
    pub(crate) fn of(service: &str, headers: &HeaderMap) -> Self {
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

    /// What 'slow down' looks like.
    pub(crate) fn throttle(self) -> Failure {
        let (code, status) = match self {
            Self::RestJson => ("ThrottlingException", 429),
            Self::Json => ("ThrottlingException", 400),
            Self::Query => ("Throttling", 400),
            Self::Ec2 => ("RequestLimitExceeded", 503),
        };
        Failure { code: code.to_owned(), message: "Rate exceeded".to_owned(), status, retry_after: Some(1) }
    }

    pub(crate) fn render(self, failure: &Failure) -> Response<Body> {
        let Failure { code, message, status, retry_after } = failure;
        let (safe_code, safe_message) = (escape(code), escape(message));
        let id = Uuid::new_v4();
        let mut response = match self {
            Self::RestJson => {
                let mut response =
                    respond(*status, "application/json", json!({ "message": message }).to_string());
                if let Ok(value) = header::HeaderValue::from_str(code) {
                    response.headers_mut().insert("x-amzn-errortype", value);
                }
                response
            }
            Self::Json => {
                let body = json!({ "__type": code, "message": message }).to_string();
                respond(*status, "application/x-amz-json-1.1", body)
            }
            Self::Query => {
                let sort = if *status >= 500 { "Receiver" } else { "Sender" };
                let body = format!(
                    "<ErrorResponse><Error><Type>{sort}</Type><Code>{safe_code}</Code><Message>{safe_message}</Message></Error><RequestId>{id}</RequestId></ErrorResponse>"
                );
                respond(*status, "text/xml", body)
            }
            Self::Ec2 => {
                let body = format!(
                    "<Response><Errors><Error><Code>{safe_code}</Code><Message>{safe_message}</Message></Error></Errors><RequestID>{id}</RequestID></Response>"
                );
                respond(*status, "text/xml", body)
            }
        };
        if let Some(wait) = retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from(*wait));
        }
        response
    }
}

/// An error that is written by the front door, not by a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) code: String,
    pub(crate) message: String,
    pub(crate) status: u16,
    pub(crate) retry_after: Option<u32>,
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// An answer of EKS.
pub(crate) fn eks_response(result: &Result<Value, crate::eks::error::ApiError>) -> Response<Body> {
    match result {
        Ok(value) => respond(200, "application/json", value.to_string()),
        Err(error) => {
            let mut response = respond(error.status, "application/json", error.body().to_string());
            response.headers_mut().insert("x-amzn-errortype", header::HeaderValue::from_static(error.code));
            response
        }
    }
}
