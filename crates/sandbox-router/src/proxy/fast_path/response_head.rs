//! Heads of answers: what callers get to read of them, and where their bodies end.

use std::mem::MaybeUninit;

use http::HeaderValue;
use httparse::{Header, ParserConfig, Response, Status};

use super::{
    framing::{Chunks, Framing},
    head::line,
};

/// Header lines of an answer.
const LINES: usize = 256;

/// What has come of an answer.
#[derive(Debug, PartialEq)]
pub(super) enum Seen {
    /// Not the whole head.
    Part,
    /// So many bytes that say nothing yet: the pod is still at it.
    Interim(usize),
    /// A head. What callers get of it is written.
    Head(Reply),
}

/// An answer whose head is known.
#[derive(Debug, PartialEq)]
pub(super) struct Reply {
    /// Bytes of the pod's head.
    pub(super) length: usize,
    pub(super) body: Framing,
    /// The pod takes another request on this connection.
    pub(super) is_kept: bool,
}

/// No answer that could be understood.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Strange {
    #[error("its answer is not HTTP: {0}")]
    Head(httparse::Error),
    #[error("it switched to another protocol, and nobody had asked for that")]
    Switched,
    #[error("nobody can tell where its answer ends")]
    Framing,
}

/// How an answer is told to the caller.
#[derive(Debug, Clone, Copy)]
pub(super) struct Telling<'a> {
    /// Who gave it, where callers want to know.
    pub(super) route: Option<&'a HeaderValue>,
    /// The answer has no body, whatever its head says.
    pub(super) is_head: bool,
    /// The connection ends with this answer.
    pub(super) is_last: bool,
}

/// Reads the head at the beginning of these bytes and writes what the caller gets of it.
pub(super) fn see(bytes: &[u8], telling: Telling<'_>, out: &mut Vec<u8>) -> Result<Seen, Strange> {
    let mut room = [const { MaybeUninit::uninit() }; LINES];
    let mut response = Response::new(&mut []);
    let parsed = ParserConfig::default().parse_response_with_uninit_headers(&mut response, bytes, &mut room);
    let Status::Complete(length) = parsed.map_err(Strange::Head)? else { return Ok(Seen::Part) };
    let (code, headers) = (response.code.unwrap_or_default(), &*response.headers);
    match code {
        0..100 => return Err(Strange::Head(httparse::Error::Status)),
        101 => return Err(Strange::Switched),
        100..200 => return Ok(Seen::Interim(length)),
        _ => {}
    }
    let has_no_body = telling.is_head || matches!(code, 204 | 304);
    let said = Said::of(headers);
    let body = said.body(has_no_body, response.version)?;
    // Who says both how long an answer is and that it is in chunks is not trusted any further.
    let is_kept = response.version == Some(1)
        && !said.is_closing
        && (said.coding == Coding::Plain || said.coding == Coding::Chunked && said.length.is_none())
        && body != Framing::Close;
    write_status(out, code, response.reason.unwrap_or_default());
    said.write(headers, telling, out);
    match (&body, said.coding, said.length) {
        // Nothing of it may be said here.
        _ if code == 204 => {}
        (Framing::Close, ..) | (_, Coding::Chunked, _) => line(out, "transfer-encoding", b"chunked"),
        (_, Coding::Plain, Some(length)) => line(out, "content-length", length.to_string().as_bytes()),
        (_, Coding::Plain | Coding::Odd, _) => {}
    }
    if telling.is_last {
        out.extend_from_slice(b"connection: close\r\n");
    }
    out.extend_from_slice(b"\r\n");
    Ok(Seen::Head(Reply { length, body, is_kept }))
}

