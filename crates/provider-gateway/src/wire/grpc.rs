//! gRPC on HTTP/2: a message has a flag and a length as prefix; the status is in the trailers.

use std::fmt::Write as _;

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Response};
use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};
use hyper::body::{Body, Frame};
use thiserror::Error;

/// Length of the message prefix.
pub const PREFIX_LEN: usize = 5;

/// Size limit of a message, the same as Terraform's own servers have.
pub const MAX_MESSAGE_BYTES: usize = 256 << 20;

/// Any error of a body.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
/// The body of a response.
pub type GrpcBody = UnsyncBoxBody<Bytes, BoxError>;

/// gRPC status codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum GrpcCode {
    /// Success.
    Ok = 0,
    /// Cancelled by the caller.
    Cancelled = 1,
    /// The message is invalid.
    InvalidArgument = 3,
    /// Permission denied.
    PermissionDenied = 7,
    /// The call is not allowed in this state.
    FailedPrecondition = 9,
    /// The provider exited or could not be started. Not UNAVAILABLE: Terraform hides the message of that code ("Plugin
    /// did not respond"), and shows the message of this one.
    Aborted = 10,
    /// Unknown method.
    Unimplemented = 12,
    /// Internal error.
    Internal = 13,
}

/// A failed call, as the caller sees it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct GrpcStatus {
    /// Status code.
    pub code: GrpcCode,
    /// Message, shown by Terraform.
    pub message: String,
}

impl GrpcStatus {
    /// A status with a message.
    pub fn new(code: GrpcCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// The provider exited or could not be started.
    pub fn provider_unavailable(message: impl Into<String>) -> Self {
        Self::new(GrpcCode::Aborted, message)
    }
}

/// A complete response, from the provider or from the gateway.
#[derive(Debug, Clone)]
pub struct GrpcResponse {
    /// Message with prefix; empty if the call failed.
    pub body: Bytes,
    /// Status and other trailers.
    pub trailers: HeaderMap,
}

impl GrpcResponse {
    /// A successful response with this message.
    pub fn ok(message: &[u8]) -> Self {
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from_static("0"));
        Self { body: frame(message), trailers }
    }

    /// Whether the call succeeded.
    pub fn is_ok(&self) -> bool {
        self.trailers.get("grpc-status").is_some_and(|status| status == "0")
    }

    /// The message of a successful, uncompressed response.
    pub fn message(&self) -> Option<&[u8]> {
        self.is_ok().then(|| unframe(&self.body)).flatten()
    }
}

impl From<&GrpcStatus> for GrpcResponse {
    fn from(status: &GrpcStatus) -> Self {
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from(status.code as u16));
        if let Ok(text) = HeaderValue::from_str(&percent_encode(&status.message)) {
            trailers.insert("grpc-message", text);
        }
        Self { body: Bytes::new(), trailers }
    }
}

/// `grpc-message` is percent-encoded: everything but printable ASCII, and the percent sign itself.
fn percent_encode(text: &str) -> String {
    text.bytes().fold(String::with_capacity(text.len()), |mut all, byte| {
        if (b' '..=b'~').contains(&byte) && byte != b'%' {
            all.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _always_ok = write!(all, "%{byte:02X}");
        }
        all
    })
}

/// A message with its prefix.
pub fn frame(message: &[u8]) -> Bytes {
    let mut all = BytesMut::with_capacity(PREFIX_LEN + message.len());
    all.put_u8(0);
    // Messages of four gigabytes do not occur; the reader would reject them.
    all.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    all.put_slice(message);
    all.freeze()
}

/// The single message of a body; `None` if it is incomplete, compressed, or more than one.
pub fn unframe(body: &[u8]) -> Option<&[u8]> {
    let (prefix, rest) = body.split_at_checked(PREFIX_LEN)?;
    let length = u32::from_be_bytes(prefix.get(1..)?.try_into().ok()?);
    (prefix.first() == Some(&0) && rest.len() == usize::try_from(length).ok()?).then_some(rest)
}

/// Reads a complete body with its trailers.
pub async fn collect_body<B>(body: B) -> Result<(Bytes, HeaderMap), BoxError>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let limited = http_body_util::Limited::new(body, MAX_MESSAGE_BYTES);
    let collected = limited.collect().await?;
    let trailers = collected.trailers().cloned().unwrap_or_default();
    Ok((collected.to_bytes(), trailers))
}

/// Response head with the gRPC content type.
pub fn grpc_response<B>(body: B) -> Response<B> {
    let mut response = Response::new(body);
    response.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    response
}

/// Converts to an HTTP response.
pub fn into_http(answer: GrpcResponse) -> Response<GrpcBody> {
    let GrpcResponse { body, trailers } = answer;
    if body.is_empty() {
        // Without a message the status goes into the headers.
        let mut response = grpc_response(Full::default().map_err(|never| match never {}).boxed_unsync());
        response.headers_mut().extend(trailers);
        return response;
    }
    let frames = [Ok::<_, BoxError>(Frame::data(body)), Ok(Frame::trailers(trailers))];
    grpc_response(BodyExt::boxed_unsync(http_body_util::StreamBody::new(futures::stream::iter(frames))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_survives_its_frame() {
        assert_eq!(unframe(&frame(b"abc")), Some(&b"abc"[..]));
        assert_eq!(unframe(&frame(b"")), Some(&b""[..]));
        assert_eq!(unframe(&frame(b"abc")[..7]), None);
        assert_eq!(unframe(b"\x01\0\0\0\x01a"), None);
        assert_eq!(unframe(b"\0\0"), None);
        let mut two = frame(b"a").to_vec();
        two.extend_from_slice(&frame(b"b"));
        assert_eq!(unframe(&two), None);
    }

    #[test]
    fn words_of_a_status_are_encoded() {
        let answer = GrpcResponse::from(&GrpcStatus::provider_unavailable("100 % gone\nä"));
        assert_eq!(answer.trailers["grpc-message"], "100 %25 gone%0A%C3%A4");
        assert_eq!(answer.trailers["grpc-status"], "10");
        assert_eq!(answer.message(), None);
    }
}
