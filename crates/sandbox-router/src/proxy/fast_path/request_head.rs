//! Request heads of the fast path: eligibility, routing, and the head sent to the pod.

use std::{mem::MaybeUninit, sync::Arc};

use http::HeaderValue;
use httparse::{Header, ParserConfig, Request, Status};

use crate::{
    key::HeaderLines,
    proxy::{
        entrypoint::MatchedRoute,
        forward::Caller,
        headers::is_valid_host,
        routing::{RequestParts, Responder, decide},
    },
    table::{Backend, ResponderKind, Route, Target},
};

/// Maximum number of header lines on the fast path.
const MAX_HEADERS: usize = 64;

/// A fast-path request whose upstream head is already written.
pub(super) struct FastPathPlan {
    pub(super) route: Arc<Route>,
    pub(super) backend: Arc<Backend>,
    /// Length of the caller's head.
    pub(super) head_len: usize,
    /// A HEAD request: the response has no body.
    pub(super) is_head_request: bool,
    /// The caller should reconnect.
    pub(super) is_draining: bool,
}

impl FastPathPlan {
    pub(super) fn kind(&self) -> ResponderKind {
        self.backend.kind()
    }

    pub(super) fn name(&self) -> &HeaderValue {
        self.backend.name()
    }
}

/// Plans the request at the start of these bytes and writes its upstream head. `None` if it is not eligible for the
/// fast path.
pub(super) fn plan_request(bytes: &[u8], caller: &Caller, out: &mut Vec<u8>) -> Option<FastPathPlan> {
    let mut room = [const { MaybeUninit::uninit() }; MAX_HEADERS];
    let (head, length) = RequestHead::parse(bytes, &mut room)?;
    let limits = &caller.worker.shared.settings.limits;
    if length > limits.max_head_bytes || head.headers.len() > limits.max_headers {
        return None;
    }
    let table = caller.worker.shared.table.load();
    let asked = RequestParts { headers: &head, authority: None, query: head.query() };
    let MatchedRoute { route, is_draining: is_leaving } =
        caller.entrypoint.match_route(&table, &asked).ok()?;
    let decision = decide(&asked, &table, &route);
    let (Responder::Baseline(backend) | Responder::Override(Target::Backend(backend))) = decision.responder
    else {
        return None;
    };
    if decision.injected_key.is_some() {
        return None;
    }
    if decision.is_unknown_key {
        route.metrics().record_unknown_key();
    }
    head.write(&caller.peer, out);
    let is_head = head.method == "HEAD";
    Some(FastPathPlan { route, backend, head_len: length, is_head_request: is_head, is_draining: is_leaving })
}

/// A request head that is eligible for the fast path.
#[derive(Debug)]
struct RequestHead<'a> {
    method: &'a str,
    target: &'a str,
    headers: &'a [Header<'a>],
}

impl HeaderLines for RequestHead<'_> {
    fn header_values<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        let named = self.headers.iter().filter(move |it| it.name.eq_ignore_ascii_case(name));
        named.map(|it| it.value)
    }
}

impl<'a> RequestHead<'a> {
    /// Parses the head at the start of these bytes; returns it with its length. `None` if it is incomplete, invalid or
    /// not eligible.
    fn parse(bytes: &'a [u8], room: &'a mut [MaybeUninit<Header<'a>>; MAX_HEADERS]) -> Option<(Self, usize)> {
        let mut request = Request::new(&mut []);
        let parsed =
            ParserConfig::default().parse_request_with_uninit_headers(&mut request, bytes, room).ok()?;
        let Status::Complete(length) = parsed else { return None };
        let Request { method: Some(method), path: Some(target), version: Some(1), headers } = request else {
            return None;
        };
        let is_path = target.starts_with('/') && target.bytes().all(is_target_byte);
        let mut hosts = 0;
        for header in headers.iter() {
            match classify_header(header) {
                HeaderClass::NotFastPath => return None,
                HeaderClass::Host if !is_valid_host(header.value) => return None,
                HeaderClass::Host => hosts += 1,
                HeaderClass::ForwardedFor | HeaderClass::KeepAlive | HeaderClass::Forwarded => {}
            }
        }
        (is_path && method != "CONNECT" && hosts == 1).then_some((Self { method, target, headers }, length))
    }

    fn query(&self) -> Option<&'a str> {
        self.target.split_once('?').map(|(_, query)| query)
    }

