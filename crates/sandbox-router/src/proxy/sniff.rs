//! Protocol detection from the first bytes of a connection.

/// The detected protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SniffedProtocol {
    /// HTTP/1.1 or 1.0.
    Http1,
    /// HTTP/2 with prior knowledge.
    Http2,
    /// TLS or any other protocol.
    Other,
    /// More bytes are needed.
    Incomplete,
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Methods that are not longer, and a target that starts like one of HTTP, are HTTP without a look at the version.
const MAX_USUAL_METHOD_LEN: usize = 24;
/// A line of text that is longer is left to the HTTP parser, which refuses it.
const MAX_LINE_LEN: usize = 16 * 1024;

/// Detects the protocol. The first line decides, because a pod may understand any line that ends with a version of HTTP:
/// an unusual method or a strange delimiter must not keep a request from being routed, so it is left to the HTTP parser
/// to refuse it. Other client-first protocols start with control characters (TLS, databases) or with a line without a
/// version (Redis, SMTP, memcached).
pub(super) fn sniff_protocol(bytes: &[u8]) -> SniffedProtocol {
    if bytes.len() >= PREFACE.len() && bytes.starts_with(PREFACE) {
        return SniffedProtocol::Http2;
    }
    // `PRI` alone may still become another method.
    if PREFACE.starts_with(bytes) {
        return SniffedProtocol::Incomplete;
    }
    // Servers ignore empty lines before a request.
    let empty = bytes.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
    let text = &bytes[empty..];
    if is_usual_request(text) {
        return SniffedProtocol::Http1;
    }
    let end = text.iter().position(|byte| *byte == b'\n');
    let line = &text[..end.unwrap_or(text.len())];
    match (line.iter().copied().any(is_control), end) {
        (false, Some(_)) if names_http_version(line) => SniffedProtocol::Http1,
        (true, _) | (false, Some(_)) => SniffedProtocol::Other,
        (false, None) if bytes.len() > MAX_LINE_LEN => SniffedProtocol::Http1,
        (false, None) => SniffedProtocol::Incomplete,
    }
}

/// A known kind of method, a space and the start of a path.
fn is_usual_request(line: &[u8]) -> bool {
    let method = line.iter().take_while(|byte| byte.is_ascii_uppercase() || **byte == b'-').count();
    (1..=MAX_USUAL_METHOD_LEN).contains(&method) && matches!(line[method..], [b' ', b'/' | b'*', ..])
}

/// Bytes that are in no text.
fn is_control(byte: u8) -> bool {
    byte.is_ascii_control() && !matches!(byte, b'\t' | b'\r')
}

/// Whether a word of the line starts with `HTTP/`. Lenient servers accept other delimiters than one space.
fn names_http_version(line: &[u8]) -> bool {
    let words = line.split(|byte| matches!(byte, b' ' | b'\t' | b'\r'));
    words.into_iter().any(|word| word.get(..5).is_some_and(|start| start.eq_ignore_ascii_case(b"HTTP/")))
}

/// Type of a SETTINGS frame, the first frame of an HTTP/2 server.
const SETTINGS_FRAME: u8 = 4;

