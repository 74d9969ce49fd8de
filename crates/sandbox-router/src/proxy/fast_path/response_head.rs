//! Response heads of the fast path: rewriting for the caller, and body framing.

use std::mem::MaybeUninit;

use http::HeaderValue;
use httparse::{Header, ParserConfig, Response, Status};

use super::{
    framing::{ChunkDecoder, Framing},
    request_head::write_header_line,
};

/// Maximum number of header lines of a response.
const MAX_HEADERS: usize = 256;

/// Result of parsing a response head.
#[derive(Debug, PartialEq)]
pub(super) enum ParsedHead {
    /// The head is incomplete.
    Incomplete,
    /// An informational (1xx) response of this length.
    Interim(usize),
    /// A final head, rewritten for the caller.
    Final(ResponseHead),
}

/// A parsed response head.
#[derive(Debug, PartialEq)]
pub(super) struct ResponseHead {
    /// Length of the pod's head.
    pub(super) head_len: usize,
    pub(super) body: Framing,
    /// Whether the connection can be reused.
    pub(super) is_reusable: bool,
}

/// The response of the pod is invalid.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadResponse {
    #[error("the response is not HTTP: {0}")]
    InvalidHead(httparse::Error),
    #[error("unexpected 101 Switching Protocols")]
    UnexpectedUpgrade,
    #[error("ambiguous response framing (Content-Length/Transfer-Encoding)")]
    AmbiguousFraming,
}

/// How a response is rewritten for the caller.
#[derive(Debug, Clone, Copy)]
pub(super) struct ResponsePolicy<'a> {
    /// Name of the responder, if it is shown to callers.
    pub(super) route: Option<&'a HeaderValue>,
    /// A HEAD request: the response has no body.
    pub(super) is_head_request: bool,
    /// The connection closes after this response.
    pub(super) closes_connection: bool,
}

/// Parses the head at the start of these bytes and writes the head for the caller.
pub(super) fn parse_and_rewrite(
    bytes: &[u8],
    telling: ResponsePolicy<'_>,
    out: &mut Vec<u8>,
) -> Result<ParsedHead, BadResponse> {
    let mut room = [const { MaybeUninit::uninit() }; MAX_HEADERS];
    let mut response = Response::new(&mut []);
    let parsed = ParserConfig::default().parse_response_with_uninit_headers(&mut response, bytes, &mut room);
    let Status::Complete(length) = parsed.map_err(BadResponse::InvalidHead)? else {
        return Ok(ParsedHead::Incomplete);
    };
    let (code, headers) = (response.code.unwrap_or_default(), &*response.headers);
    match code {
        0..100 => return Err(BadResponse::InvalidHead(httparse::Error::Status)),
        101 => return Err(BadResponse::UnexpectedUpgrade),
        100..200 => return Ok(ParsedHead::Interim(length)),
        _ => {}
    }
    let has_no_body = telling.is_head_request || matches!(code, 204 | 304);
    let said = HeaderSummary::from_headers(headers);
    let body = said.framing(has_no_body, response.version)?;
    // A response with both Content-Length and chunked coding is not trusted: the connection is not reused.
    let is_kept = response.version == Some(1)
        && !said.is_closing
        && (said.coding == TransferCoding::Identity
            || said.coding == TransferCoding::Chunked && said.length.is_none())
        && body != Framing::Close;
    write_status(out, code, response.reason.unwrap_or_default());
    said.write(headers, telling, out);
    match (&body, said.coding, said.length) {
        // 204 must not have framing headers.
        _ if code == 204 => {}
        (Framing::Close, ..) | (_, TransferCoding::Chunked, _) => {
            write_header_line(out, "transfer-encoding", b"chunked");
        }
        (_, TransferCoding::Identity, Some(length)) => {
            write_header_line(out, "content-length", length.to_string().as_bytes());
        }
        (_, TransferCoding::Identity | TransferCoding::Unsupported, _) => {}
    }
    if telling.closes_connection {
        out.extend_from_slice(b"connection: close\r\n");
    }
    out.extend_from_slice(b"\r\n");
    Ok(ParsedHead::Final(ResponseHead { head_len: length, body, is_reusable: is_kept }))
}

