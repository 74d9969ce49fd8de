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
/// No known HTTP method is longer.
const MAX_METHOD_LEN: usize = 24;

/// Detects the protocol. A token, a space and the start of a request target are HTTP; other client-first protocols
/// start differently (TLS with byte 22, Redis with `*`, databases with a length).
pub(super) fn sniff_protocol(bytes: &[u8]) -> SniffedProtocol {
    if bytes.len() >= PREFACE.len() && bytes.starts_with(PREFACE) {
        return SniffedProtocol::Http2;
    }
    // `PRI` alone may still become another method.
    if PREFACE.starts_with(bytes) {
        return SniffedProtocol::Incomplete;
    }
    // Servers should ignore an empty line before a request.
    let bytes = match bytes {
        [b'\r'] | [b'\r', b'\n'] => return SniffedProtocol::Incomplete,
        [b'\r', b'\n', rest @ ..] => rest,
        all => all,
    };
    let method = bytes.iter().take_while(|byte| byte.is_ascii_uppercase() || **byte == b'-').count();
    if method == 0 || method > MAX_METHOD_LEN {
        return SniffedProtocol::Other;
    }
    match &bytes[method..] {
        [] | [b' '] => SniffedProtocol::Incomplete,
        [b' ', target @ ..] => sniff_target(&bytes[..method], target),
        _ => SniffedProtocol::Other,
    }
}

fn sniff_target(method: &[u8], target: &[u8]) -> SniffedProtocol {
    let absolute = b"http";
    match target {
        [b'/' | b'*', ..] => SniffedProtocol::Http1,
        _ if method == b"CONNECT" || target.starts_with(absolute) => SniffedProtocol::Http1,
        _ if absolute.starts_with(target) => SniffedProtocol::Incomplete,
        _ => SniffedProtocol::Other,
    }
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
    #[case(b"CONNECT a:1 ", SniffedProtocol::Http1)]
    #[case(b"PRIVATE /", SniffedProtocol::Http1)]
    #[case(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0", SniffedProtocol::Http2)]
    #[case(b"", SniffedProtocol::Incomplete)]
    #[case(b"\r\n", SniffedProtocol::Incomplete)]
    #[case(b"P", SniffedProtocol::Incomplete)]
    #[case(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r", SniffedProtocol::Incomplete)]
    #[case(b"GET", SniffedProtocol::Incomplete)]
    #[case(b"GET ", SniffedProtocol::Incomplete)]
    #[case(b"GET ht", SniffedProtocol::Incomplete)]
    #[case(b"\x16\x03\x01\x02\0", SniffedProtocol::Other)]
    #[case(b"*1\r\n$4\r\nPING\r\n", SniffedProtocol::Other)]
    #[case(b"PING\r\n", SniffedProtocol::Other)]
    #[case(b"SET a b\r\n", SniffedProtocol::Other)]
    #[case(b"EHLO me\r\n", SniffedProtocol::Other)]
    #[case(b"get a\r\n", SniffedProtocol::Other)]
    #[case(b"\0\0\0\x08\x04\xd2\x16\x2f", SniffedProtocol::Other)]
    #[case(b"AAAAAAAAAAAAAAAAAAAAAAAAAAAA", SniffedProtocol::Other)]
    fn first_bytes_tell_the_protocol(#[case] bytes: &[u8], #[case] is: SniffedProtocol) {
        assert_eq!(sniff_protocol(bytes), is);
    }
}