/// Whether the first bytes of a service are HTTP: HTTP/2 servers send SETTINGS before they have read anything. `None`
/// if more bytes are needed.
pub(super) fn is_http_greeting(bytes: &[u8]) -> Option<bool> {
    const ANSWER: &[u8] = b"HTTP/";
    if ANSWER.starts_with(bytes) || bytes.starts_with(ANSWER) {
        return (bytes.len() >= ANSWER.len()).then_some(true);
    }
    // Length, type, flags, stream.
    match *bytes {
        [0, 0, length, SETTINGS_FRAME, 0, 0, 0, 0, 0, ..] => Some(length % 6 == 0),
        _ if bytes.len() < 9 && [0, 0].starts_with(&bytes[..bytes.len().min(2)]) => None,
        _ => Some(false),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(b"\0\0\x12\x04\0\0\0\0\0\0\x03", Some(true))]
    #[case(b"\0\0\0\x04\0\0\0\0\0", Some(true))]
    #[case(b"HTTP/1.1 408 Request Timeout\r\n", Some(true))]
    #[case(b"\0\0\x12\x04", None)]
    #[case(b"HT", None)]
    #[case(b"220 ready\r\n", Some(false))]
    #[case(b"\0\0\x11\x04\0\0\0\0\0", Some(false))]
    #[case(b"\x4a\0\0\0\x0a8.0.36", Some(false))]
    fn what_a_server_of_http_says_first_is_told_apart(#[case] bytes: &[u8], #[case] is: Option<bool>) {
        assert_eq!(is_http_greeting(bytes), is);
    }

    #[rstest]
    #[case(b"GET / HTTP/1.1\r\n", SniffedProtocol::Http1)]
    #[case(b"\r\nGET / HTTP/1.1\r\n", SniffedProtocol::Http1)]
    #[case(b"OPTIONS * HTTP/1.1\r\n", SniffedProtocol::Http1)]
    #[case(b"GET http://a/b HTTP/1.1\r\n", SniffedProtocol::Http1)]
    #[case(b"M-SEARCH /x", SniffedProtocol::Http1)]
    #[case(b"CONNECT a:1 HTTP/1.1\r\n", SniffedProtocol::Http1)]
    #[case(b"PRIVATE /", SniffedProtocol::Http1)]
    #[case(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0", SniffedProtocol::Http2)]
    #[case(b"", SniffedProtocol::Incomplete)]
    #[case(b"\r\n", SniffedProtocol::Incomplete)]
    #[case(b"P", SniffedProtocol::Incomplete)]
    #[case(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r", SniffedProtocol::Incomplete)]
    #[case(b"GET", SniffedProtocol::Incomplete)]
    #[case(b"GET ", SniffedProtocol::Incomplete)]
    #[case(b"GET ht", SniffedProtocol::Incomplete)]
    #[case(b"CONNECT a:1 ", SniffedProtocol::Incomplete)]
    #[case(b"get / HTTP/1.1", SniffedProtocol::Incomplete)]
    #[case(b"\x16\x03\x01\x02\0", SniffedProtocol::Other)]
    #[case(b"*1\r\n$4\r\nPING\r\n", SniffedProtocol::Other)]
    #[case(b"PING\r\n", SniffedProtocol::Other)]
    #[case(b"SET a b\r\n", SniffedProtocol::Other)]
    #[case(b"EHLO me\r\n", SniffedProtocol::Other)]
    #[case(b"get a\r\n", SniffedProtocol::Other)]
    #[case(b"\0\0\0\x08\x04\xd2\x16\x2f", SniffedProtocol::Other)]
    #[case(b"AAAAAAAAAAAAAAAAAAAAAAAAAAAA\n", SniffedProtocol::Other)]
    #[case(b"CONNECT {\"verbose\":false}\r\n", SniffedProtocol::Other)]
    #[case(b"SSH-2.0-OpenSSH_9.9\r\n", SniffedProtocol::Other)]
    fn first_bytes_tell_the_protocol(#[case] bytes: &[u8], #[case] is: SniffedProtocol) {
        assert_eq!(sniff_protocol(bytes), is);
    }

    /// Each of them is understood by some server, and would reach the baseline unrouted if it were passed through.
    #[rstest]
    #[case(b"\r\n\r\nGET / HTTP/1.1\r\n")]
    #[case(b"\n\n\nGET / HTTP/1.1\r\n")]
    #[case(b"\r\r\nGET / HTTP/1.1\r\n")]
    #[case(b" GET / HTTP/1.1\r\n")]
    #[case(b"get / HTTP/1.1\r\n")]
    #[case(b"Get /a HTTP/1.0\n")]
    #[case(b"get / http/1.1\r\n")]
    #[case(b"X_Y.2~|!#$%&'*+-^` / HTTP/1.1\r\n")]
    #[case(b"AN-UNUSUALLY-LONG-METHOD-OF-SOMEBODY / HTTP/1.1\r\n")]
    #[case(b"GET\t/\tHTTP/1.1\r\n")]
    #[case(b"GET  / HTTP/1.1\r\n")]
    #[case(b"GET ?a=b HTTP/1.1\r\n")]
    #[case(b"GET a HTTP/1.1\r\n")]
    #[case(b"GET HTTP://a/ HTTP/1.1\r\n")]
    #[case(b"get /\rHTTP/1.1\r\n")]
    #[case(b"get / HTTP/1.1 \r\n")]
    fn m5_no_unusual_request_line_bypasses_routing(#[case] bytes: &[u8]) {
        assert_eq!(sniff_protocol(bytes), SniffedProtocol::Http1);
    }

    #[test]
    fn m5_no_long_line_bypasses_routing() {
        let long = b"a".repeat(MAX_LINE_LEN + 1);
        assert_eq!(sniff_protocol(&long[1..]), SniffedProtocol::Incomplete);
        assert_eq!(sniff_protocol(&long), SniffedProtocol::Http1);
    }
}