    /// Writes the upstream head.
    fn write(&self, peer: &HeaderValue, out: &mut Vec<u8>) {
        for part in [self.method, " ", self.target, " HTTP/1.1\r\n"] {
            out.extend_from_slice(part.as_bytes());
        }
        let others =
            |it: &&Header<'_>| matches!(classify_header(it), HeaderClass::Forwarded | HeaderClass::Host);
        for header in self.headers.iter().filter(others) {
            write_header_line(out, header.name, header.value);
        }
        // x-forwarded-for: the values from the caller, and the caller itself.
        out.extend_from_slice(b"x-forwarded-for: ");
        for before in self.header_values("x-forwarded-for") {
            out.extend_from_slice(before);
            out.extend_from_slice(b", ");
        }
        out.extend_from_slice(peer.as_bytes());
        out.extend_from_slice(b"\r\n\r\n");
    }
}

/// Whether a byte is valid in a path or query.
fn is_target_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~:/?[]@!$&'()*+,;=%".contains(&byte)
}

/// Writes a header line.
pub(super) fn write_header_line(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    for part in [name.as_bytes(), b": ", value, b"\r\n"] {
        out.extend_from_slice(part);
    }
}

/// How a request header affects the fast path.
#[derive(Debug, PartialEq, Eq)]
enum HeaderClass {
    Forwarded,
    Host,
    ForwardedFor,
    /// `Connection: keep-alive`, the default of HTTP/1.1.
    KeepAlive,
    /// Excludes the request from the fast path.
    NotFastPath,
}

