//! Request bodies: from JSON to types, with the exceptions that EKS answers for what does not fit.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::error::{ApiError, ApiResult};

/// The body as JSON. An empty one is an empty object.
pub(crate) fn json(body: &[u8]) -> ApiResult<Value> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(Value::Object(serde_json::Map::new()));
    }
    match serde_json::from_slice(body) {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(_) => Err(ApiError::serialization("the request body is not a JSON object")),
        Err(error) => Err(ApiError::serialization(format!("the request body is not JSON: {error}"))),
    }
}

/// The body as an operation's input. Members that the operation does not know are ignored, as AWS does.
pub(crate) fn parse<T: DeserializeOwned>(body: &Value) -> ApiResult<T> {
    T::deserialize(body).map_err(|error| {
        let text = error.to_string();
        if text.starts_with("missing field") {
            ApiError::invalid_parameter(format!("The request is missing a required member: {text}"))
        } else {
            ApiError::serialization(text)
        }
    })
}
