//! Percent encoding and query strings, as the AWS SDKs write them.

/// Percent-decodes. A `%` that starts no escape is kept, invalid UTF-8 becomes U+FFFD.
pub(crate) fn percent_decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let escape = escape_at(bytes, at);
        out.push(escape.unwrap_or(byte));
        at += if escape.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn escape_at(bytes: &[u8], at: usize) -> Option<u8> {
    if bytes.get(at)? != &b'%' {
        return None;
    }
    let high = char::from(*bytes.get(at + 1)?).to_digit(16)?;
    let low = char::from(*bytes.get(at + 2)?).to_digit(16)?;
    u8::try_from(high * 16 + low).ok()
}

/// Percent-encodes everything but the unreserved characters.
pub(crate) fn percent_encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.extend(['%', hex_digit(byte >> 4), hex_digit(byte & 15)]);
        }
    }
    out
}

fn hex_digit(digit: u8) -> char {
    char::from_digit(u32::from(digit), 16).unwrap_or('0').to_ascii_uppercase()
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
