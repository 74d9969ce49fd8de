//! What a connection speaks, from its first bytes.

/// What a connection speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opening {
    /// HTTP/1.1 or 1.0.
    Http1,
    /// HTTP/2 with prior knowledge.
    Http2,
    /// TLS, or anything else that nobody here understands.
    Other,
    /// The bytes do not tell yet.
    Unclear,
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Longer methods are not known to anybody.
const LONGEST_METHOD: usize = 24;

/// What a connection speaks. A token, a blank and the beginning of a target are HTTP; other protocols of the web whose
/// clients speak first begin otherwise (TLS with a byte 22, Redis with a star, databases with a length).
pub(super) fn opening(bytes: &[u8]) -> Opening {
    if bytes.len() >= PREFACE.len() && bytes.starts_with(PREFACE) {
        return Opening::Http2;
    }
    // `PRI` alone may still become a method of somebody's own.
    if PREFACE.starts_with(bytes) {
        return Opening::Unclear;
    }
    // Servers are asked to ignore an empty line before a request.
    let bytes = match bytes {
        [b'\r'] | [b'\r', b'\n'] => return Opening::Unclear,
        [b'\r', b'\n', rest @ ..] => rest,
        all => all,
    };
    let method = bytes.iter().take_while(|byte| byte.is_ascii_uppercase() || **byte == b'-').count();
    if method == 0 || method > LONGEST_METHOD {
        return Opening::Other;
    }
    match &bytes[method..] {
        [] | [b' '] => Opening::Unclear,
        [b' ', target @ ..] => target_of(&bytes[..method], target),
        _ => Opening::Other,
    }
}

fn target_of(method: &[u8], target: &[u8]) -> Opening {
    let absolute = b"http";
    match target {
        [b'/' | b'*', ..] => Opening::Http1,
        _ if method == b"CONNECT" || target.starts_with(absolute) => Opening::Http1,
        _ if absolute.starts_with(target) => Opening::Unclear,
        _ => Opening::Other,
    }
}

/// The type of a frame of settings, which is the first that a server of HTTP/2 sends.
const SETTINGS: u8 = 4;

/// Whether what a service says first is HTTP, which waits for its callers: servers of HTTP/2 send their settings before they
/// have read anything. `None` as long as the bytes do not tell.
pub(super) fn is_http_greeting(bytes: &[u8]) -> Option<bool> {
    const ANSWER: &[u8] = b"HTTP/";
    if ANSWER.starts_with(bytes) || bytes.starts_with(ANSWER) {
        return (bytes.len() >= ANSWER.len()).then_some(true);
    }
    // Length, type, flags, stream.
    match *bytes {
        [0, 0, length, SETTINGS, 0, 0, 0, 0, 0, ..] => Some(length % 6 == 0),
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
    #[case(b"GET / HTTP/1.1\r\n", Opening::Http1)]
    #[case(b"\r\nGET / HTTP/1.1\r\n", Opening::Http1)]
    #[case(b"OPTIONS * HTTP/1.1\r\n", Opening::Http1)]
    #[case(b"GET http://a/b HTTP/1.1\r\n", Opening::Http1)]
    #[case(b"M-SEARCH /x", Opening::Http1)]
    #[case(b"CONNECT a:1 ", Opening::Http1)]
    #[case(b"PRIVATE /", Opening::Http1)]
    #[case(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0", Opening::Http2)]
    #[case(b"", Opening::Unclear)]
    #[case(b"\r\n", Opening::Unclear)]
    #[case(b"P", Opening::Unclear)]
    #[case(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r", Opening::Unclear)]
    #[case(b"GET", Opening::Unclear)]
    #[case(b"GET ", Opening::Unclear)]
    #[case(b"GET ht", Opening::Unclear)]
    #[case(b"\x16\x03\x01\x02\0", Opening::Other)]
    #[case(b"*1\r\n$4\r\nPING\r\n", Opening::Other)]
    #[case(b"PING\r\n", Opening::Other)]
    #[case(b"SET a b\r\n", Opening::Other)]
    #[case(b"EHLO me\r\n", Opening::Other)]
    #[case(b"get a\r\n", Opening::Other)]
    #[case(b"\0\0\0\x08\x04\xd2\x16\x2f", Opening::Other)]
    #[case(b"AAAAAAAAAAAAAAAAAAAAAAAAAAAA", Opening::Other)]
    fn first_bytes_tell_the_protocol(#[case] bytes: &[u8], #[case] is: Opening) {
        assert_eq!(opening(bytes), is);
    }
}
