//! gRPC on HTTP/2: a message is a flag, a length and bytes; how a call ended stands in the trailers.

use std::fmt::Write as _;

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Response};
use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};
use hyper::body::{Body, Frame};
use thiserror::Error;

/// What stands before a message.
pub const PREFIX: usize = 5;

/// The most that a call may send. Terraform's own servers take as much.
pub const MOST: usize = 256 << 20;

/// Any failure of a body.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
/// The body of an answer.
pub type AnswerBody = UnsyncBoxBody<Bytes, BoxError>;

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Code {
    /// Well.
    Ok = 0,
    /// The caller gave up.
    Cancelled = 1,
    /// The message makes no sense.
    InvalidArgument = 3,
    /// Not allowed.
    PermissionDenied = 7,
    /// Not in this state.
    FailedPrecondition = 9,
    /// The provider is gone, or could not be had. Not UNAVAILABLE, which would say the same: terraform keeps the words of
    /// that one to itself ("Plugin did not respond"), and shows those of this.
    Aborted = 10,
    /// Nobody knows the method.
    Unimplemented = 12,
    /// A fault of ours.
    Internal = 13,
}

/// A call that did not end well, as the caller sees it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct Status {
    /// Which way.
    pub code: Code,
    /// In words; terraform shows them.
    pub message: String,
}

impl Status {
    /// With words.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// The provider is gone, or could not be had.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(Code::Aborted, message)
    }
}

/// A whole answer: what the provider sent, or what we say in its place.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The message with its prefix; empty where a call failed.
    pub body: Bytes,
    /// How it ended, and whatever else the provider added.
    pub trailers: HeaderMap,
}

impl Answer {
    /// A message that ended well.
    pub fn of(message: &[u8]) -> Self {
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from_static("0"));
        Self { body: frame(message), trailers }
    }

    /// Whether the call ended well.
    pub fn is_ok(&self) -> bool {
        self.trailers.get("grpc-status").is_some_and(|status| status == "0")
    }

    /// The message of a call that ended well and is not compressed.
    pub fn message(&self) -> Option<&[u8]> {
        self.is_ok().then(|| message(&self.body)).flatten()
    }
}

impl From<&Status> for Answer {
    fn from(status: &Status) -> Self {
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from(status.code as u16));
        if let Ok(text) = HeaderValue::from_str(&escape(&status.message)) {
            trailers.insert("grpc-message", text);
        }
        Self { body: Bytes::new(), trailers }
    }
}

/// `grpc-message` is percent-encoded: everything but printable ASCII, and the per cent sign itself.
fn escape(text: &str) -> String {
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
    let mut all = BytesMut::with_capacity(PREFIX + message.len());
    all.put_u8(0);
    // Nothing of ours comes near four gigabytes; what does, is refused when it is read.
    all.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    all.put_slice(message);
    all.freeze()
}

/// The one message of a body; `None` if it is torn, compressed, or more than one.
pub fn message(body: &[u8]) -> Option<&[u8]> {
    let (prefix, rest) = body.split_at_checked(PREFIX)?;
    let length = u32::from_be_bytes(prefix.get(1..)?.try_into().ok()?);
    (prefix.first() == Some(&0) && rest.len() == usize::try_from(length).ok()?).then_some(rest)
}

/// Reads a whole body, trailers included.
pub async fn collect<B>(body: B) -> Result<(Bytes, HeaderMap), BoxError>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let limited = http_body_util::Limited::new(body, MOST);
    let collected = limited.collect().await?;
    let trailers = collected.trailers().cloned().unwrap_or_default();
    Ok((collected.to_bytes(), trailers))
}

/// The head of every answer.
pub fn head<B>(body: B) -> Response<B> {
    let mut response = Response::new(body);
    response.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    response
}

/// An answer on its way.
pub fn response(answer: Answer) -> Response<AnswerBody> {
    let Answer { body, trailers } = answer;
    if body.is_empty() {
        // A call without a message has its end in the head.
        let mut response = head(Full::default().map_err(|never| match never {}).boxed_unsync());
        response.headers_mut().extend(trailers);
        return response;
    }
    let frames = [Ok::<_, BoxError>(Frame::data(body)), Ok(Frame::trailers(trailers))];
    head(BodyExt::boxed_unsync(http_body_util::StreamBody::new(futures::stream::iter(frames))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_survives_its_frame() {
        assert_eq!(message(&frame(b"abc")), Some(&b"abc"[..]));
        assert_eq!(message(&frame(b"")), Some(&b""[..]));
        assert_eq!(message(&frame(b"abc")[..7]), None);
        assert_eq!(message(b"\x01\0\0\0\x01a"), None);
        assert_eq!(message(b"\0\0"), None);
        let mut two = frame(b"a").to_vec();
        two.extend_from_slice(&frame(b"b"));
        assert_eq!(message(&two), None);
    }

    #[test]
    fn words_of_a_status_are_encoded() {
        let answer = Answer::from(&Status::unavailable("100 % gone\nä"));
        assert_eq!(answer.trailers["grpc-message"], "100 %25 gone%0A%C3%A4");
        assert_eq!(answer.trailers["grpc-status"], "10");
        assert_eq!(answer.message(), None);
    }
}
