//! Parses the `SigV4` credential scope of a request. Signatures are not verified, except those of EKS tokens.

use hyper::{HeaderMap, header::AUTHORIZATION};

use crate::query_string::{percent_decode, query_value};

/// The credential scope that a request is signed for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CredentialScope {
    pub(crate) access_key: String,
    pub(crate) region: String,
    pub(crate) service: String,
}

/// The scope of a request: from its header, or from the query of a presigned request.
pub(crate) fn credential_scope(headers: &HeaderMap, query: &str) -> Option<CredentialScope> {
    let header = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    match header.and_then(credential_from_header) {
        Some(credential) => parse_credential(credential),
        None => parse_credential(&query_value(query, "X-Amz-Credential")?),
    }
}

fn credential_from_header(header: &str) -> Option<&str> {
    let (_, rest) = header.split_once("Credential=")?;
    rest.split([',', ' ']).next()
}

fn parse_credential(credential: &str) -> Option<CredentialScope> {
    let credential = percent_decode(credential);
    // From the right: an access key may contain a slash, region and service may not.
    let mut parts = credential.rsplitn(5, '/');
    if parts.next()? != "aws4_request" {
        return None;
    }
    let service = parts.next()?.to_ascii_lowercase();
    let region = parts.next()?.to_owned();
    let _date = parts.next()?;
    let access_key = parts.next()?.to_owned();
    (is_name(&service) && is_name(&region)).then_some(CredentialScope { access_key, region, service })
}

// Both are used in names, keys and log lines.
fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 64
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;
    use rstest::rstest;

    use super::*;

    fn of_header(value: &str) -> Option<CredentialScope> {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, HeaderValue::from_str(value).unwrap());
        credential_scope(&headers, "")
    }

    fn eks() -> CredentialScope {
        CredentialScope { access_key: "AKIDTEST".into(), region: "eu-west-1".into(), service: "eks".into() }
    }

    #[test]
    fn the_scope_is_read_from_the_authorization_header() {
        let header = "AWS4-HMAC-SHA256 Credential=AKIDTEST/20261116/eu-west-1/eks/aws4_request, SignedHeaders=host, Signature=0";
        assert_eq!(of_header(header), Some(eks()));
    }

    #[test]
    fn the_scope_of_a_presigned_request_is_read_from_its_query() {
        let query =
            "Action=GetCallerIdentity&X-Amz-Credential=AKIDTEST%2F20261116%2Feu-west-1%2Feks%2Faws4_request";
        assert_eq!(credential_scope(&HeaderMap::new(), query), Some(eks()));
    }

    #[rstest]
    #[case("")]
    #[case("Bearer abc")]
    #[case("AWS4-HMAC-SHA256 Credential=")]
    #[case("AWS4-HMAC-SHA256 Credential=a/b/c, x")]
    #[case("AWS4-HMAC-SHA256 Credential=AK/2026/../eks//aws4_request")]
    #[case("AWS4-HMAC-SHA256 Credential=AK/2026/eu west/eks/aws4_request")]
    fn a_header_that_is_no_scope_is_none(#[case] header: &str) {
        assert_eq!(of_header(header), None);
    }
}
