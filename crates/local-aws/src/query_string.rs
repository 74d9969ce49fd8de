//! Percent encoding and query strings, as the AWS SDKs write them.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// Everything but the unreserved characters.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Percent-decodes. A `%` that starts no escape is kept, invalid UTF-8 becomes U+FFFD.
pub(crate) fn percent_decode(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// Percent-encodes everything but the unreserved characters.
pub(crate) fn percent_encode(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// The decoded pairs of a query string or form, in order.
pub(crate) fn query_pairs(query: &str) -> impl Iterator<Item = (String, String)> + '_ {
    query.split('&').filter(|part| !part.is_empty()).map(|part| {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        (percent_decode(&key.replace('+', " ")), percent_decode(&value.replace('+', " ")))
    })
}

/// The first value of a key.
pub(crate) fn query_value(query: &str, key: &str) -> Option<String> {
    query_pairs(query).find(|(k, _)| k == key).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fx", "arn:aws:iam::1:role/x")]
    #[case("100%", "100%")]
    #[case("%zz%4", "%zz%4")]
    #[case("%ff", "\u{fffd}")]
    fn decoding_never_fails(#[case] text: &str, #[case] decoded: &str) {
        assert_eq!(percent_decode(text), decoded);
    }

    #[test]
    fn what_is_encoded_decodes_to_itself() {
        let text = "kube-system/a b+c%2F:=&ü";
        assert_eq!(percent_decode(&percent_encode(text)), text);
    }

    #[test]
    fn a_repeated_key_yields_every_value() {
        let keys: Vec<_> = query_pairs("tagKeys=a&tagKeys=b+c&x").collect();
        assert_eq!(
            keys,
            [("tagKeys".into(), "a".into()), ("tagKeys".into(), "b c".into()), ("x".into(), String::new())]
        );
    }
}