fn write_status(out: &mut Vec<u8>, code: u16, reason: &str) {
    let digit = |of: u16| b'0' + u8::try_from(of % 10).unwrap_or_default();
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(&[digit(code / 100), digit(code / 10), digit(code), b' ']);
    out.extend_from_slice(reason.as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// What the headers of an answer say about the connection and the body.
#[derive(Debug, Default)]
struct Said {
    length: Option<u64>,
    coding: Coding,
    is_closing: bool,
    /// Some headers are named as meant for the neighbour alone.
    has_named: bool,
}

/// How a body comes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Coding {
    #[default]
    Plain,
    Chunked,
    /// In a way that nobody here knows, or in several, or in two lengths.
    Odd,
}

impl Said {
    fn of(headers: &[Header<'_>]) -> Self {
        let mut said = Self::default();
        for header in headers {
            match kind(header.name) {
                Kind::Length => {
                    for token in tokens(header.value) {
                        let length = number(token);
                        if length.is_none() || said.length.is_some_and(|it| Some(it) != length) {
                            said.coding = Coding::Odd;
                        }
                        said.length = length;
                    }
                }
                Kind::Coding if header.value.eq_ignore_ascii_case(b"identity") => {}
                Kind::Coding => {
                    let is_chunked = header.value.eq_ignore_ascii_case(b"chunked");
                    let is_first = said.coding == Coding::Plain;
                    said.coding = if is_chunked && is_first { Coding::Chunked } else { Coding::Odd };
                }
                Kind::Connection => {
                    for token in tokens(header.value) {
                        let is = |name: &[u8]| token.eq_ignore_ascii_case(name);
                        said.is_closing |= is(b"close");
                        said.has_named |= !is(b"close") && !is(b"keep-alive") && !token.is_empty();
                    }
                }
                Kind::Neighbour | Kind::Route | Kind::Other => {}
            }
        }
        said
    }

    fn body(&self, has_none: bool, version: Option<u8>) -> Result<Framing, Strange> {
        match (has_none, self.coding, self.length) {
            (true, ..) => Ok(Framing::Length(0)),
            (_, Coding::Odd, _) => Err(Strange::Framing),
            // There were no chunks before 1.1.
            (_, Coding::Chunked, _) if version != Some(1) => Err(Strange::Framing),
            (_, Coding::Chunked, _) => Ok(Framing::Chunks(Chunks::default())),
            (_, Coding::Plain, Some(length)) => Ok(Framing::Length(length)),
            (_, Coding::Plain, None) => Ok(Framing::Close),
        }
    }

    /// Writes the headers that callers get.
    fn write(&self, headers: &[Header<'_>], telling: Telling<'_>, out: &mut Vec<u8>) {
        for header in headers {
            let goes_on = match kind(header.name) {
                Kind::Neighbour | Kind::Connection | Kind::Length | Kind::Coding => false,
                Kind::Route => telling.route.is_none(),
                Kind::Other => !self.has_named || !is_named(headers, header.name),
            };
            if goes_on {
                line(out, header.name, header.value);
            }
        }
        if let Some(route) = telling.route {
            line(out, "x-sandbox-route", route.as_bytes());
        }
    }
}

/// What a header of an answer is for.
#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Length,
    Coding,
    Connection,
    /// For the neighbour alone.
    Neighbour,
    Route,
    Other,
}

fn kind(name: &str) -> Kind {
    let is = |other: &str| name.eq_ignore_ascii_case(other);
    match name.len() {
        2 if is("te") => Kind::Neighbour,
        7 if is("upgrade") => Kind::Neighbour,
        10 if is("connection") => Kind::Connection,
        10 if is("keep-alive") => Kind::Neighbour,
        14 if is("content-length") => Kind::Length,
        15 if is("x-sandbox-route") => Kind::Route,
        16 if is("proxy-connection") => Kind::Neighbour,
        17 if is("transfer-encoding") => Kind::Coding,
        _ => Kind::Other,
    }
}

fn tokens(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}

/// Whether `Connection` names a header.
fn is_named(headers: &[Header<'_>], name: &str) -> bool {
    let mut lines = headers.iter().filter(|it| kind(it.name) == Kind::Connection);
    lines.any(|it| tokens(it.value).any(|token| token.eq_ignore_ascii_case(name.as_bytes())))
}

/// Digits and nothing else.
fn number(value: &[u8]) -> Option<u64> {
    let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(value).ok().filter(|_| is_number)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const TELLING: Telling<'_> = Telling { route: None, is_head: false, is_last: false };

    fn seen(text: &str, telling: Telling<'_>) -> (Result<Seen, Strange>, String) {
        let mut out = Vec::new();
        (see(text.as_bytes(), telling, &mut out), String::from_utf8(out).unwrap())
    }

    fn head(text: &str, telling: Telling<'_>) -> (Reply, String) {
        let (seen, out) = seen(text, telling);
        let Ok(Seen::Head(reply)) = seen else { panic!("{seen:?}") };
        (reply, out)
    }

    #[test]
    fn an_answer_goes_on_with_the_name_of_who_gave_it() {
        let name = HeaderValue::from_static("fork/shop/pr-1");
        let text = "HTTP/1.1 200 Fine\r\nServer: x\r\nX-Sandbox-Route: lie\r\nContent-Length: 3\r\n\r\nabc";
        let (reply, out) = head(text, Telling { route: Some(&name), ..TELLING });
        let expected =
            "HTTP/1.1 200 Fine\r\nServer: x\r\nx-sandbox-route: fork/shop/pr-1\r\ncontent-length: 3\r\n\r\n";
        assert_eq!(out, expected);
        assert_eq!(reply, Reply { length: text.len() - 3, body: Framing::Length(3), is_kept: true });
    }

    #[test]
    fn what_is_for_the_neighbour_stays_here() {
        let text = "HTTP/1.1 200 OK\r\nconnection: X-Mine, keep-alive\r\nKeep-Alive: 5\r\nx-mine: 1\r\nproxy-connection: a\r\nupgrade: h2c\r\nx-yours: 2\r\ncontent-length: 0\r\n\r\n";
        let (reply, out) = head(text, TELLING);
        assert_eq!(out, "HTTP/1.1 200 OK\r\nx-yours: 2\r\ncontent-length: 0\r\n\r\n");
        assert!(reply.is_kept);
    }

    #[rstest]
    #[case::chunks(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n",
        Framing::Chunks(Chunks::default()),
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
        Framing::Chunks(Chunks::default()),
        false
    )]
    fn bodies_end_where_their_heads_say(#[case] text: &str, #[case] body: Framing, #[case] is_kept: bool) {
        let (reply, out) = head(text, TELLING);
        assert_eq!((reply.body.clone(), reply.is_kept), (body, is_kept));
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
        let (reply, out) = head(text, Telling { is_head: true, ..TELLING });
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
        let (_, out) =
            head("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", Telling { is_last: true, ..TELLING });
        assert!(out.ends_with("connection: close\r\n\r\n"), "{out}");
    }

    #[test]
    fn parts_and_interim_answers_are_waited_for() {
        assert_eq!(seen("HTTP/1.1 200 OK\r\ncontent-le", TELLING), (Ok(Seen::Part), String::new()));
        let early = "HTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\n";
        let both = format!("{early}HTTP/1.1 200 OK\r\n\r\n");
        assert_eq!(seen(&both, TELLING), (Ok(Seen::Interim(early.len())), String::new()));
    }

    #[rstest]
    #[case("HTTP/1.1 101 Switching Protocols\r\n\r\n", Strange::Switched)]
    #[case("SSH-2.0-OpenSSH\r\n", Strange::Head(httparse::Error::Version))]
    #[case("HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n", Strange::Framing)]
    #[case("HTTP/1.1 200 OK\r\ncontent-length: 1, 2\r\n\r\n", Strange::Framing)]
    #[case("HTTP/1.1 200 OK\r\ncontent-length: 1,\r\n\r\n", Strange::Framing)]
    #[case("HTTP/1.1 099 OK\r\n\r\n", Strange::Head(httparse::Error::Status))]
    #[case("HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n", Strange::Framing)]
    #[case("HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n", Strange::Framing)]
    #[case(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n",
        Strange::Framing
    )]
    #[case("HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", Strange::Framing)]
    fn strange_answers_are_refused(#[case] text: &str, #[case] strange: Strange) {
        assert_eq!(seen(text, TELLING).0, Err(strange));
    }
}