fn classify_header(header: &Header<'_>) -> HeaderClass {
    let is = |name: &str| header.name.eq_ignore_ascii_case(name);
    // Length first: it distinguishes nearly all headers.
    match header.name.len() {
        2 if is("te") => HeaderClass::NotFastPath,
        4 if is("host") => HeaderClass::Host,
        6 if is("expect") => HeaderClass::NotFastPath,
        7 if is("upgrade") || is("trailer") => HeaderClass::NotFastPath,
        10 if is("connection") && header.value.eq_ignore_ascii_case(b"keep-alive") => HeaderClass::KeepAlive,
        10 if is("connection") || is("keep-alive") => HeaderClass::NotFastPath,
        // For example gRPC. Requests with a body are excluded anyway.
        12 if is("content-type") => HeaderClass::NotFastPath,
        13 if is("x-sandbox-hop") => HeaderClass::NotFastPath,
        14 if is("content-length") || is("http2-settings") => HeaderClass::NotFastPath,
        15 if is("x-forwarded-for") => HeaderClass::ForwardedFor,
        16 if is("proxy-connection") => HeaderClass::NotFastPath,
        17 if is("transfer-encoding") => HeaderClass::NotFastPath,
        _ => HeaderClass::Forwarded,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    /// Header lines, more often almost valid than not.
    const LINE: &str = "(content-length|Transfer-Encoding|connection|x-a|baggage|te|\\PC{0,3})[ \t]?:[ \t]?(0|chunked|keep-alive|close|.{0,4}|[\r\n\0 ]{0,2})(\r\n|\n|\r|\r\n )";

    fn written(text: &str) -> Option<(String, usize)> {
        let mut room = [const { MaybeUninit::uninit() }; MAX_HEADERS];
        let (head, length) = RequestHead::parse(text.as_bytes(), &mut room)?;
        let mut out = Vec::new();
        head.write(&HeaderValue::from_static("10.0.0.9"), &mut out);
        Some((String::from_utf8(out).unwrap(), length))
    }

    #[rstest]
    #[case::nothing_but_a_host("GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\n")]
    #[case::keep_alive(
        "GET /x?y=1 HTTP/1.1\r\nconnection: Keep-Alive\r\nhost: a\r\n\r\n",
        "GET /x?y=1 HTTP/1.1\r\nhost: a\r\n"
    )]
    #[case::any_method_without_a_body(
        "DELETE /x HTTP/1.1\r\nhost: a\r\nbaggage: b=c\r\n\r\n",
        "DELETE /x HTTP/1.1\r\nhost: a\r\nbaggage: b=c\r\n"
    )]
    #[case::lines_without_returns("GET / HTTP/1.1\nhost:a\n\n", "GET / HTTP/1.1\r\nhost: a\r\n")]
    fn plain_heads_go_as_they_came(#[case] head: &str, #[case] expected: &str) {
        let (out, length) = written(head).unwrap();
        assert_eq!(out, format!("{expected}x-forwarded-for: 10.0.0.9\r\n\r\n"));
        assert_eq!(length, head.len());
    }

    #[test]
    fn those_who_forwarded_before_are_named_first() {
        let head = "GET / HTTP/1.1\r\nX-Forwarded-For: 1.1.1.1\r\nhost: a\r\nx-forwarded-for: 2.2.2.2, 3.3.3.3\r\n\r\n";
        let (out, _) = written(head).unwrap();
        let expected =
            "GET / HTTP/1.1\r\nhost: a\r\nx-forwarded-for: 1.1.1.1, 2.2.2.2, 3.3.3.3, 10.0.0.9\r\n\r\n";
        assert_eq!(out, expected);
    }

    #[test]
    fn only_the_first_of_two_requests_is_taken() {
        let (_, length) = written("GET /1 HTTP/1.1\r\nhost: a\r\n\r\nGET /2 HTTP/1.1\r\n").unwrap();
        assert_eq!(length, "GET /1 HTTP/1.1\r\nhost: a\r\n\r\n".len());
    }

    #[rstest]
    #[case::a_part("GET / HTTP/1.1\r\nhost: a\r\n")]
    #[case::a_body("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\n\r\n")]
    #[case::no_body_that_is_told("POST / HTTP/1.1\r\nhost: a\r\nContent-Length: 0\r\n\r\n")]
    #[case::chunks("POST / HTTP/1.1\r\nhost: a\r\nTransfer-Encoding: chunked\r\n\r\n")]
    #[case::an_upgrade("GET / HTTP/1.1\r\nhost: a\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n")]
    #[case::for_the_neighbour("GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")]
    #[case::named_for_the_neighbour("GET / HTTP/1.1\r\nhost: a\r\nconnection: keep-alive, x-a\r\n\r\n")]
    #[case::trailers("GET / HTTP/1.1\r\nhost: a\r\nTE: trailers\r\n\r\n")]
    #[case::continued("PUT / HTTP/1.1\r\nhost: a\r\nExpect: 100-continue\r\n\r\n")]
    #[case::older("GET / HTTP/1.0\r\nhost: a\r\n\r\n")]
    #[case::no_host("GET / HTTP/1.1\r\n\r\n")]
    #[case::two_hosts("GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n")]
    #[case::a_host_that_is_none("GET / HTTP/1.1\r\nhost: a/b\r\n\r\n")]
    #[case::an_address("GET http://a/ HTTP/1.1\r\nhost: a\r\n\r\n")]
    #[case::an_asterisk("OPTIONS * HTTP/1.1\r\nhost: a\r\n\r\n")]
    #[case::a_tunnel("CONNECT a:1 HTTP/1.1\r\nhost: a\r\n\r\n")]
    #[case::a_fragment("GET /a#b HTTP/1.1\r\nhost: a\r\n\r\n")]
    #[case::what_is_no_address("GET /a<b> HTTP/1.1\r\nhost: a\r\n\r\n")]
    #[case::letters_of_others("GET /\u{e4} HTTP/1.1\r\nhost: a\r\n\r\n")]
    #[case::a_folded_line("GET / HTTP/1.1\r\nhost: a\r\nx: 1\r\n 2\r\n\r\n")]
    #[case::a_blank_before_the_colon("GET / HTTP/1.1\r\nhost: a\r\ncontent-length : 3\r\n\r\n")]
    #[case::no_http("hello\r\n\r\n")]
    fn others_are_not_plain(#[case] head: &str) {
        assert_eq!(written(head), None);
    }

    proptest! {
        /// For any input, the upstream head is a single head of a request without a body.
        #[test]
        fn what_pods_get_is_one_head(lines in prop::collection::vec(LINE, 0..6), tail in ".{0,8}") {
            let text = format!("GET /a HTTP/1.1\r\nhost: a\r\n{}\r\n\r\n{tail}", lines.concat());
            let Some((out, length)) = written(&text) else { return Ok(()) };
            prop_assert!(length <= text.len());
            let (head, rest) = out.split_once("\r\n\r\n").unwrap();
            prop_assert_eq!(rest, "");
            let mut sent = head.split("\r\n");
            prop_assert_eq!(sent.next(), Some("GET /a HTTP/1.1"));
            for line in sent {
                prop_assert!(!line.contains(['\r', '\n', '\0']), "{line:?}");
                let (name, _) = line.split_once(": ").unwrap();
                let value = b"";
                prop_assert!(classify_header(&Header { name, value }) != HeaderClass::NotFastPath, "{line:?}");
                prop_assert!(name.bytes().all(|it| it.is_ascii_graphic() && it != b':'), "{line:?}");
            }
        }
    }

    #[test]
    fn a_head_of_many_lines_is_not_plain() {
        let lines = "x: y\r\n".repeat(MAX_HEADERS);
        assert_eq!(written(&format!("GET / HTTP/1.1\r\nhost: a\r\n{lines}\r\n")), None);
    }
}