fn write_status(out: &mut Vec<u8>, code: u16, reason: &str) {
    let digit = |of: u16| b'0' + u8::try_from(of % 10).unwrap_or_default();
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(&[digit(code / 100), digit(code / 10), digit(code), b' ']);
    out.extend_from_slice(reason.as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Headers that determine connection reuse and framing.
#[derive(Debug, Default)]
struct HeaderSummary {
    length: Option<u64>,
    coding: TransferCoding,
    is_closing: bool,
    /// `Connection` lists further headers.
    has_connection_options: bool,
}

/// Transfer coding of a body.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum TransferCoding {
    #[default]
    Identity,
    Chunked,
    /// Unknown or repeated coding, or conflicting lengths.
    Unsupported,
}

impl HeaderSummary {
    fn from_headers(headers: &[Header<'_>]) -> Self {
        let mut said = Self::default();
        for header in headers {
            match header_kind(header.name) {
                HeaderKind::ContentLength => {
                    for token in tokens(header.value) {
                        let length = parse_length(token);
                        if length.is_none() || said.length.is_some_and(|it| Some(it) != length) {
                            said.coding = TransferCoding::Unsupported;
                        }
                        said.length = length;
                    }
                }
                HeaderKind::TransferEncoding if header.value.eq_ignore_ascii_case(b"identity") => {}
                HeaderKind::TransferEncoding => {
                    let is_chunked = header.value.eq_ignore_ascii_case(b"chunked");
                    let is_first = said.coding == TransferCoding::Identity;
                    said.coding = if is_chunked && is_first {
                        TransferCoding::Chunked
                    } else {
                        TransferCoding::Unsupported
                    };
                }
                HeaderKind::Connection => {
                    for token in tokens(header.value) {
                        let is = |name: &[u8]| token.eq_ignore_ascii_case(name);
                        said.is_closing |= is(b"close");
                        said.has_connection_options |=
                            !is(b"close") && !is(b"keep-alive") && !token.is_empty();
                    }
                }
                HeaderKind::HopByHop | HeaderKind::Route | HeaderKind::Other => {}
            }
        }
        said
    }

    fn framing(&self, has_none: bool, version: Option<u8>) -> Result<Framing, BadResponse> {
        match (has_none, self.coding, self.length) {
            (true, ..) => Ok(Framing::Length(0)),
            (_, TransferCoding::Unsupported, _) => Err(BadResponse::AmbiguousFraming),
            // HTTP/1.0 has no chunked coding.
            (_, TransferCoding::Chunked, _) if version != Some(1) => Err(BadResponse::AmbiguousFraming),
            (_, TransferCoding::Chunked, _) => Ok(Framing::Chunks(ChunkDecoder::default())),
            (_, TransferCoding::Identity, Some(length)) => Ok(Framing::Length(length)),
            (_, TransferCoding::Identity, None) => Ok(Framing::Close),
        }
    }

    /// Writes the headers for the caller.
    fn write(&self, headers: &[Header<'_>], telling: ResponsePolicy<'_>, out: &mut Vec<u8>) {
        for header in headers {
            let goes_on = match header_kind(header.name) {
                HeaderKind::HopByHop
                | HeaderKind::Connection
                | HeaderKind::ContentLength
                | HeaderKind::TransferEncoding => false,
                HeaderKind::Route => telling.route.is_none(),
                HeaderKind::Other => {
                    !self.has_connection_options || !is_connection_option(headers, header.name)
                }
            };
            if goes_on {
                write_header_line(out, header.name, header.value);
            }
        }
        if let Some(route) = telling.route {
            write_header_line(out, "x-sandbox-route", route.as_bytes());
        }
    }
}

/// Role of a response header.
#[derive(Debug, PartialEq, Eq)]
enum HeaderKind {
    ContentLength,
    TransferEncoding,
    Connection,
    /// Hop-by-hop.
    HopByHop,
    Route,
    Other,
}

fn header_kind(name: &str) -> HeaderKind {
    let is = |other: &str| name.eq_ignore_ascii_case(other);
    match name.len() {
        2 if is("te") => HeaderKind::HopByHop,
        7 if is("upgrade") => HeaderKind::HopByHop,
        10 if is("connection") => HeaderKind::Connection,
        10 if is("keep-alive") => HeaderKind::HopByHop,
        14 if is("content-length") => HeaderKind::ContentLength,
        15 if is("x-sandbox-route") => HeaderKind::Route,
        16 if is("proxy-connection") => HeaderKind::HopByHop,
        17 if is("transfer-encoding") => HeaderKind::TransferEncoding,
        _ => HeaderKind::Other,
    }
}

fn tokens(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}

/// Whether `Connection` lists a header.
fn is_connection_option(headers: &[Header<'_>], name: &str) -> bool {
    let mut lines = headers.iter().filter(|it| header_kind(it.name) == HeaderKind::Connection);
    lines.any(|it| tokens(it.value).any(|token| token.eq_ignore_ascii_case(name.as_bytes())))
}

/// Digits only.
fn parse_length(value: &[u8]) -> Option<u64> {
    let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(value).ok().filter(|_| is_number)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const TELLING: ResponsePolicy<'_> =
        ResponsePolicy { route: None, is_head_request: false, closes_connection: false };

    fn seen(text: &str, telling: ResponsePolicy<'_>) -> (Result<ParsedHead, BadResponse>, String) {
        let mut out = Vec::new();
        (parse_and_rewrite(text.as_bytes(), telling, &mut out), String::from_utf8(out).unwrap())
    }

    fn head(text: &str, telling: ResponsePolicy<'_>) -> (ResponseHead, String) {
        let (seen, out) = seen(text, telling);
        let Ok(ParsedHead::Final(reply)) = seen else { panic!("{seen:?}") };
        (reply, out)
    }

    #[test]
    fn an_answer_goes_on_with_the_name_of_who_gave_it() {
        let name = HeaderValue::from_static("fork/shop/pr-1");
        let text = "HTTP/1.1 200 Fine\r\nServer: x\r\nX-Sandbox-Route: lie\r\nContent-Length: 3\r\n\r\nabc";
        let (reply, out) = head(text, ResponsePolicy { route: Some(&name), ..TELLING });
        let expected =
            "HTTP/1.1 200 Fine\r\nServer: x\r\nx-sandbox-route: fork/shop/pr-1\r\ncontent-length: 3\r\n\r\n";
        assert_eq!(out, expected);
        assert_eq!(
            reply,
            ResponseHead { head_len: text.len() - 3, body: Framing::Length(3), is_reusable: true }
        );
    }

    #[test]
    fn what_is_for_the_neighbour_stays_here() {
        let text = "HTTP/1.1 200 OK\r\nconnection: X-Mine, keep-alive\r\nKeep-Alive: 5\r\nx-mine: 1\r\nproxy-connection: a\r\nupgrade: h2c\r\nx-yours: 2\r\ncontent-length: 0\r\n\r\n";
        let (reply, out) = head(text, TELLING);
        assert_eq!(out, "HTTP/1.1 200 OK\r\nx-yours: 2\r\ncontent-length: 0\r\n\r\n");
        assert!(reply.is_reusable);
    }

    #[rstest]
    #[case::chunks(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n",
        Framing::Chunks(ChunkDecoder::default()),
        true
    )]
    #[case::nothing_said("HTTP/1.1 200 OK\r\n\r\n", Framing::Close, false)]
    #[case::older("HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\n", Framing::Length(2), false)]
    #[case::closing(
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nConnection: Close\r\n\r\n",
        Framing::Length(2),
        false
    )]
    #[case::twice_the_same(
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 2\r\n\r\n",
        Framing::Length(2),
        true
    )]
    #[case::no_content("HTTP/1.1 204 No Content\r\n\r\n", Framing::Length(0), true)]
    #[case::not_modified("HTTP/1.1 304 Not Modified\r\ncontent-length: 7\r\n\r\n", Framing::Length(0), true)]
    #[case::the_same_in_a_list("HTTP/1.1 200 OK\r\ncontent-length: 2, 2\r\n\r\n", Framing::Length(2), true)]
    #[case::as_it_is(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: identity\r\ncontent-length: 2\r\n\r\n",
        Framing::Length(2),
        true
    )]
    #[case::both(
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n",
        Framing::Chunks(ChunkDecoder::default()),
        false
    )]
    fn bodies_end_where_their_heads_say(#[case] text: &str, #[case] body: Framing, #[case] is_kept: bool) {
        let (reply, out) = head(text, TELLING);
        assert_eq!((reply.body.clone(), reply.is_reusable), (body, is_kept));
        assert!(!out.contains("connection"), "{out}");
        let is_chunked = matches!(reply.body, Framing::Chunks(_) | Framing::Close);
        assert_eq!(out.contains("transfer-encoding: chunked\r\n"), is_chunked, "{out}");
        assert!(
            out.matches("content-length").count() + out.matches("transfer-encoding").count() <= 1,
            "{out}"
        );
    }

    #[test]
    fn an_answer_to_head_has_no_body_and_says_how_long_it_would_be() {
        let text = "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n";
        let (reply, out) = head(text, ResponsePolicy { is_head_request: true, ..TELLING });
        assert_eq!(reply.body, Framing::Length(0));
        assert!(out.contains("content-length: 9\r\n"), "{out}");
    }

    #[test]
    fn an_answer_without_content_says_nothing_of_its_length() {
        let (_, out) = head("HTTP/1.1 204 No Content\r\ncontent-length: 5\r\n\r\n", TELLING);
        assert_eq!(out, "HTTP/1.1 204 No Content\r\n\r\n");
    }

    #[test]
    fn the_last_answer_says_so() {
        let (_, out) = head(
            "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
            ResponsePolicy { closes_connection: true, ..TELLING },
        );
        assert!(out.ends_with("connection: close\r\n\r\n"), "{out}");
    }

    #[test]
    fn parts_and_interim_answers_are_waited_for() {
        assert_eq!(
            seen("HTTP/1.1 200 OK\r\ncontent-le", TELLING),
            (Ok(ParsedHead::Incomplete), String::new())
        );
        let early = "HTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\n";
        let both = format!("{early}HTTP/1.1 200 OK\r\n\r\n");
        assert_eq!(seen(&both, TELLING), (Ok(ParsedHead::Interim(early.len())), String::new()));
    }

    #[rstest]
    #[case("HTTP/1.1 101 Switching Protocols\r\n\r\n", BadResponse::UnexpectedUpgrade)]
    #[case("SSH-2.0-OpenSSH\r\n", BadResponse::InvalidHead(httparse::Error::Version))]
    #[case("HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n", BadResponse::AmbiguousFraming)]
    #[case("HTTP/1.1 200 OK\r\ncontent-length: 1, 2\r\n\r\n", BadResponse::AmbiguousFraming)]
    #[case("HTTP/1.1 200 OK\r\ncontent-length: 1,\r\n\r\n", BadResponse::AmbiguousFraming)]
    #[case("HTTP/1.1 099 OK\r\n\r\n", BadResponse::InvalidHead(httparse::Error::Status))]
    #[case(
        "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        BadResponse::AmbiguousFraming
    )]
    #[case("HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n", BadResponse::AmbiguousFraming)]
    #[case(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n",
        BadResponse::AmbiguousFraming
    )]
    #[case("HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", BadResponse::AmbiguousFraming)]
    fn strange_answers_are_refused(#[case] text: &str, #[case] strange: BadResponse) {
        assert_eq!(seen(text, TELLING).0, Err(strange));
    }
}
