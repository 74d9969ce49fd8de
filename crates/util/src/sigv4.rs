//! Checks the signature of an AWS request (`SigV4`). What is signed, and which requests are acceptable, is decided by the callers:
//! a Kubernetes API server and an STS reject different things.

use hmac::{Hmac, KeyInit as _, Mac as _};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::{Digest as _, Sha256};

/// Everything but the unreserved characters of RFC 3986.
const URI_ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// A signed request.
#[derive(Debug, Clone, Copy)]
pub struct SignedRequest<'a> {
    /// `X-Amz-Date`.
    pub date: &'a str,
    /// The credential scope: date, region, service and `aws4_request`, separated by slashes.
    pub scope: &'a str,
    /// The canonical request.
    pub canonical: &'a str,
    /// The hexadecimal signature.
    pub signature: &'a str,
}

impl SignedRequest<'_> {
    /// Whether the request was signed with this secret key. The comparison takes the same time wherever signatures differ.
    pub fn is_signed_with(&self, secret_key: &str) -> bool {
        let Ok(signature) = hex::decode(self.signature) else { return false };
        let digest = hex::encode(Sha256::digest(self.canonical));
        let text = format!("AWS4-HMAC-SHA256\n{}\n{}\n{digest}", self.date, self.scope);
        let key = self.scope.split('/').try_fold(format!("AWS4{secret_key}").into_bytes(), |key, part| {
            Some(mac(&key, part)?.finalize().into_bytes().to_vec())
        });
        key.and_then(|key| mac(&key, &text)).is_some_and(|mac| mac.verify_slice(&signature).is_ok())
    }
}

/// `None` never happens: HMAC takes keys of any length.
fn mac(key: &[u8], text: &str) -> Option<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).ok()?;
    mac.update(text.as_bytes());
    Some(mac)
}

/// Escapes a key or value of a canonical query.
pub fn uri_escape(text: &str) -> String {
    utf8_percent_encode(text, URI_ESCAPED).to_string()
}

/// The digest of an empty body, in hexadecimal.
pub fn empty_body_digest() -> String {
    hex::encode(Sha256::digest(b""))
}

#[cfg(test)]
mod tests {
    use super::*;

    // The example "get-vanilla" of AWS's SigV4 test suite.
    const CANONICAL: &str = "GET\n/\n\nhost:example.amazonaws.com\nx-amz-date:20150830T123600Z\n\nhost;x-amz-date\n\
                             e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";

    fn request() -> SignedRequest<'static> {
        SignedRequest {
            date: "20150830T123600Z",
            scope: "20150830/us-east-1/service/aws4_request",
            canonical: CANONICAL,
            signature: "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
        }
    }

    #[test]
    fn a_request_of_the_published_test_suite_is_accepted() {
        assert!(request().is_signed_with(SECRET));
    }

    #[test]
    fn another_key_request_date_scope_or_signature_is_rejected() {
        assert!(!request().is_signed_with("another"));
        assert!(!SignedRequest { canonical: "GET\n/x", ..request() }.is_signed_with(SECRET));
        assert!(!SignedRequest { date: "20150830T123601Z", ..request() }.is_signed_with(SECRET));
        assert!(
            !SignedRequest { scope: "20150830/us-east-1/sts/aws4_request", ..request() }
                .is_signed_with(SECRET)
        );
        for signature in ["", "5f", "no hex", "5FA00FA3"] {
            assert!(!SignedRequest { signature, ..request() }.is_signed_with(SECRET), "{signature}");
        }
    }

    #[test]
    fn only_unreserved_characters_are_not_escaped() {
        assert_eq!(uri_escape("aZ9-_.~ /:+%"), "aZ9-_.~%20%2F%3A%2B%25");
        assert_eq!(empty_body_digest(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    }
}
