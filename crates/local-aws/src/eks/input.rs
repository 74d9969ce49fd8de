//! Request bodies: JSON decoding, with the exceptions that EKS returns for invalid input.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::error::{ApiError, ApiResult};

/// Parses the body as a JSON object. An empty body is an empty object.
pub(crate) fn parse_json_body(body: &[u8]) -> ApiResult<Value> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(Value::Object(serde_json::Map::new()));
    }
    match serde_json::from_slice(body) {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(_) => Err(ApiError::serialization("the request body is not a JSON object")),
        Err(error) => Err(ApiError::serialization(format!("the request body is not JSON: {error}"))),
    }
}

/// Decodes the input of an operation. Unknown members are ignored, as AWS does.
pub(crate) fn parse_input<T: DeserializeOwned>(body: &Value) -> ApiResult<T> {
    T::deserialize(body).map_err(|error| {
        let text = error.to_string();
        if text.starts_with("missing field") {
            ApiError::invalid_parameter(format!("The request is missing a required member: {text}"))
        } else {
            ApiError::serialization(text)
        }
    })
}
