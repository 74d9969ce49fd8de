//! EKS exceptions in the restJson protocol.

use serde_json::{Map, Value};

/// An EKS exception. `fields` are the modelled members besides `message` (`clusterName`, `addonName`, …).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ApiError {
    pub(crate) code: &'static str,
    pub(crate) status: u16,
    pub(crate) message: String,
    fields: Vec<(&'static str, String)>,
}

pub(crate) type ApiResult<T> = Result<T, ApiError>;

impl ApiError {
    fn new(code: &'static str, status: u16, message: impl Into<String>) -> Self {
        Self { code, status, message: message.into(), fields: Vec::new() }
    }

    pub(crate) fn invalid_parameter(message: impl Into<String>) -> Self {
        Self::new("InvalidParameterException", 400, message)
    }

    pub(crate) fn invalid_request(message: impl Into<String>) -> Self {
        Self::new("InvalidRequestException", 400, message)
    }

    pub(crate) fn in_use(message: impl Into<String>) -> Self {
        Self::new("ResourceInUseException", 409, message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new("ResourceNotFoundException", 404, message)
    }

    pub(crate) fn limit_exceeded(message: impl Into<String>) -> Self {
        Self::new("ResourceLimitExceededException", 400, message)
    }

    pub(crate) fn unsupported_zone(message: impl Into<String>) -> Self {
        Self::new("UnsupportedAvailabilityZoneException", 400, message)
    }

    /// The tag operations have exceptions of their own.
    pub(crate) fn tag_target_not_found(message: impl Into<String>) -> Self {
        Self::new("NotFoundException", 404, message)
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new("BadRequestException", 400, message)
    }

    pub(crate) fn serialization(message: impl Into<String>) -> Self {
        Self::new("SerializationException", 400, message)
    }

    pub(crate) fn unknown_operation(message: impl Into<String>) -> Self {
        Self::new("UnknownOperationException", 404, message)
    }

    /// For operations that real EKS has and this model does not implement.
    pub(crate) fn not_modelled(operation: &str) -> Self {
        Self::new("NotImplementedException", 501, format!("{operation} is not modelled by the local AWS"))
    }

    pub(crate) fn too_large(limit: usize) -> Self {
        Self::new(
            "RequestEntityTooLargeException",
            413,
            format!("the request body is larger than {limit} bytes"),
        )
    }

    pub(crate) fn server_error(message: impl Into<String>) -> Self {
        Self::new("ServerException", 500, message)
    }

    pub(crate) fn with_field(mut self, field: &'static str, value: impl Into<String>) -> Self {
        self.fields.push((field, value.into()));
        self
    }

    pub(crate) fn with_cluster(self, name: impl Into<String>) -> Self {
        self.with_field("clusterName", name)
    }

    pub(crate) fn to_json(&self) -> Value {
        let mut body = Map::new();
        for (field, value) in &self.fields {
            body.insert((*field).to_owned(), Value::from(value.as_str()));
        }
        body.insert("message".to_owned(), Value::from(self.message.as_str()));
        Value::Object(body)
    }
}
